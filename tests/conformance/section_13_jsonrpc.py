"""Section 13: what JSON-RPC 2.0 itself asks for."""

import json
from typing import Any

from tests.conformance.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    TASK_NOT_FOUND,
    Fault,
)
from tests.conformance.kit import NO_TASK, found, message_of, request_of
from tests.conformance.over_http import JsonRpcWire, envelope, rpc_error
from tests.conformance.site import Site, soon
from tests.conformance.table import Section
from tests.conformance.wire import JSONRPC

SECTION = Section(13, 'Error model: JSON-RPC 2.0')

GET = {'id': NO_TASK}


def refused(body: dict[str, Any], fault: Fault, request_id: object = None) -> None:
    """Checks that a response is an error with the id of its request."""
    assert body['jsonrpc'] == '2.0'
    assert 'result' not in body
    assert body['id'] == request_id, body
    rpc_error(body).must_be(fault)


IDS = SECTION.must('JSON-RPC 5', 'A response has the id of its request: a string, a number or null')


@IDS.check(on=JSONRPC)
async def ids_come_back(wire: JsonRpcWire, site: Site) -> None:
    for request_id in ('a', '', 'ü', 0, -7, 2**53, 2**64 - 1, -(2**63), 1.5, None):
        refused((await wire.post(envelope('GetTask', GET, id=request_id))).json(), TASK_NOT_FOUND, request_id)


@IDS.check(on=JSONRPC)
async def ids_come_back_on_streams(wire: JsonRpcWire, site: Site) -> None:
    body = envelope('SendStreamingMessage', request_of('work complete'), id='mine')
    text = (await wire.post(body)).text
    data = [json.loads(line[6:]) for line in text.splitlines() if line.startswith('data: ')]
    assert len(data) == 3
    assert {each['id'] for each in data} == {'mine'}


@IDS.check(on=JSONRPC)
async def other_ids_are_refused(wire: JsonRpcWire, site: Site) -> None:
    others: list[object] = [True, [], {}, ['a'], 2**64, -(2**63) - 1, 10**30, 1e300, 2.0**53 + 2]
    for request_id in others:
        refused((await wire.post(envelope('GetTask', GET, id=request_id))).json(), INVALID_REQUEST)
        (answer,) = (await wire.post([envelope('GetTask', GET, id=request_id)])).json()
        refused(answer, INVALID_REQUEST)


PARSING = SECTION.must('JSON-RPC 5.1', 'What is no JSON is -32700 with the id null')


@PARSING.check(on=JSONRPC)
async def broken_json_is_a_parse_error(wire: JsonRpcWire, site: Site) -> None:
    for content in (b'', b'{', b'nonsense', b'{"a":NaN}', b'\xff', b'{"jsonrpc":"2.0",}', b'[' * 100_000):
        response = await wire.post(content=content)
        assert response.status_code == 200
        refused(response.json(), PARSE_ERROR)


ENVELOPES = SECTION.must('JSON-RPC 5.1', 'What is no request is -32600, with the id if there is one')


@ENVELOPES.check(on=JSONRPC)
async def broken_envelopes_are_invalid_requests(wire: JsonRpcWire, site: Site) -> None:
    for body, request_id in (
        (7, None),
        ('text', None),
        (None, None),
        ({}, None),
        ({'id': 1, 'method': 'GetTask'}, 1),
        ({'jsonrpc': '1.0', 'id': 1, 'method': 'GetTask'}, 1),
        ({'jsonrpc': 2.0, 'id': 1, 'method': 'GetTask'}, 1),
        ({'jsonrpc': '2.0', 'id': 1}, 1),
        ({'jsonrpc': '2.0', 'id': 'x', 'method': 7}, 'x'),
    ):
        response = await wire.post(content=json.dumps(body).encode())
        assert response.status_code == 200
        refused(response.json(), INVALID_REQUEST, request_id)


METHODS = SECTION.must('JSON-RPC 5.1', 'An unknown method is -32601')


