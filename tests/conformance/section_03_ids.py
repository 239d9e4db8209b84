"""What streams say beside their events: ids and places, when to try again, that they are still there."""

from dataclasses import replace

import pytest
from a2a.server.owner_resolver import resolve_user_scope

from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.stores import JournalTaskStore
from a2a_scribe.testing.journals import TroubledJournal
from tests.conformance.errors import TEMPORARY_ERROR
from tests.conformance.kit import (
    ACTIVATED,
    SEQUENCE,
    first_task,
    get,
    held,
    last_event_id,
    place,
    stream,
    streaming,
    subscribing,
    task_of,
)
from tests.conformance.over_http import HttpWire
from tests.conformance.site import QUICK, Site
from tests.conformance.table import Section
from tests.conformance.wire import HTTP, Refused, Wire

SECTION = Section(3, 'Streaming: ids')

IDS = SECTION.ours('streams', 'Every event of a task has an `id`, which grows and is the same for all readers')


@IDS.check(on=HTTP)
async def every_event_has_an_id_that_grows(wire: HttpWire, site: Site) -> None:
    events = (await stream(wire, 'work chunks:3 complete', options={'headers': ACTIVATED})).ok()
    ids = [int(event.id or '') for event in events]
    assert len(ids) == 6
    assert ids == sorted(set(ids))
    assert ids == [place(event) for event in events]
    assert ids[0] > 0


@IDS.check(on=HTTP)
async def all_readers_are_told_the_same_ids(wire: HttpWire, site: Site) -> None:
    gate = site.unique('gate')
    async with streaming(wire, f'work hold:{gate} chunks:3 complete') as sender:
        begin = await sender.until_state('WORKING')
        async with subscribing(wire, begin[0].value['id']) as reader:
            snapshot = await reader.next()
            assert snapshot.id == begin[-1].id
            wire.service.agent.open(gate)
            ids = [event.id for event in await reader.rest()]
        assert ids == [event.id for event in await sender.rest()]
    assert len(ids) == 4


@IDS.check(on=HTTP)
async def ids_go_on_in_the_next_turn(wire: HttpWire, site: Site) -> None:
    first = (await stream(wire, 'work ask')).ok()
    second = (await stream(wire, 'work complete', taskId=first[0].value['id'])).ok()
    ids = [int(event.id or '') for event in second]
    assert ids == sorted(set(ids))
    assert ids[-1] > int(first[-1].id or '')


@IDS.check(on=HTTP)
async def direct_message_has_no_id(wire: HttpWire, site: Site) -> None:
    assert [event.id for event in (await stream(wire, 'message:hi')).ok()] == [None]


RETRY = SECTION.ours('streams', 'A stream begins with `retry`: when to connect again')


@RETRY.check(on=HTTP)
async def stream_says_once_when_to_try_again(wire: HttpWire, site: Site) -> None:
    async with streaming(wire, 'work complete') as reader:
        await reader.rest()
    assert [frame.retry for frame in reader.frames] == ['1000'] + [None] * 3
    assert (reader.frames[0].data, reader.frames[0].id) == ([], None)


@RETRY.check(on=HTTP)
async def subscription_says_when_to_try_again_as_it_is_set(wire: HttpWire, site: Site) -> None:
    async with site.serving(settings=replace(QUICK, stream_retry=2.5)) as patient:
        other = wire.at(patient)
        task = await task_of(other, 'ask')
        async with subscribing(other, task['id']) as reader:
            frame = await reader.next_frame()
    assert frame.retry == '2500'


KEEP_ALIVE = SECTION.ours('streams', 'A stream without events has comments, so that nobody on the way closes it')


@KEEP_ALIVE.check(on=HTTP)
async def silent_stream_has_comments(wire: HttpWire, site: Site) -> None:
    async with held(wire, site) as running, subscribing(wire, running.id) as events:
        await first_task(events)
        for _ in range(2):
            frame = await events.next_frame()
            assert (frame.comments, frame.data, frame.id) == (['keep-alive'], [], None)
        running.release()
        assert [event.state for event in await events.rest()] == ['COMPLETED']


