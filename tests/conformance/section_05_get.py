"""Section 5: GetTask."""

from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.routes import ServerCallContextBuilder
from starlette.requests import Request

from tests.conformance.errors import TASK_NOT_FOUND
from tests.conformance.kit import (
    NO_TASK,
    artifacts_of,
    ended,
    get,
    held,
    state_of,
    stream,
    streaming,
    task_of,
    text_of,
    texts_of,
)
from tests.conformance.site import USER, Site, TrustingBuilder, trusting_builder
from tests.conformance.table import Section
from tests.conformance.wire import Pairs, Wire

SECTION = Section(5, 'GetTask')

SHOWN = SECTION.must('3.1.3', 'The answer is the task as it is: state, artifacts, and history as it was asked for')


@SHOWN.check()
async def get_shows_a_task_while_it_is_worked_on(wire: Wire, site: Site) -> None:
    async with held(wire, site, before='work artifact:a more:a') as running:
        task = await get(wire, running.id)
        assert (task['id'], task['contextId']) == (running.id, running.task['contextId'])
        assert state_of(task) == 'WORKING'
        assert artifacts_of(task) == {'a': 'text of a and more'}


@SHOWN.check()
async def get_shows_what_a_stream_has_just_shown(wire: Wire, site: Site) -> None:
    gates = [site.unique('gate') for _ in range(2)]
    script = f'work hold:{gates[0]} artifact:a hold:{gates[1]} ask:name?'
    async with streaming(wire, script) as events:
        task_id = (await events.until_state('WORKING'))[0].value['id']
        assert state_of(await get(wire, task_id)) == 'WORKING'
        wire.service.agent.open(gates[0])
        await events.until(lambda event: event.kind == 'artifactUpdate')
        assert artifacts_of(await get(wire, task_id)) == {'a': 'text of a'}
        wire.service.agent.open(gates[1])
        await events.until_state('INPUT_REQUIRED')
        assert text_of((await get(wire, task_id))['status']['message']) == 'name?'


@SHOWN.check()
async def get_shows_what_the_message_was_answered_with(wire: Wire, site: Site) -> None:
    for end in ('complete:done', 'fail:bad', 'reject:no', 'cancel:over', 'ask:name?', 'auth:login'):
        task = await task_of(wire, f'work artifact:a {end}')
        assert await get(wire, task['id']) == task
        assert text_of(task['status']['message']) == end.partition(':')[2]
        assert artifacts_of(task) == {'a': 'text of a'}


@SHOWN.check()
async def get_shows_what_was_sent_as_it_was_sent(wire: Wire, site: Site) -> None:
    parts: list[dict[str, Any]] = [
        {'text': 'complete', 'metadata': {'a': [1, None, 'x']}},
        {'raw': 'AAEC/w==', 'mediaType': 'text/plain', 'filename': 'b.txt'},
        {'url': 'https://files.test/c', 'mediaType': 'text/plain'},
        {'data': {'nested': {'list': [True, 1.5, 'gr\u00fc\u00dfe \U0001f600']}}, 'mediaType': 'application/json'},
    ]
    task = await task_of(wire, '', parts=parts, metadata=None, messageId='its own', extensions=['urn:e'])
    sent = (await get(wire, task['id']))['history'][0]
    assert (sent['messageId'], sent['role'], sent['extensions']) == ('its own', 'ROLE_USER', ['urn:e'])
    assert sent['parts'] == parts


@SHOWN.check()
async def history_length_leaves_the_rest_of_the_task_alone(wire: Wire, site: Site) -> None:
    first = await task_of(wire, 'work artifact:a ask:one?')
    task = await task_of(wire, 'work artifact:b ask:two?', taskId=first['id'])
    assert len(texts_of(task)) >= 3
    for length in (0, 1, 2, 100):
        shown = await get(wire, task['id'], historyLength=length)
        expected = texts_of(task)[-length:] if length else []
        assert texts_of(shown) == expected
        assert {**shown, 'history': None} == {**task, 'history': None}


