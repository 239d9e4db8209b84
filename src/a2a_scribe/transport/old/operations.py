"""The operations of version 0.3 as tables: for each, what it is now, and how its requests and answers are written.

They call the handler as those of 1.0 do, so owners, limits and errors are the same.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from a2a.compat.v0_3 import a2a_v0_3_pb2 as old_pb2
from a2a.compat.v0_3 import types
from a2a.compat.v0_3.proto_utils import ToProto
from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message as ProtoMessage

from a2a_scribe.core.records import Shown
from a2a_scribe.handler.handler import DefaultRequestHandler
from a2a_scribe.transport.old import reading, writing
from a2a_scribe.transport.old.card import old_card_with_schemes
from a2a_scribe.transport.operations import OPERATIONS, Operation, Presence

SERVICE: Final = old_pb2.DESCRIPTOR.services_by_name['A2AService'].full_name


def _rpc(name: str, read: Callable[[object], Any]) -> Operation:
    """Returns an operation as JSON-RPC has it."""
    return replace(
        _called(name),
        from_json=read,
        to_json=lambda result, _: writing.to_json(writing.to_old(result)),
        event_to_json=lambda item, sequenced: writing.to_json(_event(name, item, sequenced)),
    )


def _proto(
    name: str,
    request: type[ProtoMessage],
    read: Callable[[Any], Any],
    write: Callable[[Any], ProtoMessage] = ToProto.task,
) -> Operation:
    """Returns an operation as gRPC has it, and with protobuf's JSON, HTTP+JSON."""

    def event(item: Shown, sequenced: bool) -> ProtoMessage:
        return ToProto.stream_response(_event(name, item, sequenced))

    return replace(
        _called(name),
        request=request,
        read=reading.proto_reader(read),
        to_json=lambda result, _: writing.proto_to_json(write(writing.to_old(result))),
        to_binary=lambda result: write(writing.to_old(result)).SerializeToString(),
        event_to_json=lambda item, sequenced: writing.proto_to_json(event(item, sequenced)),
        event_to_binary=lambda item, sequenced: event(item, sequenced).SerializeToString(),
    )


def _event(name: str, item: Shown, sequenced: bool) -> writing.Old:
    return writing.event_to_old(item, sequenced=sequenced, ends_with_question=name == 'SendStreamingMessage')


def _called(name: str) -> Operation:
    operation = OPERATIONS[name]
    return replace(operation, call=CALLED[name]) if name in CALLED else operation


async def _get_config(
    handler: DefaultRequestHandler,
    params: a2a_pb2.GetTaskPushNotificationConfigRequest,
    context: ServerCallContext,
    _: Presence,
) -> a2a_pb2.TaskPushNotificationConfig:
    """Returns a push config; without an id, the one that was set without one, or else the first."""
    if params.task_id and not params.id:
        asked = a2a_pb2.ListTaskPushNotificationConfigsRequest(tenant=params.tenant, task_id=params.task_id)
        ids = [config.id for config in (await _list_configs(handler, asked, context, _)).configs]
        params.id = params.task_id if params.task_id in ids else next(iter(ids), params.task_id)
    return await handler.on_get_task_push_notification_config(params, context)


async def _list_configs(
    handler: DefaultRequestHandler,
    params: a2a_pb2.ListTaskPushNotificationConfigsRequest,
    context: ServerCallContext,
    _: Presence,
) -> a2a_pb2.ListTaskPushNotificationConfigsResponse:
    """Returns all push configs, unless a page is asked for: JSON-RPC has none in version 0.3."""
    page = await handler.on_list_task_push_notification_configs(params, context)
    wants_page = params.page_size or params.page_token
    while page.next_page_token and not wants_page:
        params.page_token, page.next_page_token = page.next_page_token, ''
        page.MergeFrom(await handler.on_list_task_push_notification_configs(params, context))
    return page


CALLED: Final[Mapping[str, Callable[..., Awaitable[Any]]]] = {
    'GetTaskPushNotificationConfig': _get_config,
    'ListTaskPushNotificationConfigs': _list_configs,
}
"""Operations that are something else in version 0.3."""


