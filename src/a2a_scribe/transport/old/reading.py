"""Requests of version 0.3 as those that the handler takes, out of JSON-RPC's parameters and out of protobuf.

`a2a-sdk` converts what has content. Names of resources are read here: its patterns take a part of a name for the whole.
"""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from a2a.compat.v0_3 import a2a_v0_3_pb2 as old_pb2
from a2a.compat.v0_3 import conversions, types
from a2a.compat.v0_3.proto_utils import FromProto
from a2a.types import a2a_pb2
from a2a.utils.errors import A2AError
from google.protobuf.json_format import ParseError
from google.protobuf.message import Message as ProtoMessage
from pydantic import BaseModel, ValidationError

from a2a_scribe.protocol.faults import InvalidFieldError, InvalidFieldsError, Violation

TASK_NAME: Final = re.compile(r'tasks/(.+)', re.DOTALL)
CONFIG_NAME: Final = re.compile(r'tasks/(.+)/pushNotificationConfigs/(.+)', re.DOTALL)
MOST_SHOWN: Final = 10
"""Fields that one error names: a part that is none of three kinds has several reasons."""
UNREADABLE: Final = (ValueError, TypeError, KeyError, ParseError, RecursionError)
"""What the conversions raise at content that is not what it seemed to be."""

Params = TypeVar('Params', bound=BaseModel)
Request = TypeVar('Request', bound=ProtoMessage)


def params_reader(kind: type[Params], convert: Callable[[Params], ProtoMessage]) -> Callable[[object], Any]:
    """Returns what reads the parameters of a method of JSON-RPC."""

    def read(given: object) -> ProtoMessage:
        try:
            params = kind.model_validate(given)
        except ValidationError as error:
            raise InvalidFieldsError(_violations(error)) from None
        return _converted(convert, params)

    return read


def proto_reader(convert: Callable[[Request], ProtoMessage]) -> Callable[[Request], Any]:
    """Returns what reads a request in protobuf."""
    return lambda request: _converted(convert, request)


def _converted(convert: Callable[[Any], ProtoMessage], given: object) -> ProtoMessage:
    try:
        return convert(given)
    except A2AError:
        raise
    except UNREADABLE:
        raise InvalidFieldError('', 'The content of the request is not as version 0.3 has it') from None


