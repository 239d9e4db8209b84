"""WebSockets, which A2A does not have: each handshake is refused, whatever its path."""

from collections.abc import Callable

import orjson
import pytest
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.types import ASGIApp, Message, Scope
from starlette.websockets import WebSocket

from a2a_scribe import (
    DefaultRequestHandler,
    InMemoryTaskStore,
    create_agent_card_routes,
    create_app,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a_scribe.testing.agents import ScriptedAgent
from tests.component.kit import new_card

pytestmark = pytest.mark.anyio

PATHS = (
    '/',
    '/rpc',
    '/rpc/',
    '/rest/tasks',
    '/tasks',
    '/acme/tasks/1',
    '/.well-known/agent-card.json',
    '/nope',
    '/a/b/c',
)


async def own(socket: WebSocket) -> None:
    await socket.accept()
    await socket.close()


def handler() -> DefaultRequestHandler:
    return DefaultRequestHandler(ScriptedAgent(), InMemoryTaskStore(), new_card())


APPS: dict[str, Callable[[], ASGIApp]] = {
    'app': lambda: create_app(ScriptedAgent(), new_card(), 'memory'),
    'app without HTTP+JSON': lambda: create_app(ScriptedAgent(), new_card(), 'memory', rest_prefix=None),
    'app below a prefix': lambda: create_app(
        ScriptedAgent(), new_card(), 'memory', rpc_path='/rpc', rest_prefix='/rest'
    ),
    'routes of JSON-RPC': lambda: Starlette(routes=create_jsonrpc_routes(handler(), '/rpc')),
    'routes of HTTP+JSON': lambda: Starlette(routes=create_rest_routes(handler())),
    'routes of HTTP+JSON below a prefix': lambda: Starlette(routes=create_rest_routes(handler(), path_prefix='/rest')),
    'routes of the card': lambda: Starlette(routes=create_agent_card_routes(new_card())),
}
OURS = tuple(name for name in APPS if name.startswith('app'))


async def shake_hands(app: ASGIApp, path: str, *, gone: bool = False, can_answer: bool = False) -> list[Message]:
    """Returns what an app says to a handshake."""
    scope: Scope = {
        'type': 'websocket',
        'asgi': {'version': '3.0'},
        'path': path,
        'raw_path': path.encode(),
        'root_path': '',
        'query_string': b'',
        'headers': [(b'upgrade', b'websocket'), (b'a2a-version', b'1.0')],
        'subprotocols': [],
    }
    if can_answer:
        scope['extensions'] = {'websocket.http.response': {}}
    received, sent = [{'type': 'websocket.connect'}], []

    async def receive() -> Message:
        return received.pop()

    async def send(message: Message) -> None:
        if gone:
            raise OSError
        sent.append(message)

    await app(scope, receive, send)
    return sent


@pytest.mark.parametrize('name', APPS)
async def test_a_handshake_is_refused(name: str) -> None:
    app = APPS[name]()
    for path in PATHS:
        (message,) = await shake_hands(app, path)
        assert message['type'] == 'websocket.close', path


@pytest.mark.parametrize('name', OURS)
async def test_a_handshake_is_answered_where_the_server_can_do_that(name: str) -> None:
    app = APPS[name]()
    for path in PATHS:
        start, body = await shake_hands(app, path, can_answer=True)
        assert (start['type'], start['status']) == ('websocket.http.response.start', 404), path
        assert body['type'] == 'websocket.http.response.body'
        assert orjson.loads(body['body'])['error']['status'] == 'UNIMPLEMENTED'


@pytest.mark.parametrize('can_answer', [False, True])
async def test_a_client_that_has_gone_is_no_error(can_answer: bool) -> None:
    for name in OURS:
        assert await shake_hands(APPS[name](), '/nope', gone=True, can_answer=can_answer) == []


async def test_routes_of_ones_own_may_have_them() -> None:
    app = create_app(ScriptedAgent(), new_card(), 'memory', routes=[WebSocketRoute('/own', own)])
    assert [message['type'] for message in await shake_hands(app, '/own')] == ['websocket.accept', 'websocket.close']
