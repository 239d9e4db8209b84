"""Section 7: cancelling tasks: what it answers, who wins a race, and what streams see of it."""

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import Any

from a2a_scribe.protocol.types import TaskState
from a2a_scribe.testing.agents import Run, do, emit, fail, status, wait
from tests.conformance.errors import TASK_NOT_CANCELABLE, TASK_NOT_FOUND
from tests.conformance.kit import (
    NO_TASK,
    artifacts_of,
    begun,
    ended,
    first_task,
    found,
    get,
    held,
    send,
    state_of,
    streaming,
    subscribing,
    task_of,
)
from tests.conformance.over_http import RestWire
from tests.conformance.site import QUICK, USER, Site
from tests.conformance.table import Section
from tests.conformance.wire import REST, Answer, Pairs, Wire, background

SECTION = Section(7, 'Cancelling tasks')


async def cancel(wire: Wire, task_id: str, **params: Any) -> Answer:
    return await wire.call('CancelTask', {'id': task_id, **params})


ANSWER = SECTION.must(
    '3.1.5',
    'The answer is the updated task; TaskNotCancelableError if it has ended, TaskNotFoundError if it is unknown',
)


@ANSWER.check()
async def cancel_answers_with_the_task(wire: Wire, site: Site) -> None:
    async with held(wire, site, before='work artifact:a') as running:
        task = (await cancel(wire, running.id)).ok()
    assert (task['id'], task['contextId'], state_of(task)) == (running.id, running.task['contextId'], 'CANCELED')
    assert artifacts_of(task) == {'a': 'text of a'}
    assert await get(wire, running.id) == task


@ANSWER.check()
async def interrupted_task_can_be_cancelled(wire: Wire, site: Site) -> None:
    for interruption in ('ask', 'auth'):
        task = await task_of(wire, f'work {interruption}')
        assert state_of((await cancel(wire, task['id'])).ok()) == 'CANCELED'


@ANSWER.check()
async def silent_task_can_be_cancelled(wire: Wire, site: Site) -> None:
    async with held(wire, site, before='', after='work complete') as silent:
        assert state_of((await cancel(wire, silent.id)).ok()) == 'CANCELED'


@ANSWER.check()
async def ended_task_cannot_be_cancelled(wire: Wire, site: Site) -> None:
    for end in ('complete', 'fail', 'reject', 'cancel'):
        task = await task_of(wire, f'work {end}')
        (await cancel(wire, task['id'])).refused(TASK_NOT_CANCELABLE)
        assert await get(wire, task['id']) == task


@ANSWER.check()
async def unknown_task_cannot_be_cancelled(wire: Wire, site: Site) -> None:
    (await cancel(wire, NO_TASK)).refused(TASK_NOT_FOUND)


