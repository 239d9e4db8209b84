"""Signatures of agent cards by hand (A2A 1.0, section 8.4): HS256 over canonical JSON without the signatures."""

import base64
import hashlib
import hmac
import json
from typing import Final

from a2a.types.a2a_pb2 import AgentCard, AgentCardSignature
from google.protobuf import json_format

from tests.conformance.errors import Json

KEY: Final = b'long enough, and for tests only: no secret'
KEY_ID: Final = 'key-1'


def canonical(card: Json) -> bytes:
    """What is signed of a card; the canonical form (RFC 8785) of JSON that has no fractions."""
    unsigned = {name: value for name, value in card.items() if name != 'signatures'}
    return json.dumps(unsigned, sort_keys=True, separators=(',', ':'), ensure_ascii=False).encode()


def sign(card: AgentCard) -> AgentCard:
    """Signs a card that has all its required fields."""
    header = {'alg': 'HS256', 'kid': KEY_ID, 'typ': 'JOSE'}
    protected = encode(json.dumps(header).encode())
    signature = signature_of(protected, json_format.MessageToDict(card))
    card.signatures.append(AgentCardSignature(protected=protected, signature=signature))
    return card


def verify(card: Json, signature: Json) -> Json:
    """Returns what a signature of a card says of itself, once it is known to be good."""
    assert signature['signature'] == signature_of(signature['protected'], card)
    header: Json = json.loads(decode(signature['protected']))
    return header


def signature_of(protected: str, card: Json) -> str:
    signed = f'{protected}.{encode(canonical(card))}'.encode()
    return encode(hmac.new(KEY, signed, hashlib.sha256).digest())


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))
