"""Section 2: ids and contexts, and messages for tasks that exist."""

from tests.conformance.errors import UNSUPPORTED_OPERATION
from tests.conformance.kit import (
    begun,
    ended,
    found,
    get,
    held,
    send,
    state_of,
    stream,
    task_of,
    text_of,
    texts_of,
)
from tests.conformance.site import Site
from tests.conformance.table import Section
from tests.conformance.wire import Wire, background

SECTION = Section(2, 'Task lifecycle: contexts and follow-ups')

IDS = SECTION.must('3.4.2', 'The server makes unique task ids and returns them')


@IDS.check()
async def task_ids_are_unique(wire: Wire, site: Site) -> None:
    ids = [(await task_of(wire, 'complete'))['id'] for _ in range(3)]
    assert all(ids)
    assert len(set(ids)) == 3


GENERATED = SECTION.must('3.4.1', 'A context id that the server makes is in the answer')


@GENERATED.check()
async def generated_context_is_in_the_task(wire: Wire, site: Site) -> None:
    one, other = [await task_of(wire, 'complete') for _ in range(2)]
    assert one['contextId']
    assert one['contextId'] != other['contextId']


@GENERATED.check()
async def generated_context_is_in_the_message(wire: Wire, site: Site) -> None:
    assert (await send(wire, 'message:hi')).ok()['message']['contextId']
    assert (await stream(wire, 'message:hi')).ok()[0].value['contextId']


KEPT = SECTION.must('3.4.1', 'A context id of the client is kept as it is')


@KEPT.check()
async def context_of_the_client_is_kept(wire: Wire, site: Site) -> None:
    context = site.unique('Its own / context ')
    assert (await task_of(wire, 'complete', contextId=context))['contextId'] == context
    assert (await send(wire, 'message:hi', contextId=context)).ok()['message']['contextId'] == context
    assert {event.value['contextId'] for event in (await stream(wire, 'complete', contextId=context)).ok()} == {context}


INFERRED = SECTION.must('3.4.3', 'A message with a task and no context is of the context of the task', sdk_fails=True)


@INFERRED.check()
async def context_is_inferred_from_the_task(wire: Wire, site: Site) -> None:
    task = answer = await task_of(wire, 'ask')
    for script in ('ask:again?', 'ask:and-again?', 'complete:done'):
        answer = await task_of(wire, script, taskId=task['id'])
        assert (answer['id'], answer['contextId']) == (task['id'], task['contextId'])
        assert answer['status']['message']['contextId'] == task['contextId']
        assert wire.service.agent.context_of(task['id']).context_id == task['contextId']
    assert state_of(answer) == 'COMPLETED'
    assert {message['contextId'] for message in answer['history']} == {task['contextId']}


MISMATCH = SECTION.must('3.4.3', 'A message with a task and a context that is not its context is refused')


@MISMATCH.check()
async def context_that_is_not_the_tasks_is_refused(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    (await send(wire, 'complete', taskId=task['id'], contextId='another')).invalid('message.contextId')
    (await stream(wire, 'complete', taskId=task['id'], contextId='another')).invalid('message.contextId')
    assert await get(wire, task['id']) == task


NEW = SECTION.may('3.4.3', 'A message with a context alone begins a new task in it')


@NEW.check()
async def context_alone_begins_a_task(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    ids = {(await task_of(wire, 'ask', contextId=context))['id'] for _ in range(2)}
    assert len(ids) == 2
    assert {task['id'] for task in await found(wire, contextId=context)} == ids


FOLLOW_UPS = SECTION.should('7.6.1', 'Messages are taken in every state that is not terminal', sdk_fails=True)


@FOLLOW_UPS.check()
async def follow_up_continues_an_interrupted_task(wire: Wire, site: Site) -> None:
    for interruption in ('ask', 'auth'):
        task = await task_of(wire, f'work {interruption}')
        answer = await task_of(wire, 'complete', taskId=task['id'])
        assert (answer['id'], state_of(answer)) == (task['id'], 'COMPLETED')


@FOLLOW_UPS.check()
async def follow_up_of_a_working_task_is_worked_on_next(wire: Wire, site: Site) -> None:
    async with held(wire, site, after='ask:first?') as running:
        following = await begun(wire, 'complete:second', taskId=running.id)
        assert following['id'] == running.id
        running.release()
        task = await ended(wire, running.id)
    assert text_of(task['status']['message']) == 'second'
    assert 'complete:second' in texts_of(task)


@FOLLOW_UPS.check()
async def follow_up_is_answered_by_its_own_turn(wire: Wire, site: Site) -> None:
    async with (
        held(wire, site, after='ask:first?') as running,
        background(send(wire, 'ask:second?', taskId=running.id)) as sending,
    ):
        await begun(wire, 'ask:third?', taskId=running.id)
        running.release()
        answer = (await sending).ok()['task']
    assert text_of(answer['status']['message']) in ('second?', 'third?')
    assert 'ask:second?' in texts_of(answer)


@FOLLOW_UPS.check()
async def follow_up_that_comes_too_late_is_refused_and_not_lost(wire: Wire, site: Site) -> None:
    async with (
        held(wire, site, after='complete:first') as running,
        background(send(wire, 'work complete:second', taskId=running.id)) as sending,
    ):
        await begun(wire, 'work complete:third', taskId=running.id)
        running.release()
        (await sending).refused(UNSUPPORTED_OPERATION)
    task = await get(wire, running.id)
    assert text_of(task['status']['message']) == 'first'
    assert not [text for text in texts_of(task) if 'second' in text or 'third' in text]


REFERENCES = SECTION.should('3.4.3', 'The tasks of `referenceTaskIds` are given to the agent', sdk_fails=True)


@REFERENCES.check()
async def referenced_tasks_reach_the_agent(wire: Wire, site: Site) -> None:
    first = await task_of(wire, 'artifact:a complete')
    second = await task_of(wire, 'complete', referenceTaskIds=[first['id']])
    related = wire.service.agent.context_of(second['id']).related_tasks
    assert [task.id for task in related] == [first['id']]


@REFERENCES.check()
async def referenced_tasks_of_others_do_not_reach_the_agent(wire: Wire, site: Site) -> None:
    theirs = await task_of(wire, 'artifact:a complete', tenant='theirs')
    ours = await task_of(wire, 'complete', referenceTaskIds=[theirs['id']], tenant='ours')
    assert wire.service.agent.context_of(ours['id']).related_tasks == []
