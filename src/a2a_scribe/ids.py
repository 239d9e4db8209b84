"""Identity, the only module that makes it up.

Everything else is given an `IdSource`; `a2a_scribe.testing` has one that counts.
"""

import os
import secrets
import socket
import uuid
from typing import Protocol


class IdSource(Protocol):
    """Where new ids come from."""

    def new(self) -> str:
        """Returns an id that nobody has seen before."""


class UuidSource:
    """Random UUIDs."""

    def new(self) -> str:
        """Returns a random UUID in its usual form."""
        return str(uuid.uuid4())


def process_name() -> str:
    """Returns what operators know this process by: its host and its number there."""
    return f'{socket.gethostname()}:{os.getpid()}'


def new_secret(size: int) -> bytes:
    """Returns so many bytes that nobody can guess."""
    return secrets.token_bytes(size)
