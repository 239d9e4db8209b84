"""Bearer tokens (RFC 6750) that are signed JWTs (RFC 7519), verified by the keys of their issuer.

A token that was verified is known by its digest until it expires or the keys change: a caller who shows the same one
again and again costs no more than a look.
"""

import base64
import hashlib
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from a2a.types.a2a_pb2 import HTTPAuthSecurityScheme, SecurityScheme

from a2a_scribe.auth.claims import ClaimRules, challenge, not_valid, scopes_of
from a2a_scribe.auth.crypto import load_crypto
from a2a_scribe.auth.key_sets import ASYMMETRIC, KINDS, KeySet
from a2a_scribe.auth.key_sources import FileOfKeys, KeySource, UrlOfKeys
from a2a_scribe.auth.principals import IncomingCall, MissingCredentialsError, Principal, only_value
from a2a_scribe.clock import Clock, SystemClock
from a2a_scribe.errors import SettingsError
from a2a_scribe.protocol.faults import TemporaryError, UnauthenticatedError

SCHEME: Final = 'bearer'
"""The name of the scheme on the card."""
HEADER: Final = 'authorization'
CREDENTIALS: Final = re.compile(r'Bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)', re.IGNORECASE)
MAX_TOKEN: Final = 8_192
MAX_REMEMBERED: Final = 5_000
MICROS: Final = 1_000_000


class Known(NamedTuple):
    """A token that was verified."""

    owner: str
    scopes: frozenset[str]
    payload: bytes
    expires: float

    def principal(self) -> Principal:
        """Returns whose it is; the claims are the caller's own, to do with as they like."""
        return Principal(self.owner, self.scopes, orjson.loads(self.payload), SCHEME)


class Header(NamedTuple):
    """What a token says of its signature."""

    algorithm: str
    key_id: str | None


