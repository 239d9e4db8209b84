"""A gRPC server in the event loop that serves HTTP: the service itself, reflection and health.

gRPC is an extra of the package, so its modules are imported only when a port is asked for.
"""

import asyncio
import importlib.util
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from a2a_scribe.errors import SettingsError
from a2a_scribe.settings import Settings
from a2a_scribe.transport.anteroom import Anteroom
from a2a_scribe.transport.calls import Wire
from a2a_scribe.transport.grpc import METADATA_BYTES, SERVICE, ContextBuilder, GrpcBinding
from a2a_scribe.transport.grpc_connections import Outside
from a2a_scribe.transport.grpc_gate import Gate
from a2a_scribe.transport.grpc_guests import Guests
from a2a_scribe.transport.grpc_health import HealthService
from a2a_scribe.transport.grpc_peers import LONGEST
from a2a_scribe.transport.health import Health
from a2a_scribe.transport.listening import BACKLOG, address, listen, widened
from a2a_scribe.transport.old.operations import CALLS
from a2a_scribe.transport.old.operations import SERVICE as OLD_SERVICE

IDLE: Final = 600.0
"""Seconds after which a connection without calls is closed."""
PING_EVERY, PING_PATIENCE = 60.0, 20.0
"""Seconds of silence after which a client is asked whether it is there, and within which it has to answer."""
CLIENT_PING_EVERY: Final = 10.0
"""Seconds between two pings of a client that are no abuse yet; without calls as well."""
WAITING_CALLS: Final = 1_000_000
"""Calls that have come and that nobody has looked at yet: more than there will be."""

DOORS: Final = 64
"""Connections that are taken in one round of the loop, of which there are fewer than over HTTP while many come."""
HAS_GATE: Final = sys.platform != 'win32'
"""Whether calls go through a gate; asyncio has no sockets of Unix on Windows, where gRPC listens by itself."""
LONGEST_PATH: Final = 103
"""Bytes that the path of a socket may have, on every system."""
LAST_BYTES: Final = 1.0
"""Seconds that clients have to take what was sent last."""


class GrpcServer:
    """A gRPC server that knows its port before it knows its handler: the handler's card may name the port."""

    def __init__(
        self,
        host: str,
        port: int,
        settings: Settings,
        anteroom: Anteroom | None = None,
        on_crowd: Callable[[], None] = lambda: None,
    ) -> None:
        """Binds the port; has to be made inside the running loop.

        Args:
            host: The address to listen on.
            port: The port; 0 takes a free one.
            settings: What bounds calls and connections.
            anteroom: Bounds the connections in place of one of its own.
            on_crowd: Called when many wait.

        Raises:
            SettingsError: The port is taken, gRPC is not installed, or there is no place for a socket of its own.
        """
        for module in ('grpc', 'grpc_reflection', 'grpc_health'):
            if importlib.util.find_spec(module) is None:
                raise SettingsError("gRPC is not installed: pip install 'a2a-scribe[grpc]'")
        import grpc.aio

        directory = _own_directory() if HAS_GATE else None
        try:
            self._listener = listen(host, port)
        except SettingsError:
            if directory is not None:
                directory.cleanup()
            raise
        self.port: int = self._listener.getsockname()[1]
        self._fronts: list[asyncio.Server] = []
        self._gate: Gate | None = None
        interceptors, place = [], address(host or '::', self.port)
        if directory is None:
            self._listener.close()
        else:
            self._directory = directory
            socket_path = Path(directory.name, 'grpc')
            room = anteroom or Anteroom(settings.max_connections, settings.header_timeout)
            self._gate = Gate(socket_path, room, on_crowd)
            interceptors.append(_telling(grpc.aio.ServerInterceptor, self._gate.handed_over))
            place = f'unix:{socket_path}'
        self._server = grpc.aio.server(
            options=_options(settings), maximum_concurrent_rpcs=settings.max_connections, interceptors=interceptors
        )
        self._health = HealthService()
        try:
            self._server.add_insecure_port(place)
        except RuntimeError as error:
            raise SettingsError(f'cannot listen on {place} for gRPC') from error

    async def start(self, wire: Wire, health: Health, context_builder: ContextBuilder | None = None) -> None:
        """Begins to answer calls."""
        import grpc
        from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

        bindings = {SERVICE: GrpcBinding(wire, context_builder)}
        if wire.serves_old:
            bindings[OLD_SERVICE] = GrpcBinding(wire.for_old(), context_builder, OLD_SERVICE, CALLS)
        guests = Guests(wire.settings, grpc.StatusCode)
        self._health.speak_for(bindings, health)
        self._server.add_generic_rpc_handlers(
            (
                *[binding.handlers(grpc) for binding in bindings.values()],
                self._health.handlers(grpc, guests),
            )
        )
        names = (*bindings, self._health.name, reflection.SERVICE_NAME)
        reflecting = reflection.aio.ReflectionServicer(names)
        reflecting.ServerReflectionInfo = guests.conversation(reflecting.ServerReflectionInfo)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflecting, self._server)
        await self._server.start()
        if self._gate is not None:
            loop, connection = asyncio.get_running_loop(), partial(Outside, self._gate)
            for each in widened(self._listener, DOORS, self._gate.anteroom.most):
                self._fronts.append(await loop.create_server(connection, sock=each, backlog=BACKLOG))

    async def stop(self, drain: float) -> None:
        """Says that it goes, takes no more calls, and lets the running ones end for `drain` seconds."""
        self._health.leave()
        for front in self._fronts:
            front.close()
        if self._gate is None:
            await self._server.stop(drain)
            return
        self._gate.close()
        await self._server.stop(drain)
        await self._gate.closed(LAST_BYTES)
        self._directory.cleanup()


