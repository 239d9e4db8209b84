"""Deletes tasks of this engine's agent that ended long ago, where the settings ask for it, and keys that have expired.

A service: it looks now and then, deletes a few tasks in a transaction of their own, and rests for as long as that took,
so that those who write hardly notice. Several nodes may do so at once.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from a2a_scribe.clock import Clock
from a2a_scribe.engine.latch import Latch
from a2a_scribe.errors import EnvironmentFault
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.tasks import Ended
from a2a_scribe.protocol.states import CANCELED, COMPLETED, FAILED, REJECTED
from a2a_scribe.protocol.types import TaskState
from a2a_scribe.settings import Settings

logger = logging.getLogger(__name__)

SHORTEST_REST = 0.05
"""Seconds between two transactions."""


def ages_of(settings: Settings) -> Mapping[TaskState, float]:
    """Returns for how many seconds ended tasks are kept, by state; those that are kept for ever are left out."""
    ages = {
        COMPLETED: settings.retain_completed,
        FAILED: settings.retain_failed,
        CANCELED: settings.retain_canceled,
        REJECTED: settings.retain_rejected,
    }
    return {state: age for state, age in ages.items() if age is not None}


class Retention:
    """The service of one engine."""

    def __init__(self, journal: Journal, settings: Settings, clock: Clock, agent: str) -> None:
        """Looks after the tasks of one agent."""
        self._journal = journal
        self._ages = ages_of(settings)
        self._interval = settings.retention_interval
        self._clock = clock
        self._agent = agent
        self._has_keys = False
        self._has_work = Latch()
        if self._ages:
            self._has_work.open()

    def note_key(self) -> None:
        """Notes that a message had a key: from now on, those that have expired are looked for."""
        self._has_keys = True
        self._has_work.open()

    async def run(self) -> None:
        """Deletes until cancelled."""
        await self._has_work.wait(self._clock, math.inf)
        while True:
            await Latch().wait(self._clock, self._interval)
            try:
                await self._sweep()
            except EnvironmentFault as error:
                logger.warning('What is kept no longer could not be deleted now: %s', error)

    async def _sweep(self) -> None:
        now = self._clock.now()
        for state, age in self._ages.items():
            ended = Ended(state, now - int(age * 1_000_000), self._agent)
            await self._delete(partial(self._journal.delete_ended, ended))
        if self._has_keys:
            await self._delete(partial(self._journal.delete_expired_keys, now))

    async def _delete(self, delete: Callable[[], Awaitable[object]]) -> None:
        while True:
            began = self._clock.monotonic()
            if not await delete():
                return
            await Latch().wait(self._clock, max(SHORTEST_REST, self._clock.monotonic() - began))
