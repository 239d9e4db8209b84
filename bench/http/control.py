"""What the harness asks of a server beside the protocol, in front of every system alike."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from bench.http.spec import RELEASE, SETTINGS


async def no_settings() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Served:
    """An app, and what the harness may ask of it: to let waiting tasks go on, and how durable its database is."""

    app: ASGIApp
    release: Callable[[], None] = lambda: None
    settings: Callable[[], Awaitable[dict[str, str]]] = no_settings


class Control:
    """Passes on what is not for the harness."""

    def __init__(self, served: Served) -> None:
        self._app = served.app
        self._served = served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get('path')
        if path == RELEASE:
            self._served.release()
            await _answer(send, {})
        elif path == SETTINGS:
            await _answer(send, await self._served.settings())
        else:
            await self._app(scope, receive, send)


async def _answer(send: Send, value: dict[str, str]) -> None:
    body = json.dumps(value).encode()
    headers = [(b'content-type', b'application/json'), (b'content-length', str(len(body)).encode())]
    await send({'type': 'http.response.start', 'status': 200, 'headers': headers})
    await send({'type': 'http.response.body', 'body': body})
