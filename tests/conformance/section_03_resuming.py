"""Streams that can be resumed, which the specification leaves open: what comes after the last event that was seen."""

from typing import Any

from tests.conformance.errors import TASK_NOT_FOUND, UNSUPPORTED_OPERATION, Json
from tests.conformance.kit import (
    ACTIVATED,
    NO_TASK,
    found,
    get,
    last_event_id,
    place,
    request_of,
    sequenced,
    stream,
    streaming,
    subscribing,
    task_of,
)
from tests.conformance.over_http import HttpWire
from tests.conformance.site import USER, Site
from tests.conformance.table import Section
from tests.conformance.victim import killed
from tests.conformance.wire import HTTP, JSONRPC, Collected, Event, Wire

SECTION = Section(3, 'Streaming: resuming')


async def resumed(wire: Wire, task_id: str, after: object, **options: Any) -> Collected:
    """Reads what came after an event, to its end."""
    return await wire.collect('SubscribeToTask', {'id': task_id}, headers=last_event_id(after), **options)


def data_of(events: list[Event]) -> list[Json]:
    return [event.data for event in events]


REPLAY = SECTION.ours('streams', '`Last-Event-ID` replays exactly what came after that event, also of an ended task')


@REPLAY.check()
async def last_event_id_replays_what_came_after(wire: Wire, site: Site) -> None:
    events = await sequenced(wire, 'work chunks:5 complete')
    task_id = events[0].value['id']
    for number, event in enumerate(events):
        replayed = (await resumed(wire, task_id, place(event))).ok()
        assert data_of(replayed) == data_of(events[number + 1 :])
        assert [each.id for each in replayed] == [each.id for each in events[number + 1 :]]


@REPLAY.check()
async def last_event_id_0_replays_everything(wire: Wire, site: Site) -> None:
    for end in ('complete', 'fail', 'reject', 'cancel', 'crash'):
        events = await sequenced(wire, f'work artifact:a {end}')
        replayed = (await resumed(wire, events[0].value['id'], 0)).ok()
        assert data_of(replayed) == data_of(events)


@REPLAY.check()
async def last_event_id_need_not_be_of_an_event_that_was_shown(wire: Wire, site: Site) -> None:
    events = await sequenced(wire, 'work ask')
    task_id = events[0].value['id']
    events += [each for each in await sequenced(wire, 'work complete', taskId=task_id) if each.kind != 'task']
    for after in range(place(events[-1]) + 1):
        replayed = (await resumed(wire, task_id, after)).ok()
        assert data_of(replayed) == data_of([event for event in events if place(event) > after])


