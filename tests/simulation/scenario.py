"""What is drawn from a seed, and the course of a run.

Clients act while processes crash, stop, pause and start again; then all trouble ends, everything that can end is
waited for, and what is left is looked at: nothing may be in memory that was not there before.
"""

import asyncio
import gc
import logging
from collections.abc import Callable
from dataclasses import dataclass

from a2a_scribe import Settings
from a2a_scribe.journal.tasks import TaskRow
from a2a_scribe.protocol.states import TERMINAL
from tests.simulation import invariants, switches
from tests.simulation.agents import Plan, SimulatedAgent, draw_plan
from tests.simulation.clients import Client, Cluster, Life, NewMessage, live
from tests.simulation.database import Database, Trouble
from tests.simulation.ledger import Report
from tests.simulation.loop import DeadlockError, EndlessError
from tests.simulation.process import Process, bury
from tests.simulation.world import World

LATEST_ARRIVAL = 0.6
"""Seconds after which nothing arrives at the database any more of a process that has died."""
SETTLE_TIME = 150.0
"""Virtual seconds within which everything ends once there is no trouble any more."""
TAKEN_OVER = 25.0
"""Seconds in which whatever a dead process has left belongs to another: what nobody ends can be cancelled then."""
ACTIONS = [
    'send', 'send', 'send', 'follow up', 'follow up', 'follow up', 'cancel', 'cancel', 'subscribe', 'resume', 'get',
    'list', 'trespass',
]  # fmt: skip


@dataclass(slots=True)
class Result:
    """What came of a run."""

    seed: int
    violations: list[str]
    trace: str
    steps: int


def run(seed: int) -> Result:
    """Runs one seed."""
    was_disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    gc.disable()
    world = World(seed)
    scenario = Scenario(world)
    try:
        try:
            world.loop.run_until_complete(scenario.play())
        except (DeadlockError, EndlessError) as error:
            world.ledger.violations.append(f'the run does not end: {error!r}')
        left = [task for task in world.loop.tasks if not task.done()]
        scenario.judge()
        world.loop.close()
        bury(left)
    finally:
        gc.enable()
        logging.disable(was_disabled)
    return Result(seed, world.ledger.violations, world.written(), world.loop.steps)


