"""Requests as they should be, made from the descriptors: what is damaged afterwards."""

import random
from dataclasses import dataclass, field
from typing import Any, Final

from a2a.types import a2a_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from a2a_scribe.protocol.codec.descriptors import TIMESTAMP, is_repeated, map_entry
from a2a_scribe.protocol.required import is_required
from tests.fuzz.values import TEXTS, free, scalar, text

REQUESTS: Final[dict[str, type[Message]]] = {
    'SendMessage': a2a_pb2.SendMessageRequest,
    'SendStreamingMessage': a2a_pb2.SendMessageRequest,
    'GetTask': a2a_pb2.GetTaskRequest,
    'ListTasks': a2a_pb2.ListTasksRequest,
    'CancelTask': a2a_pb2.CancelTaskRequest,
    'SubscribeToTask': a2a_pb2.SubscribeToTaskRequest,
    'CreateTaskPushNotificationConfig': a2a_pb2.TaskPushNotificationConfig,
    'GetTaskPushNotificationConfig': a2a_pb2.GetTaskPushNotificationConfigRequest,
    'ListTaskPushNotificationConfigs': a2a_pb2.ListTaskPushNotificationConfigsRequest,
    'DeleteTaskPushNotificationConfig': a2a_pb2.DeleteTaskPushNotificationConfigRequest,
    'GetExtendedAgentCard': a2a_pb2.GetExtendedAgentCardRequest,
}
STREAMS: Final = ('SendStreamingMessage', 'SubscribeToTask')
RESPONSES: Final[dict[str, type[Message] | None]] = {
    method.name: message
    for method in a2a_pb2.DESCRIPTOR.services_by_name['A2AService'].methods
    for message in (getattr(a2a_pb2, method.output_type.name, None),)
}
SENDS: Final = ('SendMessage', 'SendStreamingMessage')


@dataclass
class Known:
    """What the server has: without it, requests would be refused before they come far."""

    tasks: list[str] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)
    configs: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    """Places of events that were seen."""


def operation(chance: random.Random) -> str:
    """Returns the name of one; those that take most are most likely."""
    return chance.choice((*REQUESTS, 'SendMessage', 'SendMessage', 'SendMessage', 'ListTasks', 'ListTasks'))


def request(name: str, chance: random.Random, known: Known) -> dict[str, Any]:
    """Returns the JSON of a request that is not refused, mostly."""
    made = _message(REQUESTS[name].DESCRIPTOR, chance, known)
    if name in SENDS:
        made['message']['role'] = 'ROLE_USER'
        made['message'].pop('taskId', None)
        if chance.random() < 0.1:
            made['message']['taskId'] = _task_id(chance, known)
            made['message'].pop('contextId', None)
        made.get('configuration', {}).get('taskPushNotificationConfig', {}).pop('taskId', None)
    return made


def _message(descriptor: Any, chance: random.Random, known: Known) -> dict[str, Any]:
    made = {}
    for each in descriptor.fields:
        if each.containing_oneof is not None and len(each.containing_oneof.fields) > 1:
            continue
        if is_required(each) or chance.random() < 0.25:
            made[each.json_name] = _value(each, chance, known)
    for oneof in descriptor.oneofs:
        if len(oneof.fields) > 1:
            chosen = chance.choice(list(oneof.fields))
            made[chosen.json_name] = _value(chosen, chance, known)
    return made


def _value(field: FieldDescriptor, chance: random.Random, known: Known) -> Any:
    if is_repeated(field) and map_entry(field) is None:
        return [_single(field, chance, known) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
    return _single(field, chance, known)


def _single(field: FieldDescriptor, chance: random.Random, known: Known) -> Any:
    if field.message_type is not None:
        match field.message_type.full_name:
            case 'google.protobuf.Struct':
                return {text(chance): free(chance, 2) for _ in range(2)}
            case 'google.protobuf.Value':
                return free(chance)
            case full_name if full_name == TIMESTAMP:
                return chance.choice(
                    ('2025-01-01T00:00:00Z', '2025-01-01T00:00:00.123456789+01:00', '1970-01-01T00:00:00Z')
                )
        return _message(field.message_type, chance, known)
    if field.enum_type is not None:
        return chance.choice([value.name for value in field.enum_type.values[1:]])
    match field.type:
        case FieldDescriptor.TYPE_BOOL:
            return chance.random() < 0.5
        case FieldDescriptor.TYPE_INT32:
            return chance.choice((0, 1, 2, 50, 100))
        case FieldDescriptor.TYPE_BYTES:
            return chance.choice(('', 'YQ==', 'AAECAwQ='))
    return _text(field, chance, known)


def _text(field: FieldDescriptor, chance: random.Random, known: Known) -> str:
    match field.name:
        case 'tenant':
            return '' if chance.random() < 0.9 else chance.choice(('acme', text(chance)))
        case 'task_id' | 'reference_task_ids':
            return _task_id(chance, known)
        case 'id' if field.containing_type and field.containing_type.name.endswith('TaskRequest'):
            return _task_id(chance, known)
        case 'id':
            return chance.choice((*known.configs, 'config'))
        case 'context_id':
            return chance.choice((*known.contexts, 'context'))
        case 'page_token':
            return chance.choice((*known.tokens, ''))
        case 'url':
            return 'https://hooks.example/'
        case 'text':
            return chance.choice(('hi', 'hi', 'hi', 'hi', 'task', 'ask', chance.choice(TEXTS)))
        case 'media_type':
            return chance.choice(('text/plain', 'text/plain', 'image/png', 'application/json; charset=utf-8'))
    return f'{field.name}-{chance.randrange(1000)}' if chance.random() < 0.8 else str(scalar(chance))


def _task_id(chance: random.Random, known: Known) -> str:
    return chance.choice(known.tasks) if known.tasks and chance.random() < 0.9 else 'no-such-task'
