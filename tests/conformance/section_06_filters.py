"""Section 6: what of the tasks a list shows, and of which tasks."""

from datetime import datetime, timedelta, timezone

from tests.conformance.errors import INVALID_PARAMS
from tests.conformance.kit import artifacts_of, found, get, task_of, texts_of
from tests.conformance.site import Site
from tests.conformance.table import Section
from tests.conformance.wire import GRPC, HTTP, JSONRPC, REST, Wire

SECTION = Section(6, 'Listing tasks: filters')

ARTIFACTS = SECTION.must(
    '3.1.4', 'Without `includeArtifacts` tasks have no `artifacts` at all; with it, they have them'
)


@ARTIFACTS.check()
async def artifacts_are_left_out_by_default(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    await task_of(wire, 'artifact:a complete', contextId=context)
    for params in ({}, {'includeArtifacts': False}):
        (shown,) = await found(wire, contextId=context, **params)
        assert 'artifacts' not in shown


@ARTIFACTS.check()
async def artifacts_are_shown_on_request(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    task = await task_of(wire, 'artifact:a more:a artifact:b complete', contextId=context)
    (shown,) = await found(wire, contextId=context, includeArtifacts=True)
    assert artifacts_of(shown) == {'a': 'text of a and more', 'b': 'text of b'}
    assert shown == await get(wire, task['id'])


@ARTIFACTS.check(on=HTTP)
async def artifacts_are_shown_on_request_though_there_are_none(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    await task_of(wire, 'ask', contextId=context)
    (shown,) = await found(wire, contextId=context, includeArtifacts=True)
    assert shown.get('artifacts') == []


FILTERS = SECTION.must(
    'proto', 'Filters: `contextId`, `status`, `statusTimestampAfter` (from that moment on), `historyLength` per task'
)


@FILTERS.check()
async def context_filters(wire: Wire, site: Site) -> None:
    one, other = site.unique('context'), site.unique('context')
    tasks = {context: await task_of(wire, 'ask', contextId=context) for context in (one, other)}
    for context in (one, other):
        assert await found(wire, contextId=context) == [tasks[context]]
    assert await found(wire, contextId=site.unique('context')) == []


@FILTERS.check()
async def status_filters(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    for script in ('work ask', 'work auth', 'work complete', 'work fail', 'work reject', 'work cancel'):
        await task_of(wire, script, contextId=context)
    for state in ('INPUT_REQUIRED', 'AUTH_REQUIRED', 'COMPLETED', 'FAILED', 'REJECTED', 'CANCELED'):
        shown = await found(wire, contextId=context, status=f'TASK_STATE_{state}')
        assert [task['status']['state'] for task in shown] == [f'TASK_STATE_{state}']
    assert await found(wire, contextId=context, status='TASK_STATE_WORKING') == []


@FILTERS.check()
async def unspecified_status_is_no_filter(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    task = await task_of(wire, 'ask', contextId=context)
    assert await found(wire, contextId=context, status='TASK_STATE_UNSPECIFIED') == [task]


@FILTERS.check()
async def status_time_filters_from_that_moment_on(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    oldest, middle, newest = [await task_of(wire, 'ask', contextId=context) for _ in range(3)]
    for task, expected in ((oldest, [newest, middle, oldest]), (middle, [newest, middle]), (newest, [newest])):
        shown = await found(wire, contextId=context, statusTimestampAfter=task['status']['timestamp'])
        assert [each['id'] for each in shown] == [each['id'] for each in expected]
    later = datetime.fromisoformat(newest['status']['timestamp']) + timedelta(milliseconds=1)
    assert await found(wire, contextId=context, statusTimestampAfter=later.isoformat()) == []


@FILTERS.check()
async def status_time_may_have_any_offset(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    task = await task_of(wire, 'ask', contextId=context)
    moment = datetime.fromisoformat(task['status']['timestamp'])
    for hours in (-9, 0, 5.5):
        zone = timezone(timedelta(hours=hours))
        local = moment.astimezone(zone)
        assert await found(wire, contextId=context, statusTimestampAfter=local.isoformat()) == [task]
        after = (local + timedelta(seconds=1)).isoformat()
        assert await found(wire, contextId=context, statusTimestampAfter=after) == []


@FILTERS.check()
async def history_length_applies_to_each_task(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    for _ in range(2):
        task = await task_of(wire, 'ask:one?', contextId=context)
        await task_of(wire, 'ask:two?', taskId=task['id'])
    assert [len(texts_of(task)) for task in await found(wire, contextId=context)] == [3, 3]
    assert [texts_of(task) for task in await found(wire, contextId=context, historyLength=1)] == [['ask:two?']] * 2


@FILTERS.check()
async def filters_are_joined_and_count(wire: Wire, site: Site) -> None:
    context, other = site.unique('context'), site.unique('context')
    for script in ('ask', 'ask', 'complete'):
        await task_of(wire, script, contextId=context)
    await task_of(wire, 'ask', contextId=other)
    params = {'contextId': context, 'status': 'TASK_STATE_INPUT_REQUIRED', 'pageSize': 1}
    page = (await wire.call('ListTasks', params)).ok()
    assert (len(page['tasks']), page['totalSize']) == (1, 2)
    last = (await wire.call('ListTasks', params | {'pageToken': page['nextPageToken']})).ok()
    assert (len(last['tasks']), last['totalSize'], last.get('nextPageToken', '')) == (1, 2, '')


ENUMS = SECTION.must('6.5', 'A `status` that is no state is a validation error', sdk_fails=True)


@ENUMS.check(on=HTTP)
async def unknown_status_is_invalid(wire: Wire, site: Site) -> None:
    await task_of(wire, 'ask')
    for status in ('TASK_STATE_RUNNING', 'input-required', 'COMPLETED', 'task_state_completed'):
        (await wire.call('ListTasks', {'status': status})).invalid('status')


@ENUMS.check(on=GRPC + JSONRPC)
async def unknown_number_of_a_status_is_invalid(wire: Wire, site: Site) -> None:
    for status in (99, -1):
        (await wire.call('ListTasks', {'status': status})).invalid('status')


TYPES = SECTION.must('11.5', 'Values have the form of their type: booleans are `true` or `false`', sdk_fails=True)


@TYPES.check(on=REST)
async def query_of_a_wrong_type_is_invalid(wire: Wire, site: Site) -> None:
    wrong = {
        'includeArtifacts': ('maybe', 'True', '1', 'yes'),
        'pageSize': ('many', '1.5', '0x10', '99999999999'),
        'historyLength': ('all', '1e1'),
        'statusTimestampAfter': ('yesterday', '2026-13-01T00:00:00Z', '1750000000'),
    }
    for name, values in wrong.items():
        for value in values:
            (await wire.call('ListTasks', {name: value})).invalid(name)


@TYPES.check(on=JSONRPC)
async def member_of_a_wrong_type_is_invalid(wire: Wire, site: Site) -> None:
    wrong = {
        'includeArtifacts': ('maybe', 'true', 1),
        'pageSize': ('many', 1.5, True, 2**31),
        'statusTimestampAfter': ('yesterday', 1750000000, '2026-13-01T00:00:00Z'),
        'contextId': (1, ['c']),
    }
    for name, values in wrong.items():
        for value in values:
            (await wire.call('ListTasks', {name: value})).refused(INVALID_PARAMS)


@TYPES.check()
async def boolean_of_either_value_is_taken(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    await task_of(wire, 'artifact:a complete', contextId=context)
    for wanted in (True, False):
        (shown,) = await found(wire, contextId=context, includeArtifacts=wanted)
        assert ('artifacts' in shown) is wanted
