"""Our stores where a2a-sdk has its own: called directly, and under a2a-sdk's stock handler."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from a2a.server.request_handlers import DefaultRequestHandlerV2
from a2a.types.a2a_pb2 import (
    Artifact,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SubscribeToTaskRequest,
    Task,
    TaskState,
    TaskStatus,
)
from sqlalchemy.ext.asyncio import create_async_engine

from tests.dropin.kit import (
    Asking,
    Echo,
    Waiting,
    artifacts_of,
    call,
    new_card,
    opened_store,
    request,
    send,
    state_of,
    stores,
)

pytestmark = pytest.mark.anyio

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=['memory', 'sqlite'])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    async with opened_store(request.param, tmp_path) as store:
        yield store


def new_task(minute: int = 0, state: TaskState = TaskState.TASK_STATE_WORKING, context_id: str = 'c') -> Task:
    status = TaskStatus(state=state)
    status.timestamp.FromDatetime(START + timedelta(minutes=minute))
    message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text='hi')])
    artifact = Artifact(artifact_id='a', parts=[Part(text='one'), Part(raw=b'\x00\xff')])
    task = Task(id=str(uuid.uuid4()), context_id=context_id, status=status, history=[message], artifacts=[artifact])
    task.metadata.update({'key': 'value', 'nested': {'numbers': [1, 2.5, None]}})
    return task


async def test_what_is_saved_is_read_again(store: Any) -> None:
    task = new_task()
    await store.save(task, call())
    assert await store.get(task.id, call()) == task


async def test_a_second_save_replaces_the_first(store: Any) -> None:
    task = new_task()
    await store.save(task, call())
    task.status.state = TaskState.TASK_STATE_COMPLETED
    del task.artifacts[:]
    task.history.append(Message(role=Role.ROLE_AGENT, message_id='m', parts=[Part(text='done')]))
    await store.save(task, call())
    assert await store.get(task.id, call()) == task


async def test_the_caller_and_the_store_share_no_object(store: Any) -> None:
    task = new_task()
    await store.save(task, call())
    task.context_id = 'changed after the save'
    read = await store.get(task.id, call())
    read.context_id = 'changed after the read'
    assert (await store.get(task.id, call())).context_id == 'c'


async def test_an_unknown_task_is_none_and_its_deletion_nothing(store: Any) -> None:
    assert await store.get('unknown', call()) is None
    await store.delete('unknown', call())


async def test_a_deleted_task_is_gone(store: Any) -> None:
    task = new_task()
    await store.save(task, call())
    await store.delete(task.id, call())
    assert await store.get(task.id, call()) is None
    assert (await store.list(ListTasksRequest(), call())).total_size == 0


async def test_lists_are_filtered_and_the_newest_comes_first(store: Any) -> None:
    old, new = new_task(0), new_task(1)
    done, elsewhere = new_task(2, TaskState.TASK_STATE_COMPLETED), new_task(3, context_id='d')
    for task in (old, done, elsewhere, new):
        await store.save(task, call())
    everything = await store.list(ListTasksRequest(), call())
    assert [task.id for task in everything.tasks] == [elsewhere.id, done.id, new.id, old.id]
    working = ListTasksRequest(context_id='c', status=TaskState.TASK_STATE_WORKING)
    assert [task.id for task in (await store.list(working, call())).tasks] == [new.id, old.id]


async def test_pages_hold_every_task_once(store: Any) -> None:
    tasks = [new_task(minute) for minute in range(7)]
    for task in tasks:
        await store.save(task, call())
    seen: list[str] = []
    token = ''
    while token or not seen:
        page = await store.list(ListTasksRequest(page_size=3, page_token=token), call())
        assert page.total_size == len(tasks)
        seen += [task.id for task in page.tasks]
        token = page.next_page_token
    assert seen == [task.id for task in reversed(tasks)]


async def test_another_users_task_is_not_there(store: Any) -> None:
    task = new_task()
    await store.save(task, call('ann'))
    assert await store.get(task.id, call('bob')) is None
    await store.delete(task.id, call('bob'))
    assert (await store.list(ListTasksRequest(), call('bob'))).total_size == 0
    assert await store.get(task.id, call('ann')) == task


async def test_initialize_may_be_called_first_and_again(tmp_path: Path) -> None:
    engine = create_async_engine(f'sqlite+aiosqlite:///{tmp_path}/tasks.db')
    store = stores.DatabaseTaskStore(engine)
    await store.initialize()
    await store.initialize()
    await store.save(new_task(), call())
    await engine.dispose()


async def test_an_owner_resolver_decides_who_owns_a_task() -> None:
    store = stores.InMemoryTaskStore(owner_resolver=lambda context: 'everybody')
    task = new_task()
    await store.save(task, call('ann'))
    assert await store.get(task.id, call('bob')) == task


async def test_the_stock_handler_completes_a_task(store: Any) -> None:
    handler = DefaultRequestHandlerV2(Echo(), store, new_card())
    answer = await send(handler, 'hi')
    assert (state_of(answer), artifacts_of(answer)) == ('COMPLETED', {'echo': 'you said hi'})
    assert await store.get(answer.id, call()) == answer
    assert await handler.on_get_task(GetTaskRequest(id=answer.id), call()) == answer
    await handler.aclose()


async def test_the_stock_handler_continues_a_task(store: Any) -> None:
    handler = DefaultRequestHandlerV2(Asking(), store, new_card())
    question = await send(handler, 'hi')
    assert state_of(question) == 'INPUT_REQUIRED'
    answer = await send(handler, 'Ann', task=question)
    assert (state_of(answer), artifacts_of(answer)) == ('COMPLETED', {'form': 'a form', 'greeting': 'hello Ann'})
    await handler.aclose()


async def test_the_stock_handler_streams_and_lists(store: Any) -> None:
    handler = DefaultRequestHandlerV2(Echo(), store, new_card())
    events = [event async for event in handler.on_message_send_stream(request('hi'), call())]
    assert isinstance(events[0], Task)
    listed = await handler.on_list_tasks(ListTasksRequest(include_artifacts=True), call())
    assert [(task.id, artifacts_of(task)) for task in listed.tasks] == [(events[0].id, {'echo': 'you said hi'})]
    await handler.aclose()


async def test_the_stock_handler_lets_a_second_client_follow(store: Any) -> None:
    agent = Waiting()
    handler = DefaultRequestHandlerV2(agent, store, new_card())
    first = request('hi')
    first.configuration.return_immediately = True
    task = await handler.on_message_send(first, call())
    assert isinstance(task, Task)
    await agent.started.wait()
    followed = asyncio.create_task(follow(handler, task.id, agent.released))
    assert state_of(await followed) == 'COMPLETED'
    await handler.aclose()


async def follow(handler: DefaultRequestHandlerV2, task_id: str, attached: asyncio.Event) -> Task:
    async for _ in handler.on_subscribe_to_task(SubscribeToTaskRequest(id=task_id), call()):
        attached.set()
    task = await handler.on_get_task(GetTaskRequest(id=task_id), call())
    assert isinstance(task, Task)
    return task
