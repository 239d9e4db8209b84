"""Section 4: SubscribeToTask."""

import asyncio

from tests.conformance.errors import TASK_NOT_FOUND, UNSUPPORTED_OPERATION, Json
from tests.conformance.kit import (
    NO_TASK,
    artifacts_of,
    begun,
    first_task,
    get,
    held,
    last_event_id,
    state_of,
    subscribing,
    task_of,
)
from tests.conformance.over_http import RestWire
from tests.conformance.site import USER, Site
from tests.conformance.table import Section
from tests.conformance.victim import killed
from tests.conformance.wire import JSONRPC, REST, Event, Pairs, Wire

SECTION = Section(4, 'SubscribeToTask')

FIRST = SECTION.must('3.1.6', 'The first event is the task as it is; nothing is missed between it and the next')


@FIRST.check()
async def subscription_begins_with_the_task_and_misses_nothing(wire: Wire, site: Site) -> None:
    async with (
        held(wire, site, before='work artifact:a', after='more:a artifact:b complete') as running,
        subscribing(wire, running.id) as events,
    ):
        task = await first_task(events)
        assert task == await get(wire, running.id)
        running.release()
        rest = await events.rest()
    assert with_updates(task, rest) == {'a': 'text of a and more', 'b': 'text of b'}
    assert artifacts_of(await get(wire, running.id)) == {'a': 'text of a and more', 'b': 'text of b'}
    assert rest[-1].state == 'COMPLETED'


@FIRST.check()
async def subscriptions_in_the_midst_of_the_work_miss_nothing(wire: Wire, site: Site) -> None:
    gate = site.unique('gate')

    following: list[str] = []

    async def follow(task_id: str) -> dict[str, str]:
        async with subscribing(wire, task_id) as events:
            task = await first_task(events)
            following.append(task_id)
            if len(following) == 5:
                wire.service.agent.open(gate)
            return with_updates(task, await events.rest())

    async with held(wire, site, after=f'chunks:300 hold:{gate} complete') as running:
        running.release()
        async with asyncio.TaskGroup() as group:
            readers = []
            for _ in range(5):
                readers.append(group.create_task(follow(running.id)))
                await get(wire, running.id)
    whole = artifacts_of(await get(wire, running.id))
    assert whole == {'chunks': ''.join(f'{number} ' for number in range(300))}
    assert [reader.result() for reader in readers] == [whole] * 5


def with_updates(task: Json, events: list[Event]) -> dict[str, str]:
    """The artifacts of a task as a reader of its stream has them."""
    texts = artifacts_of(task)
    for event in events:
        if event.kind == 'artifactUpdate':
            name = event.value['artifact']['artifactId']
            texts[name] = (texts[name] if event.value.get('append') else '') + event.text
    return texts


ENDS = SECTION.must('3.1.6', 'It ends with the terminal state, and outlives states that wait for the client')


@ENDS.check()
async def subscription_ends_with_the_terminal_state(wire: Wire, site: Site) -> None:
    async with held(wire, site, after='reject') as running, subscribing(wire, running.id) as events:
        await first_task(events)
        running.release()
        assert [event.state for event in await events.rest()] == ['REJECTED']


@ENDS.check()
async def subscription_outlives_interrupted_states(wire: Wire, site: Site) -> None:
    async with held(wire, site, after='ask') as running, subscribing(wire, running.id) as events:
        await first_task(events)
        running.release()
        await events.until_state('INPUT_REQUIRED')
        await task_of(wire, 'auth', taskId=running.id)
        await events.until_state('AUTH_REQUIRED')
        await task_of(wire, 'complete', taskId=running.id)
        assert (await events.rest())[-1].state == 'COMPLETED'


ENDED = SECTION.must('3.1.6', 'A task that has ended is UnsupportedOperationError')


