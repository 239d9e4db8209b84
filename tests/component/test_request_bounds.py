"""What is larger than the server takes is refused on every binding, as the client's fault, before anything is done."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import RequestContext
from a2a.types import a2a_pb2_grpc
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest, Task
from google.protobuf import json_format
from starlette.applications import Starlette

from a2a_scribe import Settings, create_app
from a2a_scribe.protocol.states import COMPLETED, INPUT_REQUIRED
from a2a_scribe.server import serve_grpc
from a2a_scribe.testing.agents import ScriptedAgent, Step, emit, status, wait
from tests.component.kit import DEADLINE, new_card

pytestmark = pytest.mark.anyio

VALUES = 1_000
METHODS = ('SendMessage', 'SendStreamingMessage')
PATHS = {'SendMessage': '/message:send', 'SendStreamingMessage': '/message:stream'}


def request_of(*parts: Part) -> SendMessageRequest:
    return SendMessageRequest(message=Message(message_id='m', role=Role.ROLE_USER, parts=parts))


@asynccontextmanager
async def serving(settings: Settings, *script: Step) -> AsyncIterator[tuple[Starlette, httpx.AsyncClient]]:
    """An app, and a client of it; an agent without a script ends its task at once."""
    agent = ScriptedAgent(script or [emit(status(COMPLETED))])
    app = create_app(agent, new_card(), 'memory', settings=settings)
    async with (
        asyncio.timeout(DEADLINE),
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url='http://agent.test', headers={'A2A-Version': '1.0'}
        ) as http,
    ):
        yield app, http
        agent.open_all()


async def tasks(http: httpx.AsyncClient) -> int:
    return int((await http.get('/tasks')).json()['totalSize'])


Ask = Callable[[httpx.AsyncClient, str, SendMessageRequest], Any]


async def over_rest(http: httpx.AsyncClient, method: str, request: SendMessageRequest) -> tuple[int, dict[str, Any]]:
    response = await http.post(PATHS[method], json=json_format.MessageToDict(request))
    return response.status_code, response.json().get('error', {}) if response.status_code != 200 else {}


async def over_rpc(http: httpx.AsyncClient, method: str, request: SendMessageRequest) -> tuple[int, dict[str, Any]]:
    body = {'jsonrpc': '2.0', 'id': 7, 'method': method, 'params': json_format.MessageToDict(request)}
    response = await http.post('/', json=body)
    return response.status_code, response.json()['error'] if response.status_code != 200 else {}


HTTP = pytest.mark.parametrize('ask', [over_rest, over_rpc])
STREAMS_TOO = pytest.mark.parametrize('method', METHODS)


async def over_grpc(app: Starlette, method: str, request: SendMessageRequest) -> grpc.aio.AioRpcError | None:
    """Returns the error, if there is one."""
    async with serve_grpc(app) as port, grpc.aio.insecure_channel(f'127.0.0.1:{port}') as channel:
        stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
        call = getattr(stub, method)(request, metadata=[('a2a-version', '1.0')])
        try:
            await (call if method == 'SendMessage' else call.read())
        except grpc.aio.AioRpcError as error:
            return error
    return None


MANY_PARTS = request_of(*[Part(text='')] * 2 * VALUES)
LONG_TEXT = request_of(Part(text=',[{":"}]\\' * 10 * VALUES))


@HTTP
@STREAMS_TOO
async def test_too_many_values_are_refused_over_http(ask: Ask, method: str) -> None:
    async with serving(Settings(request_values=VALUES)) as (_, http):
        code, error = await ask(http, method, MANY_PARTS)
        assert (code, error['message']) == (413, f'The request has more than {VALUES} values (request_values)')
        assert await tasks(http) == 0
        assert (await ask(http, method, LONG_TEXT))[0] == 200


@STREAMS_TOO
async def test_too_many_values_are_refused_over_grpc(method: str) -> None:
    async with serving(Settings(request_values=VALUES)) as (app, http):
        error = await over_grpc(app, method, MANY_PARTS)
        assert error is not None
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert 'request_values' in (error.details() or '')
        assert await tasks(http) == 0
        assert await over_grpc(app, method, LONG_TEXT) is None


async def test_a_body_is_not_read_as_json_before_its_values_are_counted() -> None:
    async with serving(Settings(request_values=VALUES)) as (_, http):
        for path in ('/', '/message:send'):
            response = await http.post(path, content=b'[' + b'1,' * VALUES)
            assert response.status_code == 413
        rpc = await http.post('/', content=b'[' * 2 * VALUES)
        assert (rpc.status_code, rpc.json()['id'], rpc.json()['error']['code']) == (413, None, -32600)


# Bytes of a message


def new_task(context: RequestContext) -> Task:
    assert context.message is not None
    return new_task_from_user_message(context.message)


BYTES = 10_000
ROOM = 2 * BYTES - request_of(Part(raw=b'x' * BYTES)).message.ByteSize()
LARGEST, TOO_LARGE = (request_of(Part(raw=b'x' * size)) for size in (ROOM, ROOM + 1))


def test_the_largest_message_is_as_large_as_it_may_be() -> None:
    assert (LARGEST.message.ByteSize(), TOO_LARGE.message.ByteSize()) == (BYTES, BYTES + 1)


@HTTP
@STREAMS_TOO
async def test_a_message_that_is_too_large_is_refused_over_http(ask: Ask, method: str) -> None:
    async with serving(Settings(event_bytes=BYTES)) as (_, http):
        code, error = await ask(http, method, TOO_LARGE)
        assert (code, error['message']) == (413, f'message has {BYTES + 1} bytes, the limit is {BYTES} (event_bytes)')
        (violations,) = [each['fieldViolations'] for each in error.get('details', error.get('data'))[1:]]
        assert [each['field'] for each in violations] == ['message']
        assert await tasks(http) == 0


@STREAMS_TOO
async def test_a_message_that_is_too_large_is_refused_over_grpc(method: str) -> None:
    async with serving(Settings(event_bytes=BYTES)) as (app, http):
        error = await over_grpc(app, method, TOO_LARGE)
        assert error is not None
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert 'event_bytes' in (error.details() or '')
        assert await tasks(http) == 0


async def test_a_follow_up_that_is_too_large_is_refused_too() -> None:
    async with serving(Settings(event_bytes=BYTES), emit(status(INPUT_REQUIRED))) as (_, http):
        assert (await over_rpc(http, 'SendMessage', LARGEST))[0] == 200
        (task,) = (await http.get('/tasks')).json()['tasks']
        follow_up = request_of(Part(raw=b'x' * BYTES))
        follow_up.message.task_id = task['id']
        assert (await over_rpc(http, 'SendMessage', follow_up))[0] == 413
        (task,) = (await http.get('/tasks')).json()['tasks']
        assert len(task['history']) == 1


@pytest.mark.parametrize('first', [emit(status(COMPLETED)), emit(new_task)], ids=['status', 'task'])
async def test_the_largest_message_is_answered(first: Step) -> None:
    async with serving(Settings(event_bytes=BYTES), first, emit(status(COMPLETED))) as (_, http):
        assert (await over_rest(http, 'SendMessage', LARGEST))[0] == 200
        (task,) = (await http.get('/tasks')).json()['tasks']
        assert (task['status']['state'], len(task['history'])) == ('TASK_STATE_COMPLETED', 1)


async def test_the_largest_message_makes_a_task_for_an_agent_that_is_silent() -> None:
    async with serving(Settings(event_bytes=BYTES, create_task_after=0.01), wait('gate')) as (_, http):
        body = json_format.MessageToDict(LARGEST) | {'configuration': {'returnImmediately': True}}
        task = (await http.post('/message:send', json=body)).json()['task']
        assert (task['status']['state'], len(task['history'])) == ('TASK_STATE_SUBMITTED', 1)
