"""Where the keys of an issuer come from: a file, or a URL that is asked now and then and when a token names a new key.

What is known stays known while the source is away. Nobody waits for a source as long as the keys that are needed are
known, and however many calls need a new one, the source is asked once at a time, and not more often than it may be.
"""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final, Protocol

import httpx

from a2a_scribe.auth.key_sets import KeySet, parse_key_set
from a2a_scribe.auth.watched_file import WatchedFile
from a2a_scribe.clock import Clock
from a2a_scribe.errors import SettingsError
from a2a_scribe.services import Background

logger = logging.getLogger(__name__)

MAX_BYTES: Final = 1_000_000
PATIENCE: Final = 5.0
"""Seconds that asking may take."""
MAX_AGE: Final = 300.0
"""Seconds after which keys are asked for again, so that one that was taken back is noticed."""
BURST: Final = 5
"""Times that the URL may be asked one after the other."""
PAUSE: Final = 10.0
"""Seconds in which it may be asked once more."""
LOOPBACK: Final = ('localhost', '127.0.0.1', '::1')


class KeySource(Protocol):
    """Keys, as far as they are known. A set that has not changed is the same object."""

    def known(self) -> KeySet | None:
        """Returns what is known, at once; sees to it that it does not grow old."""

    async def renewed(self) -> KeySet | None:
        """Returns what there is to be known now, as far as the source may be asked again so soon."""


class FileOfKeys:
    """A file, which is read again when it has changed."""

    def __init__(self, path: Path, clock: Clock, *, secrets: bool) -> None:
        """Reads it.

        Raises:
            SettingsError: It cannot be read, or has no keys.
        """
        self._secrets = secrets
        self._file = WatchedFile(path, clock)
        try:
            self._keys = parse_key_set(self._file.read(), secrets=secrets)
        except OSError as error:
            raise SettingsError(f'the keys of tokens {str(path)!r} cannot be read: {error.strerror}') from error
        except SettingsError as error:
            raise SettingsError(f'the keys of tokens {str(path)!r} cannot be used: {error}') from None

    def known(self) -> KeySet:
        """Returns what the file says; what it said before, while it cannot be read."""
        try:
            if (data := self._file.news()) is not None:
                self._keys = parse_key_set(data, secrets=self._secrets)
        except (OSError, SettingsError) as error:
            logger.error('The keys of tokens %s are kept as they were: %s', self._file.path, error)  # noqa: TRY400
        return self._keys

    async def renewed(self) -> KeySet:
        """Returns the same."""
        return self.known()


class UrlOfKeys:
    """A URL that answers with a JWK Set."""

    def __init__(self, url: str, clock: Clock, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Takes it; it is asked when the first token comes. `transport` is for tests.

        Raises:
            SettingsError: It is none.
        """
        try:
            place = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise SettingsError(f'the keys of tokens have no valid URL: {error}') from None
        if place.scheme not in ('http', 'https') or not place.host:
            raise SettingsError('the keys of tokens must have a URL of http or https')
        self._host = place.host
        if place.scheme == 'http' and self._host not in LOOPBACK:
            logger.warning('The keys of tokens come from %s unencrypted: whoever can change them is let in', self._host)
        self._url = place
        self._clock = clock
        self._transport = transport
        # Made here, once: it takes longer than a request.
        self._tls: ssl.SSLContext | bool = place.scheme == 'https' and httpx.create_ssl_context()
        self._background = Background()
        self._asking: asyncio.Task[None] | None = None
        self._data = b''
        self._keys: KeySet | None = None
        self._renewed_at = 0.0
        self._asks_left = float(BURST)
        self._counted_at = clock.monotonic()

    def known(self) -> KeySet | None:
        """Returns what is known; asks beside, once that is old."""
        if self._keys is not None and self._clock.monotonic() - self._renewed_at > MAX_AGE:
            self._ask()
        return self._keys

    async def renewed(self) -> KeySet | None:
        """Returns what the URL says now, or what is known if it may not be asked again yet or does not answer."""
        if (asking := self._ask()) is not None:
            await asyncio.wait([asking])
        return self._keys

    def _ask(self) -> 'asyncio.Task[None] | None':
        """Asks, unless somebody does so already; `None` if it may not be asked yet."""
        asking = self._asking
        if asking is not None and not asking.done() and asking.get_loop() is asyncio.get_running_loop():
            return asking
        now = self._clock.monotonic()
        self._asks_left = min(BURST, self._asks_left + (now - self._counted_at) / PAUSE)
        self._counted_at = now
        if self._asks_left < 1:
            return None
        self._asks_left -= 1
        self._asking = self._background.spawn(self._renew(), 'keys of tokens')
        return self._asking

    async def _renew(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                data = await self._fetch()
            if data != self._data:
                self._keys, self._data = parse_key_set(data), data
            self._renewed_at = self._clock.monotonic()
        except (httpx.HTTPError, SettingsError, TimeoutError, OSError) as error:
            reason = str(error) if isinstance(error, SettingsError) else type(error).__name__
            kept = 'those that are known go on' if self._keys is not None else 'no token can be verified'
            logger.warning('The keys of tokens cannot be had from %s: %s; %s', self._host, reason, kept)

    async def _fetch(self) -> bytes:
        """Returns the body of the answer. Raises: HTTPError, SettingsError."""
        client = httpx.AsyncClient(
            verify=self._tls,
            timeout=PATIENCE,
            transport=self._transport,
            trust_env=self._host not in LOOPBACK,
        )
        async with client, client.stream('GET', self._url, headers={'Accept': 'application/json'}) as response:
            if response.status_code != httpx.codes.OK:
                raise SettingsError(f'the answer has the status {response.status_code}')
            body = b''
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MAX_BYTES:
                    raise SettingsError('the answer is too large')
            return body