@ANSWER.check()
async def task_of_others_cannot_be_cancelled(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask', tenant='theirs')
    (await cancel(wire, task['id'], tenant='ours')).refused(TASK_NOT_FOUND)
    assert await get(wire, task['id'], tenant='theirs') == task
    users = wire.at(await site.service('users'))
    ann: Pairs = [(USER, 'ann')]
    task = await task_of(users, 'ask', options={'headers': ann})
    (await users.call('CancelTask', {'id': task['id']}, headers=[(USER, 'bob')])).refused(TASK_NOT_FOUND)
    assert (await users.call('GetTask', {'id': task['id']}, headers=ann)).ok() == task


SUCCESS = SECTION.must(
    '3.1.5', 'Success means CANCELED for good, with a time of its own; a race that is lost is TaskNotCancelableError'
)


@SUCCESS.check()
async def cancelled_task_stays_cancelled(wire: Wire, site: Site) -> None:
    async with held(wire, site, after='late:b complete') as running:
        task = (await cancel(wire, running.id)).ok()
        running.release()
        assert (await send(wire, 'work', taskId=running.id)).error is not None
    assert await get(wire, running.id) == task
    assert state_of(task) == 'CANCELED'


@SUCCESS.check()
async def cancelled_task_stays_so_though_its_agent_goes_on(wire: Wire, site: Site) -> None:
    async with site.serving(settings=replace(QUICK, cancel_grace=0.01)) as service:
        own, agent = wire.at(service), service.agent
        running = await begun(own, 'work stubborn:gate late:b hold:after')
        await agent.reached('gate')
        task = (await cancel(own, running['id'])).ok()
        assert (state_of(task), agent.finished) == ('CANCELED', 0)
        agent.open('gate')
        await agent.reached('after')
        assert len(agent.refusals) == 2
        assert await get(own, running['id']) == task


@SUCCESS.check()
async def cancel_has_its_own_time(wire: Wire, site: Site) -> None:
    async with held(wire, site) as running:
        before = await get(wire, running.id)
        task = (await cancel(wire, running.id)).ok()
    times = [datetime.fromisoformat(each['status']['timestamp']) for each in (before, task)]
    assert times[0] < times[1]


@SUCCESS.check()
async def cancel_does_not_need_the_agents_help(wire: Wire, site: Site) -> None:
    for script in ([], [fail(RuntimeError('no'))], [emit(status(TaskState.TASK_STATE_WORKING))]):
        async with site.serving() as service:
            service.agent.on_cancel = script
            async with held(wire.at(service), site) as running:
                assert state_of((await cancel(wire.at(service), running.id)).ok()) == 'CANCELED'
                assert state_of(await get(wire.at(service), running.id)) == 'CANCELED'


@SUCCESS.check()
async def cancel_that_comes_after_the_end_is_refused(wire: Wire, site: Site) -> None:
    async with site.serving() as service:
        own, agent = wire.at(service), service.agent
        agent.on_cancel = [wait('cancel')]
        async with (
            held(own, site, after='complete:first') as running,
            background(cancel(own, running.id)) as cancelling,
        ):
            await agent.reached('cancel')
            running.release()
            task = await ended(own, running.id)
            agent.open('cancel')
            (await cancelling).refused(TASK_NOT_CANCELABLE)
        assert state_of(task) == 'COMPLETED'
        assert await get(own, running.id) == task


@SUCCESS.check()
async def agent_that_completes_on_a_cancel_wins(wire: Wire, site: Site) -> None:
    async with site.serving() as service:
        service.agent.on_cancel = [emit(status(TaskState.TASK_STATE_COMPLETED))]
        own = wire.at(service)
        async with held(own, site) as running:
            (await cancel(own, running.id)).refused(TASK_NOT_CANCELABLE)
            assert state_of(await get(own, running.id)) == 'COMPLETED'


@SUCCESS.check()
async def blocking_send_is_answered_by_the_cancel(wire: Wire, site: Site) -> None:
    gate, context = site.unique('gate'), site.unique('context')
    async with background(send(wire, f'work hold:{gate} complete', contextId=context)) as sending:
        await wire.service.agent.reached(gate)
        (task,) = await found(wire, contextId=context)
        canceled = (await cancel(wire, task['id'])).ok()
        assert (await sending).ok()['task'] == canceled


AGAIN = SECTION.must('3.3.1', 'A cancel that is repeated has no further effect; the second is TaskNotCancelableError')


@AGAIN.check()
async def second_cancel_changes_nothing(wire: Wire, site: Site) -> None:
    async with held(wire, site) as running:
        task = (await cancel(wire, running.id)).ok()
    (await cancel(wire, running.id)).refused(TASK_NOT_CANCELABLE)
    assert await get(wire, running.id) == task


@AGAIN.check()
async def cancels_at_the_same_time_agree(wire: Wire, site: Site) -> None:
    async with held(wire, site) as running:
        answers = await asyncio.gather(*(cancel(wire, running.id) for _ in range(4)))
    task = await get(wire, running.id)
    assert state_of(task) == 'CANCELED'
    succeeded = [answer for answer in answers if answer.error is None]
    assert succeeded
    assert all(answer.ok() == task for answer in succeeded)
    for answer in answers:
        if answer.error is not None:
            answer.refused(TASK_NOT_CANCELABLE)


METADATA = SECTION.may('proto', 'The `metadata` of a cancel reaches the agent', sdk_fails=True)


@METADATA.check()
async def metadata_reaches_the_cancel_of_the_agent(wire: Wire, site: Site) -> None:
    given: list[Run] = []
    async with site.serving() as service:
        own = wire.at(service)
        service.agent.on_cancel = [do(given.append)]
        for script in ('work ask', 'ask'):
            task = await task_of(own, script)
            await cancel(own, task['id'], metadata={'why': 'changed my mind', 'n': 1})
    assert [run.context.metadata for run in given] == [{'why': 'changed my mind', 'n': 1}] * 2


@METADATA.check(on=REST)
async def tenant_in_the_body_of_a_cancel_counts(wire: Wire, site: Site) -> None:
    assert isinstance(wire, RestWire)
    task = await task_of(wire, 'ask', tenant='theirs')
    path = f'/tasks/{task["id"]}:cancel'
    wire.answer_of(await wire.request('POST', path)).refused(TASK_NOT_FOUND)
    wire.answer_of(await wire.request('POST', path, json={'tenant': 'ours'})).refused(TASK_NOT_FOUND)
    assert state_of(wire.answer_of(await wire.request('POST', path, json={'tenant': 'theirs'})).ok()) == 'CANCELED'


STREAMS = SECTION.must('3.1.2', 'Open streams of the task see CANCELED and close')


@STREAMS.check()
async def streams_end_with_the_cancel(wire: Wire, site: Site) -> None:
    gate = site.unique('gate')
    async with streaming(wire, f'work hold:{gate} complete') as sent:
        task = await first_task(sent)
        await sent.until_state('WORKING')
        async with subscribing(wire, task['id']) as followed:
            await first_task(followed)
            canceled = (await cancel(wire, task['id'])).ok()
            for events in (await sent.rest(), await followed.rest()):
                assert [event.state for event in events] == ['CANCELED']
                assert events[0].value['status']['timestamp'] == canceled['status']['timestamp']


@STREAMS.check()
async def stream_of_an_interrupted_task_ends_with_the_cancel(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'work ask')
    async with subscribing(wire, task['id']) as followed:
        assert state_of(await first_task(followed)) == 'INPUT_REQUIRED'
        await cancel(wire, task['id'])
        assert [event.state for event in await followed.rest()] == ['CANCELED']
