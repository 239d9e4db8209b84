"""The public keys of the server, where receivers of its webhooks find them (RFC 7517)."""

from typing import Final

from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from a2a_scribe.transport.asgi import HttpCall, NotAllowedError
from a2a_scribe.transport.caching import answer_cached
from a2a_scribe.transport.rest import refuse

JWKS_PATH: Final = '/.well-known/jwks.json'
JWK_SET: Final = 'application/jwk-set+json'
CACHING: Final = 'public, max-age=300'
"""A key is published an hour before it signs, unless its operator wants it otherwise."""


class KeysEndpoint:
    """The URL of the keys, as an ASGI app."""

    def __init__(self, jwks: bytes) -> None:
        """Takes the JWK set as it is sent."""
        self._jwks = jwks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request."""
        call = HttpCall(scope, receive, send)
        if call.method not in ('GET', 'HEAD'):
            await refuse(call, NotAllowedError(['GET', 'HEAD']))
        else:
            await answer_cached(call, self._jwks, JWK_SET, CACHING)


def create_jwks_routes(jwks: bytes, path: str = JWKS_PATH) -> list[BaseRoute]:
    """Returns the route of the server's public keys."""
    return [Route(path, KeysEndpoint(jwks))]
