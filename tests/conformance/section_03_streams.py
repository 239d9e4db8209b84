"""Section 3: streams of messages that are sent."""

import json

from tests.conformance.actor import SECRET
from tests.conformance.errors import TASK_NOT_FOUND, UNSUPPORTED_OPERATION
from tests.conformance.kit import (
    NO_TASK,
    artifacts_of,
    ended,
    first_task,
    found,
    get,
    held,
    request_of,
    state_of,
    stream,
    streaming,
    subscribing,
    task_of,
    text_of,
)
from tests.conformance.over_http import HttpWire, JsonRpcWire, RestWire, envelope
from tests.conformance.site import Site
from tests.conformance.table import Section
from tests.conformance.wire import HTTP, JSONRPC, REST, Wire

SECTION = Section(3, 'Streaming')

SHAPE = SECTION.must('3.1.2', 'A stream is one message, or a task and then its updates')


@SHAPE.check()
async def stream_of_a_message_has_one_event(wire: Wire, site: Site) -> None:
    events = (await stream(wire, 'message:hi')).ok()
    assert [event.kind for event in events] == ['message']
    assert text_of(events[0].value) == 'hi'


@SHAPE.check()
async def stream_of_a_task_begins_with_the_task(wire: Wire, site: Site) -> None:
    for script in ('task work artifact:a complete', 'work artifact:a complete', 'artifact:a complete'):
        events = (await stream(wire, script)).ok()
        assert events[0].kind == 'task'
        assert {event.kind for event in events[1:]} == {'statusUpdate', 'artifactUpdate'}


CLOSES = SECTION.must('3.1.2', 'A stream ends with the terminal state; one of a message also when its turn is over')


@CLOSES.check()
async def stream_ends_with_every_terminal_state(wire: Wire, site: Site) -> None:
    for script, state in (
        ('complete', 'COMPLETED'),
        ('fail', 'FAILED'),
        ('reject', 'REJECTED'),
        ('cancel', 'CANCELED'),
    ):
        collected = await stream(wire, f'work {script}')
        assert collected.states[-1] == state


@CLOSES.check()
async def stream_of_a_message_ends_with_input_required(wire: Wire, site: Site) -> None:
    collected = await stream(wire, 'work ask:name?')
    assert collected.states[-2:] == ['WORKING', 'INPUT_REQUIRED']


EARLY_ERRORS = SECTION.must('3.1.2', 'An error before the first event is an answer like that of other operations')


@EARLY_ERRORS.check()
async def error_before_the_first_event_is_no_stream(wire: Wire, site: Site) -> None:
    (await stream(wire, 'complete', taskId=NO_TASK)).refused(TASK_NOT_FOUND)
    (await wire.collect('SubscribeToTask', {'id': NO_TASK})).refused(TASK_NOT_FOUND)
    (await wire.collect('SendStreamingMessage', {})).invalid('message')


@EARLY_ERRORS.check(on=HTTP)
async def error_before_the_first_event_has_the_type_and_status_of_errors(wire: HttpWire, site: Site) -> None:
    no_task = request_of('complete', taskId=NO_TASK)
    for operation, params in (('SendStreamingMessage', no_task), ('SubscribeToTask', {'id': NO_TASK})):
        response = await wire.request(**wire.prepare(operation, params), headers=[('Accept', 'text/event-stream')])
        assert response.status_code == (TASK_NOT_FOUND.http if wire.is_rest else 200)
        assert response.headers['content-type'].partition(';')[0] in ('application/json', 'application/a2a+json')
        wire.answer_of(response).refused(TASK_NOT_FOUND)


ORDER = SECTION.must('3.5.2', 'Events come in the order in which they were made')


@ORDER.check()
async def chunks_come_in_order(wire: Wire, site: Site) -> None:
    events = (await stream(wire, 'work chunks:200 complete')).ok()
    assert [event.text for event in events if event.kind == 'artifactUpdate'] == [f'{number} ' for number in range(200)]


SEVERAL = SECTION.must(
    '3.5.2', 'All streams of a task have all its events in the same order, and do not affect another'
)


@SEVERAL.check()
async def streams_of_a_task_have_the_same_events(wire: Wire, site: Site) -> None:
    gate = site.unique('gate')
    async with streaming(wire, f'work hold:{gate} chunks:20 complete') as sender:
        task_id = (await sender.until_state('WORKING'))[0].value['id']
        async with subscribing(wire, task_id) as one, subscribing(wire, task_id) as other:
            await first_task(one)
            await first_task(other)
            wire.service.agent.open(gate)
            events = await sender.rest()
            for reader in (one, other):
                assert [event.data for event in await reader.rest()] == [event.data for event in events]
    assert [event.kind for event in events] == ['artifactUpdate'] * 20 + ['statusUpdate']


@SEVERAL.check()
async def closing_a_stream_leaves_the_others_open(wire: Wire, site: Site) -> None:
    gate = site.unique('gate')
    async with streaming(wire, f'work hold:{gate} chunks:20 complete') as sender:
        task = await first_task(sender)
        async with subscribing(wire, task['id']) as staying:
            await first_task(staying)
            async with subscribing(wire, task['id']) as leaving:
                await first_task(leaving)
            wire.service.agent.open(gate)
            assert len([event for event in await staying.rest() if event.kind == 'artifactUpdate']) == 20
        assert (await sender.rest())[-1].state == 'COMPLETED'


