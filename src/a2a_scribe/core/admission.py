"""The lifecycle rules: what an agent may emit, and what is recorded of it.

`admit` turns one emitted event into the changes to record, or refuses it; the writer calls it at the executor's own
call site. All that it reads is the projection and the facts of the turn, so the rules can be tested by themselves.
An admitted event is never kept: changes carry copies where anything has to be filled in, and the writer serializes
the rest at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from a2a.utils.errors import InvalidAgentResponseError

from a2a_scribe.core.projection import Projection, message_key
from a2a_scribe.core.records import ArtifactChanged, Change, HistoryAdded, StatusChanged, TaskCreated
from a2a_scribe.protocol.states import COMPLETED, KNOWN, MOVES, SUBMITTED, UNSPECIFIED, name_of
from a2a_scribe.protocol.types import (
    Artifact,
    Message,
    Part,
    Role,
    Struct,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    Timestamp,
)

E = TypeVar('E', TaskStatusUpdateEvent, TaskArtifactUpdateEvent)

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
    statuses: set[int] = field(default_factory=set)
    """Fingerprints of the statuses that this turn has begun with or recorded."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A direct message: the whole answer, without a task."""

    message: Message


def admit(projection: Projection | None, turn: TurnFacts, event: object, now: int) -> list[Change] | Reply:
    """Returns what to record of `event`, emitted at `now` (microseconds).

    Raises:
        InvalidAgentResponseError: The event breaks a rule; nothing of it is recorded.
    """
    if turn.answered:
        raise InvalidAgentResponseError(f'{_name(event)} after a Message: a direct Message is the whole answer')
    match event:
        case TaskArtifactUpdateEvent():
            return _admit_artifact(projection, turn, event, now)
        case TaskStatusUpdateEvent():
            return _admit_status(projection, turn, event, now)
        case Task():
            return _admit_task(projection, turn, event, now)
        case Message():
            return _admit_message(projection, turn, event, now)
    raise InvalidAgentResponseError(f'{_name(event)} is not an event of A2A')


def create_task(turn: TurnFacts, now: int) -> TaskCreated:
    """Returns the task made from the request alone, for an agent that has not made one."""
    status = TaskStatus(state=SUBMITTED, timestamp=_timestamp(now))
    turn.statuses.add(_fingerprint(status))
    return TaskCreated(Task(id=turn.task_id, context_id=turn.context_id, status=status, history=[turn.message]))


def begin_turn(projection: Projection, turn: TurnFacts) -> None:
    """Notes the status that a follow-up turn starts with: seeing it again in a whole `Task` is no news."""
    turn.statuses.add(_fingerprint(projection.status))


def change_status(
    projection: Projection, turn: TurnFacts, state: TaskState, text: str, now: int, *, message_id: str = ''
) -> StatusChanged:
    """Returns a status of our own making, with `text` as the agent's message to the client."""
    status = TaskStatus(state=state, timestamp=_timestamp(_stamp(None, projection.status, now)))
    if text:
        status.message.CopyFrom(_spoken(Message(parts=[Part(text=text)], message_id=message_id), turn))
    return _status_change(turn, status, None)


def _admit_artifact(
    projection: Projection | None, turn: TurnFacts, event: TaskArtifactUpdateEvent, now: int
) -> list[Change]:
    if event.task_id != turn.task_id or event.context_id != turn.context_id:
        event = _with_ids_of(turn, event)
    if not event.artifact.artifact_id:
        raise InvalidAgentResponseError('artifact.artifactId of a TaskArtifactUpdateEvent is empty')
    if projection is None:
        return [create_task(turn, now), ArtifactChanged(event)]
    _refuse_if_ended(projection, event)
    turn.created_by_us = False
    return [ArtifactChanged(event)]


def _admit_status(
    projection: Projection | None, turn: TurnFacts, event: TaskStatusUpdateEvent, now: int
) -> list[Change]:
    event = _with_ids_of(turn, event)
    if event.status.state not in KNOWN:
        raise InvalidAgentResponseError(f'status.state of a TaskStatusUpdateEvent is {name_of(event.status.state)}')
    if projection is not None:
        _refuse_if_ended(projection, event)
    turn.created_by_us = False
    created = create_task(turn, now) if projection is None else None
    before = created.task.status if created else projection.status if projection else None
    status = _normal_status(event.status, before, turn, now)
    change = _status_change(turn, status, event.metadata, original=event.status)
    return [change] if created is None else [created, change]


