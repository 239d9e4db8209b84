"""Signatures of agent cards (A2A 1.0, section 8.4): JWS over the canonical JSON of a card without its signatures.

What is signed is what is served. `a2a-sdk` verifies another text where a required field is empty: it leaves the field
out. A card with such a field gets a second signature, over that; a card is good when one of its signatures is.

What this needs is an extra of the package, imported when a signer is made.
"""

import base64
import hashlib
import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from a2a.types.a2a_pb2 import AgentCard, AgentCardSignature

from a2a_scribe.errors import SettingsError
from a2a_scribe.protocol.canonical_json import canonical_json
from a2a_scribe.protocol.json import to_dict
from a2a_scribe.protocol.required import show_required

CardSigner = Callable[[AgentCard], AgentCard]
"""Adds a signature to a card, and returns the card; those of `a2a-sdk` are of the same kind."""

PROBE: Final = b'a key for comparing, which is not secret'
CURVES: Final = {'secp256r1': 'ES256', 'secp384r1': 'ES384', 'secp521r1': 'ES512'}
MEMBERS: Final = {'RSA': ('e', 'n'), 'EC': ('crv', 'x', 'y'), 'OKP': ('crv', 'x'), 'oct': ('k',)}
"""What a key's thumbprint is made of beside its type (RFC 7638)."""


def load_card_signer(key_file: str | Path, key_id: str | None = None) -> CardSigner:
    """Makes a signer of a private key: PEM (RSA, EC, Ed25519) or a JSON Web Key.

    Args:
        key_file: Where the key is.
        key_id: What the signature calls the key; by default the `kid` of a JSON Web Key, or the key's thumbprint.

    Raises:
        SettingsError: The file has no such key, or what signing needs is not installed.
    """
    _check_installed()
    try:
        data = Path(key_file).read_bytes()
    except OSError as error:
        raise SettingsError(f'cannot read the key for signing the card: {error}') from error
    try:
        key = _jwk_of_json(data) if data.lstrip().startswith(b'{') else _jwk_of_pem(data)
        algorithm, name = key.algorithm_name, key_id or key.key_id or _thumbprint(key)
        return card_signer(key.key, algorithm, name)
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise SettingsError(f'{key_file} has no private key that can sign a card: {reason}') from error


def card_signer(key: Any, algorithm: str, key_id: str) -> CardSigner:
    """Makes a signer of a key as `pyjwt` takes it.

    Raises:
        SettingsError: What signing needs is not installed.
    """
    _check_installed()
    from a2a.utils.signing import ProtectedHeader, create_agent_card_signer

    header = ProtectedHeader(alg=algorithm, kid=key_id, typ='JOSE', jku=None)
    del header['jku']  # type: ignore[misc]
    sign_as_sdk = create_agent_card_signer(key, header)

    def sign(card: AgentCard) -> AgentCard:
        signed_alike = _signed_by_sdk_as_served(card)
        card.signatures.append(_signature(card, key, header))
        return card if signed_alike else sign_as_sdk(card)

    _signature(AgentCard(), key, header)  # so that a key that cannot sign is told now
    return sign


def signed(card: AgentCard, signer: CardSigner) -> AgentCard:
    """Returns a signed copy of a card; one that its author has signed stays as it is."""
    copy = AgentCard()
    copy.CopyFrom(card)
    return copy if card.signatures else signer(copy)


def served_without_signatures(card: AgentCard) -> bytes:
    """Returns the canonical JSON of a card as it is served, without its signatures."""
    shown = show_required(to_dict(card), AgentCard)
    shown.pop('signatures', None)
    return canonical_json(shown)


def _signature(card: AgentCard, key: Any, header: Mapping[str, Any]) -> AgentCardSignature:
    from jwt import api_jws

    token = api_jws.encode(served_without_signatures(card), key, header['alg'], dict(header))
    protected, _, signature = token.split('.')
    return AgentCardSignature(protected=protected, signature=signature)


def _signed_by_sdk_as_served(card: AgentCard) -> bool:
    """Whether `a2a-sdk` signs the same text, which it does not show: two signatures with one key say so."""
    from a2a.utils.signing import ProtectedHeader, create_agent_card_signer

    header = ProtectedHeader(alg='HS256', kid='', typ='JOSE', jku=None)
    copy = AgentCard()
    copy.CopyFrom(card)
    theirs = create_agent_card_signer(PROBE, header)(copy).signatures[-1]
    return theirs.signature == _signature(card, PROBE, header).signature


def _jwk_of_json(data: bytes) -> Any:
    from jwt import PyJWK

    given = json.loads(data)
    if given.get('kty') != 'oct' and 'd' not in given:
        raise ValueError('it is a public key')
    return PyJWK(given)


def _jwk_of_pem(data: bytes) -> Any:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from jwt import PyJWK
    from jwt.algorithms import get_default_algorithms

    key = serialization.load_pem_private_key(data, password=None)
    match key:
        case rsa.RSAPrivateKey():
            algorithm = 'RS256'
        case ec.EllipticCurvePrivateKey() if key.curve.name in CURVES:
            algorithm = CURVES[key.curve.name]
        case ed25519.Ed25519PrivateKey():
            algorithm = 'EdDSA'
        case _:
            raise ValueError('it must be RSA, EC (P-256, P-384, P-521) or Ed25519')
    described: Any = get_default_algorithms()[algorithm]
    return PyJWK(described.to_jwk(key, as_dict=True), algorithm)


def _thumbprint(key: Any) -> str:
    from jwt.algorithms import get_default_algorithms

    described: Any = get_default_algorithms()[key.algorithm_name]
    shown = described.to_jwk(key.key, as_dict=True)
    members = {name: shown[name] for name in ('kty', *MEMBERS[shown['kty']])}
    return base64.urlsafe_b64encode(hashlib.sha256(canonical_json(members)).digest()).rstrip(b'=').decode()


def _check_installed() -> None:
    for module in ('cryptography', 'jwt'):
        if importlib.util.find_spec(module) is None:
            raise SettingsError("what signs cards is not installed: pip install 'a2a-scribe[crypto]'")
