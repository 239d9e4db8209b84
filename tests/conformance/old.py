"""What a client of version 0.3 sends and is answered: the first calls of each binding, by hand.

Its gRPC messages are those of the package `a2a.v1`, by the stubs that `a2a-sdk` has for them.
"""

import uuid
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2, a2a_v0_3_pb2_grpc
from google.protobuf import json_format

from tests.conformance.errors import Json
from tests.conformance.over_grpc import GrpcWire
from tests.conformance.over_http import JsonRpcWire, RestWire, envelope
from tests.conformance.wire import Wire


def old_message(script: str, **fields: Any) -> Json:
    """A message as JSON-RPC has it."""
    part = {'kind': 'text', 'text': script}
    return {'kind': 'message', 'messageId': str(uuid.uuid4()), 'role': 'user', 'parts': [part], **fields}


def old_params(script: str, configuration: Json | None = None, **fields: Any) -> Json:
    """The parameters of `message/send` and `message/stream`."""
    params: Json = {'message': old_message(script, **fields)}
    return params if configuration is None else {**params, 'configuration': configuration}


def old_request(script: str, configuration: Json | None = None, **fields: Any) -> Json:
    """The body of `/v1/message:send` and its like, and the message of gRPC."""
    message = {'messageId': str(uuid.uuid4()), 'role': 'ROLE_USER', 'content': [{'text': script}], **fields}
    return {'message': message, 'configuration': configuration or {'blocking': True}}


async def old_call(wire: JsonRpcWire, method: str, params: Json | None = None, **options: Any) -> Json:
    """Calls a method of JSON-RPC without naming a version, and returns the whole response."""
    given = {'version': None, **options}
    response = await wire.post(envelope(method, params), **given)
    assert response.status_code == 200
    body: Json = response.json()
    assert body['jsonrpc'] == '2.0'
    return body


async def old_result(wire: JsonRpcWire, method: str, params: Json | None = None, **options: Any) -> Any:
    """Calls a method of JSON-RPC without naming a version, and returns the result."""
    body = await old_call(wire, method, params, **options)
    assert 'result' in body, body
    return body['result']


def old_stub(wire: GrpcWire) -> Any:
    """Calls by gRPC."""
    return a2a_v0_3_pb2_grpc.A2AServiceStub(wire.service.channel)  # type: ignore[no-untyped-call]


async def old_task(wire: Wire, script: str) -> Json:
    """Sends a message and returns id and state of the task that answers it."""
    if isinstance(wire, JsonRpcWire):
        task = await old_result(wire, 'message/send', old_params(script))
        return {'id': task['id'], 'state': task['status']['state'].upper().replace('-', '_')}
    if isinstance(wire, RestWire):
        response = await wire.request('POST', '/v1/message:send', json=old_request(script), version=None)
        assert response.status_code == 200, response.text
        task = response.json()['task']
    else:
        assert isinstance(wire, GrpcWire)
        request = json_format.ParseDict(old_request(script), a2a_v0_3_pb2.SendMessageRequest())
        task = json_format.MessageToDict((await old_stub(wire).SendMessage(request)).task)
    return {'id': task['id'], 'state': task['status']['state'].removeprefix('TASK_STATE_')}
