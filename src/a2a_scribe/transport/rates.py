"""How many requests each owner may send: a bucket of tokens per owner, filled at a steady rate.

Pure: whoever asks says what time it is. A bucket that is full again is the same as none, so only those are kept that
are not, and no more than a fixed number of them.
"""

import math
from collections import OrderedDict
from typing import Final

MOST_OWNERS: Final = 10_000
"""Owners that are remembered; beyond, whoever has been silent for longest starts with a full bucket again."""
EPSILON: Final = 1e-6
"""What sums of fractions may be off by."""


class Rates:
    """The buckets of all owners."""

    def __init__(self, per_second: float, burst: int, most_owners: int = MOST_OWNERS) -> None:
        """Takes how fast buckets fill, and how much they hold."""
        self._per_second = per_second
        self._burst = burst
        self._most_owners = most_owners
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """When each bucket is full again; whoever took last comes last."""

    def __len__(self) -> int:
        """How many owners are remembered."""
        return len(self._full_at)

    def take(self, owner: str, now: float, tokens: int = 1) -> float:
        """Takes tokens, and returns 0; or returns after how many seconds they are there, and takes none.

        Who asks for more than a bucket holds is given them when it is full, and waits the longer afterwards.
        """
        full_at = max(self._full_at.pop(owner, now), now)
        there = self._burst - (full_at - now) * self._per_second
        missing = min(tokens, self._burst) - there
        if missing <= EPSILON:
            full_at += tokens / self._per_second
        self._full_at[owner] = full_at
        self._forget(now)
        return max(missing / self._per_second, 0.0) if missing > EPSILON else 0.0

    def _forget(self, now: float) -> None:
        """Forgets the owners that have been silent for longest: those who are full, and those who are too many."""
        while self._full_at:
            owner, full_at = next(iter(self._full_at.items()))
            if full_at > now and len(self._full_at) <= self._most_owners:
                return
            del self._full_at[owner]


def in_whole_seconds(seconds: float) -> int:
    """Returns what HTTP's Retry-After says for a time: at least one second."""
    return max(1, math.ceil(seconds))
