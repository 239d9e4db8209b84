"""The scenarios, over the client of a2a-sdk."""

import asyncio
import hashlib
import uuid
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest
from a2a.client import A2AClientError
from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    InvalidParamsError,
    MethodNotFoundError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from tests.acceptance.clients.python_client import (
    GRPC,
    Caller,
    Events,
    artifacts_of,
    calling,
    collect,
    context_of,
    seqs_of,
    shown_in,
    state_of,
    summary,
    task_in,
    text_of,
)
from tests.acceptance.clients.scenarios import AGENT, AT_ONCE, EXTENDED_AGENT, LARGE, NO_TASK, SEQUENCE, UNICODE


async def card(caller: Caller) -> None:
    assert caller.card.name == AGENT
    assert caller.card.capabilities.streaming
    assert caller.card.skills[0].tags == ['test']
    assert caller.binding in {interface.protocol_binding for interface in caller.card.supported_interfaces}


async def blocking_send(caller: Caller) -> None:
    task = await caller.task('work artifact:a complete')
    assert state_of(task) == 'COMPLETED'
    assert artifacts_of(task) == {'a': 'text of a'}
    assert task.context_id
    assert text_of(task.history[0]) == 'work artifact:a complete'


async def return_immediately_and_poll(caller: Caller) -> None:
    gate = str(uuid.uuid4())
    task = await caller.begin(f'work hold:{gate} artifact:a complete')
    assert state_of(task) in {'SUBMITTED', 'WORKING'}
    assert artifacts_of(await caller.get(task.id)) == {}
    await caller.open(gate)
    last = await caller.ended(task.id)
    assert state_of(last) == 'COMPLETED'
    assert artifacts_of(last) == {'a': 'text of a'}


async def stream(caller: Caller) -> None:
    events = await collect(caller.stream('work chunks:5 complete'))
    task = task_in(events[0])
    assert summary(events[1:]) == ['WORKING', '0 ', '1 ', '2 ', '3 ', '4 ', 'COMPLETED']
    assert {shown_in(event).task_id for event in events[1:]} == {task.id}
    assert artifacts_of(await caller.get(task.id)) == {'chunks': '0 1 2 3 4 '}


async def follow_up(caller: Caller) -> None:
    question = await caller.task('work ask:which?')
    assert state_of(question) == 'INPUT_REQUIRED'
    assert text_of(question.status.message) == 'which?'
    answer = await caller.task('artifact:a complete', task_id=question.id, context_id=question.context_id)
    assert answer.id == question.id
    assert state_of(answer) == 'COMPLETED'
    assert artifacts_of(answer) == {'a': 'text of a'}


async def follow_up_in_a_stream(caller: Caller) -> None:
    question = await caller.task('work ask:which?')
    events = await collect(caller.stream('artifact:a complete', task_id=question.id))
    assert task_in(events[0]).id == question.id
    assert summary(events[1:]) == ['text of a', 'COMPLETED']


async def subscribe_to_a_running_task(caller: Caller) -> None:
    gate = str(uuid.uuid4())
    task = await caller.begin(f'hold:{gate} artifact:a complete')
    events = []
    async for event in caller.subscribe(task.id):
        events.append(event)
        if len(events) == 1:
            await caller.open(gate)
    assert task_in(events[0]).id == task.id
    assert summary(events) == ['SUBMITTED', 'text of a', 'COMPLETED']


async def subscribe_to_a_parked_task(caller: Caller) -> None:
    question = await caller.task('ask:which?')
    events = []
    async for event in caller.subscribe(question.id):
        events.append(event)
        if len(events) == 1:
            await caller.task('artifact:a complete', task_id=question.id)
    assert task_in(events[0]).id == question.id
    assert summary(events) == ['INPUT_REQUIRED', 'text of a', 'COMPLETED']


async def leave_a_stream(caller: Caller) -> None:
    gate = str(uuid.uuid4())
    async with aclosing(caller.stream(f'work hold:{gate} artifact:a complete')) as events:
        task = task_in(await anext(events))
    await caller.open(gate)
    assert state_of(await caller.ended(task.id)) == 'COMPLETED'


