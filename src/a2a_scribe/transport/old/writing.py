"""Answers of the handler as clients of version 0.3 read them: as JSON with `kind`, and as protobuf of `a2a.v1`."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from a2a.compat.v0_3 import a2a_v0_3_pb2 as old_pb2
from a2a.compat.v0_3 import conversions, types
from a2a.compat.v0_3.proto_utils import ToProto
from a2a.types import a2a_pb2
from google.protobuf.message import Message as ProtoMessage
from pydantic import BaseModel

from a2a_scribe.core.records import EVENT_TYPES, EventKind, Shown
from a2a_scribe.protocol.json import to_bytes
from a2a_scribe.transport.events import escape_line_ends, with_sequence
from a2a_scribe.transport.old.card import old_card

Old = Any
"""What version 0.3 has for a result: a model, a list of models, or nothing."""

CONVERSIONS: Final[dict[type[ProtoMessage], Callable[[Any], Old]]] = {
    a2a_pb2.Task: conversions.to_compat_task,
    a2a_pb2.Message: conversions.to_compat_message,
    a2a_pb2.TaskPushNotificationConfig: conversions.to_compat_task_push_notification_config,
    a2a_pb2.ListTaskPushNotificationConfigsResponse: lambda page: [
        conversions.to_compat_task_push_notification_config(config) for config in page.configs
    ],
    a2a_pb2.AgentCard: old_card,
}
EVENTS: Final[dict[EventKind, Callable[[Any], Old]]] = {
    'task': conversions.to_compat_task,
    'message': conversions.to_compat_message,
    'status_update': conversions.to_compat_task_status_update_event,
    'artifact_update': conversions.to_compat_task_artifact_update_event,
}


def to_old(result: ProtoMessage | None) -> Old:
    """Returns a result as version 0.3 has it."""
    return None if result is None else CONVERSIONS[type(result)](_with_contents(result))


def event_to_old(item: Shown, *, sequenced: bool, ends_with_question: bool) -> Old:
    """Returns an event as version 0.3 has it.

    `ends_with_question` says that nothing more is to be expected of the stream when the agent asks for input: it is
    that of one message.
    """
    body = with_sequence(item) if sequenced else item.body
    event = EVENTS[item.kind](_with_contents(EVENT_TYPES[item.kind].FromString(body)))
    if ends_with_question and item.kind == 'status_update' and event.status.state == types.TaskState.input_required:
        event.final = True
    return event


def _with_contents(message: ProtoMessage) -> ProtoMessage:
    """Returns a message without empty parts, which agents can emit and version 0.3 cannot say: they are empty texts."""
    if all(part.WhichOneof('content') for part in _parts_in(message)):
        return message
    copy = type(message)()
    copy.CopyFrom(message)
    for part in _parts_in(copy):
        if not part.WhichOneof('content'):
            part.text = ''
    return copy


def _parts_in(message: ProtoMessage) -> Iterator[a2a_pb2.Part]:
    match message:
        case a2a_pb2.Message():
            yield from message.parts
        case a2a_pb2.Task():
            for each in (message.status.message, *message.history):
                yield from each.parts
            for artifact in message.artifacts:
                yield from artifact.parts
        case a2a_pb2.TaskStatusUpdateEvent():
            yield from message.status.message.parts
        case a2a_pb2.TaskArtifactUpdateEvent():
            yield from message.artifact.parts


def to_json(old: Old) -> bytes:
    """Returns what JSON-RPC carries."""
    match old:
        case None:
            return b'null'
        case BaseModel():
            return escape_line_ends(old.model_dump_json(by_alias=True, exclude_none=True).encode())
    return b'[' + b','.join(map(to_json, old)) + b']'


def answer_to_proto(old: Old) -> ProtoMessage:
    """Returns what answers a message."""
    return ToProto.task_or_message(old)


def configs_to_proto(page: a2a_pb2.ListTaskPushNotificationConfigsResponse) -> ProtoMessage:
    """Returns a list of push configs, with what leads on to those that are not in it."""
    configs = map(ToProto.task_push_notification_config, to_old(page))
    return old_pb2.ListTaskPushNotificationConfigResponse(configs=configs, next_page_token=page.next_page_token)


def proto_to_json(message: ProtoMessage) -> bytes:
    """Returns what HTTP+JSON carries."""
    return escape_line_ends(to_bytes(message))
