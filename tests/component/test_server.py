"""The composition root: what an app serves, where, under which card, and what it does with its database."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskState,
)
from a2a.utils.constants import TransportProtocol
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from a2a_scribe import InMemoryTaskStore, create_app
from a2a_scribe.errors import SettingsError
from a2a_scribe.transport.listening import listen

pytestmark = pytest.mark.anyio

CARD = AgentCard(name='upper', description='Shouts.', version='1', capabilities=AgentCapabilities(streaming=True))
SECRET = 'the password of the model'
HEADERS = {'A2A-Version': '1.0'}
BINDINGS = ('JSONRPC', 'HTTP+JSON')


class UpperExecutor(AgentExecutor):
    """Shouts what it hears; fails when it hears `fail`."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answers with one artifact."""
        assert context.message is not None
        updater = TaskUpdater(event_queue, context.task_id or '', context.context_id or '')
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        await updater.start_work()
        said = context.get_user_input()
        if said == 'fail':
            raise RuntimeError(SECRET)
        await updater.add_artifact([Part(text=said.upper())], name='answer')
        await updater.complete(new_text_message('done'))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Has nothing to cancel."""


@asynccontextmanager
async def opened(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """The app with its lifespan running, and a client that calls it without a socket."""
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url='http://127.0.0.1:8000', headers=HEADERS
        ) as client,
    ):
        yield client


async def client_for(http: httpx.AsyncClient, binding: str, *, streaming: bool = False) -> Client:
    """A client of a2a-sdk that found its way by the card."""
    config = ClientConfig(streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding])
    return await ClientFactory(config).create_from_url('http://127.0.0.1:8000')


async def say(client: Client, text: str) -> list[Any]:
    """All that comes back for a message."""
    message = Message(role=Role.ROLE_USER, message_id='m', parts=[Part(text=text)])
    return [event async for event in client.send_message(SendMessageRequest(message=message))]


async def answer(client: Client, text: str) -> Task:
    """The task that a blocking send ends with."""
    [event] = await say(client, text)
    task: Task = event.task
    return task


@pytest.mark.parametrize('binding', BINDINGS)
async def test_an_app_answers_in_both_ways(sqlite_url: str, binding: str) -> None:
    """Blocking and streaming, and the task is there afterwards."""
    async with opened(create_app(UpperExecutor(), CARD, sqlite_url)) as http:
        client = await client_for(http, binding)
        task = await answer(client, 'hello')
        assert task.status.state == TaskState.TASK_STATE_COMPLETED
        assert task.artifacts[0].parts[0].text == 'HELLO'
        stored = await client.get_task(GetTaskRequest(id=task.id))
        assert stored.artifacts == task.artifacts
        events = await say(await client_for(http, binding, streaming=True), 'hello')
        assert [event.WhichOneof('payload') for event in events] == [
            'task',
            'status_update',
            'artifact_update',
            'status_update',
        ]


@pytest.mark.parametrize('binding', BINDINGS)
async def test_a_failure_is_a_task_and_its_text_stays_inside(sqlite_url: str, binding: str) -> None:
    """What the executor raised never reaches the wire."""
    async with opened(create_app(UpperExecutor(), CARD, sqlite_url)) as http:
        task = await answer(await client_for(http, binding), 'fail')
        assert task.status.state == TaskState.TASK_STATE_FAILED
        assert SECRET not in str(task)


async def test_tasks_outlive_the_app(sqlite_url: str) -> None:
    """A second app on the same database has them."""
    async with opened(create_app(UpperExecutor(), CARD, sqlite_url)) as http:
        task = await answer(await client_for(http, 'JSONRPC'), 'hello')
    async with opened(create_app(UpperExecutor(), CARD, sqlite_url)) as http:
        client = await client_for(http, 'JSONRPC')
        stored = await client.get_task(GetTaskRequest(id=task.id))
    assert stored.artifacts == task.artifacts


async def test_an_app_takes_a_store() -> None:
    """Instead of a URL."""
    async with opened(create_app(UpperExecutor(), CARD, InMemoryTaskStore())) as http:
        task = await answer(await client_for(http, 'JSONRPC'), 'hello')
        assert task.status.state == TaskState.TASK_STATE_COMPLETED


async def test_the_card_names_what_is_served() -> None:
    """If its author named nothing, and only in the copy that is served."""
    app = create_app(
        UpperExecutor(), CARD, InMemoryTaskStore(), url='https://agent.example/', rpc_path='/rpc', rest_prefix='/v1'
    )
    async with opened(app) as http:
        card = (await http.get('/.well-known/agent-card.json')).json()
    assert [(each['protocolBinding'], each['url']) for each in card['supportedInterfaces']] == [
        ('JSONRPC', 'https://agent.example/rpc'),
        ('HTTP+JSON', 'https://agent.example/v1'),
    ]
    assert not CARD.supported_interfaces


async def test_a_card_with_interfaces_is_served_as_it_is() -> None:
    """Its author knows better."""
    card = AgentCard()
    card.CopyFrom(CARD)
    card.supported_interfaces.append(
        AgentInterface(url='https://elsewhere.example', protocol_binding=TransportProtocol.GRPC.value)
    )
    async with opened(create_app(UpperExecutor(), card, InMemoryTaskStore())) as http:
        served = (await http.get('/.well-known/agent-card.json')).json()
    assert [each['url'] for each in served['supportedInterfaces']] == ['https://elsewhere.example']


async def test_paths_can_be_moved_and_left_out() -> None:
    """What is not served is not found, and not in the card."""
    app = create_app(UpperExecutor(), CARD, InMemoryTaskStore(), rpc_path='/agent', rest_prefix=None)
    call = {'jsonrpc': '2.0', 'id': 1, 'method': 'GetTask', 'params': {'id': 'unknown'}}
    async with opened(app) as http:
        assert (await http.post('/agent', json=call)).json()['error']['code'] == -32001
        assert (await http.post('/', json=call)).status_code in (404, 405)
        assert (await http.get('/tasks')).status_code == 404
        card = (await http.get('/.well-known/agent-card.json')).json()
    assert [each['protocolBinding'] for each in card['supportedInterfaces']] == ['JSONRPC']


async def test_a_tenants_path_takes_nothing_from_others() -> None:
    """Routes of the caller's own, the card and JSON-RPC come before `/{tenant}/...`."""
    own = [Route('/health', lambda _: PlainTextResponse('well'))]
    app = create_app(UpperExecutor(), CARD, InMemoryTaskStore(), rpc_path='/a/b', routes=own)
    async with opened(app) as http:
        assert (await http.get('/health')).text == 'well'
        assert (await http.get('/.well-known/agent-card.json')).status_code == 200
        assert (await http.get('/acme/tasks')).json()['tasks'] == []
        assert 'error' in (await http.post('/a/b', json={})).json()


@pytest.mark.parametrize('paths', [{'rpc_path': 'rpc'}, {'rest_prefix': 'v1'}, {'rest_prefix': '/v1/'}], ids=json.dumps)
def test_a_path_that_cannot_work_is_refused(paths: dict[str, Any]) -> None:
    """Before anything is served."""
    with pytest.raises(SettingsError, match=next(iter(paths))):
        create_app(UpperExecutor(), CARD, InMemoryTaskStore(), **paths)


@pytest.mark.parametrize(
    ('executor', 'card', 'told'),
    [(UpperExecutor, AgentCard(name='x'), 'UpperExecutor'), (UpperExecutor(), {'name': 'x'}, 'agent_card')],
)
def test_what_is_no_agent_or_no_card_is_refused(executor: Any, card: Any, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        create_app(executor, card, 'memory')


def test_a_database_that_cannot_be_is_refused() -> None:
    """With one line that names it."""
    with pytest.raises(SettingsError, match='nosuchdb') as caught:
        create_app(UpperExecutor(), CARD, 'nosuchdb://here')
    assert '\n' not in str(caught.value)


def test_connections_send_what_is_written_at_once() -> None:
    """Or every second answer on a connection waits for 40 ms."""
    with listen('127.0.0.1', 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