@ENDED.check()
async def subscription_to_an_ended_task_is_refused(wire: Wire, site: Site) -> None:
    for script in ('complete', 'fail', 'reject', 'cancel'):
        task = await task_of(wire, script)
        (await wire.collect('SubscribeToTask', {'id': task['id']})).refused(UNSUPPORTED_OPERATION)


@ENDED.check()
async def subscription_to_a_task_that_ended_before_a_restart_is_refused(wire: Wire, site: Site) -> None:
    database = site.database()
    async with site.serving(database=database) as before:
        task = await task_of(wire.at(before), 'work complete')
    async with site.serving(database=database) as after:
        refused = await wire.at(after).collect('SubscribeToTask', {'id': task['id']})
    refused.refused(UNSUPPORTED_OPERATION)


UNKNOWN = SECTION.must('3.1.6', 'An unknown or inaccessible task is TaskNotFoundError')


@UNKNOWN.check()
async def subscription_to_an_unknown_task_is_not_found(wire: Wire, site: Site) -> None:
    theirs = await task_of(wire, 'ask', tenant='theirs')
    (await wire.collect('SubscribeToTask', {'id': NO_TASK})).refused(TASK_NOT_FOUND)
    (await wire.collect('SubscribeToTask', {'id': theirs['id'], 'tenant': 'ours'})).refused(TASK_NOT_FOUND)


@UNKNOWN.check()
async def subscription_to_another_users_task_is_not_found(wire: Wire, site: Site) -> None:
    users = wire.at(await site.service('users'))
    ann: Pairs = [(USER, 'ann')]
    others: list[Pairs] = [[(USER, 'bob')], []]
    for script in ('work ask', 'work complete'):
        task = await task_of(users, script, options={'headers': ann})
        for headers in others:
            (await users.collect('SubscribeToTask', {'id': task['id']}, headers=headers)).refused(TASK_NOT_FOUND)
    waiting = await task_of(users, 'work ask', options={'headers': ann})
    async with subscribing(users, waiting['id'], headers=ann) as events:
        assert await first_task(events) == waiting


NOT_ENDED = SECTION.must('3.1.6', 'It works for every task that has not ended, also after a restart', sdk_fails=True)


@NOT_ENDED.check()
async def subscription_to_an_interrupted_task_follows_it(wire: Wire, site: Site) -> None:
    for script in ('ask', 'auth'):
        task = await task_of(wire, script)
        async with subscribing(wire, task['id']) as events:
            assert await first_task(events) == task
            await begun(wire, 'work complete', taskId=task['id'])
            assert [event.state for event in await events.rest()] == ['WORKING', 'COMPLETED']


@NOT_ENDED.check()
async def subscription_after_a_restart_follows_the_task(wire: Wire, site: Site) -> None:
    database = site.database()
    async with site.serving(database=database) as before:
        task = await task_of(wire.at(before), 'work artifact:a ask')
    async with site.serving(database=database) as after:
        again = wire.at(after)
        async with subscribing(again, task['id']) as events:
            assert await first_task(events) == task
            await begun(again, 'work complete', taskId=task['id'])
            assert [event.state for event in await events.rest()] == ['WORKING', 'COMPLETED']
        assert state_of(await get(again, task['id'])) == 'COMPLETED'


@NOT_ENDED.check(on=JSONRPC)
async def subscription_after_a_crash_comes_to_an_end(wire: Wire, site: Site) -> None:
    database = site.database()
    task_id = await killed(wire, database, 'work hold:for-ever')
    # From its first event on, since the task may have ended before the subscription.
    async with (
        site.serving(database=database) as after,
        subscribing(wire.at(after), task_id, headers=last_event_id(0)) as events,
    ):
        assert (await events.rest())[-1].state == 'FAILED'


METHODS = SECTION.must('5.3', 'HTTP+JSON takes GET and POST, since the specification names both')


@METHODS.check(on=REST)
async def subscription_takes_get_and_post(wire: RestWire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    for method in ('GET', 'POST'):
        async with wire.open_request(method, f'/tasks/{task["id"]}:subscribe') as events:
            assert await first_task(events) == task
