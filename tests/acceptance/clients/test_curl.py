"""curl on the two bindings that HTTP has, and what only curl shows: the bytes of the wire."""

import asyncio
import json

import pytest

from tests.acceptance.clients import curl_script
from tests.acceptance.clients.curl import (
    BINDINGS,
    JSON_BODY,
    JSON_RPC,
    REST,
    VERSION,
    Caller,
    Curl,
    Refused,
    encode,
    request_of,
)
from tests.acceptance.clients.curl_script import artifacts_of, summary, task, text_of
from tests.acceptance.clients.scenarios import AGENT, SCENARIOS
from tests.acceptance.clients.site import LONG_ENOUGH, Site
from tests.acceptance.clients.tools import find_curl

pytestmark = pytest.mark.anyio


@pytest.fixture(scope='session')
def curl() -> Curl:
    return Curl(find_curl())


@pytest.fixture(params=BINDINGS)
def caller(request: pytest.FixtureRequest, curl: Curl, site: Site) -> Caller:
    return Caller(curl, site, request.param)


@pytest.fixture
def rest(curl: Curl, site: Site) -> Caller:
    return Caller(curl, site, REST)


@pytest.fixture
def rpc(curl: Curl, site: Site) -> Caller:
    return Caller(curl, site, JSON_RPC)


@pytest.mark.parametrize('scenario', SCENARIOS)
async def test_curl(scenario: str, caller: Caller) -> None:
    async with asyncio.timeout(LONG_ENOUGH):
        await getattr(curl_script, scenario)(caller)


# Addresses


async def test_slashes_at_the_end_of_json_rpc(rpc: Caller) -> None:
    bare = rpc.site.rpc_url.rstrip('/')
    body = encode({'jsonrpc': '2.0', 'id': 7, 'method': 'ListTasks'})
    for url in (bare, f'{bare}/'):
        assert 'tasks' in rpc.result_of(await rpc.curl(VERSION, JSON_BODY, url, body=body))


async def test_slashes_at_the_end_of_rest(rest: Caller) -> None:
    send = await rest.curl(
        VERSION, JSON_BODY, f'{rest.site.rest_url}/message:send/', body=encode(request_of('complete'))
    )
    found = rest.result_of(send)['task']
    for target in (f'tasks/{found["id"]}/', 'tasks/', 'extendedAgentCard/'):
        assert (await rest.curl(VERSION, f'{rest.site.rest_url}/{target}')).status == 200


async def test_slash_at_the_end_of_the_card(rest: Caller) -> None:
    response = await rest.curl(f'{rest.site.url}/.well-known/agent-card.json/')
    assert (response.status, response.json['name']) == (200, AGENT)


async def test_tenants_in_the_path_the_query_and_the_body(rest: Caller) -> None:
    found = await task(rest, 'tenant:t complete', tenant='a%20b')
    assert artifacts_of(found) == {'t': 'a b'}
    request = request_of('tenant:t complete', tenant='a b')
    sent = await rest.curl(VERSION, JSON_BODY, f'{rest.site.rest_url}/message:send', body=encode(request))
    assert artifacts_of(rest.result_of(sent)['task']) == {'t': 'a b'}
    for target in ('a%20b/tasks', 'tasks?tenant=a%20b', 'a%20b/tasks?tenant=a%20b'):
        listed = rest.result_of(await rest.curl(VERSION, f'{rest.site.rest_url}/{target}'))
        assert found['id'] in {each['id'] for each in listed['tasks']}
    contradiction = await rest.curl(VERSION, f'{rest.site.rest_url}/a/tasks?tenant=b')
    assert contradiction.json['error']['details'][0]['reason'] == 'INVALID_PARAMS'


async def test_nothing_is_served_at_other_paths(rest: Caller) -> None:
    for target in ('nope', 'nope/', 'a/b/c/d'):
        response = await rest.curl(f'{rest.site.url}/{target}')
        assert response.status == 404
        assert response.headers['content-type'] == 'application/a2a+json'
        error = response.json['error']
        assert (error['code'], error['status']) == (404, 'UNIMPLEMENTED')
        assert error['details'][0]['reason'] == 'METHOD_NOT_FOUND'
        assert error['details'][0]['domain'] == 'a2a-protocol.org'


async def test_wrong_http_methods(rest: Caller) -> None:
    response = await rest.curl(VERSION, '-XDELETE', f'{rest.site.rest_url}/tasks/x')
    assert (response.status, response.headers['allow']) == (405, 'GET')
    response = await rest.curl(VERSION, '-XPUT', rest.site.rpc_url)
    assert (response.status, response.headers['allow']) == (405, 'POST')
    assert response.json['id'] is None


async def test_a_body_of_the_type_that_curl_sends_by_default(caller: Caller) -> None:
    """The mistake that everybody makes once."""
    _, body = caller.arguments('SendMessage', request_of('complete'))
    url = caller.site.rpc_url if caller.binding == JSON_RPC else f'{caller.site.rest_url}/message:send'
    response = await caller.curl(VERSION, url, body=body)
    assert response.status == 415
    assert 'application/json' in response.json['error']['message']


