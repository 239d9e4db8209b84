"""What a dispatcher asks of the engine that it works for. The engine has it, and knows no dispatcher."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from a2a_scribe.clock import Clock
from a2a_scribe.core.records import Record
from a2a_scribe.journal.deliveries import Delivery, DeliveryKey, DeliveryOutcome, Kept
from a2a_scribe.protocol.types import Task
from a2a_scribe.settings import Settings


class Wait(Protocol):
    """One wait with an end."""

    def open(self) -> None:
        """Ends it; harmless the second time."""

    async def wait(self, clock: Clock, seconds: float) -> None:
        """Waits until it is ended, `seconds` at most."""


class Desk(Protocol):
    """One engine on one event loop."""

    @property
    def clock(self) -> Clock:
        """Time."""

    @property
    def settings(self) -> Settings:
        """How the engine behaves."""

    @property
    def is_sure(self) -> bool:
        """Whether the node has written so short a time ago that nobody can have taken its place."""

    def latch(self) -> Wait:
        """Returns a wait that has not ended."""

    def spawn(self, errand: Coroutine[Any, Any, None], name: str) -> 'asyncio.Task[None]':
        """Runs an errand that ends with the engine's session."""

    def is_live(self, task_id: str) -> bool:
        """Whether the node works on a task."""

    async def read(self, task_id: str, after: int) -> list[Record]:
        """Returns some of a task's durable records after `after`. Raises: JournalUnavailableError."""

    async def read_before(self, task_id: str, until: int) -> list[Record]:
        """Returns some of a task's records up to `until`, its last one. Raises: JournalUnavailableError."""

    async def task_as_of(self, task_id: str, seq: int) -> Task | None:
        """Returns a task as it was after a record, `None` if it is not known. Raises: JournalUnavailableError."""

    async def due(self, limit: int, task_ids: tuple[str, ...] | None) -> list[DeliveryKey]:
        """Returns configs that the node should take. Raises: JournalUnavailableError."""

    async def held(self) -> set[DeliveryKey]:
        """Returns the configs that the node holds. Raises: JournalUnavailableError."""

    async def find(self, key: DeliveryKey) -> Delivery | None:
        """Returns a config if the node holds it. Raises: JournalUnavailableError."""

    async def keep(
        self,
        outcomes: tuple[DeliveryOutcome, ...],
        claims: tuple[DeliveryKey, ...],
        settle: Callable[[Kept], None],
    ) -> None:
        """Writes what came of attempts, and takes configs; `settle` is called as soon as that is durable.

        Raises:
            JournalUnavailableError: The journal is away; whether it was written is unknown.
            JournalRefusedError: The journal refused it.
        """
