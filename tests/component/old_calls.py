"""Every operation of version 0.3 as its clients ask for it, on all bindings, and all that they see of the answer."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from a2a.compat.v0_3 import a2a_v0_3_pb2
from google.protobuf import json_format
from grpc.aio import AioRpcError

from tests.conformance.errors import Json
from tests.conformance.old import old_params, old_request, old_stub
from tests.conformance.over_http import HttpWire, envelope
from tests.conformance.wire import Binding, Pairs, Wire

URL = 'https://hook.test/'


class OldCall(NamedTuple):
    """One request."""

    operation: str
    """What it is called in version 1.0, and in the audit log."""
    method: str
    """Of JSON-RPC, HTTP and path, or of gRPC."""
    params: Any


class Seen(NamedTuple):
    """All that a client can see of an answer."""

    status: Any
    headers: Sequence[tuple[str, Any]]
    body: Any

    @property
    def challenges(self) -> list[Any]:
        """What the answer says of how to be known."""
        return [value for name, value in self.headers if name == 'www-authenticate']


def over_jsonrpc(task_id: str) -> list[OldCall]:
    config = {'id': task_id, 'pushNotificationConfigId': 'c'}
    own = {'taskId': task_id, 'pushNotificationConfig': {'id': 'c', 'url': URL}}
    return [
        OldCall('SendMessage', 'message/send', old_params('complete', taskId=task_id)),
        OldCall('SendStreamingMessage', 'message/stream', old_params('complete', taskId=task_id)),
        OldCall('GetTask', 'tasks/get', {'id': task_id}),
        OldCall('CancelTask', 'tasks/cancel', {'id': task_id}),
        OldCall('SubscribeToTask', 'tasks/resubscribe', {'id': task_id}),
        OldCall('CreateTaskPushNotificationConfig', 'tasks/pushNotificationConfig/set', own),
        OldCall('GetTaskPushNotificationConfig', 'tasks/pushNotificationConfig/get', config),
        OldCall('GetTaskPushNotificationConfig', 'tasks/pushNotificationConfig/get', {'id': task_id}),
        OldCall('ListTaskPushNotificationConfigs', 'tasks/pushNotificationConfig/list', {'id': task_id}),
        OldCall('DeleteTaskPushNotificationConfig', 'tasks/pushNotificationConfig/delete', config),
    ]


def over_rest(task_id: str) -> list[OldCall]:
    task, configs = f'/v1/tasks/{task_id}', f'/v1/tasks/{task_id}/pushNotificationConfigs'
    config = {'configId': 'c', 'config': {'pushNotificationConfig': {'id': 'c', 'url': URL}}}
    return [
        OldCall('SendMessage', 'POST /v1/message:send', old_request('complete', taskId=task_id)),
        OldCall('SendStreamingMessage', 'POST /v1/message:stream', old_request('complete', taskId=task_id)),
        OldCall('GetTask', f'GET {task}', None),
        OldCall('CancelTask', f'POST {task}:cancel', {}),
        OldCall('SubscribeToTask', f'GET {task}:subscribe', None),
        OldCall('SubscribeToTask', f'POST {task}:subscribe', {}),
        OldCall('CreateTaskPushNotificationConfig', f'POST {configs}', config),
        OldCall('GetTaskPushNotificationConfig', f'GET {configs}/c', None),
        OldCall('ListTaskPushNotificationConfigs', f'GET {configs}', None),
        OldCall('DeleteTaskPushNotificationConfig', f'DELETE {configs}/c', None),
    ]


def over_grpc(task_id: str) -> list[OldCall]:
    task, config = {'name': f'tasks/{task_id}'}, {'name': f'tasks/{task_id}/pushNotificationConfigs/c'}
    message = {**old_request('complete', taskId=task_id)}
    own = {
        'parent': f'tasks/{task_id}',
        'configId': 'c',
        'config': {**config, 'pushNotificationConfig': {'id': 'c', 'url': URL}},
    }
    message['request'] = message.pop('message')
    return [
        OldCall('SendMessage', 'SendMessage', message),
        OldCall('SendStreamingMessage', 'SendStreamingMessage', message),
        OldCall('GetTask', 'GetTask', task),
        OldCall('CancelTask', 'CancelTask', task),
        OldCall('SubscribeToTask', 'TaskSubscription', task),
        OldCall('CreateTaskPushNotificationConfig', 'CreateTaskPushNotificationConfig', own),
        OldCall('GetTaskPushNotificationConfig', 'GetTaskPushNotificationConfig', config),
        OldCall('ListTaskPushNotificationConfigs', 'ListTaskPushNotificationConfig', {'parent': f'tasks/{task_id}'}),
        OldCall('DeleteTaskPushNotificationConfig', 'DeleteTaskPushNotificationConfig', config),
    ]


CARDS: Mapping[Binding, OldCall] = {
    Binding.JSONRPC: OldCall('GetExtendedAgentCard', 'agent/getAuthenticatedExtendedCard', None),
    Binding.REST: OldCall('GetExtendedAgentCard', 'GET /v1/card', None),
    Binding.GRPC: OldCall('GetExtendedAgentCard', 'GetAgentCard', {}),
}
TABLES = {Binding.JSONRPC: over_jsonrpc, Binding.REST: over_rest, Binding.GRPC: over_grpc}
REQUESTS = {
    'SendStreamingMessage': 'SendMessageRequest',
    'TaskSubscription': 'TaskSubscriptionRequest',
}
STREAMS = ('SendStreamingMessage', 'TaskSubscription')


def calls_about(wire: Wire, task_id: str) -> list[OldCall]:
    """One request of each operation that is about a task."""
    return TABLES[wire.binding](task_id)


def all_calls(wire: Wire, task_id: str) -> list[OldCall]:
    """One request of each operation there is."""
    return [*calls_about(wire, task_id), CARDS[wire.binding]]


async def see(wire: Wire, call: OldCall, headers: Pairs = ()) -> Seen:
    """Sends a request, and returns all of its answer."""
    if not isinstance(wire, HttpWire):
        return await _see_grpc(wire, call, headers)
    if wire.binding is Binding.JSONRPC:
        body: Json = {**envelope(call.method, call.params), 'id': 1}
        response = await wire.request('POST', '/', json=body, headers=headers, version=None)
    else:
        method, path = call.method.split()
        more = {} if call.params is None else {'json': call.params}
        response = await wire.request(method, path, headers=headers, version=None, **more)
    shown = [pair for pair in response.headers.multi_items() if pair[0] != 'date']
    return Seen(response.status_code, shown, response.content)


async def _see_grpc(wire: Any, call: OldCall, headers: Pairs) -> Seen:
    kind = getattr(a2a_v0_3_pb2, REQUESTS.get(call.method, f'{call.method}Request'))
    request = json_format.ParseDict(call.params, kind())
    given = [(name.lower(), value) for name, value in headers]
    answer = getattr(old_stub(wire), call.method)(request, metadata=given)
    try:
        body = [each async for each in answer] if call.method in STREAMS else await answer
    except AioRpcError as error:
        shown = [*(error.initial_metadata() or ()), *(error.trailing_metadata() or ())]
        return Seen(error.code().name, shown, error.details())
    return Seen('OK', list(await answer.initial_metadata()), body)
