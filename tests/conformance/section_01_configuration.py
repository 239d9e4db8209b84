"""Section 1: what a message's configuration asks for, and how an agent's failure is told."""

from tests.conformance.actor import SECRET
from tests.conformance.errors import INVALID_AGENT_RESPONSE, PUSH_NOT_SUPPORTED, UNSUPPORTED_OPERATION
from tests.conformance.kit import ended, found, get, held, request_of, send, state_of, stream, task_of, texts_of
from tests.conformance.site import Site
from tests.conformance.table import Section
from tests.conformance.wire import Wire

SECTION = Section(1, 'Message send: configuration and failures')

HISTORY = SECTION.must(
    '3.2.4', '`historyLength` bounds the history that is shown, to the newest, in Send, Get, List and streams'
)


async def talk(wire: Wire, **fields: str) -> str:
    """Makes a task with three messages of the user in its history, and returns its id."""
    task = await task_of(wire, 'ask one', **fields)
    await task_of(wire, 'ask two', taskId=task['id'])
    await task_of(wire, 'ask three', taskId=task['id'])
    return str(task['id'])


@HISTORY.check()
async def send_shows_the_newest_of_the_history(wire: Wire, site: Site) -> None:
    task_id = await talk(wire)
    shown = await task_of(wire, 'ask four', taskId=task_id, configuration={'historyLength': 2})
    assert texts_of(shown) == texts_of(await get(wire, task_id))[-2:]
    assert len(texts_of(shown)) == 2


@HISTORY.check()
async def get_shows_the_newest_of_the_history(wire: Wire, site: Site) -> None:
    task_id = await talk(wire)
    everything = texts_of(await get(wire, task_id))
    assert len(everything) >= 3
    assert texts_of(await get(wire, task_id, historyLength=1)) == everything[-1:]
    assert texts_of(await get(wire, task_id, historyLength=1000)) == everything


