"""Places for turns: bounded, handed out in turn to the owners that wait, and given back exactly once."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_scribe import Settings
from a2a_scribe.engine.capacity import Capacity, Place
from a2a_scribe.errors import OverloadedError
from tests.unit.strategies import quick

pytestmark = pytest.mark.anyio


def new_capacity(running: int, waiting: int, of_owner: int | None = None) -> Capacity:
    return Capacity(
        Settings(max_running_turns=running, max_waiting_turns=waiting, max_running_turns_per_owner=of_owner)
    )


class Turns:
    """Turns that begin when their places are granted, and note it."""

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.begun: list[str] = []
        self.places: dict[str, Place] = {}

    def add(self, name: str, *, insist: bool = False) -> None:
        """Adds a turn; the first letter of its name is its owner's."""
        place = (self.capacity.insist if insist else self.capacity.take)(name[0])
        self.places[name] = place
        place.use(lambda: self.begun.append(name))

    def try_to_add(self, name: str) -> bool:
        try:
            self.add(name)
        except OverloadedError:
            return False
        return True

    async def end(self, *names: str) -> None:
        for name in names:
            self.places[name].leave()
        await asyncio.sleep(0)


async def test_places_are_granted_at_once_while_there_is_room_and_then_in_order() -> None:
    turns = Turns(new_capacity(2, 10))
    for name in ('a1', 'a2', 'a3', 'a4'):
        turns.add(name)
    assert (turns.begun, turns.capacity.running, turns.capacity.waiting) == (['a1', 'a2'], 2, 2)
    await turns.end('a2')
    assert turns.begun == ['a1', 'a2', 'a3']
    await turns.end('a1', 'a3', 'a3', 'a1')
    assert turns.begun == ['a1', 'a2', 'a3', 'a4']
    await turns.end('a4')
    assert (turns.capacity.running, turns.capacity.waiting) == (0, 0)


async def test_a_new_message_does_not_overtake_those_that_wait() -> None:
    turns = Turns(new_capacity(1, 10))
    turns.add('a1')
    turns.add('a2')
    turns.places['a1'].leave()
    turns.add('b1')
    assert turns.begun == ['a1']
    await turns.end()
    assert turns.begun == ['a1', 'a2']


async def test_owners_take_turns() -> None:
    turns = Turns(new_capacity(1, 100))
    for name in ('a0', 'a1', 'a2', 'a3', 'b1', 'b2', 'c1'):
        turns.add(name)
    for _ in range(7):
        await turns.end(turns.begun[-1])
    assert turns.begun == ['a0', 'a1', 'b1', 'c1', 'a2', 'b2', 'a3']


async def test_an_owner_at_its_bound_holds_nobody_else_up() -> None:
    turns = Turns(new_capacity(3, 100, of_owner=2))
    for name in ('a1', 'a2', 'a3', 'a4', 'b1', 'b2'):
        turns.add(name)
    assert turns.begun == ['a1', 'a2', 'b1']
    await turns.end('b1')
    assert turns.begun[3:] == ['b2']
    await turns.end('b2')
    assert turns.capacity.running == 2
    await turns.end('a1')
    assert turns.begun[4:] == ['a3']
    turns.add('c1')
    assert turns.begun[5:] == ['c1']


async def test_what_leaves_the_queue_never_begins() -> None:
    turns = Turns(new_capacity(1, 10))
    for name in ('a1', 'a2', 'b1', 'a3'):
        turns.add(name)
    await turns.end('a2', 'b1')
    assert turns.capacity.waiting == 1
    await turns.end('a1')
    assert turns.begun == ['a1', 'a3']


async def test_a_place_that_is_granted_before_there_is_a_turn_is_used_when_there_is() -> None:
    capacity = new_capacity(1, 10)
    first, second = capacity.take('a'), capacity.take('a')
    assert (first.is_granted, second.is_granted) == (True, False)
    first.leave()
    await asyncio.sleep(0)
    assert second.is_granted
    assert not second.is_used
    begun: list[bool] = []
    second.use(lambda: begun.append(True))
    assert begun == [True]


