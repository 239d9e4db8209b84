"""Carries events to receivers: one POST, to an address that was screened, of which nothing but the answer is kept.

Redirects are answers like others, cookies are not kept, and proxies of the environment are not used. Errors say what
went wrong without URL, headers or body.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterable, Iterable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from urllib.parse import unquote, urlsplit

import httpcore

from a2a_scribe.clock import Clock
from a2a_scribe.errors import SettingsError
from a2a_scribe.push.connecting import PlainBackend, ScreeningBackend, UnknownHostError
from a2a_scribe.push.delivery import Answer, DeliveryFailedError, Outgoing, Poster
from a2a_scribe.push.resolving import Resolve, SystemResolver
from a2a_scribe.push.targets import Target, TargetRefusedError, Targets, targets_of
from a2a_scribe.settings import Settings

ANSWER_BYTES = 64_000
"""Bytes of an answer's body that are read, so that its connection can be used again; a longer one is cut off."""
ANSWER_SECONDS = 1.0
"""Seconds for which they are read."""
IDLE_CONNECTIONS = 100
IDLE_SECONDS = 15.0
"""Connections that are kept for the next call, and for how long."""
MAX_PAUSE = 31_536_000.0
"""Seconds that a Retry-After is taken for at most."""
FAILURES = (
    TargetRefusedError,
    OSError,
    ValueError,
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.ConnectionNotAvailable,
)
"""What goes wrong on the way to an answer; a `TimeoutError` is an `OSError`."""
SENDABLE = re.compile(r'(?![ \t])[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*(?<![ \t])')
"""What a header can hold, in UTF-8: spaces are between other characters."""
OURS = ('host', 'content-length', 'transfer-encoding', 'connection')
"""Headers that belong to the connection."""


def poster_of(settings: Settings, clock: Clock, resolve: Resolve | None = None) -> Poster:
    """Makes the poster of a server; it belongs to the event loop on which it is first used.

    `resolve` stands in for the system's resolver, for tests.

    Raises:
        SettingsError: `webhook_allow`, `webhook_ca_file` or `webhook_proxy` cannot be used.
    """
    targets, tls = targets_of(settings), _tls_of(settings)
    if settings.webhook_proxy is None:
        pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=None,
            max_keepalive_connections=IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=ScreeningBackend(targets, resolve or SystemResolver()),
        )
    else:
        pool = _proxy_of(settings.webhook_proxy, tls)
    return GuardedPoster(pool, targets, clock, settings.webhook_timeout)


class GuardedPoster:
    """The `Poster` of a server."""

    def __init__(self, pool: httpcore.AsyncConnectionPool, targets: Targets, clock: Clock, timeout: float) -> None:
        """Takes connections to screened addresses; `timeout` is in seconds, for a whole call."""
        self._pool = pool
        self._targets = targets
        self._clock = clock
        self._timeout = timeout

    async def post(self, outgoing: Outgoing) -> Answer:
        """Makes one HTTP POST and returns its answer, of whatever status.

        Raises:
            DeliveryFailedError: The target is refused, cannot be reached, or does not answer in time. It is final if
                the URL is refused as it stands, or a header; not if its name leads where it may not: names change.
        """
        try:
            target = self._targets.check(outgoing.url)
        except TargetRefusedError as refused:
            raise DeliveryFailedError(f'the URL {refused.reason}', is_final=True) from None
        request = _request_of(target, outgoing)
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._pool.handle_async_request(request)
        except FAILURES as error:
            # Without what it was caused by: texts of the libraries repeat headers.
            raise self._failure_of(error) from None
        await _let_go(response)
        return Answer(response.status, retry_after_of(response.headers, self._clock.now()))

    async def aclose(self) -> None:
        """Closes its connections."""
        await self._pool.aclose()

    def _failure_of(self, error: Exception) -> DeliveryFailedError:
        match error:
            case TargetRefusedError():
                return DeliveryFailedError(f'the URL {error.reason}')
            case UnknownHostError():
                return DeliveryFailedError('the host has no address that is known')
            case TimeoutError() | httpcore.TimeoutException():
                return DeliveryFailedError(f'no answer within {self._timeout:g} s')
            case httpcore.ConnectError() | httpcore.ProxyError():
                return DeliveryFailedError(_connecting(error))
        return DeliveryFailedError('the connection broke before there was an answer, or the answer was not HTTP')


