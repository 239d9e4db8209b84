"""How `a2a-scribe serve` is told who may call: its options, and the authenticator that they make."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from a2a_scribe.auth.api_keys import ApiKeys
from a2a_scribe.auth.bearer import BearerTokens
from a2a_scribe.auth.combining import AnyOf
from a2a_scribe.auth.key_sets import ASYMMETRIC
from a2a_scribe.auth.principals import Authenticate
from a2a_scribe.errors import SettingsError

PANEL = 'Who may call'
DEFAULT_ALGORITHMS = ','.join(ASYMMETRIC)

ApiKeyFile = Annotated[
    Path | None, typer.Option(metavar='FILE', help='API keys, made by `a2a-scribe keys new`.', rich_help_panel=PANEL)
]
Issuer = Annotated[
    str | None, typer.Option(metavar='TEXT', help='Whose tokens are taken: their `iss`.', rich_help_panel=PANEL)
]
Audience = Annotated[
    str | None, typer.Option(metavar='TEXT', help='Whom tokens must be for: their `aud`.', rich_help_panel=PANEL)
]
Keys = Annotated[
    str | None,
    typer.Option(
        metavar='URL|FILE', help='The keys of the issuer: a JWK Set, or PEM in a file.', rich_help_panel=PANEL
    ),
]
Algorithms = Annotated[
    str | None,
    typer.Option(
        metavar='NAMES',
        help='Algorithms of tokens, with commas; by default all without a shared secret.',
        rich_help_panel=PANEL,
    ),
]
OwnerClaim = Annotated[
    str | None,
    typer.Option(metavar='NAME', help='The claim that names the owner; `sub` by default.', rich_help_panel=PANEL),
]
Scopes = Annotated[
    str | None,
    typer.Option(metavar='NAMES', help='Scopes that each token must have, with commas.', rich_help_panel=PANEL),
]
Leeway = Annotated[
    float | None,
    typer.Option(metavar='SECONDS', min=0, help='By how much clocks may differ; 30 by default.', rich_help_panel=PANEL),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerOptions:
    """What the options say; `None` where they say nothing."""

    api_keys: Path | None = None
    issuer: str | None = None
    audience: str | None = None
    keys: str | None = None
    algorithms: str | None = None
    owner_claim: str | None = None
    scopes: str | None = None
    leeway: float | None = None

    def authenticator(self) -> Authenticate | None:
        """Returns who is asked whom a call comes from, `None` if nobody is.

        Raises:
            SettingsError: The options do not go together, or name what cannot be used.
        """
        ways: list[Authenticate] = []
        if self.api_keys is not None:
            ways.append(ApiKeys(self.api_keys))
        if (tokens := self._tokens()) is not None:
            ways.append(tokens)
        return AnyOf(*ways) if len(ways) > 1 else next(iter(ways), None)

    def _tokens(self) -> BearerTokens | None:
        needed = {'--jwt-issuer': self.issuer, '--jwt-audience': self.audience, '--jwt-keys': self.keys}
        if self.issuer is not None and self.audience is not None and self.keys is not None:
            return BearerTokens(
                issuer=self.issuer,
                audience=self.audience,
                keys=self.keys,
                algorithms=ASYMMETRIC if self.algorithms is None else _names(self.algorithms),
                owner_claim='sub' if self.owner_claim is None else self.owner_claim,
                required_scopes=_names(self.scopes or ''),
                leeway=30.0 if self.leeway is None else self.leeway,
            )
        others = (self.algorithms, self.owner_claim, self.scopes, self.leeway)
        if any(value is not None for value in (*needed.values(), *others)):
            missing = ', '.join(name for name, value in needed.items() if value is None)
            raise SettingsError(f'bearer tokens need {missing} too')
        return None


def _names(text: str) -> list[str]:
    """Returns names that are separated by commas or blanks."""
    return text.replace(',', ' ').split()
