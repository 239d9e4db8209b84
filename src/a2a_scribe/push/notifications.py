"""What a receiver is sent for a record: the same bytes at each attempt, whoever makes it.

The body is a `StreamResponse` in JSON with exactly one member (A2A 1.0, section 4.3.3). Whoever wants status changes
only gets the whole task in place of a status that comes after artifacts, so that nothing is missing.
"""

from typing import Final

from a2a.types.a2a_pb2 import StreamResponse

from a2a_scribe.core.records import EVENT_TYPES, EventKind, Shown
from a2a_scribe.protocol.json import transcode
from a2a_scribe.protocol.types import Task, TaskPushNotificationConfig
from a2a_scribe.push.delivery import Outgoing

MEDIA_TYPE: Final = 'application/a2a+json'
TOKEN_HEADER: Final = 'X-A2A-Notification-Token'
EVENT_ID_HEADER: Final = 'X-A2A-Event-Id'
ATTEMPT_HEADER: Final = 'X-A2A-Delivery-Attempt'

MEMBERS: Final = StreamResponse.DESCRIPTOR.fields_by_name
OPENINGS: Final[dict[EventKind, bytes]] = {
    kind: b'{"' + MEMBERS[kind].json_name.encode() + b'":' for kind in EVENT_TYPES
}


def body_of(item: Shown) -> bytes:
    """Returns an event as it is sent. Raises: UnencodableError."""
    return OPENINGS[item.kind] + transcode(item.body, EVENT_TYPES[item.kind]) + b'}'


def whole(task: Task, seq: int) -> Shown:
    """Returns a task as an event."""
    return Shown(seq, 'task', task.SerializeToString(deterministic=True))


def outgoing(
    config: TaskPushNotificationConfig, item: Shown, body: bytes, *, attempt: int, sent_at: int, trace: str
) -> Outgoing:
    """Returns one attempt to deliver an event; `trace` is the `traceparent` of its turn, empty if it had none."""
    event_id = f'{config.task_id}/{item.seq}'
    headers = {'Content-Type': MEDIA_TYPE, EVENT_ID_HEADER: event_id, ATTEMPT_HEADER: str(attempt)}
    if config.token:
        headers[TOKEN_HEADER] = config.token
    if config.HasField('authentication'):
        authentication = config.authentication
        headers['Authorization'] = f'{authentication.scheme} {authentication.credentials}'.strip()
    if trace:
        headers['traceparent'] = trace
    return Outgoing(config.url, config.task_id, event_id, attempt, sent_at, headers, body)