def _violations(error: ValidationError) -> list[Violation]:
    shown = [
        Violation(_path(each['loc']), f'is not valid: {each["msg"]}')
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return shown[:MOST_SHOWN]


def _path(place: tuple[int | str, ...]) -> str:
    """Returns a path as our own checks write it, without the names of the classes that were tried."""
    path = ''
    for step in place:
        if isinstance(step, int):
            path += f'[{step}]'
        elif not step[:1].isupper():
            path += f'.{step}' if path else step
    return path


# Parameters of JSON-RPC


def send_of_params(params: types.MessageSendParams) -> a2a_pb2.SendMessageRequest:
    """What is sent; it is answered when the task has ended unless the client says that it does not wait."""
    request = conversions.to_core_send_message_request(types.SendMessageRequest(id=0, params=params))
    if params.configuration is not None and not params.configuration.history_length:
        request.configuration.ClearField('history_length')
    return request


def get_of_params(params: types.TaskQueryParams) -> a2a_pb2.GetTaskRequest:
    """Which task, with how much of its history: 0 is all of it."""
    return a2a_pb2.GetTaskRequest(id=params.id, history_length=params.history_length or None)


def cancel_of_params(params: types.TaskIdParams) -> a2a_pb2.CancelTaskRequest:
    """Which task, and what the agent is told with it."""
    return conversions.to_core_cancel_task_request(types.CancelTaskRequest(id=0, params=params))


def subscription_of_params(params: types.TaskIdParams) -> a2a_pb2.SubscribeToTaskRequest:
    """Which task."""
    return a2a_pb2.SubscribeToTaskRequest(id=params.id)


def config_of_params(params: types.TaskPushNotificationConfig) -> a2a_pb2.TaskPushNotificationConfig:
    """A push config."""
    return _named(conversions.to_core_task_push_notification_config(params))


class ConfigParams(types.TaskIdParams):
    """Which push config: without an id, the one that the task has."""

    push_notification_config_id: str = ''


def get_config_of_params(params: ConfigParams) -> a2a_pb2.GetTaskPushNotificationConfigRequest:
    """Which push config."""
    return a2a_pb2.GetTaskPushNotificationConfigRequest(task_id=params.id, id=params.push_notification_config_id)


def list_of_params(
    params: types.ListTaskPushNotificationConfigParams,
) -> a2a_pb2.ListTaskPushNotificationConfigsRequest:
    """Of which task."""
    return a2a_pb2.ListTaskPushNotificationConfigsRequest(task_id=params.id)


def delete_of_params(
    params: types.DeleteTaskPushNotificationConfigParams,
) -> a2a_pb2.DeleteTaskPushNotificationConfigRequest:
    """Which push config."""
    return a2a_pb2.DeleteTaskPushNotificationConfigRequest(task_id=params.id, id=params.push_notification_config_id)


def _named(config: a2a_pb2.TaskPushNotificationConfig) -> a2a_pb2.TaskPushNotificationConfig:
    """Gives a config that has no id that of its task, as servers of 0.3 do: it takes the place of the one before."""
    config.id = config.id or config.task_id
    return config


# Protobuf


def send_of_proto(request: old_pb2.SendMessageRequest) -> a2a_pb2.SendMessageRequest:
    """What is sent; a configuration that does not say `blocking` says that the client does not wait."""
    for part in request.request.content:
        if part.file.file_with_bytes and not _is_base64(part.file.file_with_bytes):
            part.file.file_with_bytes = base64.b64encode(part.file.file_with_bytes)
    return send_of_params(FromProto.message_send_params(request))


def get_of_proto(request: old_pb2.GetTaskRequest) -> a2a_pb2.GetTaskRequest:
    """Which task, with how much of its history: 0 is all of it."""
    return get_of_params(
        types.TaskQueryParams(id=_task_of(request.name), history_length=request.history_length or None)
    )


def cancel_of_proto(request: old_pb2.CancelTaskRequest) -> a2a_pb2.CancelTaskRequest:
    """Which task."""
    return a2a_pb2.CancelTaskRequest(id=_task_of(request.name))


def subscription_of_proto(request: old_pb2.TaskSubscriptionRequest) -> a2a_pb2.SubscribeToTaskRequest:
    """Which task."""
    return a2a_pb2.SubscribeToTaskRequest(id=_task_of(request.name))


def config_of_proto(
    request: old_pb2.CreateTaskPushNotificationConfigRequest,
) -> a2a_pb2.TaskPushNotificationConfig:
    """A push config."""
    given = FromProto.push_notification_config(request.config.push_notification_config)
    config = conversions.to_core_push_notification_config(given)
    config.task_id = _task_of(request.parent)
    config.id = config.id or request.config_id
    return _named(config)


def get_config_of_proto(
    request: old_pb2.GetTaskPushNotificationConfigRequest,
) -> a2a_pb2.GetTaskPushNotificationConfigRequest:
    """Which push config."""
    task_id, config_id = _config_of(request.name)
    return a2a_pb2.GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)


def list_of_proto(
    request: old_pb2.ListTaskPushNotificationConfigRequest,
) -> a2a_pb2.ListTaskPushNotificationConfigsRequest:
    """Of which task, and which page."""
    return a2a_pb2.ListTaskPushNotificationConfigsRequest(
        task_id=_task_of(request.parent), page_size=request.page_size, page_token=request.page_token
    )


def delete_of_proto(
    request: old_pb2.DeleteTaskPushNotificationConfigRequest,
) -> a2a_pb2.DeleteTaskPushNotificationConfigRequest:
    """Which push config."""
    task_id, config_id = _config_of(request.name)
    return a2a_pb2.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)


def _is_base64(data: bytes) -> bool:
    """Whether bytes are base64, which clients of `a2a-sdk` put into a field of bytes; others put the file itself."""
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error:
        return False
    return True


def _task_of(name: str) -> str:
    found = TASK_NAME.fullmatch(name)
    if found is None:
        raise InvalidFieldError('name', 'must be tasks/{id}')
    return found[1]


def _config_of(name: str) -> tuple[str, str]:
    found = CONFIG_NAME.fullmatch(name)
    if found is None:
        raise InvalidFieldError('name', 'must be tasks/{id}/pushNotificationConfigs/{id}')
    return found[1], found[2]
