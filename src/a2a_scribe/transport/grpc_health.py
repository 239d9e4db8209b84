"""gRPC's own health service (grpc.health.v1), which says what `/readyz` says.

gRPC is an extra of the package, so its modules are imported only when a server is made.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import suppress
from typing import Any, Final

from a2a_scribe.transport.grpc_guests import Guests
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

    def handlers(self, grpc: Any, guests: Guests) -> Any:
        """Returns what a server of the module `grpc` is given: everybody may ask."""
        request, lists = self._messages.HealthCheckRequest, self._messages.HealthListRequest
        methods = {
            'Check': grpc.stream_unary_rpc_method_handler(guests.once(self.Check, request), None, _to_bytes),
            'List': grpc.stream_unary_rpc_method_handler(guests.once(self.List, lists), None, _to_bytes),
            'Watch': grpc.stream_stream_rpc_method_handler(guests.several(self.Watch, request), None, _to_bytes),
        }
        return grpc.method_handlers_generic_handler(self.name, methods)

    @property
    def name(self) -> str:
        """What the service is called."""
        return str(self._messages.DESCRIPTOR.services_by_name['Health'].full_name)

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

    async def Watch(self, request: Any, context: Any) -> AsyncGenerator[Any, None]:  # noqa: N802 - gRPC's name
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


def _to_bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
