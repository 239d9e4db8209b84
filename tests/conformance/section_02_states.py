"""Section 2: states and statuses of a task, and what agents may do to it."""

from datetime import UTC, datetime, timedelta

from tests.conformance.errors import UNSUPPORTED_OPERATION, Json
from tests.conformance.kit import (
    artifacts_of,
    ended,
    get,
    held,
    send,
    state_of,
    stream,
    streaming,
    task_of,
    text_of,
    texts_of,
)
from tests.conformance.site import Site
from tests.conformance.table import Business, Section
from tests.conformance.victim import killed
from tests.conformance.wire import Wire

SECTION = Section(2, 'Task lifecycle: states')

STATES = SECTION.must('4.1.3', 'Tasks are in one of eight states; UNSPECIFIED is never on the wire')


@STATES.check()
async def every_state_is_shown_by_its_name(wire: Wire, site: Site) -> None:
    scripts = {
        'work complete': 'COMPLETED',
        'work fail': 'FAILED',
        'work cancel': 'CANCELED',
        'work reject': 'REJECTED',
        'work ask': 'INPUT_REQUIRED',
        'work auth': 'AUTH_REQUIRED',
    }
    for script, state in scripts.items():
        assert (await task_of(wire, script))['status']['state'] == f'TASK_STATE_{state}'


@STATES.check()
async def submitted_and_working_are_shown(wire: Wire, site: Site) -> None:
    async with held(wire, site, before='task', after='') as waiting:
        assert (await get(wire, waiting.id))['status']['state'] == 'TASK_STATE_SUBMITTED'
    async with held(wire, site) as waiting:
        assert (await get(wire, waiting.id))['status']['state'] == 'TASK_STATE_WORKING'


@STATES.check()
async def state_is_never_unspecified(wire: Wire, site: Site) -> None:
    collected = await stream(wire, 'artifact:a work complete')
    assert collected.states[0] == 'SUBMITTED'
    assert 'UNSPECIFIED' not in str(collected.events)


FINAL = SECTION.must('3.1.1', 'The terminal state is final: no further state, artifact or message')


@FINAL.check()
async def nothing_is_added_after_the_end(wire: Wire, site: Site) -> None:
    for end in ('complete', 'fail', 'reject', 'cancel'):
        collected = await stream(wire, f'work artifact:a {end} late:b')
        assert collected.kinds == ['task', 'statusUpdate', 'artifactUpdate', 'statusUpdate']
        task = await get(wire, collected.events[0].value['id'])
        assert state_of(task) == collected.states[-1]
        assert artifacts_of(task) == {'a': 'text of a'}


REFINEMENTS = SECTION.must('T:life-of-a-task', 'What refines a finished task is a new task in the same context')


@REFINEMENTS.check()
async def refinement_is_a_new_task_of_the_context(wire: Wire, site: Site) -> None:
    first = await task_of(wire, 'work complete')
    second = await task_of(wire, 'work complete', contextId=first['contextId'], referenceTaskIds=[first['id']])
    assert second['contextId'] == first['contextId']
    assert second['id'] != first['id']
    assert await get(wire, first['id']) == first


TIMESTAMPS = SECTION.must(
    'proto',
    "A status has the time at which it was recorded, and its own message: never its forerunner's",
    sdk_fails=True,
)


def time_of(task: Json) -> datetime:
    return datetime.fromisoformat(task['status']['timestamp'])


@TIMESTAMPS.check()
async def every_status_of_a_stream_has_its_own_time(wire: Wire, site: Site) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    events = (await stream(wire, 'task work ask')).ok()
    times = [time_of(event.value) for event in events if event.state]
    assert before < times[0]
    assert times == sorted(times)
    assert times[-1] < datetime.now(UTC) + timedelta(seconds=1)


@TIMESTAMPS.check()
async def cancel_of_a_waiting_task_has_its_own_time_and_message(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'work ask:name?')
    canceled = (await wire.call('CancelTask', {'id': task['id']})).ok()
    assert time_of(canceled) > time_of(task)
    assert text_of(canceled['status'].get('message', {'parts': []})) != 'name?'


