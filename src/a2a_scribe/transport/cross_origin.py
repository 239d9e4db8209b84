"""What browsers want to be told about a whole server: which pages may call it, and that it is to be called over TLS."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from a2a_scribe.errors import SettingsError
from a2a_scribe.protocol.service_parameters import EXTENSIONS, OLD_EXTENSIONS, VERSION

ANY: Final = '*'
METHODS: Final = ('GET', 'POST', 'DELETE')
EXPOSED: Final = (EXTENSIONS, OLD_EXTENSIONS, VERSION, 'ETag', 'Retry-After', 'WWW-Authenticate')
"""Headers of answers that pages may read, beside those that they always may."""
PREFLIGHT_AGE: Final = 600
"""Seconds for which a browser need not ask again."""


class StrictTransport:
    """Adds Strict-Transport-Security to every answer (RFC 6797)."""

    def __init__(self, app: ASGIApp, max_age: int) -> None:
        """Takes for how many seconds browsers are to insist on TLS."""
        self._app = app
        self._header = (b'strict-transport-security', b'max-age=%d' % max_age)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes everything on."""

        async def pass_on(message: Message) -> None:
            if message['type'] == 'http.response.start':
                message = {**message, 'headers': [*message.get('headers', ()), self._header]}
            await send(message)

        await self._app(scope, receive, pass_on)


def browser_middleware(cors_origins: Sequence[str], hsts: int | None) -> list[Middleware]:
    """Returns what is asked for, which may be nothing.

    Raises:
        SettingsError: What is given as an origin is none.
    """
    found = []
    if hsts is not None:
        if hsts < 0:
            raise SettingsError(f'hsts must be a number of seconds, not {hsts!r}')
        found.append(Middleware(StrictTransport, max_age=hsts))
    if cors_origins:
        found.append(
            Middleware(
                CORSMiddleware,
                allow_origins=[_origin(each) for each in _several(cors_origins)],
                allow_methods=METHODS,
                allow_headers=[ANY],
                expose_headers=EXPOSED,
                max_age=PREFLIGHT_AGE,
            )
        )
    return found


def _several(origins: Sequence[str]) -> Sequence[str]:
    return [origins] if isinstance(origins, str) else origins


def _origin(given: str) -> str:
    """Returns an origin as browsers send it."""
    origin = given.rstrip('/').lower()
    parts = urlsplit(origin)
    if origin == ANY or (parts.scheme and parts.netloc and origin == f'{parts.scheme}://{parts.netloc}'):
        return origin
    raise SettingsError(f"cors_origins: {given!r} is no origin: it must be '*' or like https://app.example:8443")
