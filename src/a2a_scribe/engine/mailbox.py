"""Looks for what other processes have left in the inbox for the tasks of this one: cancels, and messages for a turn
that goes on in the background and that the next message ends.

Other messages need no looking for: the end of a turn finds them. A hint makes it look at once; without one it looks
once in every poll interval.
"""

import logging
from typing import Protocol

from a2a_scribe.clock import Clock
from a2a_scribe.engine.latch import Latch
from a2a_scribe.errors import EnvironmentFault

logger = logging.getLogger(__name__)


class Look(Protocol):
    """Looks into the inbox, and begins what is found there."""

    async def __call__(self, *, hinted: bool) -> None:
        """Looks, also if no other node is known to live where there was a hint. Raises: JournalUnavailableError."""


class Mailbox:
    """The looks of one session."""

    def __init__(self, look: Look, clock: Clock, interval: float) -> None:
        """Looks once in every `interval` seconds, in which there was no hint."""
        self._look = look
        self._clock = clock
        self._interval = interval
        self._hinted = False
        self._latch: Latch | None = None

    def hint(self) -> None:
        """Says that something may have come."""
        self._hinted = True
        if self._latch is not None:
            self._latch.open()

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            if not self._hinted:
                self._latch = Latch()
                await self._latch.wait(self._clock, self._interval)
                self._latch = None
            hinted, self._hinted = self._hinted, False
            try:
                await self._look(hinted=hinted)
            except EnvironmentFault as error:
                logger.debug('The inbox cannot be looked into now: %s', error)
