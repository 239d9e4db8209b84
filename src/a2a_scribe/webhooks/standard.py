"""The signature scheme of Standard Webhooks 1.0: HMAC-SHA256 over `<id>.<time>.<body>` with a shared secret.

Both sides use it: the sender signs, a receiver signs again and compares.
"""

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

from a2a_scribe.errors import SettingsError

SECRET_PREFIX: Final = 'whsec_'
SIGNATURE_PREFIX: Final = 'v1,'
SHORTEST, LONGEST = 24, 64
"""Bytes that a secret may have."""


@dataclass(frozen=True, slots=True)
class SharedSecret:
    """A secret that sender and receiver know; its representation does not show it."""

    key: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> 'SharedSecret':
        """Reads `whsec_<base64>`.

        Raises:
            SettingsError: It has another form; the message does not repeat it.
        """
        encoded = text.strip()
        if not encoded.startswith(SECRET_PREFIX):
            raise SettingsError(f"a webhook secret must begin with '{SECRET_PREFIX}'")
        try:
            key = base64.b64decode(encoded.removeprefix(SECRET_PREFIX).encode(), validate=True)
        except (binascii.Error, ValueError):
            raise SettingsError(f"a webhook secret must be base64 after '{SECRET_PREFIX}'") from None
        if not SHORTEST <= len(key) <= LONGEST:
            raise SettingsError(f'a webhook secret must have {SHORTEST} to {LONGEST} bytes, not {len(key)}')
        return cls(key)

    def text(self) -> str:
        """Returns the secret as it is written down."""
        return SECRET_PREFIX + base64.b64encode(self.key).decode()

    def sign(self, content: bytes) -> str:
        """Returns the signature of what `content_of` has put together."""
        return SIGNATURE_PREFIX + base64.b64encode(hmac.digest(self.key, content, hashlib.sha256)).decode()


def content_of(event: str, timestamp: str, body: bytes) -> bytes:
    """Returns what is signed of a delivery, with the values of its headers."""
    return b'%s.%s.%s' % (event.encode(), timestamp.encode(), body)
