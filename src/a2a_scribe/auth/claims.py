"""What must hold of a token's claims, as pure rules (RFC 7519, section 4.1; RFC 9068)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from a2a_scribe.errors import SettingsError
from a2a_scribe.protocol.faults import PermissionDeniedError, UnauthenticatedError
from a2a_scribe.protocol.ids import is_usable

Claims = Mapping[str, Any]
REALM = 'a2a'


def challenge(error: str = '', description: str = '', **more: str) -> str:
    """Returns what WWW-Authenticate says of bearer tokens (RFC 6750, section 3)."""
    given = {'error': error, 'error_description': description, **more}
    fields = [f'realm="{REALM}"', *(f'{name}="{value}"' for name, value in given.items() if value)]
    return f'Bearer {", ".join(fields)}'


def not_valid(description: str = 'The token is not valid') -> UnauthenticatedError:
    """Returns the refusal of a token, for a reason that its owner may know."""
    return UnauthenticatedError(description, [challenge('invalid_token', description)])


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What a token must say to be taken."""

    issuer: str
    audience: str
    owner_claim: str = 'sub'
    required_scopes: frozenset[str] = frozenset()
    leeway: float = 30.0
    """Seconds by which clocks may differ."""

    def __post_init__(self) -> None:
        """Refuses what would let everybody in, or nobody. Raises: SettingsError."""
        for name in ('issuer', 'audience', 'owner_claim'):
            if not getattr(self, name):
                raise SettingsError(f'bearer tokens need {name}')
        if not (math.isfinite(self.leeway) and self.leeway >= 0):
            raise SettingsError('leeway must be 0 seconds or more')
        if bad := [scope for scope in self.required_scopes if not scope.isascii() or set(scope) & set(' "\\')]:
            raise SettingsError(f'{bad[0]!r} is no scope')

    def check(self, claims: Claims, now: float) -> float:
        """Returns when the token stops being valid, in seconds since the epoch as `now` is.

        Raises:
            UnauthenticatedError: It is not for us, or not now.
        """
        if claims.get('iss') != self.issuer:
            raise not_valid('The issuer of the token is not accepted')
        audience = claims.get('aud')
        if self.audience not in (audience if isinstance(audience, list) else [audience]):
            raise not_valid('The token is for another audience')
        if (expires := _time(claims, 'exp')) is None:
            raise not_valid('The token has no expiry')
        if now >= expires + self.leeway:
            raise not_valid('The token has expired')
        for name in ('nbf', 'iat'):
            if (time := _time(claims, name)) is not None and now < time - self.leeway:
                raise not_valid('The token is not valid yet')
        return expires + self.leeway

    def owner_of(self, claims: Claims) -> str:
        """Returns who the caller is. Raises: UnauthenticatedError."""
        owner = claims.get(self.owner_claim)
        if not isinstance(owner, str) or not is_usable(owner):
            raise not_valid('The token does not name its owner')
        return owner

    def check_scopes(self, scopes: frozenset[str]) -> None:
        """Refuses a caller who may not do what all may who are let in. Raises: PermissionDeniedError."""
        if not self.required_scopes <= scopes:
            needed = ' '.join(sorted(self.required_scopes))
            raise PermissionDeniedError(
                'The token lacks a scope',
                [challenge('insufficient_scope', 'The token lacks a scope', scope=needed)],
            )


def scopes_of(claims: Claims) -> frozenset[str]:
    """Returns the scopes that a token has: `scope` as text, or `scp` as text or list, as issuers write them."""
    found: set[str] = set()
    for name in ('scope', 'scp'):
        given = claims.get(name)
        parts = given.split() if isinstance(given, str) else given
        if isinstance(parts, list):
            found.update(each for each in parts if isinstance(each, str))
    return frozenset(found)


def _time(claims: Claims, name: str) -> float | None:
    """Returns a time in seconds since the epoch. Raises: UnauthenticatedError."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise not_valid(f'{name} of the token is no time')
    return float(value)
