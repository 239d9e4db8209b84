"""Event ids of a store that keeps no records: what an earlier process gave out never passes over what came since."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import GetTaskRequest, ListTasksRequest, Part, SubscribeToTaskRequest, Task
from a2a.utils.errors import InvalidParamsError

from a2a_scribe import DefaultRequestHandler, Settings
from a2a_scribe.core.records import Shown
from a2a_scribe.journal import foreign
from tests.component.kit import DEADLINE
from tests.dropin import kit

pytestmark = pytest.mark.anyio

CHUNKS = 4
EXACT = 2**53
"""Up to here a number in JSON is what it was."""


class Talkative(kit.Echo):
    """Says some words; asks for more until it hears `end`."""

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        for number in range(CHUNKS):
            await updater.add_artifact([Part(text=f'{number} ')], artifact_id='words', append=number > 0)
        await (updater.complete() if context.get_user_input() == 'end' else updater.requires_input())


@asynccontextmanager
async def life(store: InMemoryTaskStore, settings: Settings | None = None) -> AsyncIterator[DefaultRequestHandler]:
    """A process that serves the store."""
    handler = DefaultRequestHandler(Talkative(), store, kit.new_card(), settings=settings, failure_answer='task')
    try:
        async with asyncio.timeout(DEADLINE):
            yield handler
    finally:
        await handler.aclose()


async def say(
    handler: DefaultRequestHandler, text: str, task: Task | None = None, *, context: str = 'talk'
) -> list[int]:
    """Sends a message; returns the ids of what was streamed."""
    request = kit.request(text, context_id=context) if task is None else kit.request(text, task=task)
    stream = handler.stream_message(request, kit.call())
    ids = [item.seq or 0 async for batch in stream for item in batch]
    assert ids == sorted(set(ids))
    return ids


async def the_task(handler: DefaultRequestHandler) -> Task:
    """Returns the task that the first message has made."""
    (listed,) = (await handler.on_list_tasks(ListTasksRequest(context_id='talk'), kit.call())).tasks
    return await handler.on_get_task(GetTaskRequest(id=listed.id), kit.call())


async def resumed(handler: DefaultRequestHandler, task_id: str, after: int) -> list[Shown]:
    """Returns what a stream after an event begins with."""
    stream = handler.follow_task(SubscribeToTaskRequest(id=task_id), kit.call(), after)
    async with aclosing(stream) as batches:
        async for batch in batches:
            if batch:
                return batch
    return []


async def test_ids_of_an_earlier_life_get_the_task_as_it_is_now() -> None:
    store, seen = InMemoryTaskStore(), [0]
    async with life(store) as handler:
        seen += await say(handler, 'go')
        assert seen[1:] == list(range(2, CHUNKS + 5)), 'a task that is born here begins with 1'
    for text in ('more', 'and more', 'end'):
        async with life(store) as handler:
            task = await the_task(handler)
            for after in seen:
                (now,) = await resumed(handler, task.id, after)
                assert now.event == task
                assert (now.seq or 0) > max(seen)
            new = await say(handler, text, task)
            assert len(new) == CHUNKS + 3
            assert max(seen) < min(new)
            assert max(new) < EXACT
            task = await the_task(handler)
            for after in seen:
                (now,) = await resumed(handler, task.id, after)
                assert now.event == task
                assert (now.seq or 0) >= max(new)
            for place, after in enumerate(new[:-1]):
                (following, *_) = await resumed(handler, task.id, after)
                assert following.seq == new[place + 1], 'what this process gave out goes on exactly'
            with pytest.raises(InvalidParamsError):
                await resumed(handler, task.id, max(new) + 100)
        seen += new


async def test_a_reader_of_an_earlier_life_hears_what_comes_next() -> None:
    store = InMemoryTaskStore()
    async with life(store) as handler:
        seen = await say(handler, 'go')
    async with life(store) as handler:
        task = await the_task(handler)
        stream = handler.follow_task(SubscribeToTaskRequest(id=task.id), kit.call(), seen[2])
        (first,) = await anext(stream)
        new = await say(handler, 'end', task)
        rest = [item.seq async for batch in stream for item in batch]
        assert first.event == task
        assert new[-CHUNKS - 1 :] == rest[-CHUNKS - 1 :]


async def test_ids_of_a_task_that_was_forgotten_get_it_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, 'KEPT_BYTES', 1)
    store, seen = InMemoryTaskStore(), [0]
    async with life(store) as handler:
        seen += await say(handler, 'go')
        for _ in range(3):
            await say(handler, 'end', context='other talk')
            task = await the_task(handler)
            for after in seen:
                (now,) = await resumed(handler, task.id, after)
                assert now.event == task
                assert (now.seq or 0) > max(seen)
            new = await say(handler, 'more', task)
            assert max(seen) < min(new)
            seen += new


async def test_the_limit_of_records_is_for_those_that_are_known() -> None:
    store, settings = InMemoryTaskStore(), Settings(task_records=3 * CHUNKS)
    async with life(store, settings) as handler:
        await say(handler, 'go')
    async with life(store, settings) as handler:
        task = await kit.send(handler, 'more', task=await the_task(handler))
        assert kit.state_of(task) == 'INPUT_REQUIRED'
        task = await kit.send(handler, 'more', task=task)
        assert kit.state_of(task) == 'FAILED'
        assert 'task_records' in kit.words_of(task.status.message)