LEAVING = SECTION.must('3.5.2', 'A task lives on when its streams are closed')


@LEAVING.check()
async def task_goes_on_when_its_reader_leaves(wire: Wire, site: Site) -> None:
    gate = site.unique('gate')
    async with streaming(wire, f'work hold:{gate} complete') as events:
        task = await first_task(events)
    wire.service.agent.open(gate)
    assert state_of(await ended(wire, task['id'])) == 'COMPLETED'


CAPABILITY = SECTION.must('3.3.4', 'Streams are UnsupportedOperationError when the card does not declare streaming')


@CAPABILITY.check()
async def streams_need_the_capability(wire: Wire, site: Site) -> None:
    for kind in ('plain', 'bare'):
        other, context = wire.at(await site.service(kind)), site.unique('context')
        task = await task_of(other, 'ask', contextId=context)
        (await stream(other, 'complete', contextId=context)).refused(UNSUPPORTED_OPERATION)
        (await stream(other, 'complete', taskId=task['id'])).refused(UNSUPPORTED_OPERATION)
        for headers in ([], [('Last-Event-ID', '0')]):
            followed = await other.collect('SubscribeToTask', {'id': task['id']}, headers=headers)
            followed.refused(UNSUPPORTED_OPERATION)
        assert await get(other, task['id']) == task
        assert [each['id'] for each in await found(other, contextId=context)] == [task['id']]


SSE = SECTION.must('9.4.2', 'HTTP streams are server-sent events, each a response of its binding')


@SSE.check(on=HTTP)
async def stream_is_of_server_sent_events(wire: HttpWire, site: Site) -> None:
    async with streaming(wire, 'work complete') as events:
        assert events.headers['content-type'].partition(';')[0] == 'text/event-stream'
        assert events.headers['cache-control'] == 'no-store'
        assert len(await events.rest()) == 3


@SSE.check(on=JSONRPC)
async def every_event_is_a_response_with_the_id_of_the_request(wire: JsonRpcWire, site: Site) -> None:
    for request_id in (7, 'seven', 'sept\u00e9', None):
        body = envelope('SendStreamingMessage', request_of('work complete'), id=request_id)
        async with wire.open_request('POST', '/', json=body) as events:
            assert await events.rest()
        frames = [json.loads(frame.data[0]) for frame in events.frames if frame.data]
        assert [(frame['jsonrpc'], frame['id']) for frame in frames] == [('2.0', request_id)] * 3
        assert all(list(frame['result']) for frame in frames)


@SSE.check(on=REST)
async def every_event_is_a_bare_stream_response(wire: RestWire, site: Site) -> None:
    async with streaming(wire, 'work artifact:a complete') as events:
        await events.rest()
    bodies = [json.loads(frame.data[0]) for frame in events.frames if frame.data]
    assert [list(body) for body in bodies] == [['task'], ['statusUpdate'], ['artifactUpdate'], ['statusUpdate']]


EVENT_IDS = SECTION.must('4.2', 'Updates name their task and context; an event has exactly one member')


@EVENT_IDS.check()
async def every_event_names_task_and_context(wire: Wire, site: Site) -> None:
    events = (await stream(wire, 'work artifact:a complete')).ok()
    task = events[0].value
    for event in events[1:]:
        assert list(event.data) == [event.kind]
        assert (event.value['taskId'], event.value['contextId']) == (task['id'], task['contextId'])


FAILED = SECTION.must('3.1.2', 'The stream of a task that fails ends with the FAILED status', sdk_fails=True)


@FAILED.check()
async def stream_of_a_crash_ends_with_failed(wire: Wire, site: Site) -> None:
    for script in ('crash', 'work artifact:a crash'):
        collected = await stream(wire, script)
        assert collected.ok()[-1].state == 'FAILED'
        assert SECRET not in str(collected)


SLOW = SECTION.ours('runtime', 'A reader that does not read holds nobody up')


@SLOW.check()
async def reader_that_does_not_read_holds_nobody_up(wire: Wire, site: Site) -> None:
    gate = site.unique('gate')
    async with streaming(wire, f'work hold:{gate} chunks:2000 complete') as idle:
        task = await first_task(idle)
        wire.service.agent.open(gate)
        assert state_of(await ended(wire, task['id'])) == 'COMPLETED'
        chunks = [event.text for event in await idle.rest() if event.kind == 'artifactUpdate']
    assert chunks == [f'{number} ' for number in range(2000)]


RECONNECT = SECTION.must('3.7', 'Artifacts and states are not lost to a reader who connects again')


@RECONNECT.check()
async def snapshot_has_all_artifacts(wire: Wire, site: Site) -> None:
    async with (
        held(wire, site, before='work artifact:a chunks:3') as running,
        subscribing(wire, running.id) as events,
    ):
        task = await first_task(events)
        assert artifacts_of(task) == {'a': 'text of a', 'chunks': '0 1 2 '}
        assert state_of(task) == 'WORKING'
