"""A task folded from its records.

Writers keep one per live task, readers make one from a snapshot and the records after it; both apply the same changes,
so any cut of a journal into snapshot and rest gives the same task.

Memory: protobuf frees nothing of a message while the message lives, so a long-lived `Task` would keep every status it
ever had. Status and metadata are therefore separate messages that are replaced, and artifacts and history are kept as
bytes: serialized protobuf messages that stand one after another merge when they are parsed, which makes appending to
an artifact cost its new parts only.
"""

from collections.abc import Iterable
from typing import Self, assert_never

from a2a_scribe.core.records import (
    VERSION,
    ArtifactChanged,
    Change,
    HistoryAdded,
    Record,
    StatusChanged,
    TaskCreated,
    TaskReplaced,
    TurnEnded,
    TurnStarted,
    decode,
)
from a2a_scribe.protocol.types import (
    Artifact,
    Message,
    Struct,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)


class Projection:
    """The state of one task after some record."""

    __slots__ = ('_artifacts', '_history', '_metadata', '_shed', 'context_id', 'history_bytes', 'status', 'task_id')

    def __init__(self, task: Task) -> None:
        """Takes a task apart; `task` itself is not kept."""
        self._take(task)

    def _take(self, task: Task) -> None:
        self.task_id: str = task.id
        self.context_id: str = task.context_id
        self.status = TaskStatus.FromString(task.status.SerializeToString())
        self._metadata = Struct.FromString(task.metadata.SerializeToString())
        self._artifacts: dict[str, list[bytes]] = {}
        for artifact in task.artifacts:
            self._artifacts.setdefault(artifact.artifact_id, []).append(artifact.SerializeToString())
        self._history: list[bytes] = [message.SerializeToString() for message in task.history]
        self.history_bytes = sum(map(len, self._history))
        self._shed: set[int] = set()

    @classmethod
    def from_bytes(cls, snapshot: bytes) -> Self:
        """Reads what `to_bytes` wrote."""
        return cls(task_of_snapshot(snapshot))

    def to_bytes(self) -> bytes:
        """Returns the projection as a snapshot to store."""
        task = self.to_task()
        for artifact in task.artifacts:
            self._artifacts[artifact.artifact_id] = [artifact.SerializeToString()]
        return VERSION + task.SerializeToString(deterministic=True)

    def to_task(self) -> Task:
        """Puts the task together, which must be whole; the caller may do with it what it likes."""
        assert self.is_whole, 'the history is in the journal only'
        task = Task(id=self.task_id, context_id=self.context_id, status=self.status)
        for chunks in self._artifacts.values():
            artifact = task.artifacts.add()
            for chunk in chunks:
                artifact.MergeFromString(chunk)
        for message in self._history:
            task.history.add().MergeFromString(message)
        if self._metadata.fields:
            task.metadata.CopyFrom(self._metadata)
        return task

    @property
    def state(self) -> TaskState:
        """The state of the task."""
        return self.status.state

    @property
    def metadata(self) -> Struct:
        """The task's metadata, to be read only."""
        return self._metadata

    @property
    def artifact_count(self) -> int:
        """How many artifacts the task has."""
        return len(self._artifacts)

    def has_artifact(self, artifact_id: str) -> bool:
        """Whether the task has an artifact of that id."""
        return artifact_id in self._artifacts

    def artifact(self, artifact_id: str) -> Artifact | None:
        """Returns a copy of one artifact."""
        chunks = self._artifacts.get(artifact_id)
        return None if chunks is None else Artifact.FromString(b''.join(chunks))

    @property
    def is_whole(self) -> bool:
        """Whether the task can be put together from here; if not, the journal has the rest of its history."""
        return not self._shed

    def shed_history(self) -> None:
        """Forgets the history but for which messages it had: a task that goes on and on must not fill the memory."""
        self._shed |= self._keys()
        self._history = []
        self.history_bytes = 0

    def unknown_messages(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        """Returns those of `messages` that are neither in the history nor the status message."""
        known = self._keys()
        if self.status.HasField('message'):
            known.add(_key(self.status.message))
        return tuple(message for message in messages if _key(message) not in known and _key(message) not in self._shed)

    def _keys(self) -> set[int]:
        return {_key(Message.FromString(known)) for known in self._history}

    def _remember(self, message: Message) -> None:
        self._history.append(message.SerializeToString())
        self.history_bytes += len(self._history[-1])

    def apply(self, change: Change) -> None:
        """Moves on by one record."""
        match change:
            case ArtifactChanged(event):
                self._apply_artifact(event)
            case StatusChanged(event):
                self._apply_status(event)
            case HistoryAdded(messages):
                for message in messages:
                    self._remember(message)
            case TurnStarted():
                if change.attempt == 1:  # a message is said once, however often it is worked on
                    self._retire_status_message()
                    self._remember(change.request.message)
            case TaskCreated(task) | TaskReplaced(task):
                self._take(task)
            case TurnEnded():
                pass
            case _:
                assert_never(change)

    def _apply_artifact(self, event: TaskArtifactUpdateEvent) -> None:
        artifact = event.artifact
        chunks = self._artifacts.get(artifact.artifact_id)
        if event.append and chunks is not None:
            chunks.append(_addition(artifact))
        else:
            self._artifacts[artifact.artifact_id] = [artifact.SerializeToString()]

    def _apply_status(self, event: TaskStatusUpdateEvent) -> None:
        status = TaskStatus.FromString(event.status.SerializeToString())
        if not (status.HasField('message') and status.message == self.status.message):
            self._retire_status_message()
        self.status = status
        if event.metadata.fields:
            merged = Struct()
            merged.CopyFrom(self._metadata)
            merged.MergeFrom(event.metadata)
            self._metadata = merged

    def _retire_status_message(self) -> None:
        """Moves the status message to the history: it is older than whatever comes next."""
        if self.status.HasField('message'):
            self._remember(self.status.message)
            status = TaskStatus(state=self.status.state)
            if self.status.HasField('timestamp'):
                status.timestamp.CopyFrom(self.status.timestamp)
            self.status = status


def task_of_snapshot(snapshot: bytes) -> Task:
    """Returns the task that a snapshot holds."""
    return Task.FromString(snapshot[1:])


def message_key(message: Message) -> str | bytes:
    """Returns what tells a message from others: its id, or its bytes where it has none."""
    return message.message_id or message.SerializeToString()


def _key(message: Message) -> int:
    return hash(message_key(message))


def _addition(artifact: Artifact) -> bytes:
    """What an appended chunk adds: parts and metadata; name, description and extensions stay as first set."""
    if artifact.name or artifact.description or artifact.extensions:
        bare = Artifact(parts=artifact.parts)
        if artifact.metadata.fields:
            bare.metadata.CopyFrom(artifact.metadata)
        return bare.SerializeToString()
    return artifact.SerializeToString()


def fold(snapshot: bytes | None, records: Iterable[Record]) -> Projection | None:
    """Returns the task after `records`, which follow `snapshot`; `None` while no record has created it."""
    return fold_on(None if snapshot is None else Projection.from_bytes(snapshot), records)


def fold_on(projection: Projection | None, records: Iterable[Record]) -> Projection | None:
    """Moves a projection on by `records`, which follow it, and returns it; `None` while no record creates the task."""
    for record in records:
        change = decode(record)
        if change is None:
            continue
        if projection is not None:
            projection.apply(change)
        elif isinstance(change, TaskCreated | TaskReplaced):
            projection = Projection(change.task)
    return projection
