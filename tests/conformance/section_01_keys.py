"""Messages that are sent again under a key, which the specification leaves open: they are executed once."""

from tests.conformance.errors import Json
from tests.conformance.kit import begun, found, send, state_of, stream, task_of
from tests.conformance.site import USER, Site
from tests.conformance.table import Section
from tests.conformance.victim import killed
from tests.conformance.wire import HTTP, JSONRPC, Pairs, Wire, background

SECTION = Section(1, 'Message send: keys')
KEY = 'Idempotency-Key'


def keyed(key: str, *more: tuple[str, str]) -> Json:
    headers: Pairs = [(KEY, key), *more]
    return {'headers': headers}


def same(site: Site) -> Json:
    """What is the same of a message that is sent again."""
    return {'messageId': site.unique('message'), 'contextId': site.unique('context')}


ONCE = SECTION.ours('3.3.1', 'A message that is sent again under its `Idempotency-Key` is executed once')


@ONCE.check()
async def key_makes_one_task_of_two_messages(wire: Wire, site: Site) -> None:
    fields, options = same(site), keyed(site.unique('key'))
    first = await task_of(wire, 'work complete', options=options, **fields)
    assert await task_of(wire, 'work complete', options=options, **fields) == first
    assert (await begun(wire, 'work complete', options=options, **fields))['id'] == first['id']
    assert len(await found(wire, contextId=fields['contextId'])) == 1
    other = await task_of(wire, 'work complete', options=keyed(site.unique('key')), **fields)
    assert other['id'] != first['id']


@ONCE.check()
async def key_waits_for_the_answer_of_the_first(wire: Wire, site: Site) -> None:
    fields, options, gate = same(site), keyed(site.unique('key')), site.unique('gate')
    script = f'work hold:{gate} complete'
    task = await begun(wire, script, options=options, **fields)
    await wire.service.agent.reached(gate)
    async with background(task_of(wire, script, options=options, **fields)) as again:
        wire.service.agent.open(gate)
        answer = await again
    assert (answer['id'], state_of(answer)) == (task['id'], 'COMPLETED')


@ONCE.check()
async def key_is_for_streams_too(wire: Wire, site: Site) -> None:
    fields, options = same(site), keyed(site.unique('key'))
    first = (await stream(wire, 'work chunks:3 complete', options=options, **fields)).ok()
    again = (await stream(wire, 'work chunks:3 complete', options=options, **fields)).ok()
    assert [event.kind for event in again] == ['task']
    assert (again[0].value['id'], again[0].state) == (first[0].value['id'], 'COMPLETED')
    assert (await task_of(wire, 'work chunks:3 complete', options=options, **fields)) == again[0].value


@ONCE.check()
async def key_is_for_follow_ups_too(wire: Wire, site: Site) -> None:
    parked = await task_of(wire, 'work ask')
    fields, options = {'messageId': 'm', 'taskId': parked['id']}, keyed(site.unique('key'))
    answer = await task_of(wire, 'complete', options=options, **fields)
    assert (answer['id'], state_of(answer)) == (parked['id'], 'COMPLETED')
    assert await task_of(wire, 'complete', options=options, **fields) == answer


@ONCE.check()
async def key_makes_a_task_of_a_direct_message(wire: Wire, site: Site) -> None:
    fields, options = same(site), keyed(site.unique('key'))
    first = await task_of(wire, 'message:hi', options=options, **fields)
    assert (state_of(first), first['status']['message']['parts']) == ('COMPLETED', [{'text': 'hi'}])
    assert await task_of(wire, 'message:hi', options=options, **fields) == first


@ONCE.check(on=HTTP)
async def key_is_read_whoever_builds_the_context(wire: Wire, site: Site) -> None:
    users, fields, options = wire.at(await site.service('users')), same(site), keyed(site.unique('key'), (USER, 'ann'))
    first = await task_of(users, 'work complete', options=options, **fields)
    assert (await task_of(users, 'work complete', options=options, **fields))['id'] == first['id']
    bobs = await task_of(users, 'work complete', options=keyed(options['headers'][0][1], (USER, 'bob')), **fields)
    assert bobs['id'] != first['id']


LASTING = SECTION.ours('3.3.1', 'Keys outlive the server, and hold on every server of the database')


@LASTING.check()
async def key_holds_after_a_restart_and_on_another_server(wire: Wire, site: Site) -> None:
    database, fields, options, gate = site.database(), same(site), keyed(site.unique('key')), site.unique('gate')
    script = f'work hold:{gate} complete'
    async with site.serving(database=database) as one, site.serving(database=database) as other:
        begin = await begun(wire.at(one), script, options=options, **fields)
        async with background(task_of(wire.at(other), script, options=options, **fields)) as again:
            one.agent.open(gate)
            answer = await again
        assert (answer['id'], state_of(answer)) == (begin['id'], 'COMPLETED')
    async with site.serving(database=database) as after:
        assert await task_of(wire.at(after), script, options=options, **fields) == answer


@LASTING.check(on=JSONRPC)
async def key_holds_after_a_crash(wire: Wire, site: Site) -> None:
    database, fields, options = site.database(), same(site), keyed(site.unique('key'))
    task_id = await killed(wire, database, 'work hold:for-ever', options=options, **fields)
    async with site.serving(database=database) as after:
        answer = await task_of(wire.at(after), 'work hold:for-ever', options=options, **fields)
    assert (answer['id'], state_of(answer)) == (task_id, 'FAILED')


OTHERS = SECTION.ours('3.3.1', 'A key of another message, and one that is none, are InvalidParamsError')


@OTHERS.check()
async def key_of_another_message_is_refused(wire: Wire, site: Site) -> None:
    fields, options = same(site), keyed(site.unique('key'))
    await task_of(wire, 'work complete', options=options, **fields)
    error = (await send(wire, 'work fail', options=options, **fields)).invalid(KEY)
    assert 'was given to another message' in str(error)
    (await stream(wire, 'work fail', options=options, **fields)).invalid(KEY)
    assert len(await found(wire, contextId=fields['contextId'])) == 1


@OTHERS.check()
async def key_that_is_none_is_refused(wire: Wire, site: Site) -> None:
    for key in ('', 'two words', 'x' * 256):
        (await send(wire, 'work complete', options=keyed(key))).invalid(KEY)
        (await stream(wire, 'work complete', options=keyed(key))).invalid(KEY)
    (await send(wire, 'work complete', options=keyed('one', (KEY, 'two')))).invalid(KEY)
