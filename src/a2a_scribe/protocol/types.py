"""The wire types of A2A that the rest of the project uses, and the names of its own ids.

The protobuf classes are those of `a2a-sdk`; they are imported here and nowhere else below the handler, so that one
module shows which part of the protocol the engine knows.
"""

from typing import NamedTuple, NewType

from a2a.types.a2a_pb2 import (
    Artifact,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

TurnId = NewType('TurnId', str)
NodeId = NewType('NodeId', str)

TaskEvent = Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent
"""An event that belongs to a task and is recorded."""

Event = TaskEvent | Message
"""What an agent may emit."""


class Scope(NamedTuple):
    """Whose a task is: no operation crosses it."""

    agent: str
    owner: str
    tenant: str


__all__ = [
    'Artifact',
    'Event',
    'ListTasksRequest',
    'ListTasksResponse',
    'Message',
    'NodeId',
    'Part',
    'Role',
    'Scope',
    'SendMessageRequest',
    'Struct',
    'Task',
    'TaskArtifactUpdateEvent',
    'TaskEvent',
    'TaskPushNotificationConfig',
    'TaskState',
    'TaskStatus',
    'TaskStatusUpdateEvent',
    'Timestamp',
    'TurnId',
]
