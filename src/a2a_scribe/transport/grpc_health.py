"""gRPC's own health service (grpc.health.v1), which says what `/readyz` says.

gRPC is an extra of the package, so its modules are imported only when a server is made.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from typing import Any, Final

from a2a_scribe.transport.health import Health

EVERY: Final = 1.0
"""Seconds between two looks for those who watch."""


class HealthService:
    """The service, which knows the names of the others."""

    def __init__(self) -> None:
        """Makes a service that speaks for none yet."""
        import grpc
        from grpc_health.v1 import health_pb2

        self._services: tuple[str, ...] = ('',)
        self._codes: Any = grpc.StatusCode
        self._messages: Any = health_pb2
        self._health: Health | None = None
        self._left = asyncio.Event()

    def speak_for(self, services: Collection[str], health: Health) -> None:
        """Takes the names of the services that it speaks for, and who knows how the process is.

        The empty name is the server as a whole; until then it is not serving.
        """
        self._services = ('', *services)
        self._health = health

    def leave(self) -> None:
        """Says that it goes, to those who watch at once."""
        self._left.set()

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        """Answers once."""
        if request.service not in self._services:
            await context.abort(self._codes.NOT_FOUND, 'there is no such service')
        return self._answer(await self._status())

    async def List(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        """Answers for all services."""
        answer = self._answer(await self._status())
        return self._messages.HealthListResponse(statuses=dict.fromkeys(self._services, answer))

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - gRPC's name
        """Answers now, and whenever it is not as before."""
        statuses = self._messages.HealthCheckResponse
        if request.service not in self._services:
            yield self._answer(statuses.SERVICE_UNKNOWN)
            await self._left.wait()
            return
        told = None
        while True:
            status = await self._status()
            if status != told:
                yield self._answer(status)
                told = status
            if self._left.is_set():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY):
                    await self._left.wait()

    async def _status(self) -> int:
        statuses = self._messages.HealthCheckResponse
        if self._health is None or self._left.is_set() or await self._health.find_trouble() is not None:
            return int(statuses.NOT_SERVING)
        return int(statuses.SERVING)

    def _answer(self, status: int) -> Any:
        return self._messages.HealthCheckResponse(status=status)
