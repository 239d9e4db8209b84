"""The scenarios, over curl."""

import asyncio
import hashlib
import uuid
from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest

from tests.acceptance.clients.curl import JSON_RPC, Caller, Event, Json, Refused, request_of
from tests.acceptance.clients.scenarios import AGENT, AT_ONCE, EXTENDED_AGENT, LARGE, NO_TASK, SEQUENCE, UNICODE

SEQUENCED = f'-HA2A-Extensions: {SEQUENCE}'


# Calls


async def send(caller: Caller, script: str, second: str | None = None, **options: Any) -> Json:
    answer: Json = await caller.call('SendMessage', **request_of(script, second, **options))
    return answer


async def task(caller: Caller, script: str, second: str | None = None, **options: Any) -> Json:
    answer: Json = (await send(caller, script, second, **options))['task']
    return answer


async def streamed(caller: Caller, script: str, second: str | None = None, *more: str, **options: Any) -> list[Json]:
    return await caller.collect('SendStreamingMessage', *more, **request_of(script, second, **options))


async def begin(caller: Caller, script: str) -> Json:
    return await task(caller, script, returnImmediately=True)


async def get(caller: Caller, task_id: str, **options: Any) -> Json:
    answer: Json = await caller.call('GetTask', id=task_id, **options)
    return answer


async def open_gate(caller: Caller, gate: str) -> None:
    """Lets the tasks go on that are held there."""
    assert text_of((await send(caller, f'open:{gate} message:opened'))['message']) == 'opened'


async def ended(caller: Caller, task_id: str) -> Json:
    """Polls."""
    while state_of(found := await get(caller, task_id)) in {'SUBMITTED', 'WORKING'}:
        pass
    return found


async def refused(call: Awaitable[Any], reason: str) -> Refused:
    with pytest.raises(Refused) as caught:
        await call
    assert caught.value.reason == reason
    return caught.value


# What is in answers


def state_of(shown: Json) -> str:
    return str(shown['status']['state']).removeprefix('TASK_STATE_')


def text_of(shown: Json) -> str:
    return ''.join(part['text'] for part in shown['parts'])


def artifacts_of(shown: Json) -> dict[str, str]:
    return {artifact['artifactId']: text_of(artifact) for artifact in shown.get('artifacts', [])}


def content_of(shown: Json) -> Json:
    """What a `StreamResponse` has one of."""
    ((_, content),) = shown.items()
    return dict(content)


def summary(shown: Sequence[Json]) -> list[str]:
    """What a stream shows, in short: states, and texts of artifacts."""

    def of(each: Json) -> str:
        match each:
            case {'artifactUpdate': update}:
                return text_of(update['artifact'])
            case {'message': message}:
                return f'message {text_of(message)}'
        return state_of(content_of(each))

    return [of(each) for each in shown]


# The scenarios


async def card(caller: Caller) -> None:
    response = await caller.curl(f'{caller.site.url}/.well-known/agent-card.json')
    assert (response.status, response.headers['content-type']) == (200, 'application/json')
    found = response.json
    assert found['name'] == AGENT
    assert found['capabilities']['streaming'] is True
    assert found['skills'][0]['tags'] == ['test']
    urls = {interface['protocolBinding']: interface['url'] for interface in found['supportedInterfaces']}
    assert urls[caller.binding] == (caller.site.rpc_url if caller.binding == JSON_RPC else caller.site.rest_url)


async def blocking_send(caller: Caller) -> None:
    found = await task(caller, 'work artifact:a complete')
    assert state_of(found) == 'COMPLETED'
    assert artifacts_of(found) == {'a': 'text of a'}
    assert found['contextId']
    assert text_of(found['history'][0]) == 'work artifact:a complete'


async def return_immediately_and_poll(caller: Caller) -> None:
    gate = str(uuid.uuid4())
    begun = await begin(caller, f'work hold:{gate} artifact:a complete')
    assert state_of(begun) in {'SUBMITTED', 'WORKING'}
    assert artifacts_of(await get(caller, begun['id'])) == {}
    await open_gate(caller, gate)
    last = await ended(caller, begun['id'])
    assert state_of(last) == 'COMPLETED'
    assert artifacts_of(last) == {'a': 'text of a'}


