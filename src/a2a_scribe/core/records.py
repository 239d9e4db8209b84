"""What a journal holds: records, the changes that they carry, and their bytes.

A record's body starts with a version byte. A reader skips kinds that it does not know, so that an older process can
read what a newer one wrote. Writers make records from changes; cursors and projections make changes from records.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import orjson

from a2a_scribe.protocol.types import (
    Event,
    Message,
    SendMessageRequest,
    Struct,
    Task,
    TaskArtifactUpdateEvent,
    TaskEvent,
    TaskStatusUpdateEvent,
    TurnId,
)

VERSION: Final = b'\x01'

TASK: Final = 'task'
STATUS: Final = 'status'
ARTIFACT: Final = 'artifact'
HISTORY: Final = 'history'
REPLACED: Final = 'replaced'
TURN_STARTED: Final = 'turn_started'
TURN_ENDED: Final = 'turn_ended'

CANCEL: Final = 'cancel'
RERUN: Final = 'rerun'
AskKind = Literal['cancel', 'rerun']
"""What waits in the inbox beside messages; neither ever becomes a record."""


class Record(NamedTuple):
    """One entry of a task's journal. `seq` counts 1, 2, 3 ... within the task, without gaps.

    It begins later where the journal has found the task and knows nothing of what came before.
    """

    task_id: str
    seq: int
    kind: str
    body: bytes
    recorded_at: int
    """Microseconds since the epoch, UTC."""
    note: str | None
    """Diagnostics for operators (traceback, cause); never sent to a client."""


def within(records: Sequence[Record], max_bytes: int) -> list[Record]:
    """Returns the first records whose bodies have at most `max_bytes` together; the first one whatever its size."""
    room = max_bytes
    for count, record in enumerate(records):
        room -= len(record.body)
        if room < 0:
            return list(records[: max(1, count)])
    return list(records)


Outcome = Literal['ok', 'failed', 'canceled', 'interrupted']


@dataclass(frozen=True, slots=True)
class CallerRecord:
    """Who sent a turn's message, as far as a later attempt on another node needs it."""

    owner: str
    tenant: str
    user_name: str = ''
    authenticated: bool = False
    extensions: tuple[str, ...] = ()
    traceparent: str = ''

    def fields(self) -> dict[str, object]:
        """Returns the fields by name, several times faster than `dataclasses.asdict`: it is done for each turn."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class TaskCreated:
    """The task exists from here on; carries all of it."""

    task: Task


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """A new status, or the same one repeated with new metadata."""

    event: TaskStatusUpdateEvent


@dataclass(frozen=True, slots=True)
class ArtifactChanged:
    """An artifact was set or appended to."""

    event: TaskArtifactUpdateEvent


@dataclass(frozen=True, slots=True)
class HistoryAdded:
    """Messages entered the history without being a status."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class TaskReplaced:
    """The whole task was stored from outside a turn."""

    task: Task


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A user's message was accepted and its execution begins."""

    turn_id: TurnId
    caller: CallerRecord
    request: SendMessageRequest
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The answer to a turn is complete."""

    turn_id: TurnId
    outcome: Outcome
    error: str = ''
    """The type of the executor's exception, if one ended the turn."""


Change = TaskCreated | StatusChanged | ArtifactChanged | HistoryAdded | TaskReplaced | TurnStarted | TurnEnded


def encode(change: Change) -> tuple[str, bytes]:
    """Returns the kind and the body of the record that carries `change`."""
    match change:
        case ArtifactChanged(event):
            return ARTIFACT, VERSION + event.SerializeToString()
        case StatusChanged(event):
            return STATUS, VERSION + event.SerializeToString()
        case TaskCreated(task):
            return TASK, VERSION + task.SerializeToString()
        case TaskReplaced(task):
            return REPLACED, VERSION + task.SerializeToString()
        case HistoryAdded(messages):
            return HISTORY, VERSION + Task(history=messages).SerializeToString()
        case TurnStarted(turn_id, caller, request, attempt):
            head = {'turn_id': turn_id, 'attempt': attempt, 'caller': caller.fields()}
            return TURN_STARTED, _with_head(head, request.SerializeToString())
        case TurnEnded(turn_id, outcome, error):
            return TURN_ENDED, _with_head({'turn_id': turn_id, 'outcome': outcome, 'error': error}, b'')


