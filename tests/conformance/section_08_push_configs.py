"""Section 8: push configs: making, reading, listing and deleting them."""

from typing import Any

from tests.conformance.errors import PUSH_NOT_SUPPORTED, TASK_NOT_FOUND, Json
from tests.conformance.kit import NO_TASK, begun, came_to, task_of
from tests.conformance.site import USER, Site
from tests.conformance.table import Section
from tests.conformance.wire import PUSH_OPERATIONS, Answer, Pairs, Wire

SECTION = Section(8, 'Push configs')

URL = 'https://hook.test/path?a=b'
CREATE, GET, LIST, DELETE = PUSH_OPERATIONS


async def create(wire: Wire, task_id: str, **config: Any) -> Json:
    """Makes a config and returns it."""
    return (await wire.call(CREATE, {'taskId': task_id, 'url': URL, **config})).ok()


async def read(wire: Wire, task_id: str, config_id: str) -> Answer:
    return await wire.call(GET, {'taskId': task_id, 'id': config_id})


async def configs_of(wire: Wire, task_id: str, **params: Any) -> list[Json]:
    configs: list[Json] = (await wire.call(LIST, {'taskId': task_id, **params})).ok().get('configs', [])
    return configs


async def ids_of(wire: Wire, task_id: str) -> set[str]:
    return {config['id'] for config in await configs_of(wire, task_id)}


def requests(task_id: str, config_id: str) -> dict[str, Json]:
    """A request for each of the operations."""
    named = {'taskId': task_id, 'id': config_id}
    return {CREATE: {**named, 'url': URL}, GET: named, LIST: {'taskId': task_id}, DELETE: named}


UNDECLARED = SECTION.must(
    '3.3.4',
    'Without `pushNotifications` in the card, all operations are PushNotificationNotSupportedError',
    sdk_fails=True,
)


@UNDECLARED.check()
async def operations_need_the_capability(wire: Wire, site: Site) -> None:
    plain = wire.at(await site.service('plain'))
    task = await task_of(plain, 'ask')
    for task_id in (task['id'], NO_TASK):
        for operation, params in requests(task_id, 'c').items():
            (await plain.call(operation, params)).refused(PUSH_NOT_SUPPORTED)


@UNDECLARED.check()
async def capability_comes_before_validation(wire: Wire, site: Site) -> None:
    plain = wire.at(await site.service('plain'))
    (await plain.call(CREATE, {'taskId': NO_TASK})).refused(PUSH_NOT_SUPPORTED)
    (await plain.call(CREATE, {'taskId': NO_TASK, 'url': 'nonsense'})).refused(PUSH_NOT_SUPPORTED)
    (await plain.call(LIST, {'taskId': NO_TASK, 'pageSize': -1})).refused(PUSH_NOT_SUPPORTED)


MADE = SECTION.must(
    '3.1.7', 'Create answers with the config and an id that is its own; the task has to exist', sdk_fails=True
)


