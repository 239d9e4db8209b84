"""The seam of authentication: what is known of a call before its body is read, and whom it turns out to come from.

An authenticator is any callable that takes the one and returns the other, at once or awaited, or raises. What it
raises beside `UnauthenticatedError`, `PermissionDeniedError` and `TemporaryError` is a failure of the server, and
nobody is let in.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from a2a.auth.user import User
from a2a.types.a2a_pb2 import SecurityScheme

from a2a_scribe.protocol.faults import UnauthenticatedError

Binding = Literal['JSONRPC', 'HTTP+JSON', 'GRPC']


@dataclass(frozen=True, slots=True)
class IncomingCall:
    """What the wire knows of a call before its body is read. Its text shows no credentials."""

    binding: Binding
    headers: Sequence[tuple[str, str]] = field(repr=False)
    """Headers of HTTP, or the metadata of gRPC that is text; names in lower case, in the order of the wire."""
    client: str = ''
    """The address that the connection comes from, which may be a proxy's; empty where it is not known."""
    url: str = field(default='', repr=False)
    """Path and query of HTTP, or the method of gRPC."""

    def values(self, name: str) -> list[str]:
        """Returns all values of a header, by its name in lower case: one that comes twice is not to be trusted."""
        return [value for given, value in self.headers if given == name]


@dataclass(frozen=True, slots=True)
class Principal:
    """Whom a call comes from."""

    name: str
    """The owner of the tasks that the caller makes: 1 to 255 characters, no control characters."""
    scopes: frozenset[str] = frozenset()
    """What the caller may do, in words of whoever has issued the credentials."""
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What else is known of the caller."""
    scheme: str = ''
    """The name of the scheme on the card by which the caller was authenticated."""


class AuthenticatedUser(User):
    """The caller as executors find it in their call context; one that is executed again knows only the name."""

    def __init__(self, principal: Principal) -> None:
        """Takes who it is."""
        self._principal = principal

    @property
    def is_authenticated(self) -> bool:
        """Always true."""
        return True

    @property
    def user_name(self) -> str:
        """The principal's name."""
        return self._principal.name

    @property
    def principal(self) -> Principal:
        """All that is known of the caller."""
        return self._principal


Authenticate = Callable[[IncomingCall], 'Principal | Awaitable[Principal]']
"""The seam. A function that does not wait must be quick: it runs on the event loop.

An attribute `security_schemes`, a mapping of names to `SecurityScheme`, is what the card declares by itself.
"""


class MissingCredentialsError(UnauthenticatedError):
    """The call has no credentials of the kind that was looked for."""

    message = 'Credentials are missing'


def schemes_of(authenticate: Authenticate | None) -> Mapping[str, SecurityScheme]:
    """Returns what an authenticator has to say on the card."""
    return getattr(authenticate, 'security_schemes', None) or {}


def only_value(values: Sequence[str]) -> str:
    """Returns the only value of a header.

    Raises:
        MissingCredentialsError: There is none.
        UnauthenticatedError: There are several.
    """
    if not values:
        raise MissingCredentialsError
    if len(values) > 1:
        raise UnauthenticatedError('Credentials are given more than once')
    return values[0]
