"""Section 6: whose tasks a list shows, in which order, and page by page."""

from datetime import datetime

from a2a.server.context import ServerCallContext

from a2a_scribe.errors import TaskConflictError
from a2a_scribe.testing.clock import FakeClock
from tests.conformance.errors import Json
from tests.conformance.kit import found, held, task_of
from tests.conformance.site import USER, Service, Site, soon
from tests.conformance.table import Section
from tests.conformance.wire import HTTP, Wire

SECTION = Section(6, 'Listing tasks: scope, order, pages')


async def page_of(wire: Wire, **params: object) -> Json:
    """One page of a list, with all that stands beside the tasks."""
    return (await wire.call('ListTasks', params)).ok()


def ids_of(page: Json) -> list[str]:
    return [task['id'] for task in page.get('tasks', [])]


async def pages_of(wire: Wire, size: int, **params: object) -> list[list[str]]:
    """The ids of all pages, from the first to the last."""
    pages: list[list[str]] = []
    token = ''
    while not pages or token:
        page = await page_of(wire, pageSize=size, pageToken=token, **params)
        pages.append(ids_of(page))
        token = page.get('nextPageToken', '')
    return pages


async def made(wire: Wire, count: int, context: str) -> list[str]:
    """Makes tasks that wait for an answer, and returns their ids, the newest first."""
    return [(await task_of(wire, 'ask', contextId=context))['id'] for _ in range(count)][::-1]


VISIBLE = SECTION.must('3.1.4', 'Only tasks that the caller may see are listed, whatever the filters', sdk_fails=True)


@VISIBLE.check()
async def tasks_of_another_user_are_not_listed(wire: Wire, site: Site) -> None:
    users, context = wire.at(await site.service('users')), site.unique('context')
    theirs, ours = [[(USER, site.unique(name))] for name in ('ann', 'bob')]
    task = await task_of(users, 'ask', contextId=context, options={'headers': theirs})
    for filters in ({}, {'contextId': context}, {'status': 'TASK_STATE_INPUT_REQUIRED'}):
        seen = (await users.call('ListTasks', filters, headers=theirs)).ok()
        assert (ids_of(seen), seen['totalSize']) == ([task['id']], 1)
        hidden = (await users.call('ListTasks', filters, headers=ours)).ok()
        assert (ids_of(hidden), hidden.get('totalSize', 0)) == ([], 0)


@VISIBLE.check()
async def tasks_of_another_tenant_are_not_listed(wire: Wire, site: Site) -> None:
    context, theirs, ours = site.unique('context'), site.unique('tenant'), site.unique('tenant')
    task = await task_of(wire, 'ask', contextId=context, tenant=theirs)
    for filters in ({}, {'contextId': context}, {'status': 'TASK_STATE_INPUT_REQUIRED'}):
        seen = await page_of(wire, tenant=theirs, **filters)
        assert (ids_of(seen), seen['totalSize']) == ([task['id']], 1)
        hidden = await page_of(wire, tenant=ours, **filters)
        assert (ids_of(hidden), hidden.get('totalSize', 0)) == ([], 0)
    assert await found(wire, contextId=context) == []


@VISIBLE.check()
async def token_of_another_caller_shows_only_the_own_tasks(wire: Wire, site: Site) -> None:
    theirs, ours = site.unique('tenant'), site.unique('tenant')
    own = (await task_of(wire, 'ask', tenant=ours))['id']
    for _ in range(3):
        await task_of(wire, 'ask', tenant=theirs)
    token = (await page_of(wire, tenant=theirs, pageSize=1))['nextPageToken']
    assert ids_of(await page_of(wire, tenant=ours, pageToken=token)) in ([own], [])


ORDER = SECTION.must('3.1.4', 'Tasks are sorted by the time of their status, newest first; ties have a stable order')


