"""Owners, tenants and agents do not see each other's tasks, on any operation, live or not."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    SubscribeToTaskRequest,
)
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError

from a2a_scribe import DefaultRequestHandler
from a2a_scribe.protocol.states import COMPLETED, INPUT_REQUIRED, WORKING
from a2a_scribe.protocol.types import TaskPushNotificationConfig
from a2a_scribe.testing.agents import ScriptedAgent, emit, status, task, wait
from tests.component.kit import NamedUser, new_context, new_request, running, settle

pytestmark = pytest.mark.anyio

Operation = Callable[[DefaultRequestHandler, str, ServerCallContext], Awaitable[object]]
URL = 'https://hooks.example'


async def send(handler: DefaultRequestHandler, task_id: str, context: ServerCallContext) -> object:
    return await handler.on_message_send(new_request('mine now', task_id=task_id), context)


async def stream(handler: DefaultRequestHandler, task_id: str, context: ServerCallContext) -> object:
    return [event async for event in handler.on_message_send_stream(new_request('x', task_id=task_id), context)]


async def subscribe(handler: DefaultRequestHandler, task_id: str, context: ServerCallContext) -> object:
    return [event async for event in handler.on_subscribe_to_task(SubscribeToTaskRequest(id=task_id), context)]


async def get(handler: DefaultRequestHandler, task_id: str, context: ServerCallContext) -> object:
    return await handler.on_get_task(GetTaskRequest(id=task_id), context)


async def cancel(handler: DefaultRequestHandler, task_id: str, context: ServerCallContext) -> object:
    return await handler.on_cancel_task(CancelTaskRequest(id=task_id), context)


async def create_config(handler: DefaultRequestHandler, task_id: str, context: ServerCallContext) -> object:
    config = TaskPushNotificationConfig(task_id=task_id, url=URL)
    return await handler.on_create_task_push_notification_config(config, context)


async def get_config(handler: DefaultRequestHandler, task_id: str, context: ServerCallContext) -> object:
    request = GetTaskPushNotificationConfigRequest(task_id=task_id, id='c')
    return await handler.on_get_task_push_notification_config(request, context)


async def list_configs(handler: DefaultRequestHandler, task_id: str, context: ServerCallContext) -> object:
    request = ListTaskPushNotificationConfigsRequest(task_id=task_id)
    return await handler.on_list_task_push_notification_configs(request, context)


async def delete_config(handler: DefaultRequestHandler, task_id: str, context: ServerCallContext) -> object:
    request = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id='c')
    await handler.on_delete_task_push_notification_config(request, context)
    return None


OPERATIONS = (send, stream, subscribe, get, cancel, create_config, get_config, list_configs, delete_config)
STRANGERS = {
    'another owner': new_context('bob'),
    'another tenant': new_context('ada', 'acme'),
    'nobody': ServerCallContext(),
}


@pytest.mark.parametrize('live', [True, False], ids=['live', 'parked'])
@pytest.mark.parametrize('stranger', STRANGERS.values(), ids=STRANGERS)
@pytest.mark.parametrize('operation', OPERATIONS, ids=lambda operation: operation.__name__)
async def test_a_strangers_task_does_not_exist(operation: Operation, stranger: ServerCallContext, live: bool) -> None:
    agent = ScriptedAgent([emit(task(WORKING)), *([wait('gate')] if live else []), emit(status(INPUT_REQUIRED))])
    async with running(agent) as site:
        begun = await site.begin_task()
        await site.handler.on_create_task_push_notification_config(
            TaskPushNotificationConfig(task_id=begun.id, url=URL, id='c'), new_context()
        )
        await settle()
        before = await site.records(begun.id)
        with pytest.raises(TaskNotFoundError):
            await operation(site.handler, begun.id, stranger)
        assert await site.records(begun.id) == before
        assert (await site.handler.on_list_tasks(ListTasksRequest(), stranger)).total_size == 0
        configs = await list_configs(site.handler, begun.id, new_context())
        assert [config.id for config in configs.configs] == ['c']  # type: ignore[attr-defined]
        assert (len(agent.contexts), agent.cancels) == (1, 0)


@pytest.mark.parametrize('operation', OPERATIONS, ids=lambda operation: operation.__name__)
async def test_the_task_of_another_agent_on_the_same_journal_does_not_exist(operation: Operation) -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED))])
    async with running(agent) as site:
        parked = await site.send()
        await site.left_memory()
        async with running(agent, journal=site.journal, name='another') as other:
            with pytest.raises(TaskNotFoundError):
                await operation(other.handler, parked.id, new_context())
            assert (await other.find()).total_size == 0
        assert (await site.find()).total_size == 1


async def test_everyone_lists_their_own() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent) as site:
        for context in (new_context('ada'), new_context('bob'), new_context('ada', 'acme')):
            await site.handler.on_message_send(new_request(), context)
            listed = await site.handler.on_list_tasks(ListTasksRequest(), context)
            assert listed.total_size == 1


async def test_a_tenant_may_come_with_the_request() -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED))])
    async with running(agent) as site:
        parked = await site.handler.on_message_send(new_request(tenant='acme'), new_context())
        with pytest.raises(TaskNotFoundError):
            await get(site.handler, parked.id, new_context())  # type: ignore[union-attr]
        found = await site.handler.on_get_task(GetTaskRequest(id=parked.id, tenant='acme'), new_context())  # type: ignore[union-attr]
        assert found == parked


async def test_a_resolver_of_the_user_decides_who_owns() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent, owner_resolver=lambda context: context.state['team']) as site:
        red = ServerCallContext(user=NamedUser('ada'), state={'team': 'red'})
        also_red = ServerCallContext(user=NamedUser('bob'), state={'team': 'red'})
        blue = ServerCallContext(user=NamedUser('ada'), state={'team': 'blue'})
        done = await site.handler.on_message_send(new_request(), red)
        assert await get(site.handler, done.id, also_red) == done  # type: ignore[union-attr]
        with pytest.raises(TaskNotFoundError):
            await get(site.handler, done.id, blue)  # type: ignore[union-attr]


BAD_CALLERS = {
    'a long owner': new_context('x' * 256),
    'an owner with a line break': new_context('a\nb'),
    'a long tenant': new_context('ada', 'x' * 256),
    'a tenant with a NUL': new_context('ada', 'a\0b'),
}


@pytest.mark.parametrize('context', BAD_CALLERS.values(), ids=BAD_CALLERS)
async def test_owners_and_tenants_have_bounds(context: ServerCallContext) -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent) as site:
        with pytest.raises(InvalidParamsError):
            await site.handler.on_message_send(new_request(), context)
        with pytest.raises(InvalidParamsError):
            await site.handler.on_list_tasks(ListTasksRequest(), context)
        assert (agent.contexts, site.task_ids) == ([], [])


@pytest.mark.parametrize(
    'given', [{'context_id': 'x' * 256}, {'context_id': 'a\nb'}, {'message_id': 'x' * 256}], ids=str
)
async def test_ids_that_clients_choose_have_bounds(given: dict[str, Any]) -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent) as site:
        with pytest.raises(InvalidParamsError):
            await site.send(**given)
        with pytest.raises(InvalidParamsError):
            await site.stream(**given).end()
        assert (agent.contexts, site.task_ids) == ([], [])