async def stream(caller: Caller) -> None:
    first, *rest = await streamed(caller, 'work chunks:5 complete')
    assert summary(rest) == ['WORKING', '0 ', '1 ', '2 ', '3 ', '4 ', 'COMPLETED']
    assert {content_of(each)['taskId'] for each in rest} == {first['task']['id']}
    assert artifacts_of(await get(caller, first['task']['id'])) == {'chunks': '0 1 2 3 4 '}


async def follow_up(caller: Caller) -> None:
    question = await task(caller, 'work ask:which?')
    assert state_of(question) == 'INPUT_REQUIRED'
    assert text_of(question['status']['message']) == 'which?'
    answer = await task(caller, 'artifact:a complete', taskId=question['id'], contextId=question['contextId'])
    assert answer['id'] == question['id']
    assert state_of(answer) == 'COMPLETED'
    assert artifacts_of(answer) == {'a': 'text of a'}


async def follow_up_in_a_stream(caller: Caller) -> None:
    question = await task(caller, 'work ask:which?')
    first, *rest = await streamed(caller, 'artifact:a complete', taskId=question['id'])
    assert first['task']['id'] == question['id']
    assert summary(rest) == ['text of a', 'COMPLETED']


async def subscribe_to_a_running_task(caller: Caller) -> None:
    gate = str(uuid.uuid4())
    begun = await begin(caller, f'hold:{gate} artifact:a complete')
    shown = []
    async with caller.stream('SubscribeToTask', id=begun['id']) as reader:
        async for event in reader.events():
            shown.append(caller.shown_in(event))
            if len(shown) == 1:
                await open_gate(caller, gate)
    assert shown[0]['task']['id'] == begun['id']
    assert summary(shown) == ['SUBMITTED', 'text of a', 'COMPLETED']


async def subscribe_to_a_parked_task(caller: Caller) -> None:
    question = await task(caller, 'ask:which?')
    shown = []
    async with caller.stream('SubscribeToTask', id=question['id']) as reader:
        async for event in reader.events():
            shown.append(caller.shown_in(event))
            if len(shown) == 1:
                await task(caller, 'artifact:a complete', taskId=question['id'])
    assert shown[0]['task']['id'] == question['id']
    assert summary(shown) == ['INPUT_REQUIRED', 'text of a', 'COMPLETED']


async def leave_a_stream(caller: Caller) -> None:
    gate = str(uuid.uuid4())
    async with (
        caller.stream('SendStreamingMessage', **request_of(f'work hold:{gate} artifact:a complete')) as reader,
        aclosing(reader.events()) as events,
    ):
        shown = caller.shown_in(await anext(events))
    await open_gate(caller, gate)
    assert state_of(await ended(caller, shown['task']['id'])) == 'COMPLETED'


async def cancel(caller: Caller) -> None:
    begun = await begin(caller, f'work hold:{uuid.uuid4()} complete')
    assert state_of(await caller.call('CancelTask', id=begun['id'])) == 'CANCELED'
    assert state_of(await get(caller, begun['id'])) == 'CANCELED'


async def cancel_ends_streams(caller: Caller) -> None:
    shown = []
    async with caller.stream('SendStreamingMessage', **request_of(f'work hold:{uuid.uuid4()} complete')) as reader:
        async for event in reader.events():
            shown.append(caller.shown_in(event))
            if len(shown) == 1:
                await caller.call('CancelTask', id=shown[0]['task']['id'])
    assert summary(shown) == ['SUBMITTED', 'WORKING', 'CANCELED']


async def history_length(caller: Caller) -> None:
    question = await task(caller, 'ask:which?')
    await task(caller, 'complete', taskId=question['id'])

    async def texts(**options: int) -> list[str]:
        return [text_of(message) for message in (await get(caller, question['id'], **options)).get('history', [])]

    assert await texts() == ['ask:which?', 'which?', 'complete']
    assert await texts(historyLength=1) == ['complete']
    assert await texts(historyLength=0) == []
    assert 'history' not in await task(caller, 'complete', historyLength=0)


