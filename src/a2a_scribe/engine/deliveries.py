"""What the engine does for whoever delivers webhooks: its journal, its commit loop, its clock, and nothing of turns.

The engine is handed what starts a delivery and does not know what that is; what is started sees the engine as a `Desk`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol

from a2a_scribe.clock import Clock
from a2a_scribe.core.records import Record
from a2a_scribe.engine.commits import CommitLoop
from a2a_scribe.engine.cursors import Cursor, Reading
from a2a_scribe.engine.latch import Latch
from a2a_scribe.journal.deliveries import (
    Delivery,
    DeliveryKey,
    DeliveryOutcome,
    DueDeliveries,
    KeepDeliveries,
    Kept,
)
from a2a_scribe.journal.results import WriteResult
from a2a_scribe.journal.writes import Group
from a2a_scribe.protocol.types import Task
from a2a_scribe.services import Background, Service
from a2a_scribe.settings import Settings

MOST_RECORDS, BATCH_BYTES = 100, 64_000
"""What is read at a time: a receiver that is slow holds as much."""
LOOK_BACK = 200
"""Records before a place that are read to know the turn there."""


class Delivering(Service, Protocol):
    """What delivers webhooks."""

    @property
    def holds(self) -> bool:
        """Whether the node takes care of configs, and so has to show that it lives."""

    def note(self, group: Group) -> None:
        """Hears of what is durable, before others do."""

    def left(self, task_id: str) -> None:
        """Hears that the node does not work on a task any more."""

    def heard(self, task_ids: Iterable[str] | None) -> None:
        """Hears that other processes have written to some tasks, `None` for any."""

    def give_up(self) -> None:
        """Hears that what the node holds is others' now."""

    async def close(self, seconds: float) -> None:
        """Lets what is under way finish for `seconds`, and releases what it holds."""


class Desk:
    """One engine's session, for what delivers its webhooks."""

    def __init__(
        self,
        agent: str,
        commits: CommitLoop,
        reading: Reading,
        clock: Clock,
        settings: Settings,
        background: Background,
    ) -> None:
        """Serves one agent."""
        self.clock = clock
        self.settings = settings
        self._agent = agent
        self._commits = commits
        self._reading = reading
        self._journal = reading.journal
        self._background = background

    @property
    def is_sure(self) -> bool:
        """Whether the node has written so short a time ago that nobody can have taken its place."""
        return self.clock.monotonic() - self._commits.written_at < self.settings.lease

    def latch(self) -> Latch:
        """Returns a wait that has not ended."""
        return Latch()

    def spawn(self, errand: Coroutine[Any, Any, None], name: str) -> 'asyncio.Task[None]':
        """Runs an errand that ends with the session."""
        return self._background.spawn(errand, name)

    def is_live(self, task_id: str) -> bool:
        """Whether the node works on a task."""
        return self._reading.registry.get(task_id) is not None

    async def read(self, task_id: str, after: int) -> list[Record]:
        """Returns some of a task's durable records after `after`."""
        return await Cursor(self._reading, task_id, after, MOST_RECORDS, BATCH_BYTES).read()

    async def read_before(self, task_id: str, until: int) -> list[Record]:
        """Returns some of a task's records up to `until`, its last one."""
        after = max(0, until - LOOK_BACK)
        return await self._journal.read_records(task_id, after, until - after, BATCH_BYTES * 4)

    async def task_as_of(self, task_id: str, seq: int) -> Task | None:
        """Returns a task as it was after a record, `None` if that is not known."""
        return await self._reading.task_as_of(task_id, seq)

    async def due(self, limit: int, task_ids: tuple[str, ...] | None) -> list[DeliveryKey]:
        """Returns configs that the node should take."""
        node = self._commits.node.row.node_id
        return await self._journal.due_deliveries(DueDeliveries(self._agent, node, self.clock.now(), limit, task_ids))

    async def held(self) -> set[DeliveryKey]:
        """Returns the configs that the node holds."""
        return await self._journal.held_deliveries(self._commits.node.row.node_id)

    async def find(self, key: DeliveryKey) -> Delivery | None:
        """Returns a config if the node holds it."""
        found = await self._journal.read_delivery(key)
        return found if found is not None and found.node == self._commits.node.row.node_id else None

    async def keep(
        self,
        outcomes: tuple[DeliveryOutcome, ...],
        claims: tuple[DeliveryKey, ...],
        settle: Callable[[Kept], None],
    ) -> None:
        """Writes what came of attempts, and takes configs."""

        def settled(result: WriteResult) -> None:
            assert isinstance(result, Kept)
            settle(result)

        await self._commits.write(KeepDeliveries(outcomes, claims), settled)


Deliver = Callable[[Desk], Delivering]
"""Starts the delivery of one session."""
