"""What a reader holds who does not read on: bounded bytes, however large the events are and wherever they come from."""

from contextlib import aclosing

import pytest
from a2a.types.a2a_pb2 import SubscribeToTaskRequest

from a2a_scribe import Settings
from a2a_scribe.core.records import Shown
from a2a_scribe.engine.cursors import BATCH_BYTES
from a2a_scribe.protocol.states import COMPLETED
from a2a_scribe.testing.agents import Script, ScriptedAgent, artifact, emit, status, task, wait
from tests.component.kit import Site, new_context, new_request, running

pytestmark = pytest.mark.anyio

EVENT_BYTES = 100_000
EVENTS = 100
MANY_SMALL = 600
LARGE = [emit(artifact('x' * EVENT_BYTES, append=number > 0)) for number in range(EVENTS)]
SMALL = [emit(artifact('x', append=True)) for _ in range(MANY_SMALL)]


def emitting(*chunks: Script) -> ScriptedAgent:
    steps = [step for script in chunks for step in script]
    return ScriptedAgent([emit(task()), wait('gate'), *steps, emit(status(COMPLETED))])


def size_of(batch: list[Shown]) -> int:
    return sum(len(item.body) for item in batch)


async def replayed(site: Site, task_id: str) -> list[list[Shown]]:
    """Reads a task from its beginning."""
    request = SubscribeToTaskRequest(id=task_id)
    async with aclosing(site.handler.follow_task(request, new_context(), 0)) as batches:
        return [batch async for batch in batches]


async def test_a_reader_of_large_events_holds_few_of_them() -> None:
    """From the journal: when everything is over."""
    agent = emitting(LARGE)
    async with running(agent) as site:
        begun = await site.begin_task()
        agent.open('gate')
        await site.left_memory()
        batches = await replayed(site, begun.id)
        assert sum(map(len, batches)) == EVENTS + 2
        assert max(map(size_of, batches)) <= BATCH_BYTES


async def test_what_came_before_says_nothing_of_what_comes() -> None:
    """Small events, of which many fit, and then large ones."""
    agent = emitting(SMALL, LARGE)
    async with running(agent) as site:
        begun = await site.begin_task()
        agent.open('gate')
        await site.left_memory()
        batches = await replayed(site, begun.id)
        assert sum(map(len, batches)) == MANY_SMALL + EVENTS + 2
        assert max(map(size_of, batches)) <= BATCH_BYTES
        assert len(batches) < EVENTS + MANY_SMALL / 100


async def test_a_reader_of_a_live_task_holds_no_more() -> None:
    """From the memory of the task, which keeps all of it here."""
    agent = emitting(LARGE, [wait('end')])
    settings = Settings(tail_bytes=10**9, pending_bytes=10**9)
    async with (
        running(agent, settings=settings) as site,
        aclosing(site.handler.stream_message(new_request(), new_context())) as batches,
    ):
        seen = await anext(batches)
        agent.open('gate')
        await agent.reached('end')
        site.journal.reads_fail = True
        while len(seen) < EVENTS + 1:
            batch = await anext(batches)
            assert size_of(batch) <= BATCH_BYTES
            seen += batch


async def test_an_event_beyond_the_bound_comes_alone() -> None:
    agent = emitting([emit(artifact('x' * 2 * BATCH_BYTES, append=number > 0)) for number in range(3)])
    async with running(agent) as site:
        begun = await site.begin_task()
        agent.open('gate')
        await site.left_memory()
        assert [len(batch) for batch in await replayed(site, begun.id)] == [0, 1, 1, 1, 1, 1]
