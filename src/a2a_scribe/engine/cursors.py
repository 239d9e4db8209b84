"""A place in a task's journal that an observer has reached.

A cursor reads recent records from the tail of a live writer and older ones from the journal; the tail drops only what
is durable, so nothing falls between. A slow reader costs nothing and misses nothing.
"""

from dataclasses import dataclass

from a2a.utils.errors import TaskNotFoundError

from a2a_scribe.core.projection import Projection, fold_on
from a2a_scribe.core.records import TURN_STARTED, Record
from a2a_scribe.engine.hub import Hub
from a2a_scribe.engine.registry import Registry
from a2a_scribe.engine.writer import Writer
from a2a_scribe.errors import JournalRefusedError
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.tasks import Caller
from a2a_scribe.protocol.types import Task

MOST_RECORDS = 500
"""Records that are read at a time."""
BATCH_BYTES = 256_000
"""Bytes that are read at a time, unless one record alone has more: a reader that does not read holds as much."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What observers read with; one per engine session."""

    journal: Journal
    registry: Registry
    hub: Hub
    poll_interval: float

    def expects_nothing(self, task_id: str) -> bool:
        """Whether the server closes and will record nothing more of a task."""
        return self.hub.is_closed or (self.hub.is_closing and self.registry.get(task_id) is None)

    async def next_start(self, task_id: str, after: int, until: int) -> int | None:
        """Returns the first record after `after` up to `until` that starts a turn."""
        while after < until and (records := await self.journal.read_records(task_id, after, MOST_RECORDS, BATCH_BYTES)):
            for record in records:
                if record.kind == TURN_STARTED:
                    return record.seq
            after = records[-1].seq
        return None

    async def task_as_of(self, task_id: str, seq: int) -> Task | None:
        """Returns a task as it was after record `seq`, `None` if the journal has not kept its records."""
        projection: Projection | None = None
        position = 0
        while position < seq:
            limit = min(MOST_RECORDS, seq - position)
            records = await self.journal.read_records(task_id, position, limit, BATCH_BYTES)
            if not records or records[0].seq != position + 1:
                return None
            projection = fold_on(projection, records)
            position = records[-1].seq
        return None if projection is None else projection.to_task()

    async def check_existence(self, task_id: str, caller: Caller) -> None:
        """Ends the wait of those who observe a task that has been deleted.

        Raises:
            TaskNotFoundError: The task is not live here, and not in the journal.
        """
        if self.registry.get(task_id) is None and not await self.journal.has_task(task_id, caller):
            raise TaskNotFoundError


class Cursor:
    """Reads the durable records of one task, each once and in order."""

    def __init__(
        self,
        reading: Reading,
        task_id: str,
        after: int,
        most_records: int = MOST_RECORDS,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        """Starts after record `after`, and reads so much at a time."""
        self.task_id = task_id
        self.position = after
        self.writer: Writer | None = reading.registry.writer(task_id)
        """The writer whose tail was read last; it may have been released since."""
        self._reading = reading
        self._limits = most_records, batch_bytes

    async def read(self) -> list[Record]:
        """Returns the next durable records, none if there are none yet.

        Raises:
            JournalUnavailableError: Older records have to be read, and cannot be now.
        """
        if self.writer is None or (self.writer.released and self.position >= self.writer.durable_seq):
            self.writer = self._reading.registry.writer(self.task_id) or self.writer
        if self.writer is not None and self.writer.durable_seq == 0 and not await self._was_born(self.writer):
            return []
        records = None
        if self.writer is not None and not (self.writer.released and self.position >= self.writer.durable_seq):
            records = self.writer.durable_after(self.position, *self._limits)
        if records is None:
            journal = self._reading.journal
            records = await journal.read_records(self.task_id, self.position, *self._limits)
        if records:
            self.position = records[-1].seq
        return records

    async def _was_born(self, writer: Writer) -> bool:
        """Whether the journal has the task of a writer none of whose records is known to be durable.

        Before that, what the journal has under the same id is somebody else's.
        """
        if writer.broken is None or isinstance(writer.broken, JournalRefusedError):
            return False
        return await self._reading.journal.has_task(self.task_id, writer.caller)