def decode(record: Record) -> Change | None:
    """Returns the change that a record carries, `None` for a kind or version that this version does not know."""
    body = record.body
    if body[:1] != VERSION:
        return None
    payload = body[1:]
    match record.kind:
        case 'artifact':
            return ArtifactChanged(TaskArtifactUpdateEvent.FromString(payload))
        case 'status':
            return StatusChanged(TaskStatusUpdateEvent.FromString(payload))
        case 'task':
            return TaskCreated(Task.FromString(payload))
        case 'replaced':
            return TaskReplaced(Task.FromString(payload))
        case 'history':
            return HistoryAdded(tuple(Task.FromString(payload).history))
        case 'turn_started':
            return decode_turn_started(body)
        case 'turn_ended':
            head, _ = _split_head(body)
            return TurnEnded(**head)
        case _:
            return None


def decode_turn_started(body: bytes) -> TurnStarted:
    """Returns the start of a turn from the body of its record, or of the inbox row that waits to become one."""
    head, rest = _split_head(body)
    return TurnStarted(TurnId(head['turn_id']), _caller_of(head), SendMessageRequest.FromString(rest), head['attempt'])


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """A cancel that the process which works on the task is asked for."""

    caller: CallerRecord
    metadata: Struct
    """What the client said of it."""


def encode_cancel(asked: CancelAsked) -> bytes:
    """Returns the body of the inbox row that asks for a cancel."""
    return _with_head({'caller': asked.caller.fields()}, asked.metadata.SerializeToString())


def decode_cancel(body: bytes) -> CancelAsked:
    """Returns what an inbox row asks for; of one that a newer version wrote, only that it asks for a cancel."""
    if body[:1] != VERSION:
        return CancelAsked(CallerRecord('', ''), Struct())
    head, rest = _split_head(body)
    return CancelAsked(_caller_of(head), Struct.FromString(rest))


@dataclass(frozen=True, slots=True)
class RerunAsked:
    """The wish that an attempt at a turn is given up, and its message executed again."""

    turn_id: TurnId
    attempt: int
    """The one that is given up: once another has begun, nothing is asked any more."""


def encode_rerun(asked: RerunAsked) -> bytes:
    """Returns the body of the inbox row that asks for another attempt."""
    return _with_head({'turn_id': asked.turn_id, 'attempt': asked.attempt}, b'')


def decode_rerun(body: bytes) -> RerunAsked | None:
    """Returns what an inbox row asks for; `None` where a newer version wrote it."""
    if body[:1] != VERSION:
        return None
    head, _ = _split_head(body)
    return RerunAsked(TurnId(head['turn_id']), head['attempt'])


EventKind = Literal['task', 'message', 'status_update', 'artifact_update']
"""What an event is, by the name of its member in a `StreamResponse` (A2A 1.0, section 3.2.3)."""


class Shown(NamedTuple):
    """An event as readers see it, in protobuf's binary form: it is read from the journal and sent on as it is."""

    seq: int | None
    """Its place in the journal; a direct Message has none."""
    kind: EventKind
    body: bytes

    @property
    def event(self) -> Event:
        """The event itself, made anew."""
        return EVENT_TYPES[self.kind].FromString(self.body)


EVENT_TYPES: Final[dict[EventKind, type[Event]]] = {
    'task': Task,
    'message': Message,
    'status_update': TaskStatusUpdateEvent,
    'artifact_update': TaskArtifactUpdateEvent,
}

SHOWN: Final[dict[str, EventKind]] = {
    TASK: 'task',
    REPLACED: 'task',
    STATUS: 'status_update',
    ARTIFACT: 'artifact_update',
}
"""The kinds of records that clients see, and what each shows."""


def shown(record: Record) -> Shown | None:
    """Returns what readers see of a record, `None` for what is not theirs."""
    kind = SHOWN.get(record.kind)
    if kind is None or record.body[:1] != VERSION:
        return None
    return Shown(record.seq, kind, record.body[1:])


def shown_event(record: Record) -> TaskEvent | None:
    """Returns the event that clients see for a record, `None` for what is not theirs."""
    if record.kind not in SHOWN or record.body[:1] != VERSION:
        return None
    payload = record.body[1:]
    if record.kind == ARTIFACT:
        return TaskArtifactUpdateEvent.FromString(payload)
    if record.kind == STATUS:
        return TaskStatusUpdateEvent.FromString(payload)
    return Task.FromString(payload)


def _caller_of(head: dict[str, Any]) -> CallerRecord:
    caller = head['caller']
    return CallerRecord(**{**caller, 'extensions': tuple(caller['extensions'])})


def _with_head(head: dict[str, object], rest: bytes) -> bytes:
    text = orjson.dumps(head)
    return VERSION + struct.pack('>I', len(text)) + text + rest


def _split_head(body: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack_from('>I', body, 1)
    return orjson.loads(body[5 : 5 + length]), body[5 + length :]
