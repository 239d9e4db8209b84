"""One live task: the only object that appends to its journal.

A turn's queue admits events here, synchronously and in one order; the commit loop takes what is pending, writes it,
and reports back. Whatever was admitted but is not durable is visible to nobody: readers are given records up to
`durable_seq` only. A writer lives while its node owns the task.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from a2a_scribe.clock import Clock
from a2a_scribe.core.admission import Reply, admit, create_task
from a2a_scribe.core.projection import Projection
from a2a_scribe.core.records import (
    Change,
    Record,
    TaskCreated,
    TurnEnded,
    TurnStarted,
    decode,
    encode,
)
from a2a_scribe.core.statuses import TurnFacts
from a2a_scribe.engine.refusals import (
    refuse_too_large,
    refuse_too_many,
    refuse_unwritable,
    refuse_unwritable_record,
    size_of,
)
from a2a_scribe.engine.tail import Tail
from a2a_scribe.errors import TurnEndedError
from a2a_scribe.journal.results import AppendResult, Known, Released
from a2a_scribe.journal.rows import status_micros
from a2a_scribe.journal.tasks import Caller, StoredTask, TaskRow
from a2a_scribe.journal.writes import Append, Key
from a2a_scribe.protocol.states import INTERRUPTED, TERMINAL
from a2a_scribe.protocol.types import Message, NodeId, TaskPushNotificationConfig, TaskState
from a2a_scribe.settings import Settings

SNAPSHOT_BYTES = 16_384
"""No snapshot in the middle of a turn before so many bytes of records: folding them costs less than storing it."""


class KeyTakenError(Exception):
    """The task was not born: its message came before, under the same key."""

    def __init__(self, known: Known) -> None:
        """Takes whose the key is."""
        super().__init__(f'the key belongs to a message of task {known.task_id}')
        self.known = known


@dataclass(frozen=True, slots=True)
class WriterTools:
    """What every writer of an engine shares."""

    clock: Clock
    settings: Settings
    new_id: Callable[[], str]
    keeps_records: bool
    """Whether the journal can give back all records, so that a long history need not stay in memory."""
    notice: Callable[['Writer'], None]
    """Tells the commit loop that something is pending."""


class Writer:
    """A task that this node owns, or that is about to be born here."""

    def __init__(
        self,
        task_id: str,
        caller: Caller,
        tools: WriterTools,
        stored: StoredTask | None = None,
        row: TaskRow | None = None,
    ) -> None:
        """Makes the writer of a new task, or of one whose state is `stored` and which was then claimed as `row`."""
        self.task_id = task_id
        self.caller = caller
        self.projection: Projection | None = None if stored is None else stored.projection
        self.seq = 0 if stored is None else stored.row.seq
        self.durable_seq = self.seq
        self.node: NodeId | None = None if row is None else row.node
        """Under which id the records were last handed to the journal."""
        self.released = False
        """The node does not own the task any more; what the tail holds is still true."""
        self.broken: Exception | None = None
        self.key: Key | None = None
        """Of the message that the task is born with."""
        self._closed = False
        """The turn's end is recorded: nothing more of it may be."""
        self._tools = tools
        self._row = row
        self._first = 1 if row is None else row.first
        self._scope = caller.scope if row is None else row.scope
        self._open_turn: TurnStarted | None = None
        self._unrecorded_start: TurnStarted | None = None
        self._configs: tuple[TaskPushNotificationConfig, ...] = ()
        self._ends_turn = False
        self._pending: list[Record] = []
        self._pending_since = 0.0
        self._inflight_since = 0.0
        self._undurable_bytes = 0
        self._total_bytes = 0 if row is None else row.size
        self._snapshot_bytes = 0 if stored is None else stored.snapshot_bytes
        self._bytes_since_snapshot = 0
        self._snapshot_due = False
        self._tail = Tail(tools.settings)
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    # -- turns

    def open_turn(
        self, turn: TurnStarted, configs: tuple[TaskPushNotificationConfig, ...] = (), key: Key | None = None
    ) -> None:
        """Begins the first turn of a new task; recorded with the task, or never if the answer is a Message."""
        self._open_turn = self._unrecorded_start = turn
        self._configs = configs
        self.key = key

    def follow_turn(self, started: Record) -> TurnStarted:
        """Moves on by the start of a turn, which the journal has recorded; returns it."""
        assert self.projection is not None
        turn = decode(started)
        assert isinstance(turn, TurnStarted)
        self.projection.apply(turn)
        self.seq = self.durable_seq = started.seq
        self._open_turn = turn
        self._closed = False
        self._tail.keep(started)
        if self._row is not None and self._row.seq < started.seq:
            self._total_bytes += len(started.body)
        return turn

    def start_again(self, turn: TurnStarted) -> None:
        """Records that the open turn begins once more, on the node that has given up the attempt before.

        Raises:
            JournalUnavailableError: What came before could not be recorded.
        """
        self.record(turn)
        self._open_turn = turn

    def go_on_without_turn(self) -> None:
        """Lets more be recorded of a task that is still the node's, although its turn has ended: it is cancelled."""
        self._closed = False

    def make_task(self, facts: TurnFacts) -> None:
        """Creates the task from the request, for a caller who waits for its id."""
        if self.projection is None and not facts.answered:
            facts.created_by_us = True
            self.record(create_task(facts, self._tools.clock.now()))

    def admit(self, facts: TurnFacts, event: object) -> Reply | None:
        """Records an event of the agent; returns the reply if it is a direct Message.

        Raises:
            InvalidAgentResponseError: The event breaks a rule of the lifecycle, or a limit.
            TurnEndedError: The end of the turn is recorded.
            JournalUnavailableError: The journal was away for too long and the turn is over.
        """
        if self.broken is not None:
            raise self.broken
        if self._closed:
            raise TurnEndedError
        now = self._tools.clock.now()
        if isinstance(event, Message):
            refuse_unwritable('message', event.SerializeToString())
        changes = admit(self.projection, facts, event, now)
        if isinstance(changes, Reply):
            return changes
        encoded = [encode(change) for change in changes]
        for kind, body in encoded:
            refuse_unwritable_record(kind, body)
        settings = self._tools.settings
        for change, (kind, body) in zip(changes, encoded, strict=True):
            refuse_too_large(settings, change, size_of(change, body, facts), self.projection)
            refuse_too_many(settings, self.seq - self._first + 1, self._total_bytes)
            self._record(change, kind, body, now, None)
        return None

    def now(self) -> int:
        """Returns the time of the engine's clock, in microseconds since the epoch."""
        return self._tools.clock.now()

    def record(self, change: Change, note: str | None = None) -> None:
        """Records a change of our own making.

        Raises:
            JournalUnavailableError: What came before could not be recorded, so nothing may follow.
        """
        if self.broken is not None:
            raise self.broken
        self._record(change, *encode(change), self._tools.clock.now(), note)

    def end_turn(self, ended: TurnEnded, note: str | None = None) -> None:
        """Records the end of the turn; from here on the journal decides who goes on."""
        self.record(ended, note)
        self._ends_turn = self._closed = True

    def release(self) -> None:
        """Gives the task back, which was claimed without a turn, with what is pending."""
        self._ends_turn = self._closed = True
        self._tools.notice(self)

    def _record(self, change: Change, kind: str, body: bytes, now: int, note: str | None) -> None:
        if self._unrecorded_start is not None:
            start, self._unrecorded_start = self._unrecorded_start, None
            self._put(*encode(start), now, None)
        if self.projection is not None:
            before = self.projection.state
            self.projection.apply(change)
            after = self.projection.state
            self._snapshot_due = self._snapshot_due or (after != before and after in TERMINAL | INTERRUPTED)
        elif isinstance(change, TaskCreated):
            self.projection = Projection(change.task)
        self._put(kind, body, now, note)

    def _put(self, kind: str, body: bytes, now: int, note: str | None) -> None:
        self.seq += 1
        record = Record(self.task_id, self.seq, kind, body, now, note)
        if not self._pending:
            self._pending_since = self._tools.clock.monotonic()
            self._tools.notice(self)
        self._pending.append(record)
        self._undurable_bytes += len(body)
        self._total_bytes += len(body)
        self._bytes_since_snapshot += len(body)
        self._tail.keep(record)

    # -- committing

    def take(self, node: NodeId) -> Append | None:
        """Hands over what is pending, as of now; `committed` or `give_up` must follow."""
        if self.projection is None or self.broken is not None or not (self._pending or self._ends_turn):
            return None
        self.node = node
        records, self._pending = self._pending, []
        self._inflight_since = self._pending_since
        row = self._current_row(node, records)
        append = Append(row, records, self.projection, self.caller, born=self._row is None, ends_turn=self._ends_turn)
        if append.born:
            append.configs, append.key = self._configs, self.key
        self._ends_turn = False
        too_long = self._tools.keeps_records and self.projection.history_bytes > self._tools.settings.history_bytes
        if self.projection.is_whole and (append.ends_turn or too_long or self._is_snapshot_due()):
            append.snapshot = self.projection.to_bytes()
            self._snapshot_bytes, self._bytes_since_snapshot = len(append.snapshot), 0
            self._snapshot_due = False
        if too_long:
            self.projection.shed_history()
        return append

    def _is_snapshot_due(self) -> bool:
        return self._snapshot_due or self._bytes_since_snapshot > max(self._snapshot_bytes, SNAPSHOT_BYTES)

    def _current_row(self, node: NodeId, records: list[Record]) -> TaskRow:
        assert self.projection is not None
        return TaskRow(
            task_id=self.task_id,
            scope=self._scope,
            context_id=self.projection.context_id,
            state=self.projection.state,
            status_time=status_micros(self.projection.status.timestamp),
            created_at=records[0].recorded_at if self._row is None else self._row.created_at,
            seq=self.seq,
            node=node,
            epoch=1 if self._row is None else self._row.epoch,
            open_turn=None if self._open_turn is None else self._open_turn.turn_id,
            attempt=0 if self._open_turn is None else self._open_turn.attempt,
            size=self._total_bytes,
            first=self._first,
        )

    def committed(self, append: Append, result: AppendResult) -> None:
        """Notes that `append` is durable; waiting executors go on after the readers have been woken."""
        self._tail.trim(self.durable_seq)
        self._row = append.row
        self.durable_seq = append.row.seq
        self._undurable_bytes -= sum(len(record.body) for record in append.records)
        self._inflight_since = 0.0
        if append.ends_turn:
            self._open_turn = None
            self.released = isinstance(result, Released)

    def let_go_on(self) -> None:
        """Wakes the executors whose records have become durable."""
        waiting, self._waiters = self._waiters, []
        for seq, waiter in waiting:
            if waiter.done():
                continue
            if self.broken is not None:
                waiter.set_exception(self.broken)
            elif seq <= self.durable_seq:
                waiter.set_result(None)
            else:
                self._waiters.append((seq, waiter))

    def give_up(self, error: Exception) -> None:
        """Drops what is not durable: nobody reads this projection any more. Harmless the second time."""
        if self.broken is not None:
            return
        self.broken = error
        self.released = True
        self._pending = []
        self._tail.forget_after(self.durable_seq)
        self.let_go_on()

    # -- back-pressure

    def has_pressure(self) -> bool:
        """Whether `enqueue_event` has to wait: too much is not durable, or for too long."""
        if self.seq == self.durable_seq:
            return False
        settings = self._tools.settings
        if self.seq - self.durable_seq > settings.pending_records or self._undurable_bytes > settings.pending_bytes:
            return True
        since = self._inflight_since or self._pending_since
        return self._tools.clock.monotonic() - since > settings.pending_age

    async def wait_for_room(self) -> None:
        """Waits until what is admitted now is durable.

        Raises:
            JournalUnavailableError: The journal was away for too long.
        """
        if self.broken is not None:
            raise self.broken
        if self.seq == self.durable_seq:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((self.seq, waiter))
        await waiter

    # -- reading

    def durable_after(self, position: int, limit: int, max_bytes: int) -> list[Record] | None:
        """Returns durable records after `position` from the tail, `None` when it does not reach back so far.

        They are bounded as those that the journal reads.
        """
        return self._tail.after(position, self.durable_seq, limit, max_bytes)

    @property
    def is_settled(self) -> bool:
        """Whether the projection shows nothing that is not durable."""
        return self.seq == self.durable_seq and self.broken is None

    @property
    def state(self) -> TaskState | None:
        """The state of the task, durable or not; `None` before it exists."""
        return None if self.projection is None else self.projection.state