class BearerTokens:
    """Knows callers by a token in the header `Authorization`."""

    def __init__(
        self,
        *,
        issuer: str,
        audience: str,
        keys: str | Path,
        algorithms: Collection[str] = ASYMMETRIC,
        owner_claim: str = 'sub',
        required_scopes: Collection[str] = (),
        leeway: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        """Takes what tokens must say, and where the keys are that must have signed them.

        Args:
            issuer: What `iss` of a token must be.
            audience: What `aud` of a token must be or have.
            keys: The URL of a JWK Set, or a file that holds one, or public keys or certificates as PEM.
            algorithms: The algorithms that are taken. Those of shared secrets have to be named, and need a file.
            owner_claim: The claim whose value is the owner.
            required_scopes: Scopes that each token must have.
            leeway: Seconds by which the issuer's clock may differ from ours.
            clock: Time, for tests.

        Raises:
            SettingsError: One of these cannot be used, or the extra `crypto` is not installed.
        """
        self._clock = clock or SystemClock()
        self._rules = ClaimRules(issuer, audience, owner_claim, frozenset(required_scopes), leeway)
        self._algorithms = _checked(algorithms)
        self._jws = load_crypto().jws.PyJWS()
        self._source = self._open(keys)
        self._verified = Verified()
        scheme = HTTPAuthSecurityScheme(scheme='Bearer', bearer_format='JWT')
        self.security_schemes = {SCHEME: SecurityScheme(http_auth_security_scheme=scheme)}

    def _open(self, keys: str | Path) -> KeySource:
        secrets = not self._algorithms <= set(ASYMMETRIC)
        if isinstance(keys, str) and '://' in keys:
            if secrets:
                raise SettingsError('algorithms: those of shared secrets need a file of keys, not a URL')
            return UrlOfKeys(keys, self._clock)
        return FileOfKeys(Path(keys), self._clock, secrets=secrets)

    async def __call__(self, call: IncomingCall) -> Principal:
        """Returns who is the owner of the token.

        Raises:
            UnauthenticatedError: There is none, or several, or one that is not valid.
            PermissionDeniedError: It lacks a scope.
            TemporaryError: Its signature cannot be verified, because no key could be had yet.
        """
        token = token_in(call)
        digest = hashlib.sha256(token).digest()
        keys, now = self._source.known(), self._clock.now() / MICROS
        if (found := self._verified.get(digest, keys, now)) is not None:
            return found.principal()
        header = self._header_of(token)
        keys = await self._keys_for(header, keys)
        payload, claims = self._signed_in(token, header, keys)
        expires = self._rules.check(claims, self._clock.now() / MICROS)
        found = Known(self._rules.owner_of(claims), scopes_of(claims), payload, expires)
        self._rules.check_scopes(found.scopes)
        self._verified.add(digest, keys, found)
        return found.principal()

    def _header_of(self, token: bytes) -> Header:
        """Reads what is not verified yet. Raises: UnauthenticatedError."""
        try:
            given = orjson.loads(_decoded(token.partition(b'.')[0]))
        except ValueError:
            raise not_valid() from None
        if not isinstance(given, dict) or 'crit' in given or 'b64' in given:
            raise not_valid()
        algorithm, key_id = given.get('alg'), given.get('kid')
        if not isinstance(algorithm, str) or algorithm not in self._algorithms or not isinstance(key_id, str | None):
            raise not_valid()
        return Header(algorithm, key_id)

    async def _keys_for(self, header: Header, keys: KeySet | None) -> KeySet:
        """Returns the keys, asked for anew if the token's is not among those that are known. Raises: TemporaryError."""
        if keys is None or not keys.knows(header.key_id):
            keys = await self._source.renewed()
        if keys is None:
            raise TemporaryError
        return keys

    def _signed_in(self, token: bytes, header: Header, keys: KeySet) -> tuple[bytes, Any]:
        """Verifies the signature and returns what was signed, and what it says. Raises: UnauthenticatedError."""
        for key in keys.fitting(header.key_id, header.algorithm):
            try:
                found = self._jws.decode_complete(token, key.material, [header.algorithm])
                claims = orjson.loads(found['payload'])
            except Exception:  # noqa: BLE001 - bytes of anybody in a library: however it fails, they are refused
                continue
            if isinstance(claims, dict):
                return found['payload'], claims
        raise not_valid()


class Verified:
    """Tokens that were verified, by their digests: no token is kept."""

    def __init__(self) -> None:
        """Starts without any."""
        self._keys: KeySet | None = None
        self._known: dict[bytes, Known] = {}

    def get(self, digest: bytes, keys: KeySet | None, now: float) -> Known | None:
        """Returns what is known of a token, `None` if that has to be found out."""
        found = self._known.get(digest)
        return found if found is not None and keys is self._keys and now < found.expires else None

    def add(self, digest: bytes, keys: KeySet, known: Known) -> None:
        """Keeps a token; forgets those that other keys verified, and the oldest when there are too many."""
        if keys is not self._keys:
            self._keys, self._known = keys, {}
        self._known.pop(digest, None)
        if len(self._known) >= MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[digest] = known


def token_in(call: IncomingCall) -> bytes:
    """Returns the token of a call.

    Raises:
        MissingCredentialsError: It has no bearer token.
        UnauthenticatedError: It has several, or what is none.
    """
    try:
        given = only_value(call.values(HEADER))
    except MissingCredentialsError:
        raise
    except UnauthenticatedError as error:
        raise UnauthenticatedError(error.message, [challenge('invalid_request', error.message)]) from None
    if given.partition(' ')[0].lower() != 'bearer':
        raise MissingCredentialsError
    found = CREDENTIALS.fullmatch(given) if len(given) <= MAX_TOKEN else None
    if found is None:
        raise not_valid()
    return found[1].encode()


def _decoded(part: bytes) -> bytes:
    """Returns a part of a token. Raises: ValueError."""
    return base64.urlsafe_b64decode(part + b'=' * (-len(part) % 4))


def _checked(algorithms: Collection[str]) -> frozenset[str]:
    """Returns the names of algorithms. Raises: SettingsError."""
    if isinstance(algorithms, str) or not algorithms:
        raise SettingsError('algorithms must be a collection of names')
    if unknown := [each for each in algorithms if each not in KINDS]:
        raise SettingsError(f'algorithms: {unknown[0]!r} is not one of {", ".join(KINDS)}')
    return frozenset(algorithms)
