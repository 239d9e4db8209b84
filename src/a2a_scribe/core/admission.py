"""The lifecycle rules: what an agent may emit, and what is recorded of it.

`admit` turns one emitted event into the changes to record, or refuses it; the writer calls it at the executor's own
call site. All that it reads is the projection and the facts of the turn, so the rules can be tested by themselves.
An admitted event is never kept: changes carry copies where anything has to be filled in, and the writer serializes
the rest at once.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

from a2a.utils.errors import InvalidAgentResponseError

from a2a_scribe.core.merging import differences
from a2a_scribe.core.projection import Projection, message_key
from a2a_scribe.core.records import ArtifactChanged, Change, TaskCreated
from a2a_scribe.core.statuses import (
    TurnFacts,
    fingerprint,
    normal_status,
    note_status,
    spoken,
    stamp,
    status_change,
    timestamp,
)
from a2a_scribe.protocol.extensions import SEQUENCE_URI
from a2a_scribe.protocol.states import COMPLETED, KNOWN, MOVES, SUBMITTED, UNSPECIFIED, name_of
from a2a_scribe.protocol.types import (
    Message,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)

E = TypeVar('E', TaskStatusUpdateEvent, TaskArtifactUpdateEvent)
AnyEvent = TypeVar('AnyEvent', Task, Message, TaskStatusUpdateEvent, TaskArtifactUpdateEvent)


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
            return _admit_artifact(projection, turn, _without_place(event), now)
        case TaskStatusUpdateEvent():
            return _admit_status(projection, turn, _without_place(event), now)
        case Task():
            return _admit_task(projection, turn, _without_place(event), now)
        case Message():
            return _admit_message(projection, turn, _without_place(event), now)
    raise InvalidAgentResponseError(f'{_name(event)} is not an event of A2A')


def _without_place(event: AnyEvent) -> AnyEvent:
    """Takes away, in a copy, the place that an event seems to have: one that comes from another server has its own."""
    if not event.HasField('metadata') or SEQUENCE_URI not in event.metadata.fields:
        return event
    placeless = type(event)()
    placeless.CopyFrom(event)
    del placeless.metadata.fields[SEQUENCE_URI]
    if not placeless.metadata.fields:
        placeless.ClearField('metadata')
    return placeless


def create_task(turn: TurnFacts, now: int) -> TaskCreated:
    """Returns the task made from the request alone, for an agent that has not made one."""
    status = TaskStatus(state=SUBMITTED, timestamp=timestamp(now))
    turn.statuses.add(fingerprint(status))
    return TaskCreated(Task(id=turn.task_id, context_id=turn.context_id, status=status, history=[turn.message]))


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
    status = normal_status(event.status, before, turn, now)
    change = status_change(turn, status, event.metadata, original=event.status)
    return [change] if created is None else [created, change]


def _admit_message(projection: Projection | None, turn: TurnFacts, event: Message, now: int) -> list[Change] | Reply:
    if event.context_id and event.context_id != turn.context_id:
        raise InvalidAgentResponseError('contextId of the Message is not that of the request')
    if projection is not None and not turn.created_by_us:
        raise InvalidAgentResponseError('a Message once the task exists: put it into a TaskStatusUpdateEvent')
    message = spoken(event, turn)
    message.role = Role.ROLE_AGENT
    turn.answered = True
    if projection is None:
        message.ClearField('task_id')
        return Reply(message)
    status = TaskStatus(state=COMPLETED, timestamp=timestamp(stamp(None, projection.status, now)), message=message)
    return [status_change(turn, status, None)]


def _admit_task(projection: Projection | None, turn: TurnFacts, event: Task, now: int) -> list[Change]:
    if (event.id and event.id != turn.task_id) or (event.context_id and event.context_id != turn.context_id):
        raise InvalidAgentResponseError('id or contextId of the Task is not that of the request')
    if event.status.state not in KNOWN and event.status.state != UNSPECIFIED:
        raise InvalidAgentResponseError(f'status.state of the Task is {name_of(event.status.state)}')
    if any(not artifact.artifact_id for artifact in event.artifacts):
        raise InvalidAgentResponseError('artifacts.artifactId of the Task is empty')
    if projection is None:
        return [_first_task(turn, event, now)]
    if not MOVES[projection.state]:
        unchanged = replace(turn, statuses=set(turn.statuses))
        if differences(projection, unchanged, event, now):
            _refuse_if_ended(projection, event)
        return []
    turn.created_by_us = False
    return differences(projection, turn, event, now)


def _first_task(turn: TurnFacts, event: Task, now: int) -> TaskCreated:
    task = Task()
    task.CopyFrom(event)
    task.id, task.context_id = turn.task_id, turn.context_id
    if task.status.state == UNSPECIFIED:
        task.status.state = SUBMITTED
    status = normal_status(task.status, None, turn, now)
    note_status(turn, event.status if event.status.state else status, status)
    task.status.CopyFrom(status)
    if all(message_key(message) != message_key(turn.message) for message in task.history):
        task.history.insert(0, turn.message)
    return TaskCreated(task)


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


def _name(event: object) -> str:
    return type(event).__name__
