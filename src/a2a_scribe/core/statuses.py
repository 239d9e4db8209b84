"""Statuses as they are recorded, and the facts of a turn that they are judged by.

A recorded status has a time of its own, later than that of the one before, and a message that says whose it is. Rules
(`admission`) and the reading of whole tasks (`merging`) make all statuses here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from a2a_scribe.core.projection import Projection, message_key
from a2a_scribe.core.records import StatusChanged
from a2a_scribe.protocol.states import SUBMITTED, UNSPECIFIED
from a2a_scribe.protocol.types import (
    Message,
    Part,
    Role,
    Struct,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    Timestamp,
)

MAX_CLOCK_LEAD = 60_000_000
"""Microseconds that a status time given by an agent may be ahead of ours."""


@dataclass(slots=True)
class TurnFacts:
    """What the rules need to know of the running turn, and what it has shown so far."""

    task_id: str
    context_id: str
    message: Message
    """The user's message that this turn answers."""
    new_id: Callable[[], str]
    created_by_us: bool = False
    """The task was created on the agent's behalf, and the agent has not spoken of it yet."""
    answered: bool = False
    """The agent has answered with a direct message; nothing may follow."""
    recorded_status: TaskState = UNSPECIFIED
    """The newest state that this turn has recorded."""
    repeats: set[int] = field(default_factory=set)
    """Times of statuses that repeat the one before, to carry metadata: no answer, whatever their state."""
    statuses: set[int] = field(default_factory=set)
    """Fingerprints of the statuses that this turn has begun with or recorded."""


def begin_turn(projection: Projection, turn: TurnFacts) -> None:
    """Notes the status that a follow-up turn starts with: seeing it again in a whole `Task` is no news."""
    turn.statuses.add(fingerprint(projection.status))


def begin_again(turn: TurnFacts) -> None:
    """Notes what an attempt before this one has shown for certain: that the task was submitted."""
    turn.statuses.add(fingerprint(TaskStatus(state=SUBMITTED)))


RECOVERY: Final = 'urn:a2a-scribe:recovery'
"""Metadata of the status update that shows that a task has been taken over from a server that died."""


def recovery_metadata(attempt: int, reason: str = 'crash') -> Struct:
    """Returns the metadata of a take-over: which attempt at the message was given up, and why."""
    metadata = Struct()
    metadata.update({RECOVERY: {'reason': reason, 'attempt': attempt}})
    return metadata


def repeat_status(projection: Projection, turn: TurnFacts, metadata: Struct, now: int) -> StatusChanged:
    """Returns the recorded status once more, to carry metadata: it is no news of the task, nor an answer."""
    status = normal_status(projection.status, projection.status, turn, now, keep_time=False)
    turn.repeats.add(status.timestamp.ToMicroseconds())
    return StatusChanged(status_event(turn, status, metadata))


def change_status(
    projection: Projection,
    turn: TurnFacts,
    state: TaskState,
    text: str,
    now: int,
    *,
    message_id: str = '',
    metadata: Struct | None = None,
) -> StatusChanged:
    """Returns a status of our own making, with `text` as the agent's message to the client."""
    status = TaskStatus(state=state, timestamp=timestamp(stamp(None, projection.status, now)))
    if text:
        status.message.CopyFrom(spoken(Message(parts=[Part(text=text)], message_id=message_id), turn))
    return status_change(turn, status, metadata)


def normal_status(
    given: TaskStatus, before: TaskStatus | None, turn: TurnFacts, now: int, *, keep_time: bool = True
) -> TaskStatus:
    """Returns a status as it is recorded after `before`."""
    status = TaskStatus(state=given.state)
    time = given.timestamp if keep_time and given.HasField('timestamp') else None
    status.timestamp.CopyFrom(timestamp(stamp(time, before, now)))
    if given.HasField('message'):
        status.message.CopyFrom(spoken(given.message, turn))
    return status


def status_change(
    turn: TurnFacts, status: TaskStatus, metadata: Struct | None, *, original: TaskStatus | None = None
) -> StatusChanged:
    """Returns the change to a status, and notes it as shown (`original` is how the agent gave it)."""
    note_status(turn, original or status, status)
    return StatusChanged(status_event(turn, status, metadata))


def status_event(turn: TurnFacts, status: TaskStatus, metadata: Struct | None) -> TaskStatusUpdateEvent:
    """Returns the event that carries a status, and metadata if there is any."""
    event = TaskStatusUpdateEvent(task_id=turn.task_id, context_id=turn.context_id, status=status)
    if metadata is not None and metadata.fields:
        event.metadata.CopyFrom(metadata)
    return event


def note_status(turn: TurnFacts, original: TaskStatus, recorded: TaskStatus) -> None:
    """Notes a status that the turn has recorded."""
    turn.recorded_status = recorded.state
    turn.statuses.add(fingerprint(original))
    turn.statuses.add(fingerprint(recorded))


def fingerprint(status: TaskStatus) -> int:
    """Returns what tells one status from another: its state and message, but not its time."""
    return hash((status.state, message_key(status.message) if status.HasField('message') else None))


def spoken(given: Message, turn: TurnFacts) -> Message:
    """Fills in what a message of a server must carry: role, context, id of its own, and the task where there is one."""
    message = Message()
    message.CopyFrom(given)
    message.role = message.role or Role.ROLE_AGENT
    message.context_id = message.context_id or turn.context_id
    message.task_id = message.task_id or turn.task_id
    message.message_id = message.message_id or turn.new_id()
    return message


def stamp(given: Timestamp | None, before: TaskStatus | None, now: int) -> int:
    """Returns a status time: later than the one before, not far ahead of our clock, in whole microseconds."""
    time = now if given is None else given.seconds * 1_000_000 + given.nanos // 1000
    time = max(0, min(time, now + MAX_CLOCK_LEAD))
    if before is not None and before.HasField('timestamp'):
        time = max(time, before.timestamp.seconds * 1_000_000 + before.timestamp.nanos // 1000 + 1)
    return time


def timestamp(time: int) -> Timestamp:
    """Returns microseconds since the epoch as a protobuf timestamp."""
    return Timestamp(seconds=time // 1_000_000, nanos=time % 1_000_000 * 1000)
