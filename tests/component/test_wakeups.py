"""Processes that hear of each other: what one writes is seen by the other without waiting for time to pass."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.port import Heard, Hints
from a2a_scribe.protocol.states import CANCELED, COMPLETED, WORKING
from a2a_scribe.testing.agents import Script, ScriptedAgent, artifact, emit, status, task, wait
from a2a_scribe.testing.clock import FakeClock
from a2a_scribe.testing.journals import TroubledJournal
from tests.component.kit import Site, running, settle, state_of, until

pytestmark = pytest.mark.anyio

WORK: Script = [emit(task(WORKING)), wait('gate'), emit(artifact('more')), wait('end'), emit(status(COMPLETED))]


class Room:
    """Where the processes of a test hear each other."""

    def __init__(self) -> None:
        self.ears: dict[Hints, Heard] = {}
        self.wanted: dict[Hints, Callable[[], bool]] = {}
        self.told: list[set[str]] = []


class Voice:
    """The hints of one process."""

    needs_telling = True

    def __init__(self, room: Room) -> None:
        self._room = room

    async def listen(self, heard: Heard, is_wanted: Callable[[], bool]) -> None:
        self._room.ears[self], self._room.wanted[self] = heard, is_wanted
        await asyncio.Event().wait()

    async def tell(self, task_ids: Collection[str]) -> None:
        self._room.told.append(set(task_ids))
        for other, heard in self._room.ears.items():
            if other is not self:
                heard(task_ids)


class HintingJournal(TroubledJournal):
    """A journal whose processes hear each other."""

    def __init__(self, memory: MemoryJournal, room: Room) -> None:
        super().__init__(memory)
        self.voice = Voice(room)

    @property
    def hints(self) -> Hints | None:
        return self.voice


@asynccontextmanager
async def two_sites(agent: ScriptedAgent, *, start: bool = True) -> AsyncIterator[tuple[Site, Site, Room]]:
    memory, clock, room = MemoryJournal(), FakeClock(), Room()
    async with AsyncExitStack() as stack:
        sites = [
            await stack.enter_async_context(
                running(each, journal=HintingJournal(memory, room), clock=clock, checked=False)
            )
            for each in (agent, ScriptedAgent())
        ]
        if start:
            for site in sites:
                await site.engine.start()
            for site in (*sites, *sites):
                await site.advance(1.0)
        yield sites[0], sites[1], room


async def test_a_stream_at_another_process_needs_no_look() -> None:
    agent = ScriptedAgent(WORK)
    async with two_sites(agent) as (owner, follower, room):
        begun = await owner.begin_task()
        stream = follower.subscribe(begun.id)
        await until(lambda: stream.events)
        agent.open('gate')
        await until(lambda: len(stream.events) == 2)
        agent.open('end')
        assert state_of((await stream.end())[-1]) == COMPLETED
        assert {begun.id} in room.told


async def test_a_cancel_at_another_process_needs_no_look() -> None:
    agent = ScriptedAgent(WORK)
    async with two_sites(agent) as (owner, asker, _):
        begun = await owner.begin_task()
        assert (await asker.cancel(begun.id)).status.state == CANCELED
        assert agent.cancels == 1


async def test_an_owner_that_does_not_know_of_the_other_yet_hears_of_its_cancel() -> None:
    agent = ScriptedAgent(WORK)
    async with two_sites(agent, start=False) as (owner, asker, _):
        await owner.engine.start()
        await settle()
        begun = await owner.begin_task()
        await asker.engine.start()
        await settle()
        cancelling = asker.begin_cancel(begun.id)
        await until(lambda: agent.cancels == 1)
        await asker.advance(2.0)
        assert (await cancelling).status.state == CANCELED


async def test_a_hint_about_everything_wakes_whoever_follows_others() -> None:
    agent = ScriptedAgent(WORK)
    async with two_sites(agent) as (owner, follower, room):
        begun = await owner.begin_task()
        hear = room.ears.pop(follower.journal.hints)  # type: ignore[arg-type]
        stream = follower.subscribe(begun.id)
        await until(lambda: stream.events)
        agent.open('gate')
        await settle()
        assert len(stream.events) == 1
        hear(None)
        await until(lambda: len(stream.events) == 2)
        agent.open('end')
        await settle()
        assert len(stream.events) == 2, 'a hint that is lost ...'
        await follower.advance(1.0)
        assert state_of((await stream.end())[-1]) == COMPLETED, '... costs a look'


async def test_a_hint_about_everything_has_an_owner_look_for_cancels() -> None:
    agent = ScriptedAgent(WORK)
    async with two_sites(agent) as (owner, asker, room):
        begun = await owner.begin_task()
        hear = room.ears.pop(owner.journal.hints)  # type: ignore[arg-type]
        cancelling = asker.begin_cancel(begun.id)
        await settle()
        assert agent.cancels == 0
        hear(None)
        assert (await cancelling).status.state == CANCELED


async def test_hints_are_wanted_by_who_works_or_follows_beside_others() -> None:
    agent = ScriptedAgent(WORK)
    async with two_sites(agent) as (owner, follower, room):
        wanted = [room.wanted[site.journal.voice] for site in (owner, follower)]  # type: ignore[attr-defined]
        assert [each() for each in wanted] == [False, False]
        begun = await owner.begin_task()
        assert [each() for each in wanted] == [True, False]
        stream = follower.subscribe(begun.id)
        await until(lambda: stream.events)
        assert [each() for each in wanted] == [True, True]
        await stream.go_away()
        await follower.close()
        for _ in range(3):
            await owner.advance(1.0)
        assert not wanted[0](), 'the other has gone'


async def test_nobody_is_told_who_is_not_there() -> None:
    agent = ScriptedAgent([emit(task(), status(COMPLETED))])
    room = Room()
    async with running(agent, journal=HintingJournal(MemoryJournal(), room)) as site:
        await site.engine.start()
        await site.send()
        await settle()
        assert room.told == []


async def test_an_engine_that_starts_by_itself_neither_listens_nor_is_known_before_it_writes() -> None:
    agent = ScriptedAgent(WORK)
    async with two_sites(agent, start=False) as (owner, reader, room):
        begun = await owner.begin_task()
        stream = reader.subscribe(begun.id)
        await until(lambda: stream.events)
        await settle()
        assert room.ears == {}
        assert len(await owner.memory.living_nodes('scripted')) == 1
        await owner.cancel(begun.id)
        await reader.advance(1.0)
        await stream.end()
