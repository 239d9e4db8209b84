"""A whole `Task` that an agent emits for a task that exists, read as what it adds.

Frameworks emit their task again and again, often an old copy of it: nothing is taken back, and what is absent stays.
"""

from a2a_scribe.core.projection import Projection
from a2a_scribe.core.records import ArtifactChanged, Change, HistoryAdded, StatusChanged
from a2a_scribe.core.statuses import TurnFacts, fingerprint, normal_status, repeat_status, status_change
from a2a_scribe.protocol.states import UNSPECIFIED
from a2a_scribe.protocol.types import Artifact, Struct, Task, TaskArtifactUpdateEvent


def differences(projection: Projection, turn: TurnFacts, event: Task, now: int) -> list[Change]:
    """Returns what `event` adds to the recorded task, in an order in which it may be recorded."""
    changes: list[Change] = []
    unknown = projection.unknown_messages(event.history)
    if unknown:
        changes.append(HistoryAdded(unknown))
    for artifact in event.artifacts:
        change = _artifact_difference(projection, turn, artifact)
        if change is not None:
            changes.append(change)
    status = _status_difference(projection, turn, event, now)
    if status is not None:
        changes.append(status)
    return changes


def _status_difference(projection: Projection, turn: TurnFacts, event: Task, now: int) -> StatusChanged | None:
    """Returns a new status; new metadata travels with it, or with the recorded status repeated."""
    metadata = _metadata_difference(projection.metadata, event.metadata)
    given = fingerprint(event.status)
    seen = given in turn.statuses or given == fingerprint(projection.status)
    if event.status.state != UNSPECIFIED and not seen:
        status = normal_status(event.status, projection.status, turn, now)
        return status_change(turn, status, metadata, original=event.status)
    if metadata is None:
        return None
    return repeat_status(projection, turn, metadata, now)


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
