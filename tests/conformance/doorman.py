"""An authenticator for tests: knows a few tokens by heart, and does what some of them tell it."""

from collections.abc import Mapping
from typing import Final

from a2a.types.a2a_pb2 import HTTPAuthSecurityScheme, SecurityScheme

from a2a_scribe import IncomingCall, MissingCredentialsError, PermissionDeniedError, Principal, UnauthenticatedError
from tests.conformance.wire import Pairs

TOKENS: Final[Mapping[str, str]] = {'secret-of-ann': 'ann', 'secret-of-ben': 'ben'}
POWERLESS: Final = 'secret-of-somebody-without-rights'
CRASHING: Final = 'secret-that-makes-it-fail'
UNKNOWN: Final = 'secret-of-a-stranger'


def bearing(token: str) -> Pairs:
    """What a caller sends who has a token."""
    return (('Authorization', f'Bearer {token}'),)


ANN: Final = bearing('secret-of-ann')
BEN: Final = bearing('secret-of-ben')


class Doorman:
    """Lets in who has one of the tokens."""

    def __init__(self) -> None:
        scheme = HTTPAuthSecurityScheme(scheme='Bearer')
        self.security_schemes = {'bearer': SecurityScheme(http_auth_security_scheme=scheme)}
        self.calls: list[IncomingCall] = []

    async def __call__(self, call: IncomingCall) -> Principal:
        self.calls.append(call)
        given = call.values('authorization')
        if not given:
            raise MissingCredentialsError
        token = given[0].removeprefix('Bearer ')
        if token == CRASHING:
            raise ValueError(f'no idea what {token} is')
        if token == POWERLESS:
            raise PermissionDeniedError
        if token not in TOKENS or len(given) > 1:
            raise UnauthenticatedError
        return Principal(TOKENS[token])
