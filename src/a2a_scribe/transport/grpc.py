"""Serving the handler over gRPC, in the event loop that serves HTTP.

Called by `serve`. gRPC is an extra of the package, so its modules are imported only when a port is asked for.
"""

import importlib.util

from a2a.server.request_handlers import GrpcHandler, RequestHandler

from a2a_scribe.errors import SettingsError
from a2a_scribe.transport.http import address, listen

# Without this two servers share one port, and each gets a part of the calls.
OPTIONS = (('grpc.so_reuseport', 0),)


class GrpcServer:
    """A gRPC server that knows its port before it knows its handler: the handler's card names the port."""

    def __init__(self, host: str, port: int) -> None:
        """Binds the port; has to be made inside the running loop.

        Raises:
            SettingsError: The port is taken, or gRPC is not installed.
        """
        if importlib.util.find_spec('grpc') is None:
            raise SettingsError("gRPC is not installed: pip install 'a2a-scribe[grpc]'")
        from grpc import aio

        # Asked for first with a socket of our own: where gRPC fails to bind, it writes lines of its own to stderr.
        listen(host, port).close()
        self._server = aio.server(options=OPTIONS)
        try:
            self.port = self._server.add_insecure_port(address(host or '::', port))
        except RuntimeError as error:
            raise SettingsError(f'cannot listen on {address(host, port)} for gRPC') from error

    async def start(self, handler: RequestHandler) -> None:
        """Begins to answer calls."""
        from a2a.types import a2a_pb2_grpc

        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), self._server)  # type: ignore[no-untyped-call]
        await self._server.start()

    async def stop(self, drain: float) -> None:
        """Takes no more calls and lets the running ones end for `drain` seconds."""
        await self._server.stop(drain)
