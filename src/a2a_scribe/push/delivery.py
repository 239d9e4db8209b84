"""What one call of a webhook is made of, and the seams through which it is made.

The dispatcher builds an `Outgoing`, a `Signer` adds headers to it, a `Poster` carries it to its target. None of them
knows the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One attempt to deliver one event to one receiver (A2A 1.0, section 4.3.3).

    `event_id` is `<task id>/<seq>`: the same at each attempt, so that receivers can tell duplicates. `sent_at` is the
    time of this attempt in microseconds since the epoch. `body` is what is sent, byte for byte.
    """

    url: str
    task_id: str
    event_id: str
    attempt: int
    sent_at: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver answered; `retry_after` in seconds, if it asked for a pause."""

    status: int
    retry_after: float | None = None


class DeliveryFailedError(Exception):
    """No answer came: the text says why in words that name neither credentials nor paths.

    `is_final`: the target is refused as such, and no later attempt at it will be allowed either.
    """

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_final = is_final


class Signer(Protocol):
    """Proves to a receiver who sent an event."""

    def sign(self, outgoing: Outgoing) -> Mapping[str, str]:
        """Returns the headers that belong to this attempt."""
        ...


class Poster(Protocol):
    """Carries an event to its receiver."""

    async def post(self, outgoing: Outgoing) -> Answer:
        """Makes one HTTP POST and returns its answer, of whatever status.

        Raises:
            DeliveryFailedError: The target is refused, cannot be reached, or does not answer in time.
        """
        ...

    async def aclose(self) -> None:
        """Closes its connections."""
        ...


class SecretBox(Protocol):
    """Keeps the secrets of push configs unreadable in the database."""

    def seal(self, secret: bytes) -> bytes:
        """Encrypts with the newest key."""
        ...

    def open(self, sealed: bytes) -> bytes:
        """Decrypts what any of the keys has sealed; what was stored before there were keys is returned as it is.

        Raises:
            SettingsError: No key fits.
        """
        ...
