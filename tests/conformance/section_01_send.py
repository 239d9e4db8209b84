"""Section 1: sending messages: answers, blocking and not, history lengths, what is refused."""

from tests.conformance.errors import CONTENT_TYPE_NOT_SUPPORTED, TASK_NOT_FOUND, UNSUPPORTED_OPERATION
from tests.conformance.kit import (
    NO_TASK,
    artifacts_of,
    begun,
    ended,
    found,
    get,
    send,
    state_of,
    stream,
    task_of,
    text_of,
)
from tests.conformance.site import Site
from tests.conformance.table import Section
from tests.conformance.wire import Wire, background

SECTION = Section(1, 'Message send')

ANSWER = SECTION.must('3.1.1', 'The answer is exactly one of a task and a message, told apart by the member')


@ANSWER.check()
async def answer_is_a_task(wire: Wire, site: Site) -> None:
    answer = (await send(wire, 'work complete')).ok()
    assert list(answer) == ['task']
    assert 'kind' not in answer['task']


@ANSWER.check()
async def answer_is_a_message(wire: Wire, site: Site) -> None:
    answer = (await send(wire, 'message:hi')).ok()
    assert list(answer) == ['message']
    assert text_of(answer['message']) == 'hi'
    assert 'kind' not in answer['message']


BLOCKING = SECTION.must('3.2.2', 'By default the answer comes when the task has ended or is interrupted, not before')


@BLOCKING.check()
async def send_waits_for_the_end(wire: Wire, site: Site) -> None:
    gate, context = site.unique('gate'), site.unique('context')
    async with background(send(wire, f'work hold:{gate} complete', contextId=context)) as sending:
        await wire.service.agent.reached(gate)
        (task,) = await found(wire, contextId=context)
        assert state_of(task) == 'WORKING'
        assert not sending.done()
        wire.service.agent.open(gate)
        assert state_of((await sending).ok()['task']) == 'COMPLETED'


@BLOCKING.check()
async def send_waits_for_input_required(wire: Wire, site: Site) -> None:
    assert state_of(await task_of(wire, 'work ask:name?')) == 'INPUT_REQUIRED'


@BLOCKING.check()
async def send_waits_for_auth_required_only(wire: Wire, site: Site) -> None:
    gate = site.unique('gate')
    task = await task_of(wire, f'work auth:login hold:{gate} complete')
    assert state_of(task) == 'AUTH_REQUIRED'
    wire.service.agent.open(gate)
    assert state_of(await ended(wire, task['id'])) == 'COMPLETED'


LATEST = SECTION.must('3.2.2', 'A blocking answer carries the latest status and all artifacts')


@LATEST.check()
async def blocking_answer_is_complete(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'work artifact:a more:a artifact:b complete:done')
    assert artifacts_of(task) == {'a': 'text of a and more', 'b': 'text of b'}
    assert text_of(task['status']['message']) == 'done'
    assert task == await get(wire, task['id'])


IMMEDIATELY = SECTION.must('3.2.2', '`returnImmediately` answers once the task exists, and the work goes on')


@IMMEDIATELY.check()
async def return_immediately_answers_while_the_agent_works(wire: Wire, site: Site) -> None:
    gate = site.unique('gate')
    task = await begun(wire, f'work hold:{gate} artifact:a complete')
    assert state_of(task) in ('SUBMITTED', 'WORKING')
    wire.service.agent.open(gate)
    assert artifacts_of(await ended(wire, task['id'])) == {'a': 'text of a'}


@IMMEDIATELY.check()
async def return_immediately_answers_while_the_agent_is_silent(wire: Wire, site: Site) -> None:
    gate = site.unique('gate')
    task = await begun(wire, f'hold:{gate} complete')
    assert state_of(task) == 'SUBMITTED'
    wire.service.agent.open(gate)
    await ended(wire, task['id'])


UNAFFECTED = SECTION.must(
    '3.2.2', '`returnImmediately` does not change answers that are messages, streams and push configs'
)


@UNAFFECTED.check()
async def return_immediately_lets_messages_be(wire: Wire, site: Site) -> None:
    answer = await send(wire, 'message:hi', configuration={'returnImmediately': True})
    assert text_of(answer.ok()['message']) == 'hi'


@UNAFFECTED.check()
async def return_immediately_lets_streams_be(wire: Wire, site: Site) -> None:
    collected = await stream(wire, 'work artifact:a complete', configuration={'returnImmediately': True})
    assert collected.kinds == ['task', 'statusUpdate', 'artifactUpdate', 'statusUpdate']


@UNAFFECTED.check()
async def return_immediately_lets_push_configs_be(wire: Wire, site: Site) -> None:
    config = {'id': 'c', 'url': 'https://hook.test/'}
    task = await begun(wire, 'ask', configuration={'taskPushNotificationConfig': config})
    answer = await wire.call('GetTaskPushNotificationConfig', {'taskId': task['id'], 'id': 'c'})
    assert answer.ok()['url'] == 'https://hook.test/'