class Scenario:
    """One run: its processes and clients."""

    def __init__(self, world: World) -> None:
        """Draws everything that is fixed for the run."""
        self.world = world
        self.database = Database(world)
        self.cluster = Cluster()
        self.all_processes: list[Process] = []
        self.settings = _draw_settings(world)
        self.agent = SimulatedAgent(world, self.database, self.settings.pending_records)
        self.trouble = _draw_trouble(world)
        self.database.refuse_all = world.pick((0.0, 0.0, 0.0, 0.05))
        world.ledger.troubled = self.trouble.is_any or self.database.refuse_all > 0
        self._poison = world.chance(0.15)
        world.ledger.troubled = world.ledger.troubled or self._poison
        self._crashes = int(world.random.random() * 3) if world.chance(0.5) else 0
        self._endings: list[asyncio.Task[None]] = []
        self._has_lives = world.chance(0.5)
        self._calm_between = world.pick((0.3, 2.0))
        self._pace = world.pick((0.02, 0.1, 0.4))
        self._clients = [
            Client(f'client {number}', 'ada' if world.chance(0.85) else 'bob', world, self.database, self.cluster)
            for number in range(1, 3 + int(world.random.random() * 4))
        ]
        for _ in range(world.pick((1, 1, 1, 2, 2, 3))):
            self._start_process()

    # -- the course

    async def play(self) -> None:
        """Plays the run to its end."""
        world = self.world
        new_message = NewMessage(self.agent.plans, self._draw_plan)
        clients = [
            world.spawn(live(client, world, self.database, self._draw_life(new_message)), client.name)
            for client in self._clients
        ]
        fates = world.spawn(self._fates(), 'fates')
        await self._until(lambda: all(client.done() for client in clients), seconds=20.0)
        fates.cancel()
        await self._calm_down()
        await self._until(self._has_settled, seconds=TAKEN_OVER if self.settings.unfinished == 'keep' else SETTLE_TIME)
        cancels = self._cancel_what_is_left()
        await self._until(lambda: all(cancel.done() for cancel in cancels), seconds=20.0)
        await self._until(self._has_settled, seconds=SETTLE_TIME)
        await self._until(lambda: all(client.done() for client in clients), seconds=5.0)
        invariants.note_open_calls(world.ledger, self.database, self.dead_nodes())
        for client in clients:
            client.cancel()
        await world.pause(3.0)
        self._look_into_memory()
        await self._close()

    def _draw_life(self, new_message: NewMessage) -> Life:
        world = self.world
        actions = [world.pick(ACTIONS) for _ in range(1 + int(world.random.random() * 4))]
        return Life(actions, world.pick((0.003, 0.03, 0.3)), new_message)

    def _draw_plan(self) -> Plan:
        ends = self.settings.unfinished == 'keep'
        return draw_plan(self.world, poison=self._poison, pause=self._pace, ends=ends)

    async def _until(self, holds: Callable[[], bool], seconds: float) -> None:
        end = self.world.loop.time() + seconds
        while not holds() and self.world.loop.time() < end:
            await self.world.pause(0.25)

    def _start_process(self) -> Process:
        world = self.world
        skew = int((world.random.random() - 0.5) * 2_000_000)
        name = f'p{len(self.all_processes) + 1}'
        process = Process(world, name, self.database, self.agent, self.settings, self.trouble, skew)
        process.connection.on_crash = lambda: self._may_crash(process)
        self.all_processes.append(process)
        self.cluster.processes.append(process)
        return process

    # -- fates of processes

    def _may_crash(self, process: Process) -> bool:
        if self._crashes <= 0 or not process.life.is_alive:
            return False
        self._crashes -= 1
        process.crash()
        self.cluster.processes.remove(process)
        self.world.spawn(self._start_later(), 'restart')
        return True

    async def _start_later(self) -> None:
        await self.world.pause(self.world.random.random())
        if not self.world.is_calm:
            self.world.note(self._start_process().name, 'starts')

    async def _fates(self) -> None:
        """Lets processes crash, stop, pause, and be taken for dead."""
        world = self.world
        while self._has_lives:
            await world.pause(world.random.random() * self._calm_between)
            serving = self.cluster.serving
            if not serving:
                continue
            process = world.pick(serving)
            match world.pick(('crash', 'crash', 'pause', 'stop', 'dead', 'nothing')):
                case 'crash':
                    self._may_crash(process)
                case 'pause':
                    await self._pause(process)
                case 'stop':
                    self._endings.append(world.spawn(self._stop(process), f'end of {process.name}'))
                case 'dead' if process.connection.nodes:
                    world.note(process.name, f'{process.connection.nodes[-1]} is declared dead')
                    world.ledger.troubled = True
                    world.ledger.doomed_processes.add(process.name)
                    self.database.fence(process.connection.nodes[-1])

    async def _pause(self, process: Process) -> None:
        self.world.note(process.name, 'is paused')
        self.world.ledger.troubled = True
        process.life.is_paused = True
        try:
            await self.world.pause(self.world.random.random() * 4)
        finally:
            self.world.note(process.name, 'goes on')
            self.world.loop.resume(process.life)

    async def _stop(self, process: Process) -> None:
        stopping = self.world.spawn(process.stop(), f'stop of {process.name}')
        self.world.note(self._start_process().name, 'starts')
        await self._until(lambda: stopping.done() or not process.life.is_alive, seconds=60.0)
        if not process.life.is_alive:
            return
        self.world.ledger.check(stopping.done(), f'{process.name} does not stop')
        self.cluster.processes.remove(process)
        await self._check_that_nothing_is_left(process)
        process.exit()
        self.world.note(process.name, 'has stopped')

    async def _check_that_nothing_is_left(self, process: Process) -> None:
        await self.world.pause(70.0)
        left = [task.get_name() for task in process.left()]
        self.world.ledger.check(not left, f'{process.name} leaves tasks behind: {left}')

    # -- the end

    async def _calm_down(self) -> None:
        self.world.is_calm = True
        self.world.note('world', 'all trouble ends')
        for process in self.cluster.processes:
            self.world.loop.resume(process.life)
        await self._until(lambda: all(ending.done() for ending in self._endings), seconds=120.0)
        if not self.cluster.serving:
            self.world.note(self._start_process().name, 'starts')
        for process in self.cluster.serving:
            await process.handler.start()
        await self.world.pause(LATEST_ARRIVAL)

    def dead_nodes(self) -> set[str]:
        """Returns the ids of all nodes that will never write again."""
        dead: set[str] = set(self.database.dead)
        for process in self.all_processes:
            if not process.life.is_alive:
                dead |= set(process.connection.nodes)
        return dead

    def _has_settled(self) -> bool:
        """Whether nobody works on anything any more that can come to an end."""
        is_taken_over = not switches.TAKE_OVER or all(row.node is None for row in self.database.rows())
        return is_taken_over and not any(
            self.agent.is_at_work(process.name) or invariants.left_in_memory(process)
            for process in self.cluster.processes
        )

    def _cancel_what_is_left(self) -> 'list[asyncio.Task[Report]]':
        """Cancels what waits: it can be continued or cancelled at any time."""
        if self.settings.unfinished != 'keep' and self.world.chance(0.5):
            return []
        dead = self.dead_nodes()
        waiting = [row for row in self.database.rows() if row.state not in TERMINAL and row.node not in dead]
        return [self.world.spawn(self._cancel(row), f'last cancel of {row.task_id}') for row in waiting]

    async def _cancel(self, row: TaskRow) -> Report:
        client = Client('the end', row.scope.owner, self.world, self.database, self.cluster)
        owners = [process for process in self.cluster.serving if row.node in process.connection.nodes]
        return await client.cancel(row.task_id, process=owners[0] if owners else None)

    def _look_into_memory(self) -> None:
        for process in self.cluster.processes:
            for what in invariants.left_in_memory(process):
                self.world.ledger.violations.append(f'{process.name} has left {what}')
            session = process.session
            observers = 0 if session is None else session.hub.observers
            self.world.ledger.check(observers == 0, f'{process.name} has {observers} observers left')

    async def _close(self) -> None:
        for process in tuple(self.cluster.processes):
            closing = self.world.spawn(process.handler.aclose(), f'close of {process.name}', process.life)
            await self._until(closing.done, seconds=60.0)
            self.world.ledger.check(closing.done(), f'{process.name} does not close')
            await self._check_that_nothing_is_left(process)

    def judge(self) -> None:
        """Checks what must hold of every run."""
        for process in self.all_processes:
            process.connection.note_losses()
        invariants.check_all(self.world.ledger, self.database, self.dead_nodes())
        for error in self.world.loop.errors:
            self.world.ledger.violations.append(f'the loop was told of {error}')


