"""What is larger than the server takes is refused on every binding, as the client's fault, before anything is done."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.types import a2a_pb2_grpc
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest
from google.protobuf import json_format
from starlette.applications import Starlette

from a2a_scribe import Settings, create_app
from a2a_scribe.protocol.states import COMPLETED
from a2a_scribe.server import serve_grpc
from a2a_scribe.testing.agents import ScriptedAgent, emit, status
from tests.component.kit import DEADLINE, new_card

pytestmark = pytest.mark.anyio

VALUES = 1_000
METHODS = ('SendMessage', 'SendStreamingMessage')
PATHS = {'SendMessage': '/message:send', 'SendStreamingMessage': '/message:stream'}


def request_of(*parts: Part) -> SendMessageRequest:
    return SendMessageRequest(message=Message(message_id='m', role=Role.ROLE_USER, parts=parts))


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[tuple[Starlette, httpx.AsyncClient]]:
    """An app whose agent would end the task at once; nothing of it is to be seen when the test is over."""
    agent = ScriptedAgent(*[[emit(status(COMPLETED))]] * 10)
    app = create_app(agent, new_card(), 'memory', settings=settings)
    async with (
        asyncio.timeout(DEADLINE),
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url='http://agent.test', headers={'A2A-Version': '1.0'}
        ) as http,
    ):
        yield app, http


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
