"""Identity, the only module that makes it up.

Everything else is given an `IdSource`; `a2a_scribe.testing` has one that counts.
"""

import os
import secrets
import socket
from typing import Final, Protocol

from a2a_scribe.clock import Clock, SystemClock

VARIANT: Final = 0b10 << 62
RANDOM_BITS: Final = (1 << 62) - 1


class IdSource(Protocol):
    """Where new ids come from."""

    def new(self) -> str:
        """Returns an id that nobody has seen before."""


class UuidSource:
    """UUIDs that grow with time (RFC 9562, version 7).

    What is made at the same time then lies at the same place of an index: a transaction that stores a few tasks writes
    a few pages, where random keys would have it write several for each task.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        """Takes the time from a clock; without one, the machine's."""
        self._clock = clock or SystemClock()

    def new(self) -> str:
        """Returns a UUID in its usual form: milliseconds, their fraction in 12 bits, 62 bits of chance."""
        millis, micros = divmod(self._clock.now(), 1000)
        chance = int.from_bytes(os.urandom(8)) & RANDOM_BITS | VARIANT
        low = f'{chance:016x}'
        time = f'{millis:012x}'
        return f'{time[:8]}-{time[8:]}-7{micros * 4096 // 1000:03x}-{low[:4]}-{low[4:]}'


def process_name() -> str:
    """Returns what operators know this process by: its host and its number there."""
    return f'{socket.gethostname()}:{os.getpid()}'


def new_secret(size: int) -> bytes:
    """Returns so many bytes that nobody can guess."""
    return secrets.token_bytes(size)