async def list_filters(caller: Caller) -> None:
    context_id = str(uuid.uuid4())
    parked = await task(caller, 'artifact:a ask:which?', contextId=context_id)
    done = await task(caller, 'artifact:b complete', contextId=context_id)

    async def found(**filters: Any) -> list[Json]:
        return list((await caller.call('ListTasks', contextId=context_id, **filters))['tasks'])

    assert [each['id'] for each in await found()] == [done['id'], parked['id']]
    assert ['artifacts' in each for each in await found()] == [False, False]
    with_artifacts = await found(includeArtifacts=True)
    assert [artifacts_of(each) for each in with_artifacts] == [{'b': 'text of b'}, {'a': 'text of a'}]
    assert [each['id'] for each in await found(status='TASK_STATE_INPUT_REQUIRED')] == [parked['id']]
    later = await found(statusTimestampAfter=done['status']['timestamp'])
    assert [each['id'] for each in later] == [done['id']]
    assert (await caller.call('ListTasks', contextId=str(uuid.uuid4())))['tasks'] == []


async def list_pages(caller: Caller) -> None:
    context_id = str(uuid.uuid4())
    sent = [(await task(caller, 'complete', contextId=context_id))['id'] for _ in range(5)][::-1]
    pages: list[list[str]] = []
    token = ''
    while token or not pages:
        page = await caller.call('ListTasks', contextId=context_id, pageSize=2, pageToken=token)
        assert (page['pageSize'], page['totalSize']) == (2, 5)
        pages.append([each['id'] for each in page['tasks']])
        token = page['nextPageToken']
    assert pages == [sent[:2], sent[2:4], sent[4:]]


async def push_configs(caller: Caller) -> None:
    task_id = (await task(caller, 'ask:which?'))['id']
    first, second = [
        await caller.call(
            'CreateTaskPushNotificationConfig',
            taskId=task_id,
            url=f'https://example.com/{number}',
            token='t',
            authentication={'scheme': 'Bearer', 'credentials': 'c'},
        )
        for number in (1, 2)
    ]
    assert first['id'] != second['id']
    place = {'taskId': task_id, 'id': first['id']}
    assert await caller.call('GetTaskPushNotificationConfig', **place) == first

    async def listed() -> set[str]:
        answer = await caller.call('ListTaskPushNotificationConfigs', taskId=task_id)
        return {config['id'] for config in answer['configs']}

    assert await listed() == {first['id'], second['id']}
    for _ in range(2):
        assert not await caller.call('DeleteTaskPushNotificationConfig', **place)
    assert await listed() == {second['id']}
    await refused(caller.call('GetTaskPushNotificationConfig', **place), 'TASK_NOT_FOUND')


async def direct_message(caller: Caller) -> None:
    answer = (await send(caller, 'message:hello'))['message']
    assert text_of(answer) == 'hello'
    assert {'messageId', 'contextId'} <= answer.keys()
    assert 'taskId' not in answer
    assert summary(await streamed(caller, 'message:hello')) == ['message hello']


async def failing_agent(caller: Caller) -> None:
    found = await task(caller, 'work crash')
    assert state_of(found) == 'FAILED'
    assert 'secret' not in str(found)
    assert state_of(await get(caller, found['id'])) == 'FAILED'


async def failing_agent_in_a_stream(caller: Caller) -> None:
    shown = await streamed(caller, 'work crash')
    assert summary(shown)[1:] == ['WORKING', 'FAILED']
    assert 'secret' not in str(shown)


async def unknown_task(caller: Caller) -> None:
    for call in (
        get(caller, NO_TASK),
        caller.call('CancelTask', id=NO_TASK),
        caller.collect('SubscribeToTask', id=NO_TASK),
        send(caller, 'complete', taskId=NO_TASK),
        streamed(caller, 'complete', taskId=NO_TASK),
    ):
        await refused(call, 'TASK_NOT_FOUND')


