"""What clients see of a server that has too much to do, on the three bindings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.types import a2a_pb2_grpc
from google.rpc import error_details_pb2, status_pb2
from starlette.applications import Starlette

from a2a_scribe import Settings, create_app, serve_grpc
from a2a_scribe.protocol.states import COMPLETED, WORKING
from a2a_scribe.testing.agents import ScriptedAgent, emit, status, task, wait
from tests.component.kit import new_card, new_context, new_request, until

pytestmark = pytest.mark.anyio

SENT: dict[str, Any] = {'message': {'messageId': 'm', 'role': 'ROLE_USER', 'parts': [{'text': 'go'}]}}
ERROR_INFO = {
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    'reason': 'INTERNAL_ERROR',
    'domain': 'a2a-protocol.org',
    'metadata': {'retryable': 'true'},
}
RETRY_INFO = {'@type': 'type.googleapis.com/google.rpc.RetryInfo', 'retryDelay': '2s'}
TEXT = 'The service has too much to do; try again later.'
AT_ONCE = 4_000
JSON = {'content-type': 'application/json', 'a2a-version': '1.0'}


@asynccontextmanager
async def full_app() -> AsyncIterator[Starlette]:
    """Serves an agent that runs one turn, has another in the queue, and room for no more."""
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(status(COMPLETED))])
    settings = Settings(max_running_turns=1, max_waiting_turns=1)
    app = create_app(agent, new_card(push_notifications=False), 'memory', settings=settings)
    async with app.router.lifespan_context(app):
        handler = app.state.handler
        streams = [handler.stream_message(new_request(), new_context()) for _ in range(2)]
        for stream in streams:
            assert await anext(stream)
        await until(lambda: (handler.engine.running_turns, handler.engine.waiting_turns) == (1, 1))
        yield app
        agent.open('gate')
        for stream in streams:
            assert [batch async for batch in stream]


@asynccontextmanager
async def full_client() -> AsyncIterator[httpx.AsyncClient]:
    async with (
        full_app() as app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url='http://agent', headers=JSON) as client,
    ):
        yield client


@pytest.mark.parametrize('path', ['/message:send', '/message:stream'])
async def test_over_http_json(path: str) -> None:
    async with full_client() as client:
        answer = await client.post(path, json=SENT)
        assert (answer.status_code, answer.headers['retry-after']) == (503, '2')
        error = answer.json()['error']
        assert (error['code'], error['status'], error['message']) == (503, 'RESOURCE_EXHAUSTED', TEXT)
        assert error['details'] == [ERROR_INFO, RETRY_INFO]


@pytest.mark.parametrize('method', ['SendMessage', 'SendStreamingMessage'])
async def test_over_json_rpc(method: str) -> None:
    async with full_client() as client:
        answer = await client.post('/', json={'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': SENT})
        assert (answer.status_code, answer.headers['retry-after']) == (200, '2')
        assert answer.headers['content-type'] == 'application/json'
        expected = {'code': -32603, 'message': TEXT, 'data': [ERROR_INFO, RETRY_INFO]}
        assert answer.json() == {'jsonrpc': '2.0', 'id': 1, 'error': expected}


@pytest.mark.parametrize('operation', ['SendMessage', 'SendStreamingMessage'])
async def test_over_grpc(operation: str) -> None:
    async with full_app() as app, serve_grpc(app) as port:
        async with grpc.aio.insecure_channel(f'127.0.0.1:{port}') as channel:
            stub = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
            call = getattr(stub, operation)(new_request(), metadata=[('a2a-version', '1.0')])
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await (call if operation == 'SendMessage' else call.read())
        error = caught.value
        assert (error.code(), error.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, TEXT)
        details = status_pb2.Status.FromString(dict(error.trailing_metadata() or ())['grpc-status-details-bin'])
        retry = error_details_pb2.RetryInfo()
        assert details.details[1].Unpack(retry)
        assert retry.retry_delay.seconds == 2


async def test_grpc_drops_no_call_by_itself() -> None:
    """Every call that comes before anybody has had the time to look is answered, with a reason."""
    async with full_app() as app, serve_grpc(app) as port:
        async with grpc.aio.insecure_channel(f'127.0.0.1:{port}') as channel:
            stub = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
            calls = [stub.SendMessage(new_request(), metadata=[('a2a-version', '1.0')]) for _ in range(AT_ONCE)]
            codes = {await call.code() for call in calls}
        assert codes == {grpc.StatusCode.RESOURCE_EXHAUSTED}


async def test_what_needs_no_room_is_answered() -> None:
    async with full_client() as client:
        found = (await client.get('/tasks')).json()
        assert len(found['tasks']) == 0, 'they belong to another owner'
        assert (await client.get('/.well-known/agent-card.json')).status_code == 200