async def cancel(caller: Caller) -> None:
    task = await caller.begin(f'work hold:{uuid.uuid4()} complete')
    assert state_of(await caller.cancel(task.id)) == 'CANCELED'
    assert state_of(await caller.get(task.id)) == 'CANCELED'


async def cancel_ends_streams(caller: Caller) -> None:
    events = []
    async for event in caller.stream(f'work hold:{uuid.uuid4()} complete'):
        events.append(event)
        if len(events) == 1:
            await caller.cancel(task_in(event).id)
    assert summary(events) == ['SUBMITTED', 'WORKING', 'CANCELED']


async def history_length(caller: Caller) -> None:
    question = await caller.task('ask:which?')
    await caller.task('complete', task_id=question.id)

    async def texts(**options: int) -> list[str]:
        return [text_of(message) for message in (await caller.get(question.id, **options)).history]

    assert await texts() == ['ask:which?', 'which?', 'complete']
    assert await texts(history_length=1) == ['complete']
    assert await texts(history_length=0) == []
    assert not (await caller.task('complete', history_length=0)).history


async def list_filters(caller: Caller) -> None:
    context_id = str(uuid.uuid4())
    parked = await caller.task('artifact:a ask:which?', context_id=context_id)
    done = await caller.task('artifact:b complete', context_id=context_id)

    async def found(**filters: Any) -> list[Task]:
        return list((await caller.list(context_id=context_id, **filters)).tasks)

    assert [task.id for task in await found()] == [done.id, parked.id]
    assert [artifacts_of(task) for task in await found()] == [{}, {}]
    with_artifacts = await found(include_artifacts=True)
    assert [artifacts_of(task) for task in with_artifacts] == [{'b': 'text of b'}, {'a': 'text of a'}]
    assert [task.id for task in await found(status=TaskState.TASK_STATE_INPUT_REQUIRED)] == [parked.id]
    assert [task.id for task in await found(status_timestamp_after=done.status.timestamp)] == [done.id]
    assert not (await caller.list(context_id=str(uuid.uuid4()))).tasks


async def list_pages(caller: Caller) -> None:
    context_id = str(uuid.uuid4())
    sent = [(await caller.task('complete', context_id=context_id)).id for _ in range(5)][::-1]
    pages: list[list[str]] = []
    token = ''
    while token or not pages:
        page = await caller.list(context_id=context_id, page_size=2, page_token=token)
        assert (page.page_size, page.total_size) == (2, 5)
        pages.append([task.id for task in page.tasks])
        token = page.next_page_token
    assert pages == [sent[:2], sent[2:4], sent[4:]]


async def push_configs(caller: Caller) -> None:
    client, task = caller.blocking, await caller.task('ask:which?')
    authentication = AuthenticationInfo(scheme='Bearer', credentials='c')
    first, second = [
        await client.create_task_push_notification_config(
            TaskPushNotificationConfig(
                task_id=task.id, url=f'https://example.com/{number}', token='t', authentication=authentication
            )
        )
        for number in (1, 2)
    ]
    assert first.id
    assert second.id not in {'', first.id}
    wanted = GetTaskPushNotificationConfigRequest(task_id=task.id, id=first.id)
    found = await client.get_task_push_notification_config(wanted)
    assert (found.url, found.token, found.authentication.scheme) == ('https://example.com/1', 't', 'Bearer')

    async def listed() -> set[str]:
        request = ListTaskPushNotificationConfigsRequest(task_id=task.id)
        return {config.id for config in (await client.list_task_push_notification_configs(request)).configs}

    assert await listed() == {first.id, second.id}
    for _ in range(2):
        await client.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(task_id=task.id, id=first.id)
        )
    assert await listed() == {second.id}
    with pytest.raises(TaskNotFoundError):
        await client.get_task_push_notification_config(wanted)


async def direct_message(caller: Caller) -> None:
    answer = (await caller.send('message:hello')).message
    assert text_of(answer) == 'hello'
    assert answer.message_id
    assert answer.context_id
    assert not answer.task_id
    assert summary(await collect(caller.stream('message:hello'))) == ['message hello']


async def failing_agent(caller: Caller) -> None:
    task = await caller.task('work crash')
    assert state_of(task) == 'FAILED'
    assert 'secret' not in str(task)
    assert state_of(await caller.get(task.id)) == 'FAILED'