@MADE.check()
async def config_is_answered_as_it_is_kept(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    given = {'id': 'mine', 'token': 't', 'authentication': {'scheme': 'Bearer', 'credentials': 'c'}}
    made = await create(wire, task['id'], **given)
    assert made == {**given, 'taskId': task['id'], 'url': URL}


@MADE.check()
async def config_without_an_id_is_given_one_of_its_own(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    ids = [(await create(wire, task['id']))['id'] for _ in range(2)]
    assert all(ids)
    assert len({*ids, task['id']}) == 3
    assert await ids_of(wire, task['id']) == set(ids)


@MADE.check()
async def config_of_the_same_id_takes_its_place(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    await create(wire, task['id'], id='mine', token='old')
    new = await create(wire, task['id'], id='mine', url='https://other.test/')
    assert await configs_of(wire, task['id']) == [new]
    assert (new['url'], new.get('token', '')) == ('https://other.test/', '')


@MADE.check()
async def config_for_an_unknown_task_is_not_made(wire: Wire, site: Site) -> None:
    (await wire.call(CREATE, {'taskId': NO_TASK, 'url': URL})).refused(TASK_NOT_FOUND)


@MADE.check()
async def config_for_a_working_task_is_made(wire: Wire, site: Site) -> None:
    gate = site.unique('gate')
    task = await begun(wire, f'work hold:{gate} ask')
    made = await create(wire, task['id'])
    wire.service.agent.open(gate)
    await came_to(wire, task['id'], 'INPUT_REQUIRED')
    assert await configs_of(wire, task['id']) == [made]


LIFE = SECTION.must('3.1.7', 'A config lives until its task is completed or it is deleted')


@LIFE.check()
async def config_outlives_turns(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    made = await create(wire, task['id'])
    await task_of(wire, 'work ask', taskId=task['id'])
    assert await configs_of(wire, task['id']) == [made]


@LIFE.check()
async def config_outlives_the_server(wire: Wire, site: Site) -> None:
    database = site.database()
    async with site.serving(database=database) as before:
        task = await task_of(wire.at(before), 'ask', configuration={'taskPushNotificationConfig': {'url': URL}})
        await create(wire.at(before), task['id'], id='mine', token='t')
        configs = await configs_of(wire.at(before), task['id'])
    async with site.serving(database=database) as after:
        assert await configs_of(wire.at(after), task['id']) == configs
        assert len(configs) == 2


READ = SECTION.must('3.1.8', 'Get shows URL and settings; a config that is missing is TaskNotFoundError')


@READ.check()
async def config_is_read_as_it_was_made(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    made = [
        await create(wire, task['id'], id='a/b c%2F?', authentication={'scheme': 'Bearer'}),
        await create(wire, task['id'], token='t'),
    ]
    for config in made:
        assert (await read(wire, task['id'], config['id'])).ok() == config


@READ.check()
async def missing_config_is_not_found(wire: Wire, site: Site) -> None:
    task, other = await task_of(wire, 'ask'), await task_of(wire, 'ask')
    await create(wire, other['id'], id='theirs')
    for task_id, config_id in ((task['id'], 'none'), (task['id'], 'theirs'), (NO_TASK, 'theirs')):
        (await read(wire, task_id, config_id)).refused(TASK_NOT_FOUND)


LISTED = SECTION.must('3.1.9', 'List shows all configs of the task, in pages if it is asked to', sdk_fails=True)


@LISTED.check()
async def configs_of_the_task_are_listed(wire: Wire, site: Site) -> None:
    task, other = await task_of(wire, 'ask'), await task_of(wire, 'ask')
    made = [await create(wire, task['id'], id=name) for name in ('c', 'a', 'b')]
    await create(wire, other['id'])
    listed = await configs_of(wire, task['id'])
    assert sorted(listed, key=lambda config: config['id']) == sorted(made, key=lambda config: config['id'])


@LISTED.check()
async def task_without_configs_has_an_empty_list(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    answer = (await wire.call(LIST, {'taskId': task['id']})).ok()
    assert (answer.get('configs', []), answer.get('nextPageToken', '')) == ([], '')
    (await wire.call(LIST, {'taskId': NO_TASK})).refused(TASK_NOT_FOUND)


@LISTED.check()
async def configs_are_listed_in_pages(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    names = {(await create(wire, task['id']))['id'] for _ in range(5)}
    pages: list[list[str]] = []
    token = ''
    while not pages or token:
        page = (await wire.call(LIST, {'taskId': task['id'], 'pageSize': 2, 'pageToken': token})).ok()
        pages.append([config['id'] for config in page['configs']])
        token = page.get('nextPageToken', '')
    assert [len(page) for page in pages] == [2, 2, 1]
    assert {config_id for page in pages for config_id in page} == names


@LISTED.check()
async def bad_page_of_configs_is_invalid(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    (await wire.call(LIST, {'taskId': task['id'], 'pageSize': -1})).invalid('pageSize')
    (await wire.call(LIST, {'taskId': task['id'], 'pageToken': 'nonsense'})).invalid('pageToken')


DELETED = SECTION.must('3.1.10', 'Delete is permanent, and succeeds again; an unknown task is TaskNotFoundError')


@DELETED.check()
async def deleted_config_is_gone(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    kept, gone = [await create(wire, task['id']) for _ in range(2)]
    assert (await wire.call(DELETE, {'taskId': task['id'], 'id': gone['id']})).error is None
    (await read(wire, task['id'], gone['id'])).refused(TASK_NOT_FOUND)
    await task_of(wire, 'ask', taskId=task['id'])
    assert await configs_of(wire, task['id']) == [kept]


@DELETED.check()
async def config_can_be_deleted_again(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    config = await create(wire, task['id'])
    for config_id in (config['id'], config['id'], 'never-made'):
        assert (await wire.call(DELETE, {'taskId': task['id'], 'id': config_id})).error is None
    (await wire.call(DELETE, {'taskId': NO_TASK, 'id': config['id']})).refused(TASK_NOT_FOUND)


RIGHTS = SECTION.must('13.1', 'Only those who may see a task may manage its configs')


@RIGHTS.check()
async def configs_of_another_users_task_are_out_of_reach(wire: Wire, site: Site) -> None:
    users = wire.at(await site.service('users'))
    ann: Pairs = [(USER, 'ann')]
    task = await task_of(users, 'ask', options={'headers': ann})
    made = (await users.call(CREATE, {'taskId': task['id'], 'url': URL}, headers=ann)).ok()
    for operation, params in requests(task['id'], made['id']).items():
        for others in ([(USER, 'bob')], []):
            (await users.call(operation, params, headers=others)).refused(TASK_NOT_FOUND)
    assert (await users.call(LIST, {'taskId': task['id']}, headers=ann)).ok()['configs'] == [made]


@RIGHTS.check()
async def configs_of_another_tenants_task_are_out_of_reach(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask', tenant='theirs')
    made = await create(wire, task['id'], tenant='theirs')
    for operation, params in requests(task['id'], made['id']).items():
        for tenant in ({'tenant': 'ours'}, {}):
            (await wire.call(operation, {**params, **tenant})).refused(TASK_NOT_FOUND)
    assert [each['id'] for each in await configs_of(wire, task['id'], tenant='theirs')] == [made['id']]