@TIMESTAMPS.check()
async def cancel_after_a_restart_has_its_own_time_and_message(wire: Wire, site: Site) -> None:
    database = site.database()
    async with site.serving(database=database) as before:
        task = await task_of(wire.at(before), 'work ask:name?')
    async with site.serving(database=database) as after:
        canceled = (await wire.at(after).call('CancelTask', {'id': task['id']})).ok()
        assert state_of(canceled) == 'CANCELED'
        assert time_of(canceled) > time_of(task)
        assert text_of(canceled['status'].get('message', {'parts': []})) != 'name?'
        assert await get(wire.at(after), task['id']) == canceled


AUTH = SECTION.must('7.6.1', 'AUTH_REQUIRED is a state of a task, and its message explains it')


@AUTH.check()
async def auth_required_comes_with_its_explanation(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'auth:login')
    assert (state_of(task), text_of(task['status']['message'])) == ('AUTH_REQUIRED', 'login')


KEPT_OPEN = SECTION.should('7.6.1', 'A stream stays open at AUTH_REQUIRED while the agent goes on without a message')


@KEPT_OPEN.check()
async def stream_outlives_auth_required(wire: Wire, site: Site) -> None:
    gate = site.unique('gate')
    async with streaming(wire, f'work auth:login hold:{gate} work complete') as events:
        await events.until_state('AUTH_REQUIRED')
        wire.service.agent.open(gate)
        assert [event.state for event in await events.rest()] == ['WORKING', 'COMPLETED']


SECTION.must(
    '7.6.4',
    'AUTH_REQUIRED authorises nothing by itself, and no later message either',
    business='agent',
    why='What a credential allows is known where it is used; the server reads no meaning into messages.',
)

ARTIFACTS = SECTION.must('proto', 'Artifact ids are unique within a task; `append` adds to what has the same id')


@ARTIFACTS.check()
async def append_adds_to_the_artifact_of_that_id(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'artifact:a artifact:b more:a last:b complete')
    assert artifacts_of(task) == {'a': 'text of a and more', 'b': 'text of b and no more'}
    assert len(task['artifacts']) == 2


@ARTIFACTS.check()
async def artifact_of_the_same_id_takes_its_place(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'artifact:a more:a artifact:a complete')
    assert artifacts_of(task) == {'a': 'text of a'}
    assert len(task['artifacts']) == 1


CHUNKS = SECTION.must('proto', '`append` and `lastChunk` reach the readers of streams')


@CHUNKS.check()
async def chunks_say_whether_they_append_and_are_the_last(wire: Wire, site: Site) -> None:
    events = (await stream(wire, 'artifact:a more:a last:a complete')).ok()
    shown = [event.value for event in events if event.kind == 'artifactUpdate']
    assert [update.get('append', False) for update in shown] == [False, True, True]
    assert [update.get('lastChunk', False) for update in shown] == [False, False, True]


SECTION.must(
    'proto',
    'An artifact has at least one part',
    business=Business.AGENT,
    why='Agents close artifacts with chunks that bring no part; what they emit is shown as it is.',
)

CHRONOLOGY = SECTION.should('3.7', 'The history is chronological; which messages it keeps is up to the agent')


@CHRONOLOGY.check()
async def history_is_in_the_order_of_the_talk(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask:first?')
    await task_of(wire, 'ask:second?', taskId=task['id'])
    await task_of(wire, 'complete:done', taskId=task['id'])
    texts = texts_of(await get(wire, task['id']))
    assert texts[:5] == ['ask:first?', 'first?', 'ask:second?', 'second?', 'complete:done']


SECTION.may(
    '3.4.1',
    'Contexts may expire by a policy that is documented',
    business='document',
    why='Contexts do not expire: they are names that tasks share, and nothing is kept for them.',
)

CRASH = SECTION.ours('runtime', 'After a crash no task says WORKING for ever', sdk_fails=True)


@CRASH.check()
async def task_of_a_killed_server_ends(wire: Wire, site: Site) -> None:
    database = site.database()
    task_id = await killed(wire, database, 'work hold:for-ever')
    async with site.serving(database=database) as after:
        task = await ended(wire.at(after), task_id)
        assert state_of(task) == 'FAILED'
        (await send(wire.at(after), 'work', taskId=task_id)).refused(UNSUPPORTED_OPERATION)
