"""An issuer of tokens: keys of each kind, tokens right and wrong, and a place where its public keys are published."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt import algorithms

ISSUER, AUDIENCE = 'https://issuer.test', 'an-agent'
MAKERS: Mapping[str, Any] = {
    'RS256': lambda: rsa.generate_private_key(65537, 2048),
    'PS256': lambda: rsa.generate_private_key(65537, 2048),
    'ES256': lambda: ec.generate_private_key(ec.SECP256R1()),
    'ES384': lambda: ec.generate_private_key(ec.SECP384R1()),
    'ES512': lambda: ec.generate_private_key(ec.SECP521R1()),
    'EdDSA': ed25519.Ed25519PrivateKey.generate,
}


@cache
def private_key(name: str, algorithm: str = 'ES256') -> Any:
    """The private key of a name, made once in a run."""
    return MAKERS[algorithm]()


def jwk(name: str, algorithm: str = 'ES256', **changes: Any) -> dict[str, Any]:
    """The public key of a name, which is its id too."""
    kind = algorithms.get_default_algorithms()[algorithm]
    shown = json.loads(kind.to_jwk(private_key(name, algorithm).public_key()))
    return {**shown, 'kid': name, 'alg': algorithm, 'use': 'sig', **changes}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({'keys': keys}).encode()


def pem(name: str, algorithm: str = 'ES256') -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    encoded: bytes = private_key(name, algorithm).public_key().public_bytes(serialization.Encoding.PEM, form)
    return encoded


def claims(now: float, **changes: Any) -> dict[str, Any]:
    """What a right token says; a change to `None` leaves a claim out."""
    usual = {'iss': ISSUER, 'aud': AUDIENCE, 'sub': 'ann', 'iat': int(now), 'exp': int(now) + 600}
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def token(
    now: float, name: str = 'k1', algorithm: str = 'ES256', *, header: dict[str, Any] | None = None, **changes: Any
) -> str:
    """A token that the key of this name has signed."""
    given = {'kid': name} if header is None else header
    return jwt.encode(claims(now, **changes), private_key(name, algorithm), algorithm, headers=given)


def unsigned(now: float, algorithm: str = 'none', signature: bytes = b'', **changes: Any) -> str:
    """A token that nobody has signed, whatever it says."""
    return b'.'.join([*unsigned_parts(now, algorithm, **changes), encoded(signature)]).decode()


def signed_with_public_key(now: float, public: bytes, **changes: Any) -> str:
    """A token whose HMAC has a public key as its secret: what verifiers take that ask the token how it is signed."""
    parts = unsigned_parts(now, 'HS256', **changes)
    return unsigned(now, 'HS256', hmac.digest(public, b'.'.join(parts), hashlib.sha256), **changes)


def unsigned_parts(now: float, algorithm: str, **changes: Any) -> list[bytes]:
    header = {'alg': algorithm, 'kid': 'k1', 'typ': 'JWT'}
    return [encoded(json.dumps(part).encode()) for part in (header, claims(now, **changes))]


def encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b'=')


class Publisher:
    """Where keys are published: what is answered can be changed, and how often it was asked is counted."""

    def __init__(self) -> None:
        self.answer = b''
        self.asked = 0
        self.url = ''
        self.port = 0

    @contextmanager
    def running(self) -> Iterator['Publisher']:
        """Answers until the context ends; may be used again, and is then at the same place."""
        publisher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                publisher.asked += 1
                self.send_response(200)
                self.send_header('content-length', str(len(publisher.answer)))
                self.end_headers()
                self.wfile.write(publisher.answer)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(('127.0.0.1', self.port), Handler)
        self.port = server.server_port
        self.url = f'http://127.0.0.1:{self.port}/keys'
        thread = threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.01})
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