@METHODS.check(on=JSONRPC)
async def unknown_methods_are_not_found(wire: JsonRpcWire, site: Site) -> None:
    for method in ('Nope', '', 'getTask', 'message/send', '__init__', 'x' * 10_000):
        refused((await wire.post(envelope(method, GET, id=1))).json(), METHOD_NOT_FOUND, 1)


PARAMS = SECTION.must('JSON-RPC 5.1', 'Wrong params are -32602')


@PARAMS.check(on=JSONRPC)
async def wrong_params_are_refused(wire: JsonRpcWire, site: Site) -> None:
    wrong: list[object] = [[], ['x'], 'text', 7, True, {'id': 7}, {'id': {}}]
    for params in wrong:
        refused((await wire.post(envelope('GetTask', params, id=1))).json(), INVALID_PARAMS, 1)


NOTIFICATIONS = SECTION.must('JSON-RPC 4.1', 'A request without an id is executed and not answered', sdk_fails=True)


@NOTIFICATIONS.check(on=JSONRPC)
async def notifications_are_executed_and_not_answered(wire: JsonRpcWire, site: Site) -> None:
    context = site.unique('context')
    for method in ('SendMessage', 'SendStreamingMessage'):
        body = envelope(method, {'message': message_of('work complete', contextId=context)})
        del body['id']
        response = await wire.post(body)
        assert (response.status_code, response.content) == (204, b'')

    async def both() -> bool:
        return len(await found(wire, contextId=context)) == 2

    await soon(both)


@NOTIFICATIONS.check(on=JSONRPC)
async def errors_of_notifications_are_not_answered(wire: JsonRpcWire, site: Site) -> None:
    for body in (
        {'method': 'GetTask', 'params': GET},
        {'method': 'Nope'},
        {'method': 'SubscribeToTask', 'params': GET},
    ):
        response = await wire.post({'jsonrpc': '2.0', **body})
        assert (response.status_code, response.content) == (204, b'')


BATCHES = SECTION.may('JSON-RPC 6', 'Batches are answered by a batch, without what was not asked', sdk_fails=True)


@BATCHES.check(on=JSONRPC)
async def batches_are_answered(wire: JsonRpcWire, site: Site) -> None:
    sent = envelope('SendMessage', request_of('work complete'), id='send')
    notification = {'jsonrpc': '2.0', 'method': 'ListTasks'}
    batch = [sent, notification, envelope('GetTask', GET, id=2), 7, envelope('SendStreamingMessage', {}, id='stream')]
    answers = (await wire.post(batch)).json()
    assert [answer['id'] for answer in answers] == ['send', 2, None, 'stream']
    assert answers[0]['result']['task']['status']['state'] == 'TASK_STATE_COMPLETED'
    refused(answers[1], TASK_NOT_FOUND, 2)
    refused(answers[2], INVALID_REQUEST)
    refused(answers[3], INVALID_REQUEST, 'stream')


@BATCHES.check(on=JSONRPC)
async def batches_have_bounds(wire: JsonRpcWire, site: Site) -> None:
    for batch in ([], [envelope('GetTask', GET)] * 101):
        refused((await wire.post(batch)).json(), INVALID_REQUEST)


@BATCHES.check(on=JSONRPC)
async def batches_of_notifications_are_not_answered(wire: JsonRpcWire, site: Site) -> None:
    response = await wire.post([{'jsonrpc': '2.0', 'method': 'ListTasks'}] * 2)
    assert (response.status_code, response.content) == (204, b'')


STATUSES = SECTION.must('9.5', 'JSON-RPC errors have HTTP status 200')


@STATUSES.check(on=JSONRPC)
async def errors_have_status_200(wire: JsonRpcWire, site: Site) -> None:
    for body in (envelope('GetTask', GET), envelope('Nope'), envelope('ListTasks', {'pageSize': -1}), {}):
        response = await wire.post(body)
        assert response.status_code == 200
        assert response.headers['content-type'] == 'application/json'
