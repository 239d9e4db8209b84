"""Section 12: tenants: where they are named, and that each sees its own tasks only."""

from tests.conformance.errors import TASK_NOT_FOUND, Json
from tests.conformance.kit import (
    NO_TASK,
    found,
    get,
    message_of,
    request_of,
    requests_about,
    send,
    state_of,
    stream,
    task_of,
)
from tests.conformance.over_http import ROUTES, RestWire, path_of
from tests.conformance.site import USER, Site
from tests.conformance.table import Section
from tests.conformance.wire import REST, Wire

SECTION = Section(12, 'Tenants')

ECHOED = SECTION.must('8.3.2', 'The tenant of a request decides where it goes; its name has no meaning')
NAMES = ('acme', 'ACME', 'Ä ö', 'a/b', 'a%2Fb', 'a+b', '1', 'a:b', "'; --", 'message:send', 'x' * 255)


@ECHOED.check()
async def tenant_reaches_the_agent(wire: Wire, site: Site) -> None:
    for tenant in NAMES:
        task = await task_of(wire, 'work complete', tenant=tenant)
        assert wire.service.agent.context_of(task['id']).tenant == tenant
        event = (await stream(wire, 'work complete', tenant=tenant)).ok()[0]
        assert wire.service.agent.context_of(event.value['id']).tenant == tenant
    task = await task_of(wire, 'work complete')
    assert wire.service.agent.context_of(task['id']).tenant == ''


