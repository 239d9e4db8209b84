"""A reader who is behind a store that keeps no records: it is still told everything."""

import asyncio

import pytest
from a2a.server.tasks.inmemory_task_store import InMemoryTaskStore

from a2a_scribe import DefaultRequestHandler
from a2a_scribe.protocol.states import COMPLETED
from a2a_scribe.testing.agents import Run, ScriptedAgent, artifact, do, emit, status, task, wait
from tests.component.kit import DEADLINE, new_card, new_context, new_request, state_of

pytestmark = pytest.mark.anyio

CHUNKS, CHUNK = 90, 'x' * 100_000
"""More than is kept of a task that has left memory."""


async def test_a_reader_who_is_far_behind_a_task_that_has_left_memory_hears_of_its_end() -> None:
    async def say_much(run: Run) -> None:
        for number in range(CHUNKS):
            await run.queue.enqueue_event(artifact(CHUNK, append=number > 0))

    agent = ScriptedAgent([emit(task()), wait('gate'), do(say_much), emit(status(COMPLETED))])
    handler = DefaultRequestHandler(agent, InMemoryTaskStore(), new_card())
    forgotten = asyncio.Event()
    handler.engine.signals.task_forgotten.connect(lambda _: forgotten.set())
    try:
        async with asyncio.timeout(DEADLINE):
            stream = handler.on_message_send_stream(new_request(), new_context())
            await anext(stream)
            agent.open('gate')
            await forgotten.wait()
            events = [event async for event in stream]
    finally:
        await handler.aclose()
    assert len(events) == CHUNKS + 1
    assert state_of(events[-1]) == COMPLETED