def _options(settings: Settings) -> list[tuple[str, int]]:
    return [
        # Without the first option two servers share one port where gRPC listens by itself, and each gets a part of the
        # calls. Without the next two it drops calls by chance, and without a reason, when a thousand wait: who may not
        # wait is refused by us.
        ('grpc.so_reuseport', 0),
        ('grpc.server.max_pending_requests', WAITING_CALLS),
        ('grpc.server.max_pending_requests_hard_limit', WAITING_CALLS),
        ('grpc.max_receive_message_length', settings.request_bytes),
        ('grpc.max_send_message_length', -1),
        ('grpc.max_metadata_size', METADATA_BYTES),
        ('grpc.server_handshake_timeout_ms', _milliseconds(settings.header_timeout)),
        ('grpc.max_connection_idle_ms', _milliseconds(IDLE)),
        ('grpc.keepalive_time_ms', _milliseconds(PING_EVERY)),
        ('grpc.keepalive_timeout_ms', _milliseconds(PING_PATIENCE)),
        ('grpc.http2.min_ping_interval_without_data_ms', _milliseconds(CLIENT_PING_EVERY)),
        ('grpc.keepalive_permit_without_calls', 1),
    ]


def _telling(interceptor: type, tell: Callable[[], None]) -> Any:
    """Returns an interceptor that tells of each call which gRPC hands over, of known methods and of others."""

    async def intercept_service(_: object, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        tell()
        return await continuation(details)

    return type('Telling', (interceptor,), {'intercept_service': intercept_service})()


def _own_directory() -> 'TemporaryDirectory[str]':
    """Returns a directory that only this process's user can enter."""
    for parent in (None, '/tmp'):
        try:
            directory = TemporaryDirectory(prefix='a2a-', dir=parent)
        except OSError as error:
            raise SettingsError(f'no directory for the socket of gRPC can be made (TMPDIR): {error}') from error
        if len(os.fsencode(directory.name)) + 1 + len(LONGEST) <= LONGEST_PATH:
            return directory
        directory.cleanup()
    raise SettingsError('TMPDIR is too long a path for the socket of gRPC')


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