def _read_card_request(_: object) -> a2a_pb2.GetExtendedAgentCardRequest:
    return a2a_pb2.GetExtendedAgentCardRequest()


_params = reading.params_reader

METHODS: Final[Mapping[str, Operation]] = {
    'message/send': _rpc('SendMessage', _params(types.MessageSendParams, reading.send_of_params)),
    'message/stream': _rpc('SendStreamingMessage', _params(types.MessageSendParams, reading.send_of_params)),
    'tasks/get': _rpc('GetTask', _params(types.TaskQueryParams, reading.get_of_params)),
    'tasks/cancel': _rpc('CancelTask', _params(types.TaskIdParams, reading.cancel_of_params)),
    'tasks/resubscribe': _rpc('SubscribeToTask', _params(types.TaskIdParams, reading.subscription_of_params)),
    'tasks/pushNotificationConfig/set': _rpc(
        'CreateTaskPushNotificationConfig', _params(types.TaskPushNotificationConfig, reading.config_of_params)
    ),
    'tasks/pushNotificationConfig/get': _rpc(
        'GetTaskPushNotificationConfig', _params(reading.ConfigParams, reading.get_config_of_params)
    ),
    'tasks/pushNotificationConfig/list': _rpc(
        'ListTaskPushNotificationConfigs',
        _params(types.ListTaskPushNotificationConfigParams, reading.list_of_params),
    ),
    'tasks/pushNotificationConfig/delete': _rpc(
        'DeleteTaskPushNotificationConfig',
        _params(types.DeleteTaskPushNotificationConfigParams, reading.delete_of_params),
    ),
    'agent/getAuthenticatedExtendedCard': _rpc('GetExtendedAgentCard', _read_card_request),
}
"""By the methods of JSON-RPC."""

CALLS: Final[Mapping[str, Operation]] = {
    'SendMessage': _proto('SendMessage', old_pb2.SendMessageRequest, reading.send_of_proto, writing.answer_to_proto),
    'SendStreamingMessage': _proto('SendStreamingMessage', old_pb2.SendMessageRequest, reading.send_of_proto),
    'GetTask': _proto('GetTask', old_pb2.GetTaskRequest, reading.get_of_proto),
    'CancelTask': _proto('CancelTask', old_pb2.CancelTaskRequest, reading.cancel_of_proto),
    'TaskSubscription': _proto('SubscribeToTask', old_pb2.TaskSubscriptionRequest, reading.subscription_of_proto),
    'CreateTaskPushNotificationConfig': _proto(
        'CreateTaskPushNotificationConfig',
        old_pb2.CreateTaskPushNotificationConfigRequest,
        reading.config_of_proto,
        ToProto.task_push_notification_config,
    ),
    'GetTaskPushNotificationConfig': _proto(
        'GetTaskPushNotificationConfig',
        old_pb2.GetTaskPushNotificationConfigRequest,
        reading.get_config_of_proto,
        ToProto.task_push_notification_config,
    ),
    'ListTaskPushNotificationConfig': replace(
        _proto(
            'ListTaskPushNotificationConfigs',
            old_pb2.ListTaskPushNotificationConfigRequest,
            reading.list_of_proto,
        ),
        to_json=lambda page, _: writing.proto_to_json(writing.configs_to_proto(page)),
        to_binary=lambda page: writing.configs_to_proto(page).SerializeToString(),
    ),
    'DeleteTaskPushNotificationConfig': _proto(
        'DeleteTaskPushNotificationConfig',
        old_pb2.DeleteTaskPushNotificationConfigRequest,
        reading.delete_of_proto,
        lambda _: Empty(),
    ),
    'GetAgentCard': replace(
        _proto('GetExtendedAgentCard', old_pb2.GetAgentCardRequest, _read_card_request, ToProto.agent_card),
        to_json=lambda card, _: old_card_with_schemes(card),
    ),
}
"""By the methods of gRPC; HTTP+JSON has the same in another spelling."""