def retry_after_of(headers: Iterable[tuple[bytes, bytes]], now: int) -> float | None:
    """Returns the seconds of a Retry-After, which has a number of them or a date (RFC 9110, section 10.2.3).

    `now` is in microseconds since the epoch. What cannot be read counts as absent, what is over as 0.
    """
    text = next((value.decode('latin-1').strip() for name, value in headers if name.lower() == b'retry-after'), '')
    if text.isascii() and text.isdigit():
        return min(float(text), MAX_PAUSE)
    try:
        moment = parsedate_to_datetime(text)
        # A date without a zone is in UTC: HTTP has no others.
        pause = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now / 1_000_000
        return min(max(0.0, pause), MAX_PAUSE)
    except (ValueError, OverflowError):
        return None


def _request_of(target: Target, outgoing: Outgoing) -> httpcore.Request:
    return httpcore.Request(
        'POST',
        httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path),
        headers=[
            (b'Host', target.authority.encode()),
            (b'Content-Length', str(len(outgoing.body)).encode()),
            *_encoded(outgoing.headers),
        ],
        content=outgoing.body,
    )


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Returns the headers of a call in UTF-8.

    They are checked here, because a library that refuses one writes it into the log.

    Raises:
        DeliveryFailedError: One of them cannot be sent.
    """
    if not all(SENDABLE.fullmatch(value) for value in headers.values()):
        raise DeliveryFailedError('a header cannot be sent as it is', is_final=True)
    return [(name.encode(), value.encode()) for name, value in headers.items() if name.lower() not in OURS]


async def _let_go(response: httpcore.Response) -> None:
    """Reads what is left of a short answer, and frees its connection; the answer counts, whatever comes of that."""
    read = 0
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            assert isinstance(response.stream, AsyncIterable)
            async for chunk in response.stream:
                read += len(chunk)
                if read > ANSWER_BYTES:
                    break
    except (TimeoutError, httpcore.NetworkError, httpcore.ProtocolError):
        pass
    finally:
        await response.aclose()


def _connecting(error: Exception) -> str:
    """Says why there is no connection, in words of ours or of OpenSSL's check of the certificate."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f'the certificate was not accepted: {cause.verify_message}'
        if isinstance(cause, ssl.SSLError):
            return 'TLS failed'
        cause = cause.__cause__ or cause.__context__
    return 'there is no connection to the host'


def _tls_of(settings: Settings) -> ssl.SSLContext:
    context = httpcore.default_ssl_context()
    if settings.webhook_ca_file is not None:
        try:
            context.load_verify_locations(settings.webhook_ca_file)
        except OSError:
            raise SettingsError(f'webhook_ca_file {settings.webhook_ca_file!r} has no certificates') from None
    return context


def _proxy_of(url: str, tls: ssl.SSLContext) -> httpcore.AsyncConnectionPool:
    """Makes connections through a proxy; the address of the proxy itself is the operator's choice."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ('http', 'https') and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_usable = urlsplit(''), False
    if not is_usable:
        raise SettingsError('webhook_proxy is no http or https URL')
    authentication = (unquote(parts.username or '').encode(), unquote(parts.password or '').encode())
    return httpcore.AsyncHTTPProxy(
        proxy_url=url,
        proxy_auth=authentication if any(authentication) else None,
        ssl_context=tls,
        max_connections=None,
        max_keepalive_connections=IDLE_CONNECTIONS,
        keepalive_expiry=IDLE_SECONDS,
        network_backend=PlainBackend(),
    )
