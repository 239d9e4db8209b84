"""A gRPC server in the event loop that serves HTTP: the service itself, reflection and health.

gRPC is an extra of the package, so its modules are imported only when a port is asked for.
"""

import importlib.util
from typing import Final

from a2a_scribe.errors import SettingsError
from a2a_scribe.settings import Settings
from a2a_scribe.transport.calls import Wire
from a2a_scribe.transport.grpc import SERVICE, ContextBuilder, GrpcBinding
from a2a_scribe.transport.grpc_guests import Guests
from a2a_scribe.transport.grpc_health import HealthService
from a2a_scribe.transport.health import Health
from a2a_scribe.transport.listening import address, listen
from a2a_scribe.transport.old.operations import CALLS
from a2a_scribe.transport.old.operations import SERVICE as OLD_SERVICE

METADATA_BYTES: Final = 64_000
"""Of one call; HTTP servers take about as much in the head of a request."""
IDLE: Final = 600.0
"""Seconds after which a connection without calls is closed."""
PING_EVERY, PING_PATIENCE = 60.0, 20.0
"""Seconds of silence after which a client is asked whether it is there, and within which it has to answer."""
CLIENT_PING_EVERY: Final = 10.0
"""Seconds between two pings of a client that are no abuse yet; without calls as well."""
WAITING_CALLS: Final = 1_000_000
"""Calls that have come and that nobody has looked at yet: more than there will be."""


class GrpcServer:
    """A gRPC server that knows its port before it knows its handler: the handler's card may name the port."""

    def __init__(self, host: str, port: int, settings: Settings) -> None:
        """Binds the port; has to be made inside the running loop.

        Raises:
            SettingsError: The port is taken, or gRPC is not installed.
        """
        for module in ('grpc', 'grpc_reflection', 'grpc_health'):
            if importlib.util.find_spec(module) is None:
                raise SettingsError("gRPC is not installed: pip install 'a2a-scribe[grpc]'")
        import grpc.aio

        # Without the first option two servers share one port, and each gets a part of the calls. Without the next two,
        # gRPC drops calls by chance, and without a reason, when a thousand wait: who may not wait is refused by us.
        options = [
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
        # Asked for first with a socket of our own: where gRPC fails to bind, it writes lines of its own to stderr.
        listen(host, port).close()
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=settings.max_connections)
        self._health = HealthService()
        try:
            self.port = self._server.add_insecure_port(address(host or '::', port))
        except RuntimeError as error:
            raise SettingsError(f'cannot listen on {address(host, port)} for gRPC') from error

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

    async def stop(self, drain: float) -> None:
        """Says that it goes, takes no more calls, and lets the running ones end for `drain` seconds."""
        self._health.leave()
        await self._server.stop(drain)


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