async def failing_agent_in_a_stream(caller: Caller) -> None:
    events = await collect(caller.stream('work crash'))
    assert summary(events)[1:] == ['WORKING', 'FAILED']
    assert 'secret' not in str(events)


async def unknown_task(caller: Caller) -> None:
    for call in (
        caller.get(NO_TASK),
        caller.cancel(NO_TASK),
        collect(caller.subscribe(NO_TASK)),
        caller.send('complete', task_id=NO_TASK),
        collect(caller.stream('complete', task_id=NO_TASK)),
    ):
        with pytest.raises(TaskNotFoundError):
            await call


async def finished_task(caller: Caller) -> None:
    task = await caller.task('complete')
    with pytest.raises(TaskNotCancelableError):
        await caller.cancel(task.id)
    with pytest.raises(UnsupportedOperationError):
        await caller.send('complete', task_id=task.id)
    with pytest.raises(UnsupportedOperationError):
        await collect(caller.subscribe(task.id))


async def invalid_params(caller: Caller) -> None:
    with pytest.raises(InvalidParamsError, match='pageSize'):
        await caller.list(page_size=1000)


async def unknown_method(caller: Caller) -> None:
    async with calling(caller.site, caller.binding, lost=True) as lost:
        # gRPC answers this itself, without details that the client could read.
        with pytest.raises(A2AClientError if caller.binding == GRPC else MethodNotFoundError) as caught:
            await lost.get(NO_TASK)
        assert caller.binding != GRPC or 'UNIMPLEMENTED' in str(caught.value)


async def extended_card(caller: Caller) -> None:
    extended = await caller.blocking.get_extended_agent_card(GetExtendedAgentCardRequest())
    assert extended.name == EXTENDED_AGENT
    assert extended.supported_interfaces == caller.card.supported_interfaces
    assert extended.capabilities == caller.card.capabilities


async def sequence_extension(caller: Caller) -> None:
    assert not seqs_of(await collect(caller.stream('work chunks:2 complete')))
    seqs = seqs_of(await collect(caller.stream('work chunks:2 complete', context=context_of())))
    assert len(seqs) == 5
    assert all(earlier < later for earlier, later in pairwise(seqs))
    if caller.binding != GRPC:
        assert caller.headers[-1]['A2A-Extensions'] == SEQUENCE


async def resume(caller: Caller) -> None:
    events = await collect(caller.stream('work chunks:5 complete', context=context_of()))
    task, seqs = task_in(events[0]), seqs_of(events)

    def after(seq: int) -> Events:
        return caller.subscribe(task.id, context_of(**{'Last-Event-ID': str(seq)}))

    for place in (0, 3):
        assert await collect(after(seqs[place])) == events[place + 1 :]
    with pytest.raises(InvalidParamsError, match='Last-Event-ID'):
        await collect(after(seqs[-1] + 1000))


async def large_message(caller: Caller) -> None:
    task = await caller.task('measure:m echo:e complete', LARGE, history_length=0)
    found = artifacts_of(task)
    assert found['m'] == f'{len(LARGE)} {hashlib.sha256(LARGE.encode()).hexdigest()}'
    assert found['e'] == LARGE


async def unicode(caller: Caller) -> None:
    task = await caller.task('echo:e complete', UNICODE)
    assert artifacts_of(task) == {'e': UNICODE}
    assert task.history[0].parts[1].text == UNICODE
    events = await collect(caller.stream('echo:e complete', UNICODE))
    assert summary(events)[1] == UNICODE


async def concurrent_calls(caller: Caller) -> None:
    texts = [str(number) for number in range(AT_ONCE)]
    tasks = await asyncio.gather(*(caller.task('echo:e complete', text) for text in texts))
    assert [artifacts_of(task)['e'] for task in tasks] == texts
    streams = await asyncio.gather(*(collect(caller.stream('echo:e complete', text)) for text in texts))
    assert [summary(events)[1] for events in streams] == texts


async def tenant(caller: Caller) -> None:
    task = await caller.task('tenant:t complete', tenant='acme')
    assert artifacts_of(task) == {'t': 'acme'}
    assert (await caller.get(task.id, tenant='acme')).id == task.id
    events = await collect(caller.stream('tenant:t complete', tenant='acme'))
    assert summary(events)[1] == 'acme'
