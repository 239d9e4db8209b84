"""Section 11: clients of version 0.3."""

import json

import httpx
from a2a.compat.v0_3 import a2a_v0_3_pb2
from google.protobuf import json_format

from tests.conformance.errors import TASK_NOT_CANCELABLE, TASK_NOT_FOUND, Json
from tests.conformance.kit import get, state_of
from tests.conformance.old import old_call, old_params, old_request, old_result, old_stub, old_task
from tests.conformance.over_grpc import GrpcWire
from tests.conformance.over_http import HttpWire, JsonRpcWire, RestWire, envelope
from tests.conformance.site import USER, Site
from tests.conformance.table import Section
from tests.conformance.wire import GRPC, HTTP, JSONRPC, REST, Wire

SECTION = Section(11, 'Clients of version 0.3')

RPC = SECTION.may('0.3', 'JSON-RPC of 0.3: its methods, `kind`, lower-case states, bare results')


@RPC.check(on=JSONRPC)
async def old_send_is_answered_by_an_old_task(wire: JsonRpcWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    task = await old_result(old, 'message/send', old_params('work artifact:a complete:done'))
    assert (task['kind'], task['status']['state']) == ('task', 'completed')
    assert (task['history'][0]['kind'], task['history'][0]['role']) == ('message', 'user')
    assert task['status']['message']['role'] == 'agent'
    assert task['artifacts'][0]['parts'] == [{'kind': 'text', 'text': 'text of a'}]
    assert 'TASK_STATE' not in str(task)


@RPC.check(on=JSONRPC)
async def old_send_takes_the_version_by_its_name(wire: JsonRpcWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    for version in ('0.3', '0.3.0', ''):
        task = await old_result(old, 'message/send', old_params('work ask'), version=version)
        assert (task['kind'], task['status']['state']) == ('task', 'input-required')


@RPC.check(on=JSONRPC)
async def old_send_is_answered_by_an_old_message(wire: JsonRpcWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    message = await old_result(old, 'message/send', old_params('message:hi'))
    assert (message['kind'], message['role']) == ('message', 'agent')
    assert message['parts'] == [{'kind': 'text', 'text': 'hi'}]


@RPC.check(on=JSONRPC)
async def old_send_that_does_not_block_is_answered_at_once(wire: JsonRpcWire, site: Site) -> None:
    old, gate = wire.at(await site.service('old')), site.unique('gate')
    params = old_params(f'work hold:{gate} complete', {'blocking': False})
    task = await old_result(old, 'message/send', params)
    assert task['status']['state'] in ('submitted', 'working')
    canceled = await old_result(old, 'tasks/cancel', {'id': task['id']})
    assert (canceled['kind'], canceled['status']['state']) == ('task', 'canceled')


@RPC.check(on=JSONRPC)
async def old_client_reads_and_goes_on(wire: JsonRpcWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    task = await old_result(old, 'message/send', old_params('ask:name?'))
    assert await old_result(old, 'tasks/get', {'id': task['id']}) == task
    assert len((await old_result(old, 'tasks/get', {'id': task['id'], 'historyLength': 1}))['history']) == 1
    params = old_params('complete', taskId=task['id'], contextId=task['contextId'])
    assert (await old_result(old, 'message/send', params))['status']['state'] == 'completed'


async def old_events(wire: JsonRpcWire, method: str, params: Json) -> list[Json]:
    """The results of a stream, which has to be of one request."""
    request = envelope(method, params)
    headers = {'Accept': 'text/event-stream'}
    async with wire.service.http.stream('POST', wire.service.url + '/', json=request, headers=headers) as response:
        assert response.headers['content-type'].startswith('text/event-stream')
        found = [json.loads(line[5:]) async for line in response.aiter_lines() if line.startswith('data:')]
    assert {body['id'] for body in found} == {request['id']}
    return [body['result'] for body in found]


@RPC.check(on=JSONRPC)
async def old_stream_has_old_events_and_a_final_one(wire: JsonRpcWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    events = await old_events(old, 'message/stream', old_params('work artifact:a complete'))
    assert [event['kind'] for event in events] == ['task', 'status-update', 'artifact-update', 'status-update']
    assert [event['final'] for event in events if event['kind'] == 'status-update'] == [False, True]
    assert events[-1]['status']['state'] == 'completed'


@RPC.check(on=JSONRPC)
async def old_client_subscribes_again(wire: JsonRpcWire, site: Site) -> None:
    old, gate = wire.at(await site.service('old')), site.unique('gate')
    params = old_params(f'work hold:{gate} complete', {'blocking': False})
    task = await old_result(old, 'message/send', params)
    await old.service.agent.reached(gate)
    old.service.agent.open(gate)
    body = await old_call(old, 'tasks/get', {'id': task['id']})
    assert body['result']['id'] == task['id']
    waiting = await old_result(old, 'message/send', old_params('ask'))
    canceled = old_result(old, 'tasks/cancel', {'id': waiting['id']})
    request = envelope('tasks/resubscribe', {'id': waiting['id']})
    async with old.service.http.stream('POST', old.service.url + '/', json=request) as response:
        lines = response.aiter_lines()
        first = await anext(line async for line in lines if line.startswith('data:'))
        assert json.loads(first[5:])['result']['kind'] in ('task', 'status-update')
        await canceled
        last = [line async for line in lines if line.startswith('data:')][-1]
        assert json.loads(last[5:])['result']['status']['state'] == 'canceled'


@RPC.check(on=JSONRPC)
async def old_client_has_push_configs(wire: JsonRpcWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    task = await old_result(old, 'message/send', old_params('ask'))
    config = {'taskId': task['id'], 'pushNotificationConfig': {'id': 'c', 'url': 'https://hook.test/'}}
    made = await old_result(old, 'tasks/pushNotificationConfig/set', config)
    assert (made['taskId'], made['pushNotificationConfig']['url']) == (task['id'], 'https://hook.test/')
    named = {'id': task['id'], 'pushNotificationConfigId': 'c'}
    assert await old_result(old, 'tasks/pushNotificationConfig/get', named) == made
    assert await old_result(old, 'tasks/pushNotificationConfig/list', {'id': task['id']}) == [made]
    assert await old_result(old, 'tasks/pushNotificationConfig/delete', named) is None
    assert await old_result(old, 'tasks/pushNotificationConfig/list', {'id': task['id']}) == []


@RPC.check(on=JSONRPC)
async def old_client_gets_the_extended_card(wire: JsonRpcWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    card = await old_result(old, 'agent/getAuthenticatedExtendedCard', headers=[(USER, 'ann')])
    assert (card['name'], card['description']) == ('extended', 'for ann')


@RPC.check(on=JSONRPC)
async def old_client_gets_the_codes_of_errors(wire: JsonRpcWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    ended = await old_result(old, 'message/send', old_params('complete'))
    for method, params, code in (
        ('tasks/get', {'id': 'none'}, TASK_NOT_FOUND.code),
        ('tasks/cancel', {'id': ended['id']}, TASK_NOT_CANCELABLE.code),
        ('message/send', {'message': {}}, -32602),
        ('tasks/list', {}, -32601),
    ):
        body = await old_call(old, method, params)
        assert body['error']['code'] == code, body


HTTP_JSON = SECTION.may('0.3', 'HTTP+JSON of 0.3: below /v1, `content` for parts')


@HTTP_JSON.check(on=REST)
async def old_url_is_answered_by_an_old_task(wire: RestWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    response = await old.request('POST', '/v1/message:send', json=old_request('work ask:name?'), version=None)
    assert response.headers['content-type'] == 'application/json'
    task = response.json()['task']
    assert task['status']['state'] == 'TASK_STATE_INPUT_REQUIRED'
    assert task['history'][0]['content'] == [{'text': 'work ask:name?'}]
    assert task['status']['message']['role'] == 'ROLE_AGENT'
    response = await old.request('GET', f'/v1/tasks/{task["id"]}', version=None)
    assert response.json() == task
    response = await old.request('POST', f'/v1/tasks/{task["id"]}:cancel', version=None)
    assert response.json()['status']['state'] == 'TASK_STATE_CANCELLED'


@HTTP_JSON.check(on=REST)
async def old_url_of_streams_has_old_events(wire: RestWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    request = old_request('work artifact:a complete')
    response = await old.request('POST', '/v1/message:stream', json=request, version=None)
    assert response.headers['content-type'].startswith('text/event-stream')
    events = [json.loads(line[5:]) for line in response.text.splitlines() if line.startswith('data:')]
    assert [next(iter(event)) for event in events] == ['task', 'statusUpdate', 'artifactUpdate', 'statusUpdate']
    assert events[-1]['statusUpdate']['final'] is True


@HTTP_JSON.check(on=REST)
async def old_url_of_an_unknown_task_is_404(wire: RestWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    await old_task(old, 'complete')
    assert (await old.request('GET', '/v1/tasks/none', version=None)).status_code == TASK_NOT_FOUND.http


PACKAGE = SECTION.may('0.3', 'gRPC of 0.3: the package a2a.v1')


@PACKAGE.check(on=GRPC)
async def old_service_is_answered_by_an_old_task(wire: GrpcWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    stub = old_stub(old)
    made = await old_task(old, 'work ask')
    assert made['state'] == 'INPUT_REQUIRED'
    name = f'tasks/{made["id"]}'
    task = await stub.GetTask(a2a_v0_3_pb2.GetTaskRequest(name=name))
    assert task.status.state == a2a_v0_3_pb2.TaskState.TASK_STATE_INPUT_REQUIRED
    task = await stub.CancelTask(a2a_v0_3_pb2.CancelTaskRequest(name=name))
    assert task.status.state == a2a_v0_3_pb2.TaskState.TASK_STATE_CANCELLED


@PACKAGE.check(on=GRPC)
async def old_service_streams_old_events(wire: GrpcWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    request = json_format.ParseDict(old_request('work artifact:a complete'), a2a_v0_3_pb2.SendMessageRequest())
    events = [event async for event in old_stub(old).SendStreamingMessage(request)]
    kinds = [event.WhichOneof('payload') for event in events]
    assert kinds == ['task', 'status_update', 'artifact_update', 'status_update']
    assert events[-1].status_update.final


OWNERS = SECTION.ours('0.3', 'Tasks are the same for clients of both versions')


@OWNERS.check()
async def task_of_an_old_client_is_read_by_a_new_one(wire: Wire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    made = await old_task(old, 'work ask')
    assert state_of(await get(old, made['id'])) == made['state'] == 'INPUT_REQUIRED'


RESUMED = SECTION.ours('0.3', 'Streams of clients of 0.3 are resumed after the event that they name')


@RESUMED.check(on=HTTP)
async def old_stream_is_resumed_after_an_event(wire: HttpWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    if isinstance(old, JsonRpcWire):
        whole = await old.request('POST', '/', json=envelope('message/stream', old_params(SCRIPT)), version=None)
    else:
        whole = await old.request('POST', '/v1/message:stream', json=old_request(SCRIPT), version=None)
    events = events_of(whole)
    assert len(events) == 4
    first = json.loads(events[0][1])
    task_id = (first.get('result') or first['task'])['id']
    for number, (place, _) in enumerate(events):
        seen = [('Last-Event-ID', place)]
        if isinstance(old, JsonRpcWire):
            request = envelope('tasks/resubscribe', {'id': task_id})
            rest = await old.request('POST', '/', json={**request, 'id': first['id']}, headers=seen, version=None)
        else:
            rest = await old.request('GET', f'/v1/tasks/{task_id}:subscribe', headers=seen, version=None)
        assert events_of(rest) == events[number + 1 :]


SCRIPT = 'work artifact:a complete'


def events_of(response: httpx.Response) -> list[tuple[str, str]]:
    """The id and the data of each event."""
    assert response.headers['content-type'].startswith('text/event-stream')
    lines = [line for line in response.text.splitlines() if line.startswith(('id:', 'data:'))]
    texts = [line.partition(':')[2].strip() for line in lines]
    return list(zip(texts[::2], texts[1::2], strict=True))
