"""Carries events to receivers: one POST, to an address that was screened, of which nothing but the answer is kept.

Redirects are answers like others, cookies are not kept, and proxies of the environment are not used. Errors say what
went wrong without URL, headers or body.
"""

import asyncio
import re
import ssl
from datetime import UTC
from email.utils import parsedate_to_datetime

import h11
import httpx

from a2a_scribe.clock import Clock
from a2a_scribe.errors import SettingsError
from a2a_scribe.push.connecting import Connector, NoConnectionError, ProxyConnector, ScreeningConnector
from a2a_scribe.push.delivery import Answer, DeliveryFailedError, Outgoing, Poster
from a2a_scribe.push.links import BrokenLinkError, Head, Headers, IdleLinks, Link
from a2a_scribe.push.resolving import Resolve, SystemResolver
from a2a_scribe.push.targets import Target, TargetRefusedError, Targets, targets_of
from a2a_scribe.settings import Settings

IDLE_LINKS = 250
"""Connections that are kept for a next call."""
MAX_PAUSE = 31_536_000.0
"""Seconds that a Retry-After is taken for at most."""
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
    connector: Connector
    if settings.webhook_proxy is None:
        connector = ScreeningConnector(targets, resolve or SystemResolver(), tls)
    else:
        connector = ProxyConnector(settings.webhook_proxy, tls)
    return GuardedPoster(connector, targets, clock, settings.webhook_timeout)


class GuardedPoster:
    """The `Poster` of a server."""

    def __init__(self, connector: Connector, targets: Targets, clock: Clock, timeout: float) -> None:
        """Takes what makes connections, and what is allowed; `timeout` is in seconds, for a whole call."""
        self._connector = connector
        self._targets = targets
        self._clock = clock
        self._timeout = timeout
        self._idle = IdleLinks(IDLE_LINKS)
        self._open: set[Link] = set()

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
                head = await self._call(target, request, outgoing.body)
        except TargetRefusedError as refused:
            raise DeliveryFailedError(f'the URL {refused.reason}') from None
        except NoConnectionError as error:
            raise DeliveryFailedError(error.reason) from None
        except BrokenLinkError:
            text = 'the connection broke before there was an answer, or the answer was not HTTP'
            raise DeliveryFailedError(text) from None
        except TimeoutError:
            raise DeliveryFailedError(f'no answer within {self._timeout:g} s') from None
        return Answer(head.status, retry_after_of(head.headers, self._clock.now()))

    async def aclose(self) -> None:
        """Closes its connections."""
        for link in self._open:
            link.end()
        while self._open:
            await next(iter(self._open)).ended

    async def _call(self, target: Target, request: h11.Request, body: bytes) -> Head:
        key = (target.scheme, target.host, target.port)
        while (link := self._idle.take(key)) is not None:
            try:
                return await link.call(request, body)
            except BrokenLinkError as error:
                # The receiver has closed what it had kept for as long as it wanted, and may not even have noticed us.
                if not error.was_silent:
                    raise
        link = await self._connector.connect(target, lambda: Link(key, self._idle.put, self._forget))
        if not link.ended.done():
            self._open.add(link)
        return await link.call(request, body)

    def _forget(self, link: Link) -> None:
        self._idle.drop(link)
        self._open.discard(link)


def retry_after_of(headers: Headers, now: int) -> float | None:
    """Returns the seconds of a Retry-After, which has a number of them or a date (RFC 9110, section 10.2.3).

    `now` is in microseconds since the epoch. What cannot be read counts as absent, what is over as 0.
    """
    text = next((value.decode('latin-1').strip() for name, value in headers if name == b'retry-after'), '')
    if text.isascii() and text.isdigit():
        return min(float(text), MAX_PAUSE)
    try:
        moment = parsedate_to_datetime(text)
        # A date without a zone is in UTC: HTTP has no others.
        pause = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now / 1_000_000
        return min(max(0.0, pause), MAX_PAUSE)
    except (ValueError, OverflowError):
        return None


def _request_of(target: Target, outgoing: Outgoing) -> h11.Request:
    """Returns the head of a call.

    Headers are checked here, because a library that refuses one repeats it.

    Raises:
        DeliveryFailedError: One of them cannot be sent.
    """
    if not all(SENDABLE.fullmatch(value) for value in outgoing.headers.values()):
        raise DeliveryFailedError('a header cannot be sent as it is', is_final=True)
    given = [(name, value) for name, value in outgoing.headers.items() if name.lower() not in OURS]
    headers = [('Host', target.authority), *given, ('Content-Length', str(len(outgoing.body)))]
    encoded = [(name.encode(), value.encode()) for name, value in headers]
    return h11.Request(method='POST', target=target.path, headers=encoded)


def _tls_of(settings: Settings) -> ssl.SSLContext:
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    if settings.webhook_ca_file is not None:
        try:
            context.load_verify_locations(settings.webhook_ca_file)
        except OSError:
            raise SettingsError(f'webhook_ca_file {settings.webhook_ca_file!r} has no certificates') from None
    return context