async def test_turns_that_end_together_start_none_of_each_other() -> None:
    """Closing and fencing end all turns in one go: those that wait are among them."""
    turns = Turns(new_capacity(1, 10))
    for name in ('a1', 'a2', 'a3'):
        turns.add(name)
    await turns.end('a1', 'a2', 'a3')
    assert turns.begun == ['a1']


# The bounds of the queue


async def test_one_owner_may_hold_as_many_waiting_places_as_it_leaves_free() -> None:
    turns = Turns(new_capacity(1, 10))
    turns.add('a')
    assert [turns.try_to_add(f'a{number}') for number in range(8)] == [True] * 6 + [False] * 2
    assert [turns.try_to_add(f'b{number}') for number in range(4)] == [True] * 3 + [False]
    assert [turns.try_to_add(f'c{number}') for number in range(2)] == [True, False]
    assert turns.capacity.waiting == 10


async def test_a_queue_that_is_full_refuses_everybody_and_a_place_that_is_left_lets_one_in() -> None:
    turns = Turns(new_capacity(1, 3))
    for name in ('a1', 'b1', 'c1', 'd1'):
        turns.add(name)
    with pytest.raises(OverloadedError):
        turns.add('e1')
    await turns.end('b1')
    turns.add('e1')
    assert turns.capacity.waiting == 3


async def test_what_has_been_accepted_waits_beyond_the_bounds() -> None:
    turns = Turns(new_capacity(1, 1))
    for name in ('a1', 'a2', 'a3', 'a4'):
        turns.add(name, insist=True)
    assert turns.capacity.waiting == 3
    with pytest.raises(OverloadedError):
        turns.add('b1')


async def test_refusals_are_logged_once_until_the_queue_has_been_empty(caplog: pytest.LogCaptureFixture) -> None:
    turns = Turns(new_capacity(1, 1))
    with caplog.at_level(logging.WARNING):
        for expected in (1, 2):
            turns.add('a1')
            turns.add('a2')
            for _ in range(5):
                with pytest.raises(OverloadedError):
                    turns.add('a3')
            await turns.end('a1')
            await turns.end('a2')
            assert caplog.text.count('max_waiting_turns') == expected


@quick
@given(
    st.lists(st.tuples(st.sampled_from('abcd'), st.integers(0, 2)), max_size=80),
    st.integers(1, 4),
    st.integers(1, 6),
    st.none() | st.integers(1, 3),
)
def test_whatever_comes_and_goes_the_bounds_hold_and_nobody_waits_while_there_is_room(
    moves: Sequence[tuple[str, int]], running: int, waiting: int, of_owner: int | None
) -> None:
    async def play() -> None:
        capacity = new_capacity(running, waiting, of_owner)
        live: dict[Place, str] = {}
        for owner, kind in moves:
            if kind < 2:
                try:
                    place = capacity.take(owner)
                except OverloadedError:
                    continue
                place.use(lambda: None)
                live[place] = owner
            elif live:
                place = next(place for place in reversed(live))
                del live[place]
                place.leave()
            await asyncio.sleep(0)
            granted = Counter(owner for place, owner in live.items() if place.is_granted)
            queued = Counter(owner for place, owner in live.items() if not place.is_granted)
            assert (capacity.running, capacity.waiting) == (granted.total(), queued.total())
            assert granted.total() <= running
            assert queued.total() <= waiting
            assert all(count <= (of_owner or running) for count in granted.values())
            if granted.total() < running:
                assert all(granted[owner] == of_owner for owner in queued)
        for place in tuple(live):
            place.leave()
        assert (capacity.running, capacity.waiting) == (0, 0)
        await asyncio.sleep(0)

    asyncio.run(play())
