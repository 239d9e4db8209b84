"""Some hundred seeds hold all invariants, a seed replays exactly, and broken engines are caught."""

import asyncio
import gc
from random import Random

import pytest

from tests.simulation import mutations
from tests.simulation.loop import DeadlockError, EndlessError, Life, SimulatedLoop
from tests.simulation.process import bury
from tests.simulation.scenario import run
from tests.simulation.world import World

SEEDS = 400
CHUNK = 50


@pytest.mark.parametrize('first', range(0, SEEDS, CHUNK))
def test_invariants_hold(first: int) -> None:
    for seed in range(first, first + CHUNK):
        result = run(seed)
        assert not result.violations, f'python -m tests.simulation --seed {seed}\n{result.trace}\n{result.violations}'
    gc.collect()


def test_a_recovery_leaves_a_task_alone_that_the_journal_is_being_asked_for() -> None:
    """It may be the node's already, and then had two writers: the recovery's, and that of whoever asked."""
    assert not run(230_363).violations


def test_a_task_that_was_taken_over_for_nobody_ends_by_policy() -> None:
    """A message that was lost before, at the same outage, is no reason to give the task back as it is."""
    assert not run(22_983).violations


@pytest.mark.parametrize('seed', [3, 7, 20])
def test_a_seed_replays_exactly(seed: int) -> None:
    first, second = run(seed), run(seed)
    assert first.trace == second.trace
    assert first.steps == second.steps
    assert first.trace != run(seed + 1).trace


QUICK = [
    'what is not durable is shown',
    'a cursor waits on a writer that was released',
    'the receipt of a lost answer is not looked for',
    'a claim is not checked by its row count',
    'a cancel records CANCELED whatever the task has come to',
]


@pytest.mark.parametrize('name', QUICK)
def test_a_broken_engine_is_caught(name: str) -> None:
    """The others are tried by `python -m tests.simulation.mutations`."""
    assert mutations.try_out(name, 400).seeds is not None


def test_there_are_mutations_enough() -> None:
    assert len(mutations.MUTATIONS) >= 25
    assert set(QUICK) <= set(mutations.MUTATIONS)


# The loop


def test_every_ready_callback_runs_and_not_always_in_order() -> None:
    orders = set()
    for seed in range(10):
        order: list[int] = []
        loop = SimulatedLoop(Random(seed))

        async def append(number: int, order: list[int] = order) -> None:
            order.append(number)

        async def main(append: object = append) -> None:
            await asyncio.gather(*[append(number) for number in range(5)])  # type: ignore[operator]

        loop.run_until_complete(main())
        loop.close()
        assert sorted(order) == list(range(5))
        orders.add(tuple(order))
    assert len(orders) > 3


def test_time_jumps_to_the_next_timer() -> None:
    world = World(1)

    async def main() -> None:
        async with asyncio.timeout(1000):
            await world.pause(500)

    world.loop.run_until_complete(main())
    world.loop.close()
    assert 500 <= world.loop.time() < 501


def test_a_deadlock_is_told() -> None:
    loop = SimulatedLoop(Random(1))
    with pytest.raises(DeadlockError):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_a_program_without_an_end_is_told() -> None:
    loop = SimulatedLoop(Random(1), limit=100)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(EndlessError):
        loop.run_until_complete(spin())
    loop.close()


def test_what_is_left_of_a_dead_process_never_runs() -> None:
    world, life, ran = World(1), Life('p'), []

    async def work() -> None:
        try:
            await world.pause(1)
            ran.append('after the death')
        finally:
            ran.append('cleanup')

    async def main() -> None:
        task = world.spawn(work(), 'work', life)
        await world.pause(0.5)
        life.is_alive = False
        task.cancel()
        await world.pause(2)
        assert world.loop.pending(life) == [task]
        assert ran == []
        bury(world.loop.pending(life))

    world.loop.run_until_complete(main())
    world.loop.close()


def test_a_paused_process_goes_on_later() -> None:
    world, life, ran = World(1), Life('p'), []

    async def work() -> None:
        await world.pause(1)
        ran.append(world.loop.time())

    async def main() -> None:
        task = world.spawn(work(), 'work', life)
        await world.pause(0.5)
        life.is_paused = True
        await world.pause(5)
        assert ran == []
        world.loop.resume(life)
        await task

    world.loop.run_until_complete(main())
    world.loop.close()
    assert ran[0] > 5