@SHOWN.check()
async def get_changes_nothing(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'work artifact:a ask')
    assert [await get(wire, task['id']) for _ in range(3)] == [task] * 3


LASTING = SECTION.ours('runtime', 'A task is the same after a restart, and on another server of the database')


@LASTING.check()
async def get_after_a_restart_shows_the_same_task(wire: Wire, site: Site) -> None:
    database = site.database()
    scripts = ('work artifact:a chunks:20 complete:done', 'work artifact:a ask:name?', 'crash')
    async with site.serving(database=database) as before:
        tasks = [await task_of(wire.at(before), script) for script in scripts]
    async with site.serving(database=database) as after:
        assert [await get(wire.at(after), task['id']) for task in tasks] == tasks
        for task in tasks:
            newest = await get(wire.at(after), task['id'], historyLength=1)
            assert texts_of(newest) == texts_of(task)[-1:]


@LASTING.check()
async def get_at_another_server_shows_the_same_task(wire: Wire, site: Site) -> None:
    database = site.database()
    async with site.serving(database=database) as one, site.serving(database=database) as other:
        async with held(wire.at(one), site, before='work artifact:a', after='more:a complete') as running:
            assert await get(wire.at(other), running.id) == await get(wire.at(one), running.id)
            running.release()
            task = await ended(wire.at(other), running.id)
        assert artifacts_of(task) == {'a': 'text of a and more'}
        assert task == await get(wire.at(one), running.id)


UNKNOWN = SECTION.must('3.1.3', 'An unknown or inaccessible task is TaskNotFoundError')


@UNKNOWN.check()
async def get_of_an_unknown_task_is_not_found(wire: Wire, site: Site) -> None:
    for task_id in (NO_TASK, 'x' * 2000, 'a/b', 'a:b', 'a b', '%2F', '*', '\u00fc\U0001f600', "'; --", 'a\x00b'):
        (await wire.call('GetTask', {'id': task_id})).refused(TASK_NOT_FOUND)


@UNKNOWN.check()
async def get_of_nearly_the_id_is_not_found(wire: Wire, site: Site) -> None:
    task_id = (await task_of(wire, 'ask'))['id']
    for near in (task_id[:-1], task_id + 'x', task_id + ' ', task_id.upper(), task_id[:-1] + '_', task_id[:-1] + '%'):
        if near != task_id:
            (await wire.call('GetTask', {'id': near})).refused(TASK_NOT_FOUND)


@UNKNOWN.check()
async def get_of_the_task_of_a_direct_message_is_not_found(wire: Wire, site: Site) -> None:
    await stream(wire, 'message:hi')
    task_id = wire.service.agent.contexts[-1].task_id
    assert task_id
    (await wire.call('GetTask', {'id': task_id})).refused(TASK_NOT_FOUND)


RIGHTS = SECTION.must('13.1', 'Whether the caller may see the task is looked at before anything is said of it')


def callers(site: Site) -> tuple[Pairs, list[Pairs]]:
    """Who has a task, and others: two users, one whose name is nearly the same, and nobody known."""
    name = site.unique('ann')
    return [(USER, name)], [[(USER, site.unique('bob'))], [(USER, name.upper())], [(USER, name + '*')], []]


@RIGHTS.check()
async def get_of_another_users_task_is_not_found(wire: Wire, site: Site) -> None:
    users = wire.at(await site.service('users'))
    owner, others = callers(site)
    for script in ('work artifact:a ask', 'work artifact:a complete', 'crash'):
        task = await task_of(users, script, options={'headers': owner})
        for headers in others:
            (await users.call('GetTask', {'id': task['id']}, headers=headers)).refused(TASK_NOT_FOUND)
        assert (await users.call('GetTask', {'id': task['id']}, headers=owner)).ok() == task


