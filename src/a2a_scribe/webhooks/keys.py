"""The public keys of a sender: read from a JWK set, or fetched from where the sender publishes one.

Only keys for ES256 and EdDSA are taken, each for its own algorithm: what a token says of its algorithm chooses nothing.
"""

import asyncio
import importlib.util
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import httpx

from a2a_scribe.clock import Clock
from a2a_scribe.errors import SettingsError
from a2a_scribe.webhooks.names import audience_of
from a2a_scribe.webhooks.refusals import KeysUnavailableError, UnknownKeyError

logger = logging.getLogger(__name__)

ALGORITHMS: Final[Mapping[tuple[str, str], str]] = {('EC', 'P-256'): 'ES256', ('OKP', 'Ed25519'): 'EdDSA'}
"""By type and curve of a key: what it signs with."""

FETCH_SECONDS: Final = 5.0
FETCH_BYTES: Final = 200_000
REST: Final = 10.0
"""Seconds between two fetches at least, however many unknown keys are named meanwhile."""
MAX_AGE: Final = 3600.0
"""Seconds after which keys are fetched anew although none is missing: one may have been withdrawn."""
OLD_REST: Final = 300.0
"""Seconds until they are tried to be fetched anew again after that has failed: each try may have a delivery wait."""
LOCAL_HOSTS: Final = ('localhost', '127.0.0.1', '::1')

Fetch = Callable[[str], Awaitable[bytes]]
"""Gets what is at a URL. May raise anything when it cannot."""


def require_crypto(feature: str) -> None:
    """Raises: SettingsError: What the feature needs is not installed."""
    for module in ('cryptography', 'jwt'):
        if importlib.util.find_spec(module) is None:
            raise SettingsError(f"{feature} needs {module}: pip install 'a2a-scribe[crypto]'")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """What one of a sender's keys is checked with; `key` is for the library that does it."""

    kid: str
    algorithm: str
    key: Any


class Keys(Protocol):
    """Where a verifier finds keys."""

    async def find(self, kid: str) -> PublicKey:
        """Returns the key of that id.

        Raises:
            UnknownKeyError: The sender does not publish it.
            KeysUnavailableError: Whether it does cannot be found out now.
        """
        ...


def read_keys(jwks: object) -> dict[str, PublicKey]:
    """Returns the keys of a JWK set that we can use, by their ids; others are passed over (RFC 7517, section 5).

    Raises:
        ValueError: It is no JWK set.
    """
    entries = jwks.get('keys') if isinstance(jwks, Mapping) else None
    if not isinstance(entries, list):
        raise ValueError('it is no JWK set')  # noqa: TRY004 - of what was fetched
    found = {}
    for entry in entries:
        if isinstance(entry, Mapping) and (key := _read_key(entry)) is not None:
            found[key.kid] = key
    return found


def _read_key(entry: Mapping[str, Any]) -> PublicKey | None:
    import jwt

    kid, algorithm = entry.get('kid'), _algorithm_of(entry)
    if not isinstance(kid, str) or algorithm is None or entry.get('use', 'sig') != 'sig':
        return None
    if entry.get('alg', algorithm) != algorithm:
        return None
    public = {name: entry[name] for name in ('kty', 'crv', 'x', 'y') if name in entry}
    try:
        return PublicKey(kid, algorithm, jwt.PyJWK(public, algorithm).key)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None


def _algorithm_of(entry: Mapping[str, Any]) -> str | None:
    kind, curve = entry.get('kty'), entry.get('crv')
    return ALGORITHMS.get((kind, curve)) if isinstance(kind, str) and isinstance(curve, str) else None


class GivenKeys:
    """Keys that the receiver was given beforehand."""

    def __init__(self, jwks: Mapping[str, Any]) -> None:
        """Takes a JWK set. Raises: SettingsError."""
        try:
            self._keys = read_keys(jwks)
        except ValueError as error:
            raise SettingsError(f'the keys cannot be used: {error}') from None
        if not self._keys:
            raise SettingsError('the keys cannot be used: there is none for ES256 or EdDSA')

    async def find(self, kid: str) -> PublicKey:
        """Returns the key of that id. Raises: UnknownKeyError."""
        key = self._keys.get(kid)
        if key is None:
            raise UnknownKeyError
        return key


class FetchedKeys:
    """Keys that are fetched from their sender, and kept.

    A key that is not known yet is asked for, but not more often than every `REST` seconds. What is known goes on
    working while the sender's host is away.
    """

    def __init__(self, url: str, clock: Clock, fetch: Fetch | None = None) -> None:
        """Takes the URL of a JWK set, https unless it is on this machine. Raises: SettingsError."""
        parts = urlsplit(url)
        if fetch is None and parts.scheme != 'https' and parts.hostname not in LOCAL_HOSTS:
            raise SettingsError('the URL of the keys must be https: who can change them on their way can sign anything')
        self._url = url
        self._clock = clock
        self._fetch = fetch or fetch_bytes
        self._keys: dict[str, PublicKey] = {}
        self._asked_at: float | None = None
        self._answered_at: float | None = None
        self._turn = asyncio.Lock()

    async def find(self, kid: str) -> PublicKey:
        """Returns the key of that id; fetches the keys if it is not among those that are known, or these are old.

        Raises:
            UnknownKeyError: It is not among the keys that were fetched for this call.
            KeysUnavailableError: It is not known, and the keys could not be fetched, or were fetched a moment ago.
        """
        has_asked = False
        if self._lacks(kid):
            async with self._turn:
                if self._lacks(kid) and self._has_rested():
                    has_asked = await self._renew()
        key = self._keys.get(kid)
        if key is None:
            raise UnknownKeyError if has_asked else KeysUnavailableError
        return key

    def _lacks(self, kid: str) -> bool:
        if kid not in self._keys or self._answered_at is None or self._asked_at is None:
            return True
        now = self._clock.monotonic()
        return now - self._answered_at > MAX_AGE and now - self._asked_at > OLD_REST

    def _has_rested(self) -> bool:
        return self._asked_at is None or self._clock.monotonic() - self._asked_at >= REST

    async def _renew(self) -> bool:
        """Fetches the keys; returns whether that succeeded."""
        self._asked_at = self._clock.monotonic()
        try:
            self._keys = read_keys(json.loads(await self._fetch(self._url)))
        except Exception:
            logger.warning('The keys cannot be fetched from %s', audience_of(self._url), exc_info=True)
            return False
        self._answered_at = self._clock.monotonic()
        return True


async def fetch_bytes(url: str) -> bytes:
    """Gets what is at a URL, within bounds and without following redirects.

    Raises:
        httpx.HTTPError: There is no answer, or one that is not 200.
        ValueError: It is too large.
    """
    async with (
        asyncio.timeout(FETCH_SECONDS),
        httpx.AsyncClient(timeout=FETCH_SECONDS) as client,
        client.stream('GET', url, headers={'Accept': 'application/json'}) as answer,
    ):
        if answer.status_code != 200:
            raise httpx.HTTPStatusError(f'status {answer.status_code}', request=answer.request, response=answer)
        found = bytearray()
        async for chunk in answer.aiter_bytes():
            found += chunk
            if len(found) > FETCH_BYTES:
                raise ValueError(f'more than {FETCH_BYTES} bytes')
        return bytes(found)
