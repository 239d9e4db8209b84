"""A gRPC server in the event loop that serves HTTP: the service itself, reflection and health.

gRPC is an extra of the package, so its modules are imported only when a port is asked for.
"""

import importlib.util
from typing import Any

from a2a_scribe.errors import SettingsError
from a2a_scribe.transport.calls import Wire
from a2a_scribe.transport.grpc import SERVICE, ContextBuilder, GrpcBinding
from a2a_scribe.transport.listening import address, listen
from a2a_scribe.transport.old.operations import CALLS
from a2a_scribe.transport.old.operations import SERVICE as OLD_SERVICE


class GrpcServer:
    """A gRPC server that knows its port before it knows its handler: the handler's card may name the port."""

    def __init__(self, host: str, port: int, request_bytes: int) -> None:
        """Binds the port; has to be made inside the running loop.

        Raises:
            SettingsError: The port is taken, or gRPC is not installed.
        """
        for module in ('grpc', 'grpc_reflection', 'grpc_health'):
            if importlib.util.find_spec(module) is None:
                raise SettingsError("gRPC is not installed: pip install 'a2a-scribe[grpc]'")
        import grpc.aio
        from grpc_health.v1.health import aio as health

        # Without the first option two servers share one port, and each gets a part of the calls.
        options = [
            ('grpc.so_reuseport', 0),
            ('grpc.max_receive_message_length', request_bytes),
            ('grpc.max_send_message_length', -1),
        ]
        # Asked for first with a socket of our own: where gRPC fails to bind, it writes lines of its own to stderr.
        listen(host, port).close()
        self._server = grpc.aio.server(options=options)
        self._health: Any = health.HealthServicer()
        try:
            self.port = self._server.add_insecure_port(address(host or '::', port))
        except RuntimeError as error:
            raise SettingsError(f'cannot listen on {address(host, port)} for gRPC') from error

    async def start(self, wire: Wire, context_builder: ContextBuilder | None = None) -> None:
        """Begins to answer calls."""
        import grpc
        from grpc_health.v1 import health_pb2, health_pb2_grpc
        from grpc_reflection.v1alpha import reflection

        bindings = {SERVICE: GrpcBinding(wire, context_builder)}
        if wire.serves_old:
            bindings[OLD_SERVICE] = GrpcBinding(wire.for_old(), context_builder, OLD_SERVICE, CALLS)
        self._server.add_generic_rpc_handlers(tuple(binding.handlers(grpc) for binding in bindings.values()))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        health_name = health_pb2.DESCRIPTOR.services_by_name['Health'].full_name
        reflection.enable_server_reflection((*bindings, health_name, reflection.SERVICE_NAME), self._server)
        for service in ('', *bindings):
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()

    async def stop(self, drain: float) -> None:
        """Says that it goes, takes no more calls, and lets the running ones end for `drain` seconds."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(drain)