def _draw_settings(world: World) -> Settings:
    few = world.chance(0.5)
    return Settings(
        unfinished='keep' if world.chance(0.15) else 'fail',
        create_task_after=world.pick((0.05, 0.3)),
        cancel_deadline=1.0,
        cancel_grace=0.5,
        drain_deadline=world.pick((0.2, 2.0)),
        pending_records=3 if few else 2000,
        tail_records=world.pick((1, 4, 1000)),
        tail_bytes=world.pick((60, 256_000)),
        history_bytes=world.pick((40, 1_000_000, 1_000_000)),
        queued_messages=world.pick((1, 2, 100)),
        task_records=world.pick((12, 1_000_000, 1_000_000, 1_000_000)),
        journal_patience=world.pick((0.05, 0.3, 2.0)),
    )


def _draw_trouble(world: World) -> Trouble:
    trouble = Trouble(slow=world.pick((0.0, 0.3, 0.9)), slowest=world.pick((0.002, 0.02, 0.2)))
    if world.chance(0.3):
        return trouble
    trouble.crash = 0.02 if world.chance(0.5) else 0.0
    trouble.fail = world.pick((0.0, 0.05, 0.3))
    trouble.lose = world.pick((0.0, 0.05, 0.3))
    trouble.late = world.pick((0.0, 0.0, 0.1))
    trouble.read_fail = world.pick((0.0, 0.0, 0.1))
    if world.chance(0.3):
        begin = world.random.random() * 3
        trouble.away = [(begin, begin + world.random.random() * 4)]
    return trouble