INDEPENDENT = SECTION.must('3.1.1', 'Once there is a task, its work does not depend on the request or the connection')


@INDEPENDENT.check()
async def work_goes_on_when_the_caller_leaves(wire: Wire, site: Site) -> None:
    gate, context = site.unique('gate'), site.unique('context')
    async with background(send(wire, f'work hold:{gate} complete', contextId=context)):
        await wire.service.agent.reached(gate)
    wire.service.agent.open(gate)
    (task,) = await found(wire, contextId=context)
    assert state_of(await ended(wire, task['id'])) == 'COMPLETED'


MEDIA_TYPES = SECTION.must(
    '3.1.1', 'A part of a media type that the agent does not take is ContentTypeNotSupportedError', sdk_fails=True
)


@MEDIA_TYPES.check()
async def media_type_that_the_card_lacks_is_refused(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    parts = [{'text': 'work complete'}, {'raw': 'AAAA', 'mediaType': 'image/png'}]
    (await send(wire, '', parts=parts, contextId=context)).refused(CONTENT_TYPE_NOT_SUPPORTED)
    (await stream(wire, '', parts=parts, contextId=context)).refused(CONTENT_TYPE_NOT_SUPPORTED)
    assert await found(wire, contextId=context) == []


@MEDIA_TYPES.check()
async def media_type_of_the_card_is_taken(wire: Wire, site: Site) -> None:
    parts = [{'text': 'work complete', 'mediaType': 'text/plain'}, {'data': {'a': 1}, 'mediaType': 'application/json'}]
    assert state_of(await task_of(wire, '', parts=parts)) == 'COMPLETED'


ENDED_TASKS = SECTION.must('3.1.1', 'A message to a task that has ended is UnsupportedOperationError')


@ENDED_TASKS.check()
async def message_to_an_ended_task_is_refused(wire: Wire, site: Site) -> None:
    for script in ('complete', 'fail', 'reject', 'cancel'):
        task = await task_of(wire, f'work {script}')
        (await send(wire, 'work', taskId=task['id'])).refused(UNSUPPORTED_OPERATION)
        (await stream(wire, 'work', taskId=task['id'])).refused(UNSUPPORTED_OPERATION)
        assert await get(wire, task['id']) == task


UNKNOWN_TASKS = SECTION.must(
    '3.1.1', 'An unknown or inaccessible `taskId` is TaskNotFoundError; clients do not choose the ids of tasks'
)


@UNKNOWN_TASKS.check()
async def unknown_task_id_is_not_found(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    (await send(wire, 'work complete', taskId=NO_TASK, contextId=context)).refused(TASK_NOT_FOUND)
    (await stream(wire, 'work complete', taskId=NO_TASK, contextId=context)).refused(TASK_NOT_FOUND)
    (await wire.call('GetTask', {'id': NO_TASK})).refused(TASK_NOT_FOUND)
    assert await found(wire, contextId=context) == []


@UNKNOWN_TASKS.check()
async def inaccessible_task_id_is_not_found(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask', tenant='theirs')
    (await send(wire, 'work complete', taskId=task['id'], tenant='ours')).refused(TASK_NOT_FOUND)
    assert await get(wire, task['id'], tenant='theirs') == task


IDEMPOTENT = SECTION.may(
    '3.3.1', 'A message id that was used before starts another task; clients reuse them in unrelated messages'
)


@IDEMPOTENT.check()
async def reused_message_id_starts_another_task(wire: Wire, site: Site) -> None:
    one, other = [await task_of(wire, 'complete', messageId='reused') for _ in range(2)]
    assert one['id'] != other['id']


DIRECT = SECTION.may('3.1.1', 'An agent may answer with a message alone; there is no task then')


@DIRECT.check()
async def direct_message_leaves_no_task(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    message = (await send(wire, 'message:hi', contextId=context)).ok()['message']
    assert 'taskId' not in message
    assert await found(wire, contextId=context) == []


SERVER_MESSAGES = SECTION.must('proto', 'Messages of the server have role ROLE_AGENT, a context and an id of their own')


@SERVER_MESSAGES.check()
async def direct_message_is_the_agents(wire: Wire, site: Site) -> None:
    one, other = [(await send(wire, 'message:hi', contextId='c')).ok()['message'] for _ in range(2)]
    assert (one['role'], one['contextId']) == ('ROLE_AGENT', 'c')
    assert one['messageId'] != other['messageId']


@SERVER_MESSAGES.check()
async def status_message_is_the_agents(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'work:begun complete:done')
    messages = [each for each in task['history'] if text_of(each) == 'begun'] + [task['status']['message']]
    assert [text_of(message) for message in messages] == ['begun', 'done']
    for message in messages:
        assert (message['role'], message['contextId'], message['taskId']) == (
            'ROLE_AGENT',
            task['contextId'],
            task['id'],
        )
    assert len({message['messageId'] for message in task['history'] + messages[1:]}) == len(task['history']) + 1


SECTION.should(
    '3.7',
    'Results belong in artifacts, not in messages',
    business='agent',
    why='Only the agent knows what of its output is a result.',
)
