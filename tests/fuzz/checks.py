"""What every answer has to be, whatever was asked (A2A 1.0, sections 9.5, 10.6 and 11.6)."""

import json
from typing import Any, Final

from google.protobuf import json_format
from google.rpc import code_pb2, error_details_pb2, status_pb2

from tests.fuzz.http_client import Response
from tests.fuzz.http_requests import HttpRequest

RPC_CODES: Final = {-32700, -32600, -32601, -32602, *range(-32009, -32000)} - {-32006}
"""All but those that say the fault is the server's or the agent's."""
REST_STATUSES: Final = {400, 404, 405, 413, 415}
GRPC_CODES: Final = {'INVALID_ARGUMENT', 'NOT_FOUND', 'FAILED_PRECONDITION', 'UNIMPLEMENTED'}
REFUSED_BY_UVICORN: Final = b'Invalid HTTP request received.'
TYPES: Final = ('application/json', 'application/a2a+json')
DETAILS: Final = {
    f'type.googleapis.com/google.rpc.{kind.DESCRIPTOR.name}': kind
    for kind in (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest)
}


def refuse_constant(name: str) -> Any:
    """Refuses NaN and the like, which Python reads and JSON does not have."""
    raise AssertionError(f'{name} is no JSON')


def strict_json(data: bytes) -> Any:
    """Reads JSON, which is UTF-8 and has no NaN."""
    return json.loads(data.decode('utf-8'), parse_constant=refuse_constant)


def check_http(request: HttpRequest, response: Response) -> None:
    """Asserts that an answer is one of its binding."""
    assert 200 <= response.status < 500, response
    if response.status == 400 and response.body == REFUSED_BY_UVICORN:
        return
    if request.method == 'HEAD' or response.status in (204, 304):
        assert response.body == b'', response
    elif response.media_type == 'text/event-stream':
        assert response.status == 200, response
        check_stream(response)
    elif request.kind.startswith('JSON-RPC'):
        check_rpc(request, response)
    else:
        assert response.media_type in TYPES, response
        body = strict_json(response.body)
        assert isinstance(body, dict), response
        if 'jsonrpc' in body:  # `/` is JSON-RPC's
            check_rpc_answer(body)
        elif response.status == 200:
            assert 'error' not in body, response
        else:
            check_rest_error(body, response.status)


def check_rest_error(body: dict[str, Any], status: int) -> None:
    """Asserts that it is an error of HTTP+JSON that says that the client is at fault."""
    assert body.keys() == {'error'}, body
    error = body['error']
    assert error.keys() == {'code', 'status', 'message', 'details'}, body
    assert error['code'] == status, body
    assert status in REST_STATUSES, body
    assert error['status'] in GRPC_CODES, body
    check_details(error['details'])


def check_rpc(request: HttpRequest, response: Response) -> None:
    """Asserts that it is what JSON-RPC answers to a request or to a batch."""
    assert response.media_type == 'application/json', response
    body = strict_json(response.body)
    if response.status != 200:
        assert response.status in (405, 413, 415), response
        assert body['id'] is None, response
    sent = sent_json(request.body or b'')
    answers = body if isinstance(body, list) else [body]
    assert answers, response
    assert isinstance(sent, list) or not isinstance(body, list), response
    for answer in answers:
        check_rpc_answer(answer)
    if isinstance(sent, dict) and response.status == 200:
        assert 'id' in sent or 'error' in body, response
        assert same_id(sent.get('id'), body['id']), response


def sent_json(data: bytes) -> Any:
    """Returns what was sent, `None` if it was no JSON."""
    try:
        return strict_json(data)
    except (ValueError, AssertionError, RecursionError):
        return None


def same_id(sent: Any, answered: Any) -> bool:
    """Whether an answer has the id of its request; an id that can be none is answered as `null`."""
    if isinstance(sent, bool | dict | list | None):
        return answered is None
    if isinstance(sent, str) or answered is None:
        return bool(answered is None or answered == sent)
    return bool(float(answered) == float(sent))


def check_rpc_answer(answer: dict[str, Any]) -> None:
    """Asserts that it is a response of JSON-RPC."""
    assert answer['jsonrpc'] == '2.0', answer
    assert answer.keys() in ({'jsonrpc', 'id', 'result'}, {'jsonrpc', 'id', 'error'}), answer
    if 'error' in answer:
        check_rpc_error(answer['error'])


def check_rpc_error(error: dict[str, Any]) -> None:
    """Asserts that it is an error of JSON-RPC that says that the client is at fault."""
    assert error.keys() == {'code', 'message', 'data'}, error
    assert error['code'] in RPC_CODES, error
    check_details(error['data'])


def check_details(details: list[dict[str, Any]]) -> None:
    """Asserts that each is ProtoJSON of a type of google.rpc, `ErrorInfo` first."""
    kinds = [detail['@type'].rpartition('.')[2] for detail in details]
    assert kinds in (['ErrorInfo'], ['ErrorInfo', 'BadRequest']), details
    for detail in details:
        kind = DETAILS[detail['@type']]
        json_format.ParseDict({name: value for name, value in detail.items() if name != '@type'}, kind())
    assert details[0]['reason'], details
    assert details[0]['domain'] == 'a2a-protocol.org', details


def check_stream(response: Response) -> None:
    """Asserts that all that was read are server-sent events of the binding."""
    blocks = response.body.split(b'\n\n')
    assert blocks[0].startswith(b'retry: '), response
    if response.is_whole:
        assert blocks[-1] == b'', response
    for block in blocks[1:-1]:
        fields = dict(line.split(b': ', 1) for line in block.split(b'\n') if not line.startswith(b':'))
        assert fields.keys() <= {b'id', b'event', b'data'}, response
        assert b'event' not in fields, f'an error in a stream: {response}'
        if b'data' in fields:
            check_event(strict_json(fields[b'data']))


def check_event(event: dict[str, Any]) -> None:
    """Asserts that it is what a stream shows on one of the bindings."""
    if 'jsonrpc' in event:
        check_rpc_answer(event)
        event = event['result']
    assert len(event) == 1, event
    assert event.keys() <= {'task', 'message', 'statusUpdate', 'artifactUpdate'}, event


def check_grpc_error(code: str, details: bytes | None) -> None:
    """Asserts that it is an error of the protocol that says that the client is at fault."""
    assert code in GRPC_CODES, code
    assert details is not None, f'{code} without details'
    status = status_pb2.Status.FromString(details)
    assert code_pb2.Code.Name(status.code) == code, status
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info), status
    assert info.domain == 'a2a-protocol.org', status
