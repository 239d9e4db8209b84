"""Signing of cards: which keys, what is signed, and who finds it good."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    SecurityRequirement,
    StringList,
)
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from jwt import PyJWK, PyJWKSet, api_jws
from jwt.algorithms import ECAlgorithm, OKPAlgorithm

from a2a_scribe import SettingsError, load_card_signer
from a2a_scribe.transport.card_signing import served_without_signatures, signed
from a2a_scribe.transport.operations import card_to_json

KEYS: dict[str, Any] = {
    'RS256': rsa.generate_private_key(65537, 2048),
    'ES256': ec.generate_private_key(ec.SECP256R1()),
    'ES384': ec.generate_private_key(ec.SECP384R1()),
    'ES512': ec.generate_private_key(ec.SECP521R1()),
    'EdDSA': ed25519.Ed25519PrivateKey.generate(),
}


def pem(key: Any, encryption: Any = None) -> bytes:
    data: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    return data


def full_card(**fields: Any) -> AgentCard:
    """A card in which no required field is empty."""
    given: dict[str, Any] = {
        'name': 'signer ß €',
        'description': 'Signs.\u2028',
        'version': '1',
        'supported_interfaces': [
            AgentInterface(url='https://agent.test/', protocol_binding='JSONRPC', protocol_version='1.0')
        ],
        'capabilities': AgentCapabilities(streaming=False),
        'default_input_modes': ['text/plain'],
        'default_output_modes': ['text/plain'],
        'skills': [AgentSkill(id='s', name='a skill', description='for all', tags=['a'])],
    }
    return AgentCard(**(given | fields))


def headers_of(card: AgentCard) -> list[dict[str, Any]]:
    return [json.loads(base64.urlsafe_b64decode(each.protected + '==')) for each in card.signatures]


def verify_as_served(card: AgentCard, key: Any) -> None:
    """Verifies the first signature over what a client of any kind receives."""
    shown = json.loads(card_to_json(card))
    signature = shown.pop('signatures')[0]
    canonical = json.dumps(shown, sort_keys=True, separators=(',', ':'), ensure_ascii=False).encode()
    assert canonical == served_without_signatures(card)
    payload = base64.urlsafe_b64encode(canonical).rstrip(b'=').decode()
    token = f'{signature["protected"]}.{payload}.{signature["signature"]}'
    api_jws.decode(token, key.public_key(), algorithms=list(KEYS))


def verify_as_sdk(card: AgentCard, key: Any) -> None:
    create_signature_verifier(lambda *_: key.public_key(), list(KEYS))(card)


@pytest.mark.parametrize('algorithm', KEYS)
def test_card_is_signed_by_a_key_of_any_kind(algorithm: str, tmp_path: Path) -> None:
    (file := tmp_path / 'key.pem').write_bytes(pem(KEYS[algorithm]))
    card = signed(full_card(), load_card_signer(file, 'mine'))
    assert headers_of(card) == [{'alg': algorithm, 'kid': 'mine', 'typ': 'JOSE'}]
    verify_as_served(card, KEYS[algorithm])
    verify_as_sdk(card, KEYS[algorithm])


@pytest.mark.parametrize('algorithm', KEYS)
def test_changed_card_is_found_out(algorithm: str, tmp_path: Path) -> None:
    (file := tmp_path / 'key.pem').write_bytes(pem(KEYS[algorithm]))
    card = signed(full_card(), load_card_signer(file))
    card.description += '!'
    with pytest.raises(InvalidSignaturesError):
        verify_as_sdk(card, KEYS[algorithm])


def test_key_may_be_a_json_web_key_with_an_id(tmp_path: Path) -> None:
    key = KEYS['EdDSA']
    (file := tmp_path / 'key.json').write_text(json.dumps({**OKPAlgorithm.to_jwk(key, as_dict=True), 'kid': 'k'}))
    card = signed(full_card(), load_card_signer(file))
    assert headers_of(card) == [{'alg': 'EdDSA', 'kid': 'k', 'typ': 'JOSE'}]
    verify_as_sdk(card, key)
    assert headers_of(signed(full_card(), load_card_signer(file, 'other')))[0]['kid'] == 'other'


def test_key_without_an_id_is_called_by_its_thumbprint(tmp_path: Path) -> None:
    # The example of RFC 8037, appendix A.3.
    jwk = {
        'kty': 'OKP',
        'crv': 'Ed25519',
        'd': 'nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A',
        'x': '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
    }
    (file := tmp_path / 'key.json').write_text(json.dumps(jwk))
    card = signed(full_card(), load_card_signer(file))
    assert headers_of(card)[0]['kid'] == 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k'
    again = PyJWKSet.from_dict({'keys': [jwk]}).keys[0]
    assert isinstance(again, PyJWK)
    (pem_file := tmp_path / 'key.pem').write_bytes(pem(again.key))
    assert headers_of(signed(full_card(), load_card_signer(pem_file))) == headers_of(card)


@pytest.mark.parametrize(
    'card',
    [
        full_card(skills=[]),
        full_card(capabilities=AgentCapabilities()),
        full_card(security_requirements=[SecurityRequirement(schemes={'bearer': StringList()})]),
        full_card(capabilities=AgentCapabilities(extensions=[AgentExtension(uri='urn:x', params={'a': {}})])),
    ],
    ids=['skills', 'capabilities', 'requirements', 'params'],
)
def test_card_with_empty_fields_is_good_for_everybody(card: AgentCard, tmp_path: Path) -> None:
    card.capabilities.SetInParent()
    (file := tmp_path / 'key.pem').write_bytes(pem(KEYS['ES256']))
    made = signed(card, load_card_signer(file))
    assert len(made.signatures) == 2
    verify_as_served(made, KEYS['ES256'])
    verify_as_sdk(made, KEYS['ES256'])


def test_numbers_of_extensions_are_signed_too(tmp_path: Path) -> None:
    extension = AgentExtension(uri='urn:x', params={'n': 1, 'small': 1e-7, 'half': 0.5, 'list': [1e21, 2.5, True]})
    card = full_card(capabilities=AgentCapabilities(extensions=[extension]))
    (file := tmp_path / 'key.pem').write_bytes(pem(KEYS['ES256']))
    made = signed(card, load_card_signer(file))
    verify_as_sdk(made, KEYS['ES256'])
    assert len(made.signatures) == 1


def test_card_that_its_author_signed_is_left_alone(tmp_path: Path) -> None:
    (file := tmp_path / 'key.pem').write_bytes(pem(KEYS['ES256']))
    author = signed(full_card(), load_card_signer(file, 'author'))
    assert signed(author, load_card_signer(file, 'server')) == author


def test_given_card_is_not_changed(tmp_path: Path) -> None:
    (file := tmp_path / 'key.pem').write_bytes(pem(KEYS['ES256']))
    card = full_card()
    signed(card, load_card_signer(file))
    assert not card.signatures


PUBLIC = KEYS['ES256'].public_key()
NO_KEYS = {
    'no key': b'hello',
    'empty': b'',
    'public': PUBLIC.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    'public JWK': json.dumps(ECAlgorithm.to_jwk(PUBLIC, as_dict=True)).encode(),
    'DSA': pem(dsa.generate_private_key(1024)),
    'curve': pem(ec.generate_private_key(ec.SECP256K1())),
    'encrypted': pem(KEYS['ES256'], BestAvailableEncryption(b'password')),
    'JSON': b'{"kty": "EC"',
    'nothing in it': b'{}',
}


@pytest.mark.parametrize('data', NO_KEYS.values(), ids=list(NO_KEYS))
def test_what_cannot_sign_is_refused(data: bytes, tmp_path: Path) -> None:
    (file := tmp_path / 'key').write_bytes(data)
    with pytest.raises(SettingsError, match=r'has no private key that can sign a card'):
        load_card_signer(file)


def test_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match='cannot read the key'):
        load_card_signer(tmp_path / 'none')


def test_without_the_extra_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr('importlib.util.find_spec', lambda _: None)
    with pytest.raises(SettingsError, match=r'a2a-scribe\[crypto\]'):
        load_card_signer(tmp_path / 'key.pem')
