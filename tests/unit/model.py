"""The projection once more, written naively on one whole `Task`: what the real one must equal."""

from collections.abc import Sequence

from a2a_scribe.core.records import (
    ArtifactChanged,
    Change,
    HistoryAdded,
    StatusChanged,
    TaskCreated,
    TaskReplaced,
    TurnStarted,
)
from a2a_scribe.protocol.types import Artifact, Message, Struct, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent


def task_after(changes: Sequence[Change]) -> Task | None:
    """Returns the task that these changes make, `None` before they create one."""
    task: Task | None = None
    for change in changes:
        if isinstance(change, TaskCreated | TaskReplaced):
            task = Task()
            task.CopyFrom(change.task)
        elif task is not None:
            apply(task, change)
    return task


def apply(task: Task, change: Change) -> None:
    match change:
        case StatusChanged(event):
            apply_status(task, event)
        case ArtifactChanged(event):
            apply_artifact(task, event)
        case HistoryAdded(messages):
            task.history.extend(messages)
        case TurnStarted():
            retire(task)
            task.history.append(change.request.message)


def retire(task: Task) -> None:
    if task.status.HasField('message'):
        task.history.append(task.status.message)
        task.status.ClearField('message')


def apply_status(task: Task, event: TaskStatusUpdateEvent) -> None:
    repeated = event.status.HasField('message') and event.status.message == task.status.message
    if not repeated:
        retire(task)
    task.status.CopyFrom(event.status)
    merge(task.metadata, event.metadata)


def apply_artifact(task: Task, event: TaskArtifactUpdateEvent) -> None:
    known = next((each for each in task.artifacts if each.artifact_id == event.artifact.artifact_id), None)
    if known is None:
        task.artifacts.append(event.artifact)
    elif event.append:
        known.parts.extend(event.artifact.parts)
        merge(known.metadata, event.artifact.metadata)
    else:
        known.CopyFrom(event.artifact)


def merge(into: Struct, more: Struct) -> None:
    for key, value in more.fields.items():
        into.fields[key].CopyFrom(value)


def plain(task: Task | None) -> Task | None:
    """A copy in which an empty metadata is the same as none."""
    if task is None:
        return None
    copy = Task()
    copy.CopyFrom(task)
    if not copy.metadata.fields:
        copy.ClearField('metadata')
    for artifact in copy.artifacts:
        if not artifact.metadata.fields:
            artifact.ClearField('metadata')
    return copy


def parts_of(artifact: Artifact) -> list[str]:
    return [part.text for part in artifact.parts]


def texts_of(messages: Sequence[Message]) -> list[str]:
    return [''.join(part.text for part in message.parts) for message in messages]
