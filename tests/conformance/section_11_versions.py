"""Section 11: versions of the protocol: which are taken, where they are named, what old forms mean."""

from tests.conformance.errors import VERSION_NOT_SUPPORTED
from tests.conformance.kit import found, get, requests_of_all_operations, send, state_of, stream, task_of
from tests.conformance.old import old_task
from tests.conformance.over_http import HttpWire, RestWire, envelope
from tests.conformance.site import Site
from tests.conformance.table import Section
from tests.conformance.wire import HTTP, VERSION, Wire

SECTION = Section(11, 'Versioning')

UNSUPPORTED = SECTION.must(
    '3.6.2', 'A version that is not served, by major and minor, is VersionNotSupportedError', sdk_fails=True
)


@UNSUPPORTED.check()
async def unsupported_version_is_refused_by_every_operation(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    for operation, params in requests_of_all_operations(task['id']):
        (await wire.ask(operation, params, version='99.0')).refused(VERSION_NOT_SUPPORTED)
    assert await get(wire, task['id']) == task
    assert not (await wire.call('ListTaskPushNotificationConfigs', {'taskId': task['id']})).ok().get('configs')


@UNSUPPORTED.check()
async def only_the_version_itself_is_taken(wire: Wire, site: Site) -> None:
    for version in ('1', '1.1', '1.1.0', '2.0', '0.9', '0.3', '0.3.0', '10.0', '11.0', '1.00', '01.0', '1.0.0.0'):
        (await wire.call('ListTasks', {}, version=version)).refused(VERSION_NOT_SUPPORTED)


@UNSUPPORTED.check()
async def what_is_no_version_is_refused(wire: Wire, site: Site) -> None:
    for version in ('abc', '1.x', 'v1.0', '1.0-rc1', '-1.0', '1,0', '1.0.', '.', '1.0, 0.3', '1' * 5000):
        (await wire.call('ListTasks', {}, version=version)).refused(VERSION_NOT_SUPPORTED)


@UNSUPPORTED.check()
async def nothing_is_begun_in_an_unsupported_version(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    (await send(wire, 'work', contextId=context, options={'version': '2.0'})).refused(VERSION_NOT_SUPPORTED)
    (await stream(wire, 'work', contextId=context, options={'version': '2.0'})).refused(VERSION_NOT_SUPPORTED)
    assert await found(wire, contextId=context) == []


@UNSUPPORTED.check()
async def error_says_which_version_is_served(wire: Wire, site: Site) -> None:
    for version in ('99.0', None):
        error = (await wire.call('ListTasks', {}, version=version)).refused(VERSION_NOT_SUPPORTED)
        assert '1.0' in error.message
        assert error.details[0]['metadata'] == {'supportedVersions': '1.0'}


MISSING = SECTION.must('3.6.2', 'No version means 0.3, which is refused where no 0.3 interface is served')


@MISSING.check()
async def missing_version_is_refused_by_every_operation(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    for operation, params in requests_of_all_operations(task['id']):
        for version in (None, ''):
            (await wire.ask(operation, params, version=version)).refused(VERSION_NOT_SUPPORTED)
    assert await get(wire, task['id']) == task


PATCH = SECTION.must('3.6', 'The patch part of a version is ignored')


@PATCH.check()
async def patch_is_ignored(wire: Wire, site: Site) -> None:
    for version in ('1.0.0', '1.0.1', '1.0.999'):
        answer = await send(wire, 'work complete', options={'version': version})
        assert state_of(answer.ok()['task']) == 'COMPLETED'
        collected = await stream(wire, 'work complete', options={'version': version})
        assert collected.states[-1] == 'COMPLETED'


QUERY = SECTION.may('3.6.1', 'The version may stand in the query', sdk_fails=True)


@QUERY.check(on=HTTP)
async def version_is_read_from_the_query(wire: HttpWire, site: Site) -> None:
    for name in (VERSION, VERSION.lower(), VERSION.upper()):
        for version in ('1.0', '1.0.3'):
            prepared = dict(wire.prepare('SendMessage', {'message': message(site)}))
            prepared['path'] += f'?{name}={version}'
            response = await wire.request(**prepared, version=None)
            assert state_of(wire.answer_of(response).ok()['task']) == 'COMPLETED'


@QUERY.check(on=HTTP)
async def version_of_the_query_is_checked(wire: HttpWire, site: Site) -> None:
    for version in ('2.0', '0.3', '', 'abc'):
        query = f'?{VERSION}={version}'
        if isinstance(wire, RestWire):
            response = await wire.request('GET', f'/tasks{query}', version=None)
        else:
            response = await wire.request('POST', f'/{query}', json=envelope('ListTasks'), version=None)
        wire.answer_of(response).refused(VERSION_NOT_SUPPORTED)


@QUERY.check(on=HTTP)
async def stream_takes_the_version_of_the_query(wire: HttpWire, site: Site) -> None:
    prepared = dict(wire.prepare('SendStreamingMessage', {'message': message(site)}))
    prepared['path'] += f'?{VERSION}=1.0'
    async with wire.open_request(**prepared, version=None) as events:
        assert (await events.rest())[-1].state == 'COMPLETED'


def message(site: Site) -> dict[str, object]:
    return {'messageId': site.unique(), 'role': 'ROLE_USER', 'parts': [{'text': 'work complete'}]}


SEVERAL = SECTION.may('3.6.2', 'Several versions are served on one transport')


@SEVERAL.check()
async def both_versions_are_answered_at_one_url(wire: Wire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    made = await old_task(old, 'ask')
    assert made['state'] == 'INPUT_REQUIRED'
    task = await get(old, made['id'])
    assert state_of(task) == 'INPUT_REQUIRED'
    assert state_of(await task_of(old, 'complete', taskId=task['id'])) == 'COMPLETED'


@SEVERAL.check()
async def version_1_works_beside_an_interface_of_another_version(wire: Wire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    assert state_of(await task_of(old, 'work complete')) == 'COMPLETED'
    (await old.call('ListTasks', {}, version='99.0')).refused(VERSION_NOT_SUPPORTED)
    response = await old.service.http.get(old.service.url + '/.well-known/agent-card.json')
    assert [each['protocolVersion'] for each in response.json()['supportedInterfaces']] == ['1.0'] * 3 + ['0.3'] * 3


LEGACY = SECTION.may('A.2', 'Old forms are taken in a request, and answers have current forms only')


@LEGACY.check(on=HTTP)
async def kind_of_old_messages_is_ignored(wire: HttpWire, site: Site) -> None:
    part = {'kind': 'text', 'text': 'work artifact:a complete'}
    params = {'message': {**message(site), 'kind': 'message', 'parts': [part]}}
    answer = (await wire.call('SendMessage', params)).ok()
    assert state_of(answer['task']) == 'COMPLETED'
    assert "'kind'" not in str(answer)


@LEGACY.check()
async def answers_have_current_forms_only(wire: Wire, site: Site) -> None:
    collected = await stream(wire, 'work artifact:a ask:name? complete:done')
    task = await task_of(wire, 'work artifact:a ask:name?')
    for shown in (*(event.data for event in collected.ok()), task):
        assert [
            old for old in ("'kind'", "'final'", "'agent'", "'user'", "'input-required'") if old in str(shown)
        ] == []
    assert task['history'][0]['role'] == 'ROLE_USER'
    assert task['status']['message']['role'] == 'ROLE_AGENT'
    assert task['status']['state'] == 'TASK_STATE_INPUT_REQUIRED'