@ECHOED.check()
async def tenants_are_told_apart_by_every_character(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    tasks = {tenant: await task_of(wire, 'ask', tenant=tenant, contextId=context) for tenant in (*NAMES, '')}
    for tenant, task in tasks.items():
        named = {'tenant': tenant} if tenant else {}
        assert [each['id'] for each in await found(wire, contextId=context, **named)] == [task['id']], tenant
        assert await get(wire, task['id'], **named) == task


@ECHOED.check()
async def tenant_goes_with_every_operation(wire: Wire, site: Site) -> None:
    tenant = site.unique('tenant')
    task = await task_of(wire, 'ask', tenant=tenant)
    config = {'taskId': task['id'], 'id': 'c', 'tenant': tenant}
    made = await wire.call('CreateTaskPushNotificationConfig', {**config, 'url': 'https://hook.test/'})
    assert made.ok()['id'] == 'c'
    assert (await wire.call('GetTaskPushNotificationConfig', config)).ok()['url'] == 'https://hook.test/'
    named = {'taskId': task['id'], 'tenant': tenant}
    assert len((await wire.call('ListTaskPushNotificationConfigs', named)).ok()['configs']) == 1
    assert (await wire.call('DeleteTaskPushNotificationConfig', config)).error is None
    async with wire.open('SubscribeToTask', {'id': task['id'], 'tenant': tenant}) as events:
        assert (await events.next()) is not None
    assert (await task_of(wire, 'ask', tenant=tenant, taskId=task['id']))['id'] == task['id']
    assert state_of((await wire.call('CancelTask', {'id': task['id'], 'tenant': tenant})).ok()) == 'CANCELED'


@ECHOED.check()
async def tenant_that_cannot_be_a_name_is_invalid(wire: Wire, site: Site) -> None:
    for tenant in ('x' * 256, 'a\x00b', 'a\tb'):
        (await send(wire, 'work', tenant=tenant)).invalid('tenant')
        (await wire.call('ListTasks', {'tenant': tenant})).invalid('tenant')


@ECHOED.check()
async def tenant_with_a_line_break_is_invalid(wire: Wire, site: Site) -> None:
    (await send(wire, 'work', tenant='a\nb')).invalid('tenant')
    (await wire.call('ListTasks', {'tenant': 'a\nb'})).invalid('tenant')


PLACES = SECTION.must(
    'proto', 'Every URL is also below a tenant; `tenant` in the body or the query means the same', sdk_fails=True
)


@PLACES.check(on=REST)
async def tenant_of_the_body_is_that_of_the_path(wire: RestWire, site: Site) -> None:
    tenant = site.unique('tenant')
    body = {'message': message_of('ask'), 'tenant': tenant}
    task = wire.answer_of(await wire.request('POST', '/message:send', json=body)).ok()['task']
    assert wire.service.agent.context_of(task['id']).tenant == tenant
    assert wire.answer_of(await wire.request('GET', f'/{tenant}/tasks/{task["id"]}')).ok() == task
    (await wire.call('GetTask', {'id': task['id']})).refused(TASK_NOT_FOUND)


@PLACES.check(on=REST)
async def tenant_of_the_query_is_that_of_the_path(wire: RestWire, site: Site) -> None:
    tenant = site.unique('tenant')
    query = {'tenant': tenant}
    response = await wire.request('POST', '/message:send', json={'message': message_of('ask')}, params=query)
    task = wire.answer_of(response).ok()['task']
    for path in (f'/tasks/{task["id"]}', f'/{tenant}/tasks/{task["id"]}'):
        assert wire.answer_of(await wire.request('GET', path, params=query)).ok() == task
    listing = wire.answer_of(await wire.request('GET', '/tasks', params=query)).ok()
    assert [each['id'] for each in listing['tasks']] == [task['id']]
    canceled = wire.answer_of(await wire.request('POST', f'/tasks/{task["id"]}:cancel', params=query)).ok()
    assert state_of(canceled) == 'CANCELED'


@PLACES.check(on=REST)
async def tenant_of_the_body_of_a_stream_counts(wire: RestWire, site: Site) -> None:
    tenant = site.unique('tenant')
    body = {'message': message_of('work complete'), 'tenant': tenant}
    async with wire.open_request('POST', '/message:stream', json=body) as events:
        task_id = (await events.rest())[0].value['id']
    assert (await get(wire, task_id, tenant=tenant))['id'] == task_id


@PLACES.check(on=REST)
async def every_url_is_found_below_a_tenant(wire: RestWire, site: Site) -> None:
    for operation, params in requests_about(NO_TASK):
        route = ROUTES[operation]
        path = path_of(route, [params[name] for name in route.ids])
        body = {name: value for name, value in params.items() if name not in route.ids}
        content: Json = {'json': body} if route.method == 'POST' else {}
        response = await wire.request(route.method, f'/acme{path}', **content)
        wire.answer_of(response).refused(TASK_NOT_FOUND)
    assert wire.answer_of(await wire.request('GET', '/acme/tasks')).ok()['pageSize'] == 50
    extended = wire.at(await site.service('members'))
    response = await extended.request('GET', '/acme/extendedAgentCard', headers=[(USER, 'ann')])
    assert extended.answer_of(response).ok()['name'] == 'extended'


ONE = SECTION.ours('proto', 'A request that names two tenants is refused')


@ONE.check(on=REST)
async def two_tenants_in_one_request_are_invalid(wire: RestWire, site: Site) -> None:
    context = site.unique('context')
    message = message_of('work', contextId=context)
    for path, query, body in (
        ('/one/message:send', {}, {'tenant': 'two'}),
        ('/one/message:send', {'tenant': 'two'}, {}),
        ('/message:send', {'tenant': 'one'}, {'tenant': 'two'}),
        ('/message:stream', {'tenant': 'one'}, {'tenant': 'two'}),
    ):
        response = await wire.request('POST', path, params=query, json={'message': message, **body})
        wire.answer_of(response).invalid('tenant')
    wire.answer_of(await wire.request('GET', '/one/tasks', params={'tenant': 'two'})).invalid('tenant')
    for tenant in ({}, {'tenant': 'one'}, {'tenant': 'two'}):
        assert await found(wire, contextId=context, **tenant) == []


BOUNDARY = SECTION.must('13.1', 'The boundary of a tenant holds for every operation')


async def refusals(wire: Wire, task_id: str, others: Json) -> list[tuple[str, str, str]]:
    """How each operation about a task refuses; of the id, nothing is left in it."""
    answers = []
    for operation, params in requests_about(task_id):
        error = (await wire.ask(operation, {**params, **others})).refused(TASK_NOT_FOUND)
        answers.append((operation, error.message.replace(task_id, ''), str(error.details).replace(task_id, '')))
    return answers


@BOUNDARY.check()
async def no_operation_reaches_the_task_of_another_tenant(wire: Wire, site: Site) -> None:
    theirs, ours = site.unique('tenant'), site.unique('tenant')
    task = await task_of(wire, 'work artifact:a ask', tenant=theirs)
    for others in ({'tenant': ours}, {'tenant': theirs.upper()}, {}):
        assert await refusals(wire, task['id'], others) == await refusals(wire, NO_TASK, others)
    assert await get(wire, task['id'], tenant=theirs) == task
    named = {'taskId': task['id'], 'tenant': theirs}
    assert not (await wire.call('ListTaskPushNotificationConfigs', named)).ok().get('configs')


@BOUNDARY.check()
async def no_tenant_reaches_a_task_that_has_none(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'work artifact:a ask')
    others = {'tenant': site.unique('tenant')}
    assert await refusals(wire, task['id'], others) == await refusals(wire, NO_TASK, others)
    assert await get(wire, task['id']) == task


@BOUNDARY.check()
async def ended_task_of_another_tenant_looks_like_none(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'work complete', tenant=site.unique('tenant'))
    others = {'tenant': site.unique('tenant')}
    assert await refusals(wire, task['id'], others) == await refusals(wire, NO_TASK, others)


@BOUNDARY.check()
async def running_task_of_another_tenant_looks_like_none(wire: Wire, site: Site) -> None:
    gate, tenant = site.unique('gate'), site.unique('tenant')
    others = {'tenant': site.unique('tenant')}
    async with wire.open('SendStreamingMessage', request_of(f'work hold:{gate} complete', tenant=tenant)) as events:
        shown = await events.until_state('WORKING')
        assert await refusals(wire, shown[0].value['id'], others) == await refusals(wire, NO_TASK, others)
        wire.service.agent.open(gate)
        assert (await events.rest())[-1].state == 'COMPLETED'


@BOUNDARY.check()
async def same_context_id_is_another_context_for_each_tenant(wire: Wire, site: Site) -> None:
    context, tenants = site.unique('context'), [site.unique('tenant') for _ in range(2)]
    tasks = [await task_of(wire, 'ask', contextId=context, tenant=tenant) for tenant in tenants]
    for task, tenant in zip(tasks, tenants, strict=True):
        assert [each['id'] for each in await found(wire, tenant=tenant, contextId=context)] == [task['id']]
        assert [each['id'] for each in await found(wire, tenant=tenant)] == [task['id']]
    assert await found(wire, contextId=context) == []


@BOUNDARY.check()
async def tenant_does_not_stand_in_for_the_caller(wire: Wire, site: Site) -> None:
    users, tenant = wire.at(await site.service('users')), site.unique('tenant')
    task = await task_of(users, 'ask', tenant=tenant, options={'headers': [(USER, 'ann')]})
    named = {'id': task['id'], 'tenant': tenant}
    assert (await users.call('GetTask', named, headers=[(USER, 'ann')])).ok() == task
    (await users.call('GetTask', named, headers=[(USER, 'ben')])).refused(TASK_NOT_FOUND)
    (await users.call('GetTask', named)).refused(TASK_NOT_FOUND)
