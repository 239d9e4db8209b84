"""The private keys that sign tokens: read from a file, made, and rotated without a delivery that cannot be checked.

A file is a JWK set with private keys, as `a2a-scribe webhooks keys` writes it, or PEM. A key may have a time from which
on it signs (`nbf`): it is published before, so that no receiver meets it unprepared, and processes that have not read
the file again by then would be the only ones to sign with another.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from a2a_scribe.errors import SettingsError
from a2a_scribe.webhooks.keys import ALGORITHMS

PUBLIC_MEMBERS: Final[tuple[str, ...]] = ('kty', 'crv', 'x', 'y')
PEM_BLOCK: Final = re.compile(rb'-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END \1-----', re.DOTALL)


class Algorithm(StrEnum):
    """What a key signs with."""

    ES256 = 'ES256'
    EDDSA = 'EdDSA'


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One private key; its representation shows nothing of it but its id.

    `made_at` and `signs_from` are seconds since the epoch, 0 where the file does not say.
    """

    kid: str
    algorithm: Algorithm
    jwk: dict[str, str] = field(repr=False)
    private: Any = field(repr=False)
    made_at: int = 0
    signs_from: int = 0

    def public(self) -> dict[str, str]:
        """Returns what receivers may know, as a JWK."""
        public = {name: self.jwk[name] for name in PUBLIC_MEMBERS if name in self.jwk}
        return {**public, 'kid': self.kid, 'alg': self.algorithm, 'use': 'sig'}

    def stored(self) -> dict[str, str | int]:
        """Returns the key as it is kept in a file."""
        return {
            **self.jwk,
            'kid': self.kid,
            'alg': self.algorithm,
            'use': 'sig',
            'iat': self.made_at,
            'nbf': self.signs_from,
        }


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys of a file, in its order."""

    keys: tuple[SigningKey, ...]

    def signer_at(self, now: float) -> SigningKey:
        """Returns the key that signs: the newest whose time has come, the first of those that came at once."""
        ready = [key for key in self.keys if key.signs_from <= now]
        return max(ready, key=lambda key: key.signs_from) if ready else min(self.keys, key=lambda key: key.signs_from)

    def published(self) -> bytes:
        """Returns the JWK set for receivers, all keys of it."""
        return json.dumps({'keys': [key.public() for key in self.keys]}, separators=(',', ':')).encode()

    def stored(self) -> bytes:
        """Returns the file that holds the keys."""
        return json.dumps({'keys': [key.stored() for key in self.keys]}, indent=2).encode() + b'\n'


def new_key(algorithm: Algorithm, made_at: int, signs_from: int) -> SigningKey:
    """Makes a key."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    if algorithm is Algorithm.ES256:
        return _key_of(ec.generate_private_key(ec.SECP256R1()), made_at, signs_from)
    return _key_of(ed25519.Ed25519PrivateKey.generate(), made_at, signs_from)


def read_ring(path: Path) -> KeyRing:
    """Reads a file of keys.

    Raises:
        SettingsError: It cannot be read, or has no keys that can be used; the message shows none of it.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise SettingsError(f'the signing keys {str(path)!r} cannot be read: {error.strerror}') from None
    try:
        keys = _read_pem(text) if text.lstrip().startswith(b'-----BEGIN') else _read_jwks(text)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise SettingsError(
            f'the signing keys {str(path)!r} cannot be used: it must be a JWK set or PEM with private keys for ES256 '
            '(P-256) or EdDSA (Ed25519), without a password'
        ) from None
    if not keys:
        raise SettingsError(f'the signing keys {str(path)!r} cannot be used: there is no key in it')
    if len({key.kid for key in keys}) < len(keys):
        raise SettingsError(f'the signing keys {str(path)!r} cannot be used: two keys have the same id')
    return KeyRing(tuple(keys))


def is_jwks(path: Path) -> bool:
    """Whether a file that can be read is a JWK set, which we can add to."""
    return path.read_bytes().lstrip().startswith(b'{')


def _read_jwks(text: bytes) -> list[SigningKey]:
    import jwt

    keys = []
    for entry in json.loads(text)['keys']:
        algorithm = ALGORITHMS[entry['kty'], entry['crv']]
        if not isinstance(entry['d'], str) or entry.get('alg', algorithm) != algorithm:
            raise ValueError
        try:
            private = jwt.PyJWK({name: entry[name] for name in (*PUBLIC_MEMBERS, 'd') if name in entry}, algorithm).key
        except jwt.PyJWTError:
            raise ValueError from None
        keys.append(_key_of(private, int(entry.get('iat', 0)), int(entry.get('nbf', 0)), entry.get('kid')))
    return keys


def _read_pem(text: bytes) -> list[SigningKey]:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return [_key_of(load_pem_private_key(block[0], None)) for block in PEM_BLOCK.finditer(text)]


def _key_of(private: Any, made_at: int = 0, signs_from: int = 0, kid: str | None = None) -> SigningKey:
    """Returns a key of the library's as one of ours. Raises: ValueError: It is for neither of our algorithms."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm

    jwk: dict[str, Any]
    match private:
        case ec.EllipticCurvePrivateKey(curve=ec.SECP256R1()):
            jwk = ECAlgorithm.to_jwk(private, as_dict=True)
        case ed25519.Ed25519PrivateKey():
            jwk = OKPAlgorithm.to_jwk(private, as_dict=True)
        case _:
            raise ValueError('the key is for neither ES256 nor EdDSA')
    members = {name: jwk[name] for name in (*PUBLIC_MEMBERS, 'd') if name in jwk}
    algorithm = Algorithm.ES256 if members['kty'] == 'EC' else Algorithm.EDDSA
    return SigningKey(kid or _thumbprint(members), algorithm, members, private, made_at, signs_from)


def _thumbprint(jwk: dict[str, Any]) -> str:
    """Returns the thumbprint of a key (RFC 7638), which is its id."""
    members = {name: jwk[name] for name in sorted(PUBLIC_MEMBERS) if name in jwk}
    digest = hashlib.sha256(json.dumps(members, separators=(',', ':'), sort_keys=True).encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b'=').decode()


def rotated(ring: KeyRing, key: SigningKey, now: int, keep: int) -> KeyRing:
    """Returns the ring with one more key, and without those that have not signed for `keep` seconds.

    Raises:
        SettingsError: A key already waits for its time.
    """
    if any(each.signs_from > now for each in ring.keys):
        raise SettingsError('the newest key does not sign yet: rotate again after that')
    return KeyRing((key, *(each for each in ring.keys if _is_needed(each, ring.keys, now - keep))))


def _is_needed(key: SigningKey, keys: Sequence[SigningKey], since: int) -> bool:
    """Whether a key may have signed since a moment: no later key had taken its place by then."""
    return key is KeyRing(tuple(keys)).signer_at(since) or key.signs_from >= since
