"""How many streams are open, in all and for each owner."""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from a2a_scribe.protocol.faults import TooManyStreamsError, TooManyStreamsOfCallerError


class OpenStreams:
    """Counts streams; knows only the owners that have some."""

    def __init__(self, most: int, most_of_owner: int | None) -> None:
        """Takes how many there may be."""
        self._most = most
        self._most_of_owner = most_of_owner or math.inf
        self._of_owner: Counter[str] = Counter()
        self.count = 0
        """In all."""

    @property
    def owners(self) -> set[str]:
        """Who has some."""
        return set(self._of_owner)

    @contextmanager
    def one(self, owner: str) -> Iterator[None]:
        """Counts a stream for as long as this is open.

        Raises:
            TooManyStreamsOfCallerError: The owner has as many as it may.
            TooManyStreamsError: There are as many as may be.
        """
        if self._of_owner.get(owner, 0) >= self._most_of_owner:
            raise TooManyStreamsOfCallerError
        if self.count >= self._most:
            raise TooManyStreamsError
        self.count += 1
        self._of_owner[owner] += 1
        try:
            yield
        finally:
            self.count -= 1
            self._of_owner[owner] -= 1
            if not self._of_owner[owner]:
                del self._of_owner[owner]