@REPLAY.check()
async def empty_last_event_id_is_none(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    async with subscribing(wire, task['id'], headers=[('Last-Event-ID', '')]) as reader:
        assert (await reader.next()).value == task
    sent = await stream(wire, 'complete', options={'headers': [('Last-Event-ID', '')]}, taskId=task['id'])
    assert sent.ok()[-1].state == 'COMPLETED'
    (await wire.collect('SubscribeToTask', {'id': task['id']})).refused(UNSUPPORTED_OPERATION)


@REPLAY.check(on=HTTP)
async def last_event_id_can_be_a_query_parameter(wire: HttpWire, site: Site) -> None:
    events = await sequenced(wire, 'work artifact:a complete')
    request = dict(wire.prepare('SubscribeToTask', {'id': events[0].value['id']}))
    for name in ('lastEventId', 'Last-Event-ID', 'last-event-id', 'LASTEVENTID'):
        async with wire.open_request(**request, params={name: events[1].id}, headers=ACTIVATED) as reader:
            assert data_of(await reader.rest()) == data_of(events[2:])


FOLLOWS = SECTION.ours('streams', 'After the replay a stream follows the task, so that no event is lost or comes twice')


@FOLLOWS.check()
async def last_event_id_replays_and_then_follows(wire: Wire, site: Site) -> None:
    gate = site.unique('gate')
    script = f'work chunks:2 hold:{gate} chunks:1 complete'
    async with streaming(wire, script, options={'headers': ACTIVATED}) as sender:
        begin = await sender.until(lambda event: event.kind == 'artifactUpdate')
        async with subscribing(wire, begin[0].value['id'], headers=last_event_id(place(begin[1]))) as reader:
            seen = [await reader.next(), await reader.next()]
            wire.service.agent.open(gate)
            replayed = [*seen, *await reader.rest()]
        assert data_of(replayed) == data_of([*begin[2:], *await sender.rest()])


@FOLLOWS.check()
async def last_event_id_of_the_newest_event_only_follows(wire: Wire, site: Site) -> None:
    gate = site.unique('gate')
    async with streaming(wire, f'work hold:{gate} complete', options={'headers': ACTIVATED}) as sender:
        begin = await sender.until_state('WORKING')
        async with subscribing(wire, begin[0].value['id'], headers=last_event_id(place(begin[-1]))) as reader:
            wire.service.agent.open(gate)
            following = await reader.rest()
        assert [event.state for event in following] == ['COMPLETED']
        assert data_of(following) == data_of(await sender.rest())


@FOLLOWS.check()
async def reader_who_resumes_after_every_event_sees_each_once(wire: Wire, site: Site) -> None:
    gate = site.unique('gate')
    script = f'work chunks:2 hold:{gate} chunks:2 complete'
    async with streaming(wire, script, options={'headers': ACTIVATED}) as sender:
        seen: list[Event] = [await sender.next()]
        while seen[-1].state != 'COMPLETED':
            async with subscribing(wire, seen[0].value['id'], headers=last_event_id(place(seen[-1]))) as reader:
                if len(seen) == 4:
                    wire.service.agent.open(gate)
                seen.append(await reader.next())
        assert data_of(seen[1:]) == data_of(await sender.rest())
    assert len(seen) == 7


LASTING = SECTION.ours('streams', 'Ids outlive the server: after a restart, after a crash, and on another server')


@LASTING.check()
async def last_event_id_works_after_a_restart(wire: Wire, site: Site) -> None:
    database = site.database()
    async with site.serving(database=database) as before:
        done = await sequenced(wire.at(before), 'work chunks:3 complete')
        parked = await sequenced(wire.at(before), 'work ask')
    async with site.serving(database=database) as after:
        again = wire.at(after)
        replayed = (await resumed(again, done[0].value['id'], place(done[1]))).ok()
        assert data_of(replayed) == data_of(done[2:])
        task_id = parked[0].value['id']
        async with subscribing(again, task_id, headers=last_event_id(place(parked[0]))) as reader:
            assert data_of([await reader.next() for _ in parked[1:]]) == data_of(parked[1:])
            await task_of(again, 'complete', taskId=task_id)
            assert [event.state for event in await reader.rest()] == ['COMPLETED']


@LASTING.check(on=JSONRPC)
async def last_event_id_works_after_a_crash(wire: Wire, site: Site) -> None:
    database = site.database()
    task_id = await killed(wire, database, 'work hold:for-ever')
    async with site.serving(database=database) as after:
        async with subscribing(wire.at(after), task_id, headers=last_event_id(0)) as reader:
            first, second = await reader.next(), await reader.next()
        assert (first.kind, first.state, second.state) == ('task', 'SUBMITTED', 'WORKING')
        async with subscribing(wire.at(after), task_id, headers=last_event_id(place(first))) as reader:
            assert (await reader.next()).data == second.data


@LASTING.check()
async def last_event_id_works_at_another_server_of_the_database(wire: Wire, site: Site) -> None:
    database, gate = site.database(), site.unique('gate')
    async with site.serving(database=database) as one, site.serving(database=database) as other:
        script = f'work chunks:2 hold:{gate} chunks:1 complete'
        async with streaming(wire.at(one), script, options={'headers': ACTIVATED}) as sender:
            begin = await sender.until_state('WORKING')
            task_id, headers = begin[0].value['id'], last_event_id(place(begin[-1]))
            async with subscribing(wire.at(other), task_id, headers=headers) as reader:
                seen = [await reader.next(), await reader.next()]
                one.agent.open(gate)
                replayed = [*seen, *await reader.rest()]
            assert len(replayed) == 4
            assert data_of(replayed) == data_of(await sender.rest())
        ended = (await resumed(wire.at(other), task_id, place(replayed[0]))).ok()
        assert data_of(ended) == data_of(replayed[1:])


BAD_IDS = SECTION.ours('streams', 'A `Last-Event-ID` that is no event of the task is InvalidParamsError')


@BAD_IDS.check()
async def last_event_id_that_is_no_number_is_refused(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    for bad in ('last', '-1', '+1', '1.5', '1e0', '0x1', '1_0', '1 2', '1' * 30):
        (await resumed(wire, task['id'], bad)).invalid('Last-Event-ID')


@BAD_IDS.check()
async def last_event_id_beyond_the_newest_event_is_refused(wire: Wire, site: Site) -> None:
    for script in ('work ask', 'work complete'):
        events = await sequenced(wire, script)
        (await resumed(wire, events[0].value['id'], place(events[-1]) + 1000)).invalid('Last-Event-ID')


HIDDEN = SECTION.ours('streams', '`Last-Event-ID` opens no task that is not open without it, and tells nothing of it')


@HIDDEN.check()
async def last_event_id_of_an_unknown_task_is_not_found(wire: Wire, site: Site) -> None:
    theirs = await task_of(wire, 'work complete', tenant='theirs')
    for task_id in (NO_TASK, theirs['id']):
        for after in (0, 1, 1000):
            (await resumed(wire, task_id, after)).refused(TASK_NOT_FOUND)


@HIDDEN.check()
async def last_event_id_of_another_users_task_is_not_found(wire: Wire, site: Site) -> None:
    users = wire.at(await site.service('users'))
    mine, theirs = [[(USER, site.unique(name))] for name in ('ann', 'bob')]
    task = await task_of(users, 'work complete', options={'headers': mine})
    for after in (0, 1, 1000):
        headers = [*last_event_id(after), *theirs]
        (await users.collect('SubscribeToTask', {'id': task['id']}, headers=headers)).refused(TASK_NOT_FOUND)
    read = await users.collect('SubscribeToTask', {'id': task['id']}, headers=[*last_event_id(0), *mine])
    assert read.states == ['SUBMITTED', 'WORKING', 'COMPLETED']


ONCE = SECTION.ours('streams', 'A message is not sent again by a reader who means to resume')


@ONCE.check()
async def last_event_id_of_a_message_is_refused(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    for after in (0, 3, 'last'):
        sent = await stream(wire, 'work complete', options={'headers': last_event_id(after)}, contextId=context)
        sent.invalid('Last-Event-ID')
    assert await found(wire, contextId=context) == []


@ONCE.check()
async def last_event_id_of_a_follow_up_is_refused(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    sent = await stream(wire, 'complete', options={'headers': last_event_id(1)}, taskId=task['id'])
    sent.invalid('Last-Event-ID')
    assert await get(wire, task['id']) == task


@ONCE.check(on=HTTP)
async def last_event_id_in_the_query_of_a_message_is_refused(wire: HttpWire, site: Site) -> None:
    context = site.unique('context')
    request = dict(wire.prepare('SendStreamingMessage', request_of('work complete', contextId=context)))
    wire.answer_of(await wire.request(**request, params={'lastEventId': '3'})).invalid('Last-Event-ID')
    assert await found(wire, contextId=context) == []
