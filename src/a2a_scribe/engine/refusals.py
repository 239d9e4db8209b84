"""What a writer refuses of an agent: what could never be shown again, and what is beyond the limits of the server."""

from typing import Final

from a2a.utils.errors import InvalidAgentResponseError

from a2a_scribe.core.projection import Projection
from a2a_scribe.core.records import EVENT_TYPES, HISTORY, SHOWN, ArtifactChanged, Change, EventKind, TaskCreated
from a2a_scribe.core.statuses import TurnFacts
from a2a_scribe.protocol.depth import FLAT, check_depth
from a2a_scribe.protocol.json import UnencodableError, check_numbers, may_hold_unwritable_number
from a2a_scribe.settings import Settings

CHECKED: Final[dict[str, EventKind]] = {**SHOWN, HISTORY: 'task'}
"""The kinds of records that hold what an agent has said, and what each holds."""


class TaskTooLargeError(InvalidAgentResponseError):
    """The task has reached a limit of the server."""


def refuse_unwritable_record(kind: str, body: bytes) -> None:
    """Refuses a record that could never be shown over JSON again, or read from protobuf, nor its task.

    Raises:
        InvalidAgentResponseError: It could not.
    """
    if kind in CHECKED and (len(body) > FLAT or may_hold_unwritable_number(body)):
        refuse_unwritable(CHECKED[kind], body[1:])


def refuse_unwritable(kind: EventKind, data: bytes) -> None:
    """Refuses an event in binary form for the same reasons. Raises: InvalidAgentResponseError."""
    try:
        check_numbers(data, EVENT_TYPES[kind])
        check_depth(data, kind)
    except UnencodableError as error:
        raise InvalidAgentResponseError(str(error)) from error


def size_of(change: Change, body: bytes, facts: TurnFacts) -> int:
    """Returns the bytes of a record that are the agent's: the user's message, with which a task begins, is not."""
    return len(body) - 1 - (facts.message.ByteSize() if isinstance(change, TaskCreated) else 0)


def refuse_too_large(settings: Settings, change: Change, size: int, projection: Projection | None) -> None:
    """Refuses an event of too many bytes, or one artifact too many. Raises: TaskTooLargeError."""
    if size > settings.event_bytes:
        raise TaskTooLargeError(f'the event has {size} bytes, the limit is {settings.event_bytes} (event_bytes)')
    if projection is None or not isinstance(change, ArtifactChanged):
        return
    if projection.artifact_count >= settings.task_artifacts and not projection.has_artifact(
        change.event.artifact.artifact_id
    ):
        raise TaskTooLargeError(f'the task has {settings.task_artifacts} artifacts, the limit (task_artifacts)')


def refuse_too_many(settings: Settings, records: int, size: int) -> None:
    """Refuses a record more of a task that has as many as it may. Raises: TaskTooLargeError."""
    if records >= settings.task_records:
        raise TaskTooLargeError(f'the task has {records} records, the limit (task_records)')
    if size >= settings.task_bytes:
        raise TaskTooLargeError(f'the task has {size} bytes of records, the limit is task_bytes')
