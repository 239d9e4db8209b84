"""Whether the process lives, and whether it can work: for the probes of whoever runs it.

Alive is a process whose event loop answers. Ready is one that takes messages and whose journal takes transactions. Many
probes cost no more than one: what was found is told for a second, and those who ask meanwhile wait for the same answer.
"""

import asyncio
import math
from contextlib import suppress
from typing import Final

import orjson
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from a2a_scribe.clock import Clock, SystemClock
from a2a_scribe.engine.engine import Engine, Trouble
from a2a_scribe.handler.handler import DefaultRequestHandler
from a2a_scribe.transport.asgi import JSON, HttpCall, NotAllowedError
from a2a_scribe.transport.rest import refuse

ALIVE_PATH: Final = '/healthz'
READY_PATH: Final = '/readyz'
KEPT: Final = 1.0
"""Seconds for which an answer is told again."""
PATIENCE: Final = 2.0
"""Seconds within which a transaction has to go through: less than probes wait by themselves."""


class Health:
    """What one process finds out about itself."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        """Takes whom to ask."""
        self.is_leaving = False
        """Whether the process is about to close, and still serves."""
        self._engine = engine
        self._clock = clock
        self._found: Trouble | None = None
        self._found_at = -math.inf
        self._asking: asyncio.Event | None = None

    async def find_trouble(self) -> Trouble | None:
        """Returns what keeps the process from working, `None` if nothing does."""
        while not self._is_known():
            if self._asking is None:
                await self._ask()
            else:
                await self._asking.wait()
        return 'draining' if self._is_draining() else self._found

    async def announce_leave(self, seconds: float | None) -> None:
        """Says from now on that the process is about to close, and waits until those who ask have had time to."""
        self.is_leaving = True
        if seconds is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.Event().wait()

    def _is_draining(self) -> bool:
        return self.is_leaving or self._engine.is_closing

    def _is_known(self) -> bool:
        return self._is_draining() or self._clock.monotonic() - self._found_at < KEPT

    async def _ask(self) -> None:
        self._asking = asyncio.Event()
        try:
            self._found = await self._engine.find_trouble(PATIENCE)
            self._found_at = self._clock.monotonic()
        finally:
            self._asking.set()
            self._asking = None


class AliveEndpoint:
    """Answers as long as anything does, as an ASGI app."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request."""
        await _answer(HttpCall(scope, receive, send), None)


class ReadyEndpoint:
    """Answers with 503, and with what is the matter, while the process cannot work; as an ASGI app."""

    def __init__(self, health: Health) -> None:
        """Takes who knows."""
        self._health = health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request."""
        await _answer(HttpCall(scope, receive, send), await self._health.find_trouble())


async def _answer(call: HttpCall, trouble: Trouble | None) -> None:
    if call.method not in ('GET', 'HEAD'):
        await refuse(call, NotAllowedError(['GET', 'HEAD']))
    elif trouble is None:
        await call.answer(200, orjson.dumps({'status': 'ok'}), JSON)
    else:
        body = orjson.dumps({'status': 'unavailable', 'failed': trouble})
        await call.answer(503, body, JSON, [('retry-after', '1')])


def create_health_routes(request_handler: DefaultRequestHandler) -> list[BaseRoute]:
    """Returns the routes of the probes for an app of one's own; they have to come before those of HTTP+JSON."""
    return health_routes(Health(request_handler.engine, SystemClock()))


def health_routes(health: Health) -> list[BaseRoute]:
    """Returns the routes of both probes."""
    return [Route(ALIVE_PATH, AliveEndpoint()), Route(READY_PATH, ReadyEndpoint(health))]