@HISTORY.check()
async def list_shows_the_newest_of_each_history(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    tasks = [await talk(wire, contextId=context) for _ in range(2)]
    shown = await found(wire, contextId=context, historyLength=2)
    assert {task['id']: texts_of(task) for task in shown} == {
        task_id: texts_of(await get(wire, task_id))[-2:] for task_id in tasks
    }


@HISTORY.check()
async def stream_shows_the_newest_of_the_history(wire: Wire, site: Site) -> None:
    task_id = await talk(wire)
    collected = await stream(wire, 'complete', taskId=task_id, configuration={'historyLength': 1})
    tasks = [event.value for event in collected.ok() if event.kind == 'task']
    assert tasks
    assert all(len(task.get('history', [])) <= 1 for task in tasks)


NO_HISTORY = SECTION.should('3.2.4', 'With `historyLength` 0 there is no `history` at all')


@NO_HISTORY.check()
async def history_length_0_omits_the_history(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    task = await task_of(wire, 'ask', contextId=context, configuration={'historyLength': 0})
    assert 'history' not in task
    assert 'history' not in await get(wire, task['id'], historyLength=0)
    assert ['history' in each for each in await found(wire, contextId=context, historyLength=0)] == [False]
    collected = await stream(wire, 'complete', taskId=task['id'], configuration={'historyLength': 0})
    assert all('history' not in event.value for event in collected.ok())


NEGATIVE = SECTION.must('3.3.2', 'A negative `historyLength` is a validation error')


@NEGATIVE.check()
async def negative_history_length_is_invalid(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    negative = request_of('ask', contextId=context, configuration={'historyLength': -1})
    (await wire.call('SendMessage', negative)).invalid('configuration.historyLength')
    (await wire.collect('SendStreamingMessage', negative)).invalid('configuration.historyLength')
    assert await found(wire, contextId=context) == []
    task = await task_of(wire, 'ask')
    (await wire.call('GetTask', {'id': task['id'], 'historyLength': -1})).invalid('historyLength')
    (await wire.call('ListTasks', {'historyLength': -1})).invalid('historyLength')


OUTPUT_MODES = SECTION.should('proto', 'The agent tailors its output to `acceptedOutputModes`: it is told of them')


@OUTPUT_MODES.check()
async def accepted_output_modes_reach_the_agent(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'complete', configuration={'acceptedOutputModes': ['text/csv', 'image/*']})
    configuration = wire.service.agent.context_of(task['id']).configuration
    assert configuration is not None
    assert list(configuration.accepted_output_modes) == ['text/csv', 'image/*']


INLINE = SECTION.must(
    '3.2.2', "A message's own push config is registered for its task; its `taskId` is to be empty", sdk_fails=True
)


@INLINE.check()
async def inline_config_is_registered(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask', configuration={'taskPushNotificationConfig': {'url': 'https://hook.test/'}})
    configs = (await wire.call('ListTaskPushNotificationConfigs', {'taskId': task['id']})).ok()['configs']
    assert [(config['url'], config['taskId']) for config in configs] == [('https://hook.test/', task['id'])]
    assert configs[0]['id']


@INLINE.check()
async def inline_config_of_a_stream_is_registered(wire: Wire, site: Site) -> None:
    configuration = {'taskPushNotificationConfig': {'url': 'https://hook.test/', 'id': 'mine'}}
    events = (await stream(wire, 'ask', configuration=configuration)).ok()
    params = {'taskId': events[0].value['id'], 'id': 'mine'}
    assert (await wire.call('GetTaskPushNotificationConfig', params)).ok()['url'] == 'https://hook.test/'


@INLINE.check()
async def inline_config_of_a_follow_up_is_registered(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    configuration = {'taskPushNotificationConfig': {'url': 'https://hook.test/', 'id': 'mine'}}
    await task_of(wire, 'ask', taskId=task['id'], configuration=configuration)
    params = {'taskId': task['id'], 'id': 'mine'}
    assert (await wire.call('GetTaskPushNotificationConfig', params)).ok()['url'] == 'https://hook.test/'


@INLINE.check()
async def inline_config_for_another_task_is_refused(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    other = await task_of(wire, 'ask')
    config = {'url': 'https://hook.test/', 'taskId': other['id']}
    answer = await send(wire, 'ask', contextId=context, configuration={'taskPushNotificationConfig': config})
    answer.invalid('configuration.taskPushNotificationConfig.taskId')
    assert await found(wire, contextId=context) == []
    assert not (await wire.call('ListTaskPushNotificationConfigs', {'taskId': other['id']})).ok().get('configs')


UNDECLARED = SECTION.must(
    '3.3.4', 'A push config of a message is refused when the card does not declare push notifications', sdk_fails=True
)


@UNDECLARED.check()
async def inline_config_needs_the_capability(wire: Wire, site: Site) -> None:
    plain, context = wire.at(await site.service('plain')), site.unique('context')
    configuration = {'taskPushNotificationConfig': {'url': 'https://hook.test/'}}
    answer = await send(plain, 'complete', contextId=context, configuration=configuration)
    answer.refused(PUSH_NOT_SUPPORTED)
    assert await found(plain, contextId=context) == []


FAILURES = SECTION.must(
    '3.3.2', "An agent's failure is a FAILED task that says nothing of the inside, on all bindings", sdk_fails=True
)


@FAILURES.check()
async def crash_is_a_failed_task(wire: Wire, site: Site) -> None:
    for script in ('crash', 'task crash', 'work artifact:a crash'):
        answer = (await send(wire, script)).ok()
        assert state_of(answer['task']) == 'FAILED'
        assert SECRET not in str(answer)
        assert await get(wire, answer['task']['id']) == answer['task']


@FAILURES.check()
async def crash_after_the_answer_is_a_failed_task(wire: Wire, site: Site) -> None:
    async with held(wire, site, 'work', 'crash') as running:
        running.release()
        task = await ended(wire, running.id)
    assert state_of(task) == 'FAILED'
    assert SECRET not in str(task)


@FAILURES.check()
async def error_of_the_protocol_that_an_agent_raises_is_the_answer(wire: Wire, site: Site) -> None:
    (await send(wire, 'decline')).refused(UNSUPPORTED_OPERATION)
    (await stream(wire, 'decline')).refused(UNSUPPORTED_OPERATION)
    (await send(wire, 'nonsense')).refused(INVALID_AGENT_RESPONSE)
