"""Wake-ups between processes of one journal. Hints only: one that is lost costs time, never data.

One listener per node, and one teller where a database does not show changes by itself. Neither knows what is written
or read; both go on trying while the database is away.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from a2a_scribe.errors import EnvironmentFault
from a2a_scribe.journal.port import Heard, Hints

logger = logging.getLogger(__name__)

PAUSE: Final = 1.0
"""Seconds after which a lost connection is made anew."""


class Listener:
    """Hears what other processes have written."""

    def __init__(self, hints: Hints, heard: Heard, is_wanted: Callable[[], bool]) -> None:
        """Calls `heard` for each hint; `is_wanted` says whether anybody waits for one."""
        self._hints = hints
        self._heard = heard
        self._is_wanted = is_wanted
        self._is_down = False

    async def run(self) -> None:
        """Listens until cancelled."""
        while True:
            try:
                await self._hints.listen(self._note, self._is_wanted)
            except EnvironmentFault as error:
                if not self._is_down:
                    logger.warning('Other processes are heard of late, by looking only: %s', error)
                self._is_down = True
            await asyncio.sleep(PAUSE)

    def _note(self, task_ids: Iterable[str] | None) -> None:
        self._is_down = False
        self._heard(task_ids)


class Teller:
    """Tells other processes what this one has written; what comes while it does so is told together."""

    def __init__(self, hints: Hints) -> None:
        """Has nothing to tell."""
        self._hints = hints
        self._task_ids: set[str] = set()
        self._wanted = asyncio.Event()

    def tell(self, task_ids: Iterable[str]) -> None:
        """Tells of tasks, soon."""
        self._task_ids.update(task_ids)
        if self._task_ids:
            self._wanted.set()

    async def run(self) -> None:
        """Tells until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            task_ids, self._task_ids = self._task_ids, set()
            try:
                await self._hints.tell(task_ids)
            except EnvironmentFault as error:
                logger.debug('Other processes could not be told: %s', error)