async def finished_task(caller: Caller) -> None:
    task_id = (await task(caller, 'complete'))['id']
    await refused(caller.call('CancelTask', id=task_id), 'TASK_NOT_CANCELABLE')
    await refused(send(caller, 'complete', taskId=task_id), 'UNSUPPORTED_OPERATION')
    await refused(caller.collect('SubscribeToTask', id=task_id), 'UNSUPPORTED_OPERATION')


async def invalid_params(caller: Caller) -> None:
    refusal = await refused(caller.call('ListTasks', pageSize=1000), 'INVALID_PARAMS')
    assert 'pageSize' in refusal.message


async def unknown_method(caller: Caller) -> None:
    refusal = await refused(caller.call('NoSuchMethod'), 'METHOD_NOT_FOUND')
    assert refusal.error['code'] == (-32601 if caller.binding == JSON_RPC else 404)


async def extended_card(caller: Caller) -> None:
    public = (await caller.curl(f'{caller.site.url}/.well-known/agent-card.json')).json
    extended = await caller.call('GetExtendedAgentCard')
    assert extended == public | {'name': EXTENDED_AGENT}


async def sequence_extension(caller: Caller) -> None:
    request = request_of('work chunks:2 complete')
    assert SEQUENCE not in str(await caller.collect('SendStreamingMessage', **request))
    async with caller.stream('SendStreamingMessage', SEQUENCED, **request) as reader:
        events = [event async for event in reader.events()]
    assert reader.head.headers['a2a-extensions'] == SEQUENCE
    seqs = [content_of(caller.shown_in(event))['metadata'][SEQUENCE] for event in events]
    assert len(seqs) == 5
    assert all(earlier < later for earlier, later in pairwise(seqs))
    assert seqs == [event.id for event in events]


async def resume(caller: Caller) -> None:
    async with caller.stream('SendStreamingMessage', **request_of('work chunks:5 complete')) as reader:
        events = [event async for event in reader.events()]
    task_id = caller.shown_in(events[0])['task']['id']

    async def after(seq: int) -> list[Event]:
        async with caller.stream('SubscribeToTask', f'-HLast-Event-ID: {seq}', id=task_id) as again:
            return [event async for event in again.events()]

    for place in (0, 3):
        assert await after(events[place].id) == events[place + 1 :]
    refusal = await refused(after(events[-1].id + 1000), 'INVALID_PARAMS')
    assert 'Last-Event-ID' in refusal.message


async def large_message(caller: Caller) -> None:
    found = artifacts_of(await task(caller, 'measure:m echo:e complete', LARGE, historyLength=0))
    assert found['m'] == f'{len(LARGE)} {hashlib.sha256(LARGE.encode()).hexdigest()}'
    assert found['e'] == LARGE


async def unicode(caller: Caller) -> None:
    found = await task(caller, 'echo:e complete', UNICODE)
    assert artifacts_of(found) == {'e': UNICODE}
    assert found['history'][0]['parts'][1]['text'] == UNICODE
    assert summary(await streamed(caller, 'echo:e complete', UNICODE))[1] == UNICODE


async def concurrent_calls(caller: Caller) -> None:
    texts = [str(number) for number in range(AT_ONCE)]
    tasks = await asyncio.gather(*(task(caller, 'echo:e complete', text) for text in texts))
    assert [artifacts_of(each)['e'] for each in tasks] == texts
    streams = await asyncio.gather(*(streamed(caller, 'echo:e complete', text) for text in texts))
    assert [summary(shown)[1] for shown in streams] == texts


async def tenant(caller: Caller) -> None:
    found = await task(caller, 'tenant:t complete', tenant='acme')
    assert artifacts_of(found) == {'t': 'acme'}
    assert (await get(caller, found['id'], tenant='acme'))['id'] == found['id']
    assert summary(await streamed(caller, 'tenant:t complete', tenant='acme'))[1] == 'acme'