@KEEP_ALIVE.check(on=HTTP)
async def silent_stream_of_a_message_has_comments(wire: HttpWire, site: Site) -> None:
    gate = site.unique('gate')
    async with streaming(wire, f'work hold:{gate} complete') as events:
        await events.until_state('WORKING')
        assert (await events.next_frame()).comments == ['keep-alive']
        wire.service.agent.open(gate)
        assert [event.state for event in await events.rest()] == ['COMPLETED']


BUFFERS = SECTION.ours('streams', 'Proxies are told neither to store nor to hold back a stream')


@BUFFERS.check(on=HTTP)
async def stream_asks_proxies_not_to_buffer(wire: HttpWire, site: Site) -> None:
    async with streaming(wire, 'work ask') as events:
        assert events.headers['x-accel-buffering'] == 'no'
        assert events.headers['cache-control'] == 'no-store'
        task = await first_task(events)
        await events.rest()
    async with subscribing(wire, task['id']) as events:
        assert events.headers['x-accel-buffering'] == 'no'
        assert events.headers['cache-control'] == 'no-store'


LATE_ERRORS = SECTION.ours(
    'streams', 'An error after the first event is told in the stream, in the form of the binding'
)


@LATE_ERRORS.check()
async def error_after_the_first_event_ends_the_stream(wire: Wire, site: Site) -> None:
    journal = TroubledJournal(MemoryJournal())
    async with site.serving(database=JournalTaskStore(journal, resolve_user_scope)) as service:
        other = wire.at(service)
        task = await task_of(other, 'ask')
        async with subscribing(other, task['id']) as events:
            await first_task(events)
            journal.reads_fail = True
            with pytest.raises(Refused) as refusal:
                await events.rest()
            journal.heal()
    refusal.value.error.must_be(TEMPORARY_ERROR)


METADATA = SECTION.ours(
    'streams', 'The sequence extension puts the place of an event into its metadata, when activated'
)


@METADATA.check()
async def sequence_is_in_the_metadata_when_it_is_asked_for(wire: Wire, site: Site) -> None:
    collected = await stream(wire, 'work artifact:a complete', options={'headers': ACTIVATED})
    places = [place(event) for event in collected.ok()]
    assert len(places) == 4
    assert places == sorted(set(places))
    assert collected.headers['a2a-extensions'] == SEQUENCE


@METADATA.check()
async def sequence_is_in_the_metadata_of_a_subscription(wire: Wire, site: Site) -> None:
    async with (
        held(wire, site, after='artifact:a complete') as running,
        subscribing(wire, running.id, headers=ACTIVATED) as reader,
    ):
        snapshot = await reader.next()
        assert reader.headers['a2a-extensions'] == SEQUENCE
        running.release()
        places = [place(event) for event in [snapshot, *await reader.rest()]]
    assert len(places) == 3
    assert places == sorted(set(places))


@METADATA.check()
async def sequence_is_not_in_the_metadata_otherwise(wire: Wire, site: Site) -> None:
    collected = await stream(wire, 'work artifact:a complete')
    task_id = collected.ok()[0].value['id']
    replayed = await wire.collect('SubscribeToTask', {'id': task_id}, headers=last_event_id(0)[:1])
    assert [event.data for event in replayed.ok()] == [event.data for event in collected.events]
    for read in (collected, replayed):
        assert SEQUENCE not in str(read.events)
        assert 'a2a-extensions' not in read.headers


@METADATA.check()
async def sequence_is_not_part_of_the_task(wire: Wire, site: Site) -> None:
    collected = await stream(wire, 'work artifact:a complete', options={'headers': ACTIVATED})
    assert SEQUENCE in str(collected.ok())
    assert SEQUENCE not in str(await get(wire, collected.events[0].value['id']))


@METADATA.check(on=HTTP[:1])
async def sequence_is_declared_by_the_card(wire: HttpWire, site: Site) -> None:
    for kind, expected in (('usual', [False]), ('plain', [])):
        service = await site.service(kind)
        card = (await service.http.get(service.url + '/.well-known/agent-card.json')).json()
        declared = [each for each in card['capabilities'].get('extensions', []) if each['uri'] == SEQUENCE]
        assert [each.get('required', False) for each in declared] == expected
