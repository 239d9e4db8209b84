"""Connections to receivers: to addresses that were screened, never to names.

What is connected to is what was looked at, so a name that leads elsewhere a moment later leads nobody there. The name
is what certificates are checked against, which is the business of the connections' user.
"""

import ssl
from collections.abc import Iterable
from typing import Any

import httpcore

from a2a_scribe.push.resolving import Resolve
from a2a_scribe.push.targets import Targets, is_address

ADDRESSES = 4
"""Addresses of one host that are tried."""
CONNECT_SECONDS = 5.0
"""Seconds for each of them."""


class PlainBackend(httpcore.AsyncNetworkBackend):
    """Connects to any host; a handshake that is given up leaves no connection behind."""

    def __init__(self) -> None:
        """Needs no event loop yet."""
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connects. Raises: ConnectError, ConnectTimeout."""
        return PlainStream(await self._network.connect_tcp(host, port, timeout, local_address, socket_options))

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await self._network.sleep(seconds)


class PlainStream(httpcore.AsyncNetworkStream):
    """A connection before its handshake, which closes it if it is cancelled: `httpcore` would leave it open."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        """Takes an open connection."""
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Reads."""
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Writes."""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Closes."""
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Makes a connection with TLS of it, or closes it."""
        try:
            return await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        """Tells about the socket."""
        return self._stream.get_extra_info(info)


class UnknownHostError(httpcore.ConnectError):
    """A host has no address, or nobody knows it now."""


class ScreeningBackend(PlainBackend):
    """Connects to hosts whose addresses are all allowed, and to these addresses."""

    def __init__(self, targets: Targets, resolve: Resolve) -> None:
        """Takes what is allowed, and who knows the addresses."""
        super().__init__()
        self._targets = targets
        self._resolve = resolve

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connects to the first of the host's addresses that answers.

        Raises:
            TargetRefusedError: One of the addresses is not allowed.
            ConnectError: None can be reached.
        """
        try:
            addresses = [host] if is_address(host) else await self._resolve(host)
        except OSError:
            addresses = []
        if not addresses:
            raise UnknownHostError
        self._targets.screen(addresses, host)
        failure: Exception = httpcore.ConnectError()
        patience = CONNECT_SECONDS if timeout is None else min(timeout, CONNECT_SECONDS)
        for address in addresses[:ADDRESSES]:
            try:
                return await super().connect_tcp(address, port, patience, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure
