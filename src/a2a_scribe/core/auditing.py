"""What must hold of one task in a journal, checked: its records by themselves, and its row and snapshot against them.

Called by `a2a-scribe db check`, by tests and by simulations. Records are given one by one, so that a task of any length
is checked in the memory that the task itself takes. What a newer version wrote cannot be judged: it is a warning, and
what depends on it is not compared.
"""

import struct
from collections.abc import Iterable
from typing import Protocol

from google.protobuf.message import DecodeError

from a2a_scribe.core.projection import Projection, task_of_snapshot
from a2a_scribe.core.records import (
    REPLACED,
    VERSION,
    ArtifactChanged,
    Change,
    Record,
    StatusChanged,
    TaskCreated,
    TaskReplaced,
    TurnEnded,
    TurnStarted,
    decode,
)
from a2a_scribe.core.violations import Rule, Violation
from a2a_scribe.protocol.states import TERMINAL, UNSPECIFIED, name_of
from a2a_scribe.protocol.types import Task, TaskState, TaskStatus, TurnId

UNDECODABLE = (DecodeError, ValueError, TypeError, LookupError, AttributeError, struct.error)
"""What decoding broken bytes raises."""

MOST_VIOLATIONS = 100
"""What is told of one task at most: a task that went wrong once may have a million records after that."""


class RowLike(Protocol):
    """What a row of the journal says of its task; a `TaskRow` is one."""

    @property
    def task_id(self) -> str:
        """The task."""

    @property
    def context_id(self) -> str:
        """Its context."""

    @property
    def state(self) -> TaskState:
        """Its state."""

    @property
    def status_time(self) -> int:
        """The time of its status, in microseconds since the epoch."""

    @property
    def seq(self) -> int:
        """Its last record."""

    @property
    def node(self) -> str | None:
        """Who owns it."""

    @property
    def open_turn(self) -> TurnId | None:
        """The turn that runs."""

    @property
    def attempt(self) -> int:
        """Which attempt of it."""

    @property
    def size(self) -> int:
        """Bytes of all its records."""


class TaskAudit:
    """The check of one task: `see` each record in order, then `finish`."""

    def __init__(
        self, task_id: str, row: RowLike | None = None, snapshot: bytes | None = None, snapshot_seq: int = 0
    ) -> None:
        """Takes what the journal says of the task; without a row, only the records are checked by themselves."""
        self._task_id = task_id
        self._row = row
        self._snapshot = snapshot
        self._snapshot_seq = snapshot_seq
        self._found: list[Violation] = []
        self._last = 0
        self._is_beyond = False
        self._size = 0
        self._replaced = 0
        self._is_whole = True
        """Whether all that was recorded so far could be read: else what it amounts to is not known."""
        self._projection: Projection | None = None
        self._ended = False
        self._open_turn: TurnStarted | None = None
        self._attempts: dict[TurnId, int] = {}

    def _report(self, rule: Rule, seq: int | None, what: str) -> None:
        if len(self._found) < MOST_VIOLATIONS:
            self._found.append(Violation(rule, self._task_id, seq, what))

    def see(self, record: Record) -> None:
        """Checks the next record."""
        if self._row is not None and record.seq > self._row.seq:
            if not self._is_beyond:
                self._report(Rule.BEYOND, record.seq, f'the last record of the row is {self._row.seq}')
            self._is_beyond = True
            return
        self._size += len(record.body)
        if not self._is_in_place(record):
            return
        self._replaced += record.kind == REPLACED
        change = self._decode(record)
        if change is not None:
            self._check_identity(record.seq, change)
            self._check_order(record.seq, change)
            self._check_end(record.seq, record.kind, change)
            if self._is_whole:
                self._check_turn(record.seq, change)
            self._fold(change)
        self._check_snapshot(record)

    def finish(self) -> list[Violation]:
        """Checks the row, and returns all that was found."""
        row = self._row
        if row is not None:
            if self._last < row.seq:
                self._report(Rule.GAP, row.seq, f'missing: {_span(self._last + 1, row.seq)}')
                self._is_whole = False
            elif not 0 <= self._size - row.size <= self._replaced:  # 0.1.0 counted a stored task without its version
                self._report(Rule.SIZE, None, f'the row says {row.size} bytes, the records have {self._size}')
            if self._snapshot_seq > row.seq:
                self._report(Rule.SNAPSHOT, self._snapshot_seq, f'it is of a record after the last one, {row.seq}')
            elif self._snapshot is None and self._snapshot_seq == row.seq:
                self._report(Rule.SNAPSHOT, self._snapshot_seq, 'the row says that there is one, but there is none')
            if self._is_whole:
                self._compare(row)
        return self._found

    # -- records

    def _is_in_place(self, record: Record) -> bool:
        """Whether the record follows the one before, with or without a gap."""
        expected = self._last + 1
        if record.seq == expected:
            self._last = expected
            return True
        self._is_whole = False
        if record.seq < expected:
            self._report(Rule.GAP, record.seq, f'it follows record {self._last}')
            return False
        self._report(Rule.GAP, record.seq, f'missing before it: {_span(expected, record.seq - 1)}')
        self._last = record.seq
        return True

    def _decode(self, record: Record) -> Change | None:
        try:
            change = decode(record)
        except UNDECODABLE as error:
            self._report(Rule.UNREADABLE, record.seq, f'a {record.kind} that cannot be read: {type(error).__name__}')
            self._is_whole = False
            return None
        if change is None:
            self._report(Rule.UNKNOWN, record.seq, f'{record.kind}, version {record.body[:1].hex() or "none"}')
            self._is_whole = False
        return change

    def _check_identity(self, seq: int, change: Change) -> None:
        match change:
            case TaskCreated(task) | TaskReplaced(task):
                about = task.id
            case StatusChanged(event):
                about = event.task_id
            case ArtifactChanged(event):
                about = event.task_id
            case _:
                return
        if about != self._task_id:
            self._report(Rule.IDENTITY, seq, f'it is about task {about!r}')

    def _check_order(self, seq: int, change: Change) -> None:
        if isinstance(change, TaskCreated):
            if self._projection is not None:
                self._report(Rule.ORDER, seq, 'the task is created once more')
        elif self._projection is None and self._is_whole and not isinstance(change, TurnStarted | TaskReplaced):
            self._report(Rule.ORDER, seq, 'it comes before the task is created')

    def _check_end(self, seq: int, kind: str, change: Change) -> None:
        state = _state_of(change)
        if self._ended and not isinstance(change, TurnEnded):
            if state in TERMINAL:
                self._report(Rule.SECOND_END, seq, f'{name_of(state)} after the end of the task')
            else:
                self._report(Rule.AFTER_END, seq, f'{kind} after the end of the task')
        self._ended = self._ended or state in TERMINAL

    def _check_turn(self, seq: int, change: Change) -> None:
        opened = self._open_turn
        if isinstance(change, TurnStarted):
            before = self._attempts.get(change.turn_id, 0)
            if opened is not None and opened.turn_id != change.turn_id:
                self._report(Rule.TURN, seq, f'turn {change.turn_id} starts within turn {opened.turn_id}')
            elif change.attempt <= before:
                self._report(Rule.TURN, seq, f'attempt {change.attempt} of turn {change.turn_id} starts twice')
            self._attempts[change.turn_id] = max(before, change.attempt)
            self._open_turn = change
        elif isinstance(change, TurnEnded):
            if opened is None or opened.turn_id != change.turn_id:
                open_one = 'none' if opened is None else opened.turn_id
                self._report(Rule.TURN, seq, f'turn {change.turn_id} ends, the open one is {open_one}')
            self._open_turn = None

    def _fold(self, change: Change) -> None:
        if self._projection is not None:
            self._projection.apply(change)
        elif isinstance(change, TaskCreated | TaskReplaced):
            self._projection = Projection(change.task)

    # -- row and snapshot

    def _check_snapshot(self, record: Record) -> None:
        if self._snapshot is not None:
            if record.seq == self._snapshot_seq:
                self._compare_snapshot(record.seq, self._snapshot)
        elif 0 < self._snapshot_seq == record.seq - 1 and record.kind != REPLACED:
            self._report(Rule.SNAPSHOT, record.seq, 'the task is read from here on, which does not hold all of it')

    def _compare_snapshot(self, seq: int, snapshot: bytes) -> None:
        if snapshot[:1] != VERSION:
            self._report(Rule.UNKNOWN, seq, f'snapshot, version {snapshot[:1].hex() or "none"}')
            return
        try:
            held = task_of_snapshot(snapshot)
        except UNDECODABLE as error:
            self._report(Rule.SNAPSHOT, seq, f'it cannot be read: {type(error).__name__}')
            return
        if not self._is_whole or self._projection is None:
            return
        told = _differences(held, self._projection.to_task())
        if told:
            self._report(Rule.SNAPSHOT, seq, f'it differs from its records in {told}')

    def _compare(self, row: RowLike) -> None:
        projection = self._projection
        if projection is None:
            self._report(Rule.ORDER, None, 'no record creates the task')
            return
        if row.context_id != projection.context_id:
            self._report(
                Rule.CONTEXT, None, f'the row says {row.context_id!r}, the records say {projection.context_id!r}'
            )
        if row.state != projection.state:
            told = f'the row says {name_of(row.state)}, the records say {name_of(projection.state)}'
            self._report(Rule.STATE, None, told)
        time = _time_of(projection.status)
        if time is not None and row.status_time != time:
            self._report(Rule.STATUS_TIME, None, f'the row says {row.status_time}, the records say {time}')
        self._compare_turn(row)

    def _compare_turn(self, row: RowLike) -> None:
        recorded = None if self._open_turn is None else self._open_turn.turn_id
        if row.open_turn != recorded:
            told = f'the row says {row.open_turn or "none"}, the records say {recorded or "none"}'
            self._report(Rule.OPEN_TURN, None, told)
        elif self._open_turn is not None and row.attempt != self._open_turn.attempt:
            told = f'the row says attempt {row.attempt}, the records say {self._open_turn.attempt}'
            self._report(Rule.OPEN_TURN, None, told)