async def test_the_version_is_needed_and_a_query_parameter_will_do(rest: Caller) -> None:
    url = f'{rest.site.rest_url}/tasks'
    missing = await rest.curl(url)
    assert (missing.status, missing.json['error']['details'][0]['reason']) == (400, 'VERSION_NOT_SUPPORTED')
    assert (await rest.curl(f'{url}?A2A-Version=1.0')).status == 200


async def test_notifications_have_no_answer(rpc: Caller) -> None:
    context_id = 'a-context-of-a-notification'
    request = {'jsonrpc': '2.0', 'method': 'SendMessage', 'params': request_of('complete', contextId=context_id)}
    response = await rpc.curl(VERSION, JSON_BODY, rpc.site.rpc_url, body=encode(request))
    assert (response.status, response.body) == (204, b'')
    assert len((await rpc.call('ListTasks', contextId=context_id))['tasks']) == 1


async def test_media_types(rest: Caller) -> None:
    url = f'{rest.site.rest_url}/tasks'
    for accept, expected in (
        ('*/*', 'application/a2a+json'),
        ('application/a2a+json', 'application/a2a+json'),
        ('application/json', 'application/json'),
    ):
        response = await rest.curl(VERSION, f'-HAccept: {accept}', url)
        assert response.headers['content-type'] == expected


# The card


async def test_the_card_is_cached(rest: Caller) -> None:
    url = f'{rest.site.url}/.well-known/agent-card.json'
    first = await rest.curl(url)
    assert first.headers['cache-control'] == 'public, max-age=300'
    known = await rest.curl(f'-HIf-None-Match: {first.headers["etag"]}', url)
    assert (known.status, known.body) == (304, b'')
    assert known.headers['etag'] == first.headers['etag']
    other = await rest.curl('-HIf-None-Match: "another"', url)
    assert (other.status, other.body) == (200, first.body)


async def test_the_head_of_the_card(rest: Caller) -> None:
    url = f'{rest.site.url}/.well-known/agent-card.json'
    full, head = await rest.curl(url), await rest.curl('--head', url)
    assert (head.status, head.body) == (200, b'')
    assert head.headers['content-length'] == str(len(full.body))
    assert head.headers['etag'] == full.headers['etag']


# Streams


async def test_the_lines_of_a_stream(caller: Caller) -> None:
    request = request_of('work chunks:2 complete')
    async with caller.stream('SendStreamingMessage', **request) as reader:
        retry, *events = [block async for block in reader.blocks()]
    assert reader.head.status == 200
    assert reader.head.headers['cache-control'] == 'no-store'
    assert reader.head.headers['x-accel-buffering'] == 'no'
    assert retry == ['retry: 1000']
    assert len(events) == 5
    for place, data in events:
        assert place.startswith('id: ')
        assert isinstance(json.loads(data.removeprefix('data: ')), dict)


async def test_a_direct_message_has_no_place(caller: Caller) -> None:
    async with caller.stream('SendStreamingMessage', **request_of('message:hello')) as reader:
        (event,) = [event async for event in reader.events()]
    assert event.fields.keys() == {'data'}
    assert text_of(caller.shown_in(event)['message']) == 'hello'


@pytest.mark.parametrize('verb', ['GET', 'POST'])
@pytest.mark.parametrize('parameter', ['lastEventId', 'Last-Event-ID', 'last-event-id'])
async def test_resuming_by_a_query_parameter(verb: str, parameter: str, rest: Caller) -> None:
    async with rest.stream('SendStreamingMessage', **request_of('work chunks:5 complete')) as reader:
        events = [event async for event in reader.events()]
    task_id = rest.shown_in(events[0])['task']['id']
    url = f'{rest.site.rest_url}/tasks/{task_id}:subscribe?{parameter}={events[3].id}'
    async with rest.curl.streaming(VERSION, f'-X{verb}', url) as again:
        assert [event async for event in again.events()] == events[4:]


async def test_a_message_is_not_sent_again_by_a_client_that_reconnects(caller: Caller) -> None:
    request = request_of('complete', contextId='a-context-of-a-reconnect')
    with pytest.raises(Refused) as caught:
        await caller.collect('SendStreamingMessage', '-HLast-Event-ID: 3', **request)
    assert caught.value.reason == 'INVALID_PARAMS'
    assert (await caller.call('ListTasks', contextId='a-context-of-a-reconnect'))['tasks'] == []


async def test_both_verbs_subscribe(rest: Caller) -> None:
    question = await task(rest, 'ask:which?')
    for verb in ('GET', 'POST'):
        url = f'{rest.site.rest_url}/tasks/{question["id"]}:subscribe'
        async with rest.curl.streaming(VERSION, f'-X{verb}', url) as reader:
            async for event in reader.events():
                assert summary([rest.shown_in(event)]) == ['INPUT_REQUIRED']
                break