def _admit_message(projection: Projection | None, turn: TurnFacts, event: Message, now: int) -> list[Change] | Reply:
    if event.context_id and event.context_id != turn.context_id:
        raise InvalidAgentResponseError('contextId of the Message is not that of the request')
    if projection is not None and not turn.created_by_us:
        raise InvalidAgentResponseError('a Message once the task exists: put it into a TaskStatusUpdateEvent')
    message = _spoken(event, turn)
    message.role = Role.ROLE_AGENT
    turn.answered = True
    if projection is None:
        message.ClearField('task_id')
        return Reply(message)
    status = TaskStatus(state=COMPLETED, timestamp=_timestamp(_stamp(None, projection.status, now)), message=message)
    return [_status_change(turn, status, None)]


def _admit_task(projection: Projection | None, turn: TurnFacts, event: Task, now: int) -> list[Change]:
    if (event.id and event.id != turn.task_id) or (event.context_id and event.context_id != turn.context_id):
        raise InvalidAgentResponseError('id or contextId of the Task is not that of the request')
    if event.status.state not in KNOWN and event.status.state != UNSPECIFIED:
        raise InvalidAgentResponseError(f'status.state of the Task is {name_of(event.status.state)}')
    if any(not artifact.artifact_id for artifact in event.artifacts):
        raise InvalidAgentResponseError('artifacts.artifactId of the Task is empty')
    if projection is None:
        return [_first_task(turn, event, now)]
    changes = _differences(projection, turn, event, now)
    if changes:
        _refuse_if_ended(projection, event)
    turn.created_by_us = False
    return changes


def _first_task(turn: TurnFacts, event: Task, now: int) -> TaskCreated:
    task = Task()
    task.CopyFrom(event)
    task.id, task.context_id = turn.task_id, turn.context_id
    if task.status.state == UNSPECIFIED:
        task.status.state = SUBMITTED
    status = _normal_status(task.status, None, turn, now)
    _note_status(turn, event.status if event.status.state else status, status)
    task.status.CopyFrom(status)
    if all(message_key(message) != message_key(turn.message) for message in task.history):
        task.history.insert(0, turn.message)
    return TaskCreated(task)


def _differences(projection: Projection, turn: TurnFacts, event: Task, now: int) -> list[Change]:
    """Reads a whole `Task` as what it adds to the recorded one. Nothing is taken back; what is absent stays."""
    changes: list[Change] = []
    known = projection.message_keys()
    unknown = tuple(message for message in event.history if message_key(message) not in known)
    if unknown:
        changes.append(HistoryAdded(unknown))
    for artifact in event.artifacts:
        change = _artifact_difference(projection, turn, artifact)
        if change is not None:
            changes.append(change)
    news = event.status.state != UNSPECIFIED and _fingerprint(event.status) not in turn.statuses
    news = news and _fingerprint(event.status) != _fingerprint(projection.status)
    metadata = _metadata_difference(projection.metadata, event.metadata)
    if news:
        status = _normal_status(event.status, projection.status, turn, now)
        changes.append(_status_change(turn, status, metadata, original=event.status))
    elif metadata is not None:
        status = _normal_status(projection.status, projection.status, turn, now, keep_time=False)
        changes.append(StatusChanged(_status_event(turn, status, metadata)))
    return changes


def _artifact_difference(projection: Projection, turn: TurnFacts, artifact: Artifact) -> ArtifactChanged | None:
    event = TaskArtifactUpdateEvent(task_id=turn.task_id, context_id=turn.context_id)
    recorded = projection.artifact(artifact.artifact_id)
    if recorded is None or not _continues(recorded, artifact):
        event.artifact.CopyFrom(artifact)
        return ArtifactChanged(event)
    parts = artifact.parts[len(recorded.parts) :]
    metadata = _metadata_difference(recorded.metadata, artifact.metadata)
    if not parts and metadata is None:
        return None
    event.append = True
    event.artifact.artifact_id = artifact.artifact_id
    event.artifact.parts.extend(parts)
    if metadata is not None:
        event.artifact.metadata.CopyFrom(metadata)
    return ArtifactChanged(event)


