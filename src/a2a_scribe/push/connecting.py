"""Connections to receivers: to addresses that were screened, never to names.

What is connected to is what was looked at, so a name that leads elsewhere a moment later leads nobody there. The name
is what the certificate is checked against.
"""

import asyncio
import base64
import ssl
from collections.abc import Callable
from typing import Protocol, cast
from urllib.parse import unquote, urlsplit

from a2a_scribe.errors import SettingsError
from a2a_scribe.push.links import HEAD_BYTES, Link
from a2a_scribe.push.resolving import Resolve
from a2a_scribe.push.targets import Target, Targets, is_address

ADDRESSES = 4
"""Addresses of one host that are tried."""
CONNECT_SECONDS = 5.0
"""Seconds for each of them."""

NewLink = Callable[[], Link]


class NoConnectionError(Exception):
    """There is no connection, for a reason that is told without secrets."""

    def __init__(self, reason: str) -> None:
        """Takes the reason."""
        super().__init__(reason)
        self.reason = reason


class Connector(Protocol):
    """Opens connections."""

    async def connect(self, target: Target, new_link: NewLink) -> Link:
        """Returns a link that is open.

        Raises:
            TargetRefusedError: The target is where it may not be.
            NoConnectionError: It cannot be reached.
        """
        ...


class ScreeningConnector:
    """Connects to hosts whose addresses are all allowed, and to these addresses."""

    def __init__(self, targets: Targets, resolve: Resolve, tls: ssl.SSLContext) -> None:
        """Takes what is allowed, who knows the addresses, and which certificates are trusted."""
        self._targets = targets
        self._resolve = resolve
        self._tls = tls

    async def connect(self, target: Target, new_link: NewLink) -> Link:
        """Connects to the first of the host's addresses that answers.

        Raises:
            TargetRefusedError: One of the addresses is not allowed.
            NoConnectionError: None can be reached.
        """
        try:
            addresses = [target.host] if is_address(target.host) else await self._resolve(target.host)
        except OSError:
            addresses = []
        if not addresses:
            raise NoConnectionError('the host has no address that is known')
        self._targets.screen(addresses, target.host)
        failure = NoConnectionError('')
        for address in addresses[:ADDRESSES]:
            try:
                return await self._connect_to(address, target, new_link)
            except (OSError, ValueError) as error:
                failure = _explained(error)
        raise failure

    async def _connect_to(self, address: str, target: Target, new_link: NewLink) -> Link:
        is_secure = target.scheme == 'https'
        async with asyncio.timeout(CONNECT_SECONDS):
            _, link = await asyncio.get_running_loop().create_connection(
                new_link,
                address,
                target.port,
                ssl=self._tls if is_secure else None,
                server_hostname=target.host if is_secure else None,
            )
        return link


class ProxyConnector:
    """Has an HTTP proxy connect to the target's name; where that is, is the proxy's business."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        """Takes the setting `webhook_proxy`. Raises: SettingsError."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or (443 if parts.scheme == 'https' else 80)
        except ValueError:
            parts, host, port = urlsplit(''), None, 0
        if host is None or parts.scheme not in ('http', 'https'):
            raise SettingsError('webhook_proxy is no http or https URL')
        self._host, self._port = host, port
        self._is_secure = parts.scheme == 'https'
        user = f'{unquote(parts.username or "")}:{unquote(parts.password or "")}'
        self._authorization = '' if user == ':' else f'Proxy-Authorization: Basic {_base64(user)}\r\n'
        self._tls = tls

    async def connect(self, target: Target, new_link: NewLink) -> Link:
        """Connects through the proxy. Raises: NoConnectionError."""
        loop = asyncio.get_running_loop()
        try:
            transport, tunnel = await loop.create_connection(
                Tunnel, self._host, self._port, ssl=self._tls if self._is_secure else None
            )
        except (OSError, ValueError):
            raise NoConnectionError('there is no connection to the proxy') from None
        try:
            where = f'[{target.host}]:{target.port}' if ':' in target.host else f'{target.host}:{target.port}'
            request = f'CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n{self._authorization}\r\n'
            await tunnel.ask(transport, request.encode())
            link = new_link()
            if target.scheme == 'https':
                # A loop that is asked for TLS gives a transport, or says why not; None is for other loops.
                secured = await loop.start_tls(transport, link, self._tls, server_hostname=target.host)
                transport = cast('asyncio.Transport', secured)
            else:
                transport.set_protocol(link)
            link.connection_made(transport)
            return link
        except BaseException as error:
            transport.abort()
            if isinstance(error, OSError | ValueError):
                raise _explained(error) from None
            raise


class Tunnel(asyncio.Protocol):
    """A connection to a proxy, until the proxy has connected it to somebody else."""

    def __init__(self) -> None:
        """Waits for the proxy's answer."""
        self._head = b''
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ask(self, transport: asyncio.Transport, request: bytes) -> None:
        """Asks the proxy to connect. Raises: NoConnectionError."""
        transport.write(request)
        await self._opened

    def data_received(self, data: bytes) -> None:
        """Something of the proxy's answer came; all of it has come before the receiver says anything."""
        self._head += data
        if not self._opened.done() and (self._head.endswith(b'\r\n\r\n') or len(self._head) > HEAD_BYTES):
            status = self._head.split(b' ', 2)[1:2]
            if status == [b'200']:
                self._opened.set_result(None)
            else:
                told = status[0][:3].decode('ascii', 'replace') if status else 'nothing that is HTTP'
                self._opened.set_exception(NoConnectionError(f'the proxy answered {told}'))

    def connection_lost(self, exc: Exception | None) -> None:
        """The proxy has hung up."""
        if not self._opened.done():
            self._opened.set_exception(NoConnectionError('the proxy has hung up'))


def _explained(error: Exception) -> NoConnectionError:
    """Says why there is no connection, in words of ours or of OpenSSL's check of the certificate."""
    match error:
        case ssl.SSLCertVerificationError():
            return NoConnectionError(f'the certificate was not accepted: {error.verify_message}')
        case ssl.SSLError() | ValueError():
            return NoConnectionError('TLS failed')
    return NoConnectionError('there is no connection to the host')


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