@ORDER.check()
async def newest_status_is_first(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    newest, middle, oldest = await made(wire, 3, context)
    assert ids_of(await page_of(wire, contextId=context)) == [newest, middle, oldest]
    await task_of(wire, 'ask', taskId=middle)
    await wire.call('CancelTask', {'id': oldest})
    tasks = await found(wire, contextId=context)
    assert [task['id'] for task in tasks] == [oldest, middle, newest]
    times = [datetime.fromisoformat(task['status']['timestamp']) for task in tasks]
    assert times == sorted(times, reverse=True)


@ORDER.check()
async def artifact_does_not_move_a_task(wire: Wire, site: Site) -> None:
    context, gate = site.unique('context'), site.unique('gate')
    async with held(wire, site, 'work', f'artifact:a hold:{gate} complete', contextId=context) as older:
        newer = await task_of(wire, 'ask', contextId=context)
        older.release()
        await wire.service.agent.reached(gate)
        tasks = await found(wire, contextId=context, includeArtifacts=True)
        assert [(task['id'], len(task.get('artifacts', []))) for task in tasks] == [(newer['id'], 0), (older.id, 1)]
        wire.service.agent.open(gate)


@ORDER.check()
async def tasks_of_one_moment_are_listed_once_each(wire: Wire, site: Site) -> None:
    async with site.serving(clock=FakeClock()) as still:
        ids = await made(wire.at(still), 7, 'c')
        whole = await page_of(wire.at(still))
        assert len({task['status']['timestamp'] for task in whole['tasks']}) == 1
        for size in (1, 3, 7):
            shown = [task_id for page in await pages_of(wire.at(still), size) for task_id in page]
            assert shown == ids_of(whole)
            assert sorted(shown) == sorted(ids)


PAGES = SECTION.must(
    '3.1.4', 'Pages follow a cursor; `nextPageToken`, `pageSize` and `totalSize` are always there, the last unpaged'
)


@PAGES.check()
async def pages_cover_the_list_without_gaps(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    ids = await made(wire, 5, context)
    for size in (1, 2, 5, 100):
        expected = [ids[start : start + size] for start in range(0, 5, size)]
        assert await pages_of(wire, size, contextId=context) == expected


@PAGES.check()
async def page_says_its_size_and_the_total(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    await made(wire, 3, context)
    page = await page_of(wire, contextId=context, pageSize=2)
    assert (page['pageSize'], page['totalSize'], len(page['tasks'])) == (2, 3, 2)
    last = await page_of(wire, contextId=context, pageSize=2, pageToken=page['nextPageToken'])
    assert (last['pageSize'], last['totalSize'], len(last['tasks'])) == (2, 3, 1)


@PAGES.check(on=HTTP)
async def page_has_all_members_though_they_are_empty(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    empty = await page_of(wire, contextId=context)
    assert empty == {'tasks': [], 'nextPageToken': '', 'pageSize': 50, 'totalSize': 0}
    await made(wire, 1, context)
    page = await page_of(wire, contextId=context)
    assert (page['nextPageToken'], page['pageSize'], page['totalSize']) == ('', 50, 1)


SIZES = SECTION.must('proto', '`pageSize` is 1 to 100, by default 50; others are a validation error')


@SIZES.check()
async def page_size_out_of_bounds_is_invalid(wire: Wire, site: Site) -> None:
    for size in (-1, 0, 101, 2**31 - 1):
        (await wire.call('ListTasks', {'pageSize': size})).invalid('pageSize')


@SIZES.check()
async def page_size_of_either_bound_is_taken(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    await made(wire, 1, context)
    for size in (1, 100):
        assert (await page_of(wire, contextId=context, pageSize=size))['pageSize'] == size


@SIZES.check()
async def page_size_is_50_by_default(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    ids = await made(wire, 51, context)
    page = await page_of(wire, contextId=context)
    assert (page['pageSize'], page['totalSize'], ids_of(page)) == (50, 51, ids[:50])
    assert ids_of(await page_of(wire, contextId=context, pageToken=page['nextPageToken'])) == ids[50:]


TOKENS = SECTION.must('3.3.2', 'A page token that the server has not made is InvalidParams')


@TOKENS.check()
async def bad_page_token_is_invalid(wire: Wire, site: Site) -> None:
    await task_of(wire, 'ask')
    for token in ('nonsense', 'MTIz', 'W10', 'bnVsbA==', '-1', 'é', ' '):
        (await wire.call('ListTasks', {'pageToken': token})).invalid('pageToken')


SURVIVAL = SECTION.should('3.1.4', 'A page token survives updates and deletes of the task that it names')


@SURVIVAL.check()
async def token_survives_an_update_of_its_task(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    ids = await made(wire, 5, context)
    page = await page_of(wire, contextId=context, pageSize=2)
    await task_of(wire, 'complete', taskId=ids[1])
    following = await page_of(wire, contextId=context, pageSize=2, pageToken=page['nextPageToken'])
    assert ids_of(following) == ids[2:4]


@SURVIVAL.check()
async def token_survives_the_deletion_of_its_task(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    ids = await made(wire, 5, context)
    page = await page_of(wire, contextId=context, pageSize=2)
    await soon(lambda: deleted(wire.service, ids[1]))
    following = await page_of(wire, contextId=context, pageSize=2, pageToken=page['nextPageToken'])
    assert (ids_of(following), following['totalSize']) == (ids[2:4], 4)


@SURVIVAL.check()
async def token_survives_a_restart(wire: Wire, site: Site) -> None:
    database = site.database()
    async with site.serving(database=database) as before:
        ids = await made(wire.at(before), 3, 'c')
        token = (await page_of(wire.at(before), pageSize=1))['nextPageToken']
    async with site.serving(database=database) as after:
        assert ids_of(await page_of(wire.at(after), pageToken=token)) == ids[1:]


async def deleted(service: Service, task_id: str) -> bool:
    """Deletes a task as its operator does; false while the server still has it in hand."""
    try:
        await service.app.state.handler.task_store.delete(task_id, ServerCallContext())
    except TaskConflictError:
        return False
    return True