def _continues(recorded: Artifact, given: Artifact) -> bool:
    """Whether an artifact is the recorded one, perhaps with more parts; what it does not say is as recorded."""
    return (
        given.name in ('', recorded.name)
        and given.description in ('', recorded.description)
        and (not given.extensions or given.extensions == recorded.extensions)
        and list(given.parts[: len(recorded.parts)]) == list(recorded.parts)
    )


def _metadata_difference(recorded: Struct, given: Struct) -> Struct | None:
    difference = Struct()
    for key, value in given.fields.items():
        if key not in recorded.fields or recorded.fields[key] != value:
            difference.fields[key].CopyFrom(value)
    return difference if difference.fields else None


def _normal_status(
    given: TaskStatus, before: TaskStatus | None, turn: TurnFacts, now: int, *, keep_time: bool = True
) -> TaskStatus:
    status = TaskStatus(state=given.state)
    time = given.timestamp if keep_time and given.HasField('timestamp') else None
    status.timestamp.CopyFrom(_timestamp(_stamp(time, before, now)))
    if given.HasField('message'):
        status.message.CopyFrom(_spoken(given.message, turn))
    return status


def _status_change(
    turn: TurnFacts, status: TaskStatus, metadata: Struct | None, *, original: TaskStatus | None = None
) -> StatusChanged:
    _note_status(turn, original or status, status)
    return StatusChanged(_status_event(turn, status, metadata))


def _status_event(turn: TurnFacts, status: TaskStatus, metadata: Struct | None) -> TaskStatusUpdateEvent:
    event = TaskStatusUpdateEvent(task_id=turn.task_id, context_id=turn.context_id, status=status)
    if metadata is not None and metadata.fields:
        event.metadata.CopyFrom(metadata)
    return event


def _note_status(turn: TurnFacts, original: TaskStatus, recorded: TaskStatus) -> None:
    turn.recorded_status = recorded.state
    turn.statuses.add(_fingerprint(original))
    turn.statuses.add(_fingerprint(recorded))


def _fingerprint(status: TaskStatus) -> int:
    """What tells one status from another: its state and message, but not its time."""
    return hash((status.state, message_key(status.message) if status.HasField('message') else None))


def _spoken(given: Message, turn: TurnFacts) -> Message:
    """Fills in what a message of a server must carry: role, context, id of its own, and the task where there is one."""
    message = Message()
    message.CopyFrom(given)
    message.role = message.role or Role.ROLE_AGENT
    message.context_id = message.context_id or turn.context_id
    message.task_id = message.task_id or turn.task_id
    message.message_id = message.message_id or turn.new_id()
    return message


def _with_ids_of(turn: TurnFacts, event: E) -> E:
    """Fills in empty ids, in a copy, and refuses foreign ones."""
    if (event.task_id and event.task_id != turn.task_id) or (event.context_id and event.context_id != turn.context_id):
        raise InvalidAgentResponseError(f'taskId or contextId of a {_name(event)} is not that of the request')
    if event.task_id and event.context_id:
        return event
    filled = type(event)()
    filled.CopyFrom(event)
    filled.task_id, filled.context_id = turn.task_id, turn.context_id
    return filled


def _refuse_if_ended(projection: Projection, event: object) -> None:
    if not MOVES[projection.state]:
        raise InvalidAgentResponseError(f'{_name(event)} after the task has ended as {name_of(projection.state)}')


def _stamp(given: Timestamp | None, before: TaskStatus | None, now: int) -> int:
    """Returns a status time: later than the one before, not far ahead of our clock, in whole microseconds."""
    time = now if given is None else given.seconds * 1_000_000 + given.nanos // 1000
    time = max(0, min(time, now + MAX_CLOCK_LEAD))
    if before is not None and before.HasField('timestamp'):
        time = max(time, before.timestamp.seconds * 1_000_000 + before.timestamp.nanos // 1000 + 1)
    return time


def _timestamp(time: int) -> Timestamp:
    return Timestamp(seconds=time // 1_000_000, nanos=time % 1_000_000 * 1000)


def _name(event: object) -> str:
    return type(event).__name__
