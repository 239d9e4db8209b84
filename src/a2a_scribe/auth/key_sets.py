"""Keys that verify tokens: read from a JWK Set (RFC 7517) or from PEM, chosen by a token's header.

A key is for algorithms of its own kind only, whatever a token says: an RSA key never becomes the secret of an HMAC.
"""

import base64
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from a2a_scribe.auth.crypto import load_crypto
from a2a_scribe.errors import SettingsError

logger = logging.getLogger(__name__)

KINDS: Final[Mapping[str, Collection[str]]] = {
    'RS256': ('RSA',),
    'RS384': ('RSA',),
    'RS512': ('RSA',),
    'PS256': ('RSA',),
    'PS384': ('RSA',),
    'PS512': ('RSA',),
    'ES256': ('P-256',),
    'ES384': ('P-384',),
    'ES512': ('P-521',),
    'EdDSA': ('Ed25519', 'Ed448'),
    'HS256': ('oct',),
    'HS384': ('oct',),
    'HS512': ('oct',),
}
"""The algorithms that can be allowed, and the keys that each is for. `none` is not among them."""
ASYMMETRIC: Final = tuple(name for name in KINDS if not name.startswith('HS'))
CURVES: Final = {'secp256r1': 'P-256', 'secp384r1': 'P-384', 'secp521r1': 'P-521'}
MEMBERS: Final = {'RSA': ('n', 'e'), 'EC': ('crv', 'x', 'y'), 'OKP': ('crv', 'x')}
"""The public members of a JWK."""
MIN_RSA_BITS: Final = 2048
MAX_RSA_BITS: Final = 8192
MIN_SECRET_BYTES: Final = 32
MAX_KEYS: Final = 100
MAX_TRIED: Final = 4
"""Keys that are tried for a token that does not name its own."""
PEM: Final = re.compile(rb'-----BEGIN ([A-Z ]+)-----.+?-----END \1-----', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Key:
    """A key that verifies."""

    id: str | None
    """What tokens call it; one that has no id is for any token."""
    kind: str
    algorithm: str | None
    """The only algorithm that it is for, if it says so."""
    material: Any


class UnusableKeyError(Exception):
    """A key cannot be used; the text says why."""


@dataclass(frozen=True)
class KeySet:
    """All keys of an issuer."""

    keys: tuple[Key, ...]

    def knows(self, key_id: str | None) -> bool:
        """Whether a key of that id is here, or one that tokens need not name."""
        return key_id is None or any(key.id in (None, key_id) for key in self.keys)

    def fitting(self, key_id: str | None, algorithm: str) -> list[Key]:
        """Returns the keys that may have signed a token."""
        found = [
            key
            for key in self.keys
            if (key_id is None or key.id in (None, key_id))
            if key.kind in KINDS[algorithm] and key.algorithm in (None, algorithm)
        ]
        return found[:MAX_TRIED]


def parse_key_set(data: bytes, *, secrets: bool = False) -> KeySet:
    """Reads a JWK Set or PEM; of a set, what is not for signatures or of no known kind is left out.

    Args:
        data: What was read.
        secrets: Whether secret keys are taken too.

    Raises:
        SettingsError: It is neither, or there is no usable key.
    """
    keys = tuple(_from_pem(data) if PEM.search(data) else _from_jwks(data, secrets))
    if not keys:
        raise SettingsError('it has no key that can be used')
    return KeySet(keys)


def _from_pem(data: bytes) -> Iterator[Key]:
    crypto = load_crypto()
    for block in PEM.finditer(data):
        try:
            if b'PRIVATE' in block[1]:
                raise SettingsError('it is a private key; give the public one')
            if block[1] == b'CERTIFICATE':
                material = crypto.x509.load_pem_x509_certificate(block[0]).public_key()
            else:
                material = crypto.serialization.load_pem_public_key(block[0])
            yield Key(None, _kind_of(material), None, material)
        except UnusableKeyError as error:
            raise SettingsError(str(error)) from None
        except SettingsError:
            raise
        except Exception as error:
            raise SettingsError('it is PEM, and no public key or certificate') from error


def _from_jwks(data: bytes, secrets: bool) -> Iterator[Key]:
    try:
        entries = orjson.loads(data)['keys']
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise SettingsError('it is neither a JWK Set nor PEM') from None
    if not isinstance(entries, list):
        raise SettingsError('it is no JWK Set: keys must be a list')
    for entry in entries[:MAX_KEYS]:
        try:
            if (key := _from_jwk(entry, secrets)) is not None:
                yield key
        except UnusableKeyError as error:
            logger.warning('A key of the JWK Set is left out: %s', error)
        except Exception as error:  # noqa: BLE001 - the library fails in many ways at what is no key
            logger.warning('A key of the JWK Set is left out: %s', type(error).__name__)


def _from_jwk(entry: Mapping[str, Any], secrets: bool) -> Key | None:
    if entry.get('use', 'sig') != 'sig' or 'verify' not in entry.get('key_ops', ['verify']):
        return None
    key_id, algorithm, family = entry.get('kid'), entry.get('alg'), entry['kty']
    if not isinstance(key_id, str | None) or not isinstance(algorithm, str | None):
        raise UnusableKeyError('kid and alg must be texts')
    if family == 'oct':
        return _secret(key_id, algorithm, entry['k']) if secrets else None
    if family not in MEMBERS:
        return None
    public = {'kty': family, **{name: entry[name] for name in MEMBERS[family]}}
    algorithms = load_crypto().algorithms
    makers = {'RSA': algorithms.RSAAlgorithm, 'EC': algorithms.ECAlgorithm, 'OKP': algorithms.OKPAlgorithm}
    material = makers[family].from_jwk(public)
    return Key(key_id, _kind_of(material), algorithm, material)


def _secret(key_id: str | None, algorithm: str | None, text: str) -> Key:
    material = base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))
    if len(material) < MIN_SECRET_BYTES:
        raise UnusableKeyError(f'a secret must have {MIN_SECRET_BYTES} bytes at least')
    return Key(key_id, 'oct', algorithm, material)


def _kind_of(material: Any) -> str:
    """Returns the kind of a public key. Raises: UnusableKeyError."""
    asymmetric = load_crypto().asymmetric
    if isinstance(material, asymmetric.rsa.RSAPublicKey):
        if not MIN_RSA_BITS <= material.key_size <= MAX_RSA_BITS:
            raise UnusableKeyError(f'an RSA key must have {MIN_RSA_BITS} to {MAX_RSA_BITS} bits')
        return 'RSA'
    if isinstance(material, asymmetric.ec.EllipticCurvePublicKey):
        if material.curve.name not in CURVES:
            raise UnusableKeyError(f'the curve {material.curve.name} is not supported')
        return CURVES[material.curve.name]
    if isinstance(material, asymmetric.ed25519.Ed25519PublicKey):
        return 'Ed25519'
    if isinstance(material, asymmetric.ed448.Ed448PublicKey):
        return 'Ed448'
    raise UnusableKeyError('it is no RSA, elliptic curve or Edwards curve key')