def audit_task(
    row: RowLike, records: Iterable[Record], snapshot: bytes | None = None, snapshot_seq: int = 0
) -> list[Violation]:
    """Checks a task's records, in their order, and what the journal says of them."""
    audit = TaskAudit(row.task_id, row, snapshot, snapshot_seq)
    for record in records:
        audit.see(record)
    return audit.finish()


def audit_records(task_id: str, records: Iterable[Record]) -> list[Violation]:
    """Checks a task's records by themselves."""
    audit = TaskAudit(task_id)
    for record in records:
        audit.see(record)
    return audit.finish()


def audit_claim(row: RowLike, waiting: int, owner: str | None, *, is_gone: bool = False) -> list[Violation]:
    """Checks who works on a task: `waiting` messages are in its inbox, and its node is in the state `owner`.

    `owner` is `None` if the journal does not know the node; `is_gone` says that its process is known to have ended.
    """
    found: list[Violation] = []

    def report(rule: Rule, what: str) -> None:
        found.append(Violation(rule, row.task_id, None, what))

    if waiting and row.state in TERMINAL:
        report(Rule.INBOX, f'{waiting} messages wait although the task has ended')
    elif waiting and row.node is None:
        report(Rule.INBOX, f'{waiting} messages wait although nobody works on the task')
    if row.node is None and row.open_turn is not None:
        report(Rule.OWNER, f'turn {row.open_turn} is open and belongs to nobody')
    if row.node is not None and owner in (None, 'dead'):
        report(Rule.OWNER, f'node {row.node} is {owner or "unknown"}')
    elif row.node is not None and is_gone:
        report(Rule.GONE, f'owned by node {row.node}, whose process is gone')
    return found


def _state_of(change: Change) -> TaskState:
    match change:
        case TaskCreated(task) | TaskReplaced(task):
            return task.status.state
        case StatusChanged(event):
            return event.status.state
        case _:
            return UNSPECIFIED


def _time_of(status: TaskStatus) -> int | None:
    if not status.HasField('timestamp'):
        return None
    return status.timestamp.seconds * 1_000_000 + status.timestamp.nanos // 1000


def _differences(one: Task, other: Task) -> str:
    """Names the fields in which two tasks differ; compared as bytes, because NaN does not equal itself."""
    names = [
        field.name for field in Task.DESCRIPTOR.fields if _bytes_of(one, field.name) != _bytes_of(other, field.name)
    ]
    return ', '.join(names)


def _bytes_of(task: Task, name: str) -> bytes:
    only = Task()
    only.CopyFrom(task)
    for field, _ in task.ListFields():
        if field.name != name:
            only.ClearField(field.name)
    return only.SerializeToString(deterministic=True)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f'{first} to {last}'
