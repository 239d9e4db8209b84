"""API keys: a call says one in a header, and a file says whose it is. The file may change while the server runs."""

import hmac
import logging
from pathlib import Path
from typing import Final

from a2a.types.a2a_pb2 import APIKeySecurityScheme, SecurityScheme

from a2a_scribe.auth.key_file import MAX_KEY_LENGTH, digest_of, id_of, parse_keys
from a2a_scribe.auth.principals import IncomingCall, Principal, only_value
from a2a_scribe.auth.watched_file import WatchedFile
from a2a_scribe.clock import Clock, SystemClock
from a2a_scribe.errors import SettingsError
from a2a_scribe.protocol.faults import UnauthenticatedError

logger = logging.getLogger(__name__)

HEADER: Final = 'X-API-Key'
SCHEME: Final = 'apiKey'
"""The name of the scheme on the card."""
NOBODYS: Final = digest_of('')


class ApiKeys:
    """Knows callers by a key in the header `X-API-Key`."""

    def __init__(self, path: str | Path, *, clock: Clock | None = None) -> None:
        """Reads the file, which `a2a-scribe keys` writes.

        Raises:
            SettingsError: It cannot be read, or is no file of keys.
        """
        self.security_schemes = {
            SCHEME: SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(location='header', name=HEADER))
        }
        self._clock = clock or SystemClock()
        self._file = WatchedFile(Path(path), self._clock)
        try:
            self._keys = parse_keys(self._file.read())
        except OSError as error:
            raise SettingsError(f'the API keys {str(path)!r} cannot be read: {error.strerror}') from error
        except SettingsError as error:
            raise SettingsError(f'{str(path)!r} is no file of API keys: {error}') from None

    def __call__(self, call: IncomingCall) -> Principal:
        """Returns whose key the call has.

        Raises:
            UnauthenticatedError: It has none, several, or one that is not valid (any more).
        """
        text = only_value(call.values(HEADER.lower()))
        if len(text) > MAX_KEY_LENGTH:
            raise UnauthenticatedError('The API key is not valid')
        self._look_for_news()
        key = self._keys.get(id_of(text))
        matches = hmac.compare_digest(digest_of(text), NOBODYS if key is None else key.digest)
        if key is None or not matches or not key.is_valid_at(self._clock.now()):
            raise UnauthenticatedError('The API key is not valid')
        return Principal(key.owner, frozenset(key.scopes), {'key_id': key.id}, SCHEME)

    def _look_for_news(self) -> None:
        """Takes what was written into the file; while it cannot be read, the keys that are known are valid."""
        try:
            if (data := self._file.news()) is not None:
                self._keys = parse_keys(data)
        except (OSError, SettingsError) as error:
            logger.error('The API keys %s are kept as they were: %s', self._file.path, error)  # noqa: TRY400
