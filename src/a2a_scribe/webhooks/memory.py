"""What a receiver has seen: which attempts, so that none is taken twice, and which events, so that it knows them again.

Only what carries a good signature comes here, so a stranger cannot fill it.
"""

import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from a2a_scribe.webhooks.refusals import DeliveryInHandError, ReplayedDeliveryError

REMEMBERED_EVENTS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Sighting:
    """One attempt at one event.

    `attempt` is a digest of what was signed. It is not one of the signature: of one content there are several, by
    several keys, or because a scheme allows it. After `stale_at` the attempt is too old to be taken again anyway.
    """

    event_id: str
    attempt: bytes
    stale_at: float


class Memory:
    """The memory of one verifier, in the process that it lives in."""

    def __init__(self, events: int = REMEMBERED_EVENTS) -> None:
        """Takes how many events are known again; the ones handled longest ago are forgotten first."""
        self._limit = events
        self._attempts: set[bytes] = set()
        self._ageing: list[tuple[float, bytes]] = []
        self._handled: dict[str, None] = {}
        self._in_hand: set[str] = set()

    @contextmanager
    def handling(self, sighting: Sighting, now: float) -> Iterator[bool]:
        """Keeps an attempt in hand; gives whether its event was handled before. `now` as `stale_at`.

        What raises in the block has not handled the event: all of it may come again, this attempt too.

        Raises:
            ReplayedDeliveryError: The attempt was taken before.
            DeliveryInHandError: Another attempt at the event is in hand.
        """
        self._forget(now)
        if sighting.attempt in self._attempts:
            raise ReplayedDeliveryError
        if sighting.event_id in self._in_hand:
            raise DeliveryInHandError
        self._attempts.add(sighting.attempt)
        heapq.heappush(self._ageing, (sighting.stale_at, sighting.attempt))
        is_duplicate = sighting.event_id in self._handled
        self._in_hand.add(sighting.event_id)
        try:
            yield is_duplicate
        except BaseException:
            self._attempts.discard(sighting.attempt)
            raise
        else:
            self._remember(sighting.event_id)
        finally:
            self._in_hand.discard(sighting.event_id)

    def _remember(self, event_id: str) -> None:
        self._handled.pop(event_id, None)
        self._handled[event_id] = None
        if len(self._handled) > self._limit:
            del self._handled[next(iter(self._handled))]

    def _forget(self, now: float) -> None:
        while self._ageing and self._ageing[0][0] < now:
            _, attempt = heapq.heappop(self._ageing)
            self._attempts.discard(attempt)
