"""Connections as an ASGI server hands them to the app: they can be silent, slow, broken or gone."""

import asyncio
from typing import Any

import orjson
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message

from a2a_scribe.transport.calls import Wire
from a2a_scribe.transport.jsonrpc import JsonRpcEndpoint
from a2a_scribe.transport.rest import RestApp
from tests.component.kit import Site, until

SENT: dict[str, Any] = {'message': {'messageId': 'm', 'role': 'ROLE_USER', 'parts': [{'text': 'go'}]}}


class Connection:
    """One request over one connection, which the test can break."""

    def __init__(
        self, app: ASGIApp, path: str, body: object, *, method: str = 'POST', whole: bool = True, **headers: str
    ) -> None:
        self.sent: list[Message] = []
        self.asked = 0
        """How often the app has asked for a message."""
        self.broken: type[OSError] | None = None
        self.room = asyncio.Event()
        self.room.set()
        self._gone = asyncio.Event()
        self._requests = [{'type': 'http.request', 'body': orjson.dumps(body), 'more_body': not whole}]
        named = {'a2a-version': '1.0', **{name.replace('_', '-'): value for name, value in headers.items()}}
        scope = {
            'type': 'http',
            'method': method,
            'path': path,
            'raw_path': path.encode(),
            'root_path': '',
            'query_string': b'',
            'headers': [(name.encode(), value.encode()) for name, value in named.items()],
        }
        self.task = asyncio.create_task(self._run(app, scope))

    async def _run(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        await app(scope, self._receive, self._send)

    async def _receive(self) -> Message:
        self.asked += 1
        if self._requests:
            return self._requests.pop()
        await self._gone.wait()
        return {'type': 'http.disconnect'}

    async def _send(self, message: Message) -> None:
        await self.room.wait()
        if self.broken is not None:
            raise self.broken
        self.sent.append(message)

    def go_away(self) -> None:
        self._gone.set()

    @property
    def text(self) -> str:
        return b''.join(message.get('body', b'') for message in self.sent).decode()

    @property
    def status(self) -> int | None:
        return self.sent[0]['status'] if self.sent else None

    @property
    def ids(self) -> list[int]:
        return [int(line[4:]) for line in self.text.splitlines() if line.startswith('id: ')]


class Middleware(BaseHTTPMiddleware):
    """Passes everything on, as those of users do that add a header or look at a token."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        return await call_next(request)


def wire_of(site: Site) -> Wire:
    return Wire(site.handler, site.handler.agent_card, site.engine.settings, clock=site.clock)


def rest(site: Site, path: str, body: object = SENT, *, middleware: int = 0, **given: Any) -> Connection:
    app: ASGIApp = RestApp(wire_of(site))
    for _ in range(middleware):
        app = Middleware(app)
    return Connection(app, path, body, **given)


def rpc(site: Site, method: str, params: object = SENT, *, middleware: int = 0) -> Connection:
    app: ASGIApp = JsonRpcEndpoint(wire_of(site))
    for _ in range(middleware):
        app = Middleware(app)
    return Connection(app, '/', {'jsonrpc': '2.0', 'id': 7, 'method': method, 'params': params})


def observers(site: Site) -> int:
    """How many cursors and commit loops wait, by their timers; lookout, mailbox and webhooks have one each too."""
    return site.clock.timers - 3


async def pass_a_second(site: Site) -> None:
    """Lets a second pass, in which the only observer looks for its client and waits again, as the commit loop does."""
    await site.advance(1.0)
    await until(lambda: observers(site) == 2)