@RIGHTS.check()
async def get_of_a_running_task_of_another_user_is_not_found(wire: Wire, site: Site) -> None:
    users = wire.at(await site.service('users'))
    owner, others = callers(site)
    gate = site.unique('gate')
    async with streaming(users, f'work hold:{gate} complete', options={'headers': owner}) as events:
        task_id = (await events.until_state('WORKING'))[0].value['id']
        for headers in others:
            (await users.call('GetTask', {'id': task_id}, headers=headers)).refused(TASK_NOT_FOUND)
        users.service.agent.open(gate)
        assert (await events.rest())[-1].state == 'COMPLETED'


@RIGHTS.check()
async def task_of_nobody_known_is_not_found_by_a_user(wire: Wire, site: Site) -> None:
    users = wire.at(await site.service('users'))
    task = await task_of(users, 'ask')
    (await users.call('GetTask', {'id': task['id']}, headers=[(USER, 'ann')])).refused(TASK_NOT_FOUND)
    assert await get(users, task['id']) == task


@RIGHTS.check()
async def get_in_another_tenant_is_not_found(wire: Wire, site: Site) -> None:
    users = wire.at(await site.service('users'))
    owner, _ = callers(site)
    theirs, ours = site.unique('tenant'), site.unique('tenant')
    task = await task_of(users, 'ask', tenant=theirs, options={'headers': owner})
    for tenant in ({}, {'tenant': ours}):
        (await users.call('GetTask', {'id': task['id'], **tenant}, headers=owner)).refused(TASK_NOT_FOUND)
    (await users.call('GetTask', {'id': task['id'], 'tenant': theirs})).refused(TASK_NOT_FOUND)
    assert (await users.call('GetTask', {'id': task['id'], 'tenant': theirs}, headers=owner)).ok() == task


@RIGHTS.check()
async def tenant_that_the_operator_gave_a_caller_cannot_be_left(wire: Wire, site: Site) -> None:
    options: dict[str, Any] = {'context_builder': TenantBuilder(), 'grpc_context_builder': tenant_builder}
    theirs, ours = [('x-tenant', 'theirs')], [('x-tenant', 'ours')]
    async with site.serving(**options) as service:
        other = wire.at(service)
        task = await task_of(other, 'ask', options={'headers': theirs})
        (await other.call('GetTask', {'id': task['id']}, headers=ours)).refused(TASK_NOT_FOUND)
        (await other.call('GetTask', {'id': task['id'], 'tenant': 'theirs'}, headers=ours)).invalid('tenant')


class TenantBuilder(ServerCallContextBuilder):
    """Takes the header's word for the tenant of the caller."""

    def build(self, request: Request) -> ServerCallContext:
        return ServerCallContext(tenant=request.headers.get('x-tenant', ''))


def tenant_builder(call: Any) -> ServerCallContext:
    """Takes the metadata's word for it."""
    return ServerCallContext(tenant=dict(call.invocation_metadata()).get('x-tenant', ''))


@RIGHTS.check()
async def answers_do_not_tell_a_foreign_task_from_none(wire: Wire, site: Site) -> None:
    users = wire.at(await site.service('users'))
    owner, others = callers(site)
    task = await task_of(users, 'work complete', options={'headers': owner})
    for headers in others:
        for params in ({}, {'historyLength': 0}, {'historyLength': -1}):
            foreign = await users.call('GetTask', {'id': task['id'], **params}, headers=headers)
            none = await users.call('GetTask', {'id': NO_TASK, **params}, headers=headers)
            assert foreign.error is not None
            assert foreign.error == none.error


@RIGHTS.check()
async def owner_of_a_task_outlives_a_restart(wire: Wire, site: Site) -> None:
    database = site.database()
    options: dict[str, Any] = {'context_builder': TrustingBuilder(), 'grpc_context_builder': trusting_builder}
    owner, others = callers(site)
    async with site.serving(database=database, **options) as before:
        task = await task_of(wire.at(before), 'work artifact:a ask', options={'headers': owner})
    async with site.serving(database=database, **options) as after:
        again = wire.at(after)
        for headers in others:
            (await again.call('GetTask', {'id': task['id']}, headers=headers)).refused(TASK_NOT_FOUND)
        assert (await again.call('GetTask', {'id': task['id']}, headers=owner)).ok() == task
