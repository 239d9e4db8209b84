"""Section 10: extensions: how clients ask for them, what is required, what the answer says."""

from collections.abc import Mapping

from tests.conformance.errors import EXTENSION_REQUIRED
from tests.conformance.kit import (
    SEQUENCE,
    found,
    get,
    request_of,
    requests_of_all_operations,
    send,
    state_of,
    stream,
    subscribing,
    task_of,
)
from tests.conformance.over_http import HttpWire, RestWire, envelope
from tests.conformance.site import OTHER_EXTENSION, REQUIRED_EXTENSION, Site
from tests.conformance.table import Section
from tests.conformance.wire import EXTENSIONS, HTTP, Event, Pairs, Wire

SECTION = Section(10, 'Extensions')

BOTH = {REQUIRED_EXTENSION, OTHER_EXTENSION}
WAYS: list[Pairs] = [
    [(EXTENSIONS, f'{REQUIRED_EXTENSION},{OTHER_EXTENSION}')],
    [(EXTENSIONS, f'{OTHER_EXTENSION} ,, {REQUIRED_EXTENSION} , {OTHER_EXTENSION}')],
    [(EXTENSIONS, REQUIRED_EXTENSION), (EXTENSIONS, OTHER_EXTENSION)],
    [(EXTENSIONS, ''), (EXTENSIONS.lower(), OTHER_EXTENSION), (EXTENSIONS, REQUIRED_EXTENSION)],
]
REQUIRED: Pairs = [(EXTENSIONS, REQUIRED_EXTENSION)]


def listed(headers: Mapping[str, str]) -> set[str]:
    """The extensions that an answer names."""
    return {each.strip() for each in headers.get('a2a-extensions', '').split(',') if each.strip()}


OPT_IN = SECTION.must('4.6.1', 'Clients ask for extensions by `A2A-Extensions`: a list, repeated or not')


@OPT_IN.check()
async def extensions_are_asked_for_by_a_list_or_several(wire: Wire, site: Site) -> None:
    other = wire.at(await site.service('extensions'))
    for headers in WAYS:
        answer = await send(other, 'work complete', options={'headers': headers})
        assert listed(answer.headers) == BOTH, headers
        assert other.service.agent.context_of(answer.ok()['task']['id']).requested_extensions == BOTH


@OPT_IN.check()
async def extensions_of_streams_are_asked_for_alike(wire: Wire, site: Site) -> None:
    other = wire.at(await site.service('extensions'))
    for headers in WAYS:
        collected = await stream(other, 'work complete', options={'headers': headers})
        assert listed(collected.headers) == BOTH, headers
        task_id = collected.ok()[0].value['id']
        assert other.service.agent.context_of(task_id).requested_extensions == BOTH


@OPT_IN.check(on=HTTP)
async def extensions_are_asked_for_by_the_query(wire: HttpWire, site: Site) -> None:
    other = wire.at(await site.service('extensions'))
    for name in (EXTENSIONS, EXTENSIONS.lower()):
        query = f'?{name}={REQUIRED_EXTENSION},{OTHER_EXTENSION}'
        if isinstance(other, RestWire):
            response = await other.request('GET', f'/tasks{query}')
        else:
            response = await other.request('POST', f'/{query}', json=envelope('ListTasks'))
        assert 'tasks' in other.answer_of(response).ok()
        assert listed(response.headers) == BOTH


@OPT_IN.check()
async def naming_an_extension_in_the_message_asks_for_nothing(wire: Wire, site: Site) -> None:
    answer = await send(wire, 'work complete', extensions=[SEQUENCE])
    assert listed(answer.headers) == set()
    other = wire.at(await site.service('extensions'))
    (await send(other, 'work complete', extensions=[REQUIRED_EXTENSION])).refused(EXTENSION_REQUIRED)


NEEDED = SECTION.must(
    '4.6.3', 'Without an extension that the card requires: ExtensionSupportRequiredError', sdk_fails=True
)


@NEEDED.check()
async def required_extension_is_required_by_every_operation(wire: Wire, site: Site) -> None:
    other, context = wire.at(await site.service('extensions')), site.unique('context')
    task = await task_of(other, 'ask', contextId=context, options={'headers': REQUIRED})
    for operation, params in requests_of_all_operations(task['id']):
        for headers in ([], [(EXTENSIONS, '')], [(EXTENSIONS, OTHER_EXTENSION)]):
            (await other.ask(operation, params, headers=headers)).refused(EXTENSION_REQUIRED)
    assert (await other.call('GetTask', {'id': task['id']}, headers=REQUIRED)).ok() == task
    configs = await other.call('ListTaskPushNotificationConfigs', {'taskId': task['id']}, headers=REQUIRED)
    assert not configs.ok().get('configs')


@NEEDED.check()
async def nothing_is_begun_without_a_required_extension(wire: Wire, site: Site) -> None:
    other, context = wire.at(await site.service('extensions')), site.unique('context')
    (await send(other, 'work', contextId=context)).refused(EXTENSION_REQUIRED)
    (await stream(other, 'work', contextId=context)).refused(EXTENSION_REQUIRED)
    listing = await other.call('ListTasks', {'contextId': context}, headers=REQUIRED)
    assert not listing.ok().get('tasks')


@NEEDED.check()
async def error_names_the_extension_that_is_required(wire: Wire, site: Site) -> None:
    other = wire.at(await site.service('extensions'))
    error = (await send(other, 'work')).refused(EXTENSION_REQUIRED)
    assert REQUIRED_EXTENSION in error.message
    assert OTHER_EXTENSION not in error.message


@NEEDED.check()
async def extension_that_is_not_required_may_be_left_out(wire: Wire, site: Site) -> None:
    other = wire.at(await site.service('extensions'))
    answer = await send(other, 'work complete', options={'headers': REQUIRED})
    assert state_of(answer.ok()['task']) == 'COMPLETED'
    assert listed(answer.headers) == {REQUIRED_EXTENSION}


UNKNOWN = SECTION.should('4.6.3', 'Extensions that the agent does not have are ignored')


@UNKNOWN.check()
async def unknown_extensions_are_ignored(wire: Wire, site: Site) -> None:
    for value in ('urn:unknown', 'urn:unknown, https://a.test/ext?x=1', 'no uri at all', ';,;'):
        headers = [(EXTENSIONS, value)]
        answer = await send(wire, 'work complete', options={'headers': headers})
        assert state_of(answer.ok()['task']) == 'COMPLETED'
        assert 'a2a-extensions' not in answer.headers
        assert (await stream(wire, 'work complete', options={'headers': headers})).states[-1] == 'COMPLETED'


@UNKNOWN.check()
async def unknown_extensions_do_not_hide_known_ones(wire: Wire, site: Site) -> None:
    other = wire.at(await site.service('extensions'))
    headers = [(EXTENSIONS, f'urn:unknown, {REQUIRED_EXTENSION}, urn:test')]
    answer = await send(other, 'work complete', options={'headers': headers})
    assert listed(answer.headers) == {REQUIRED_EXTENSION}


VERSIONS = SECTION.must('4.6.3', 'Another version of an extension is another extension: there is no fallback')


@VERSIONS.check()
async def another_version_of_an_extension_is_not_activated(wire: Wire, site: Site) -> None:
    other = wire.at(await site.service('extensions'))
    for variant in (f'{OTHER_EXTENSION}/v2', OTHER_EXTENSION[:-1], OTHER_EXTENSION.upper(), f'{OTHER_EXTENSION}/'):
        headers = [(EXTENSIONS, f'{REQUIRED_EXTENSION}, {variant}')]
        answer = await send(other, 'work complete', options={'headers': headers})
        assert listed(answer.headers) == {REQUIRED_EXTENSION}


@VERSIONS.check()
async def another_version_of_a_required_extension_does_not_do(wire: Wire, site: Site) -> None:
    other = wire.at(await site.service('extensions'))
    for variant in (f'{REQUIRED_EXTENSION}/v2', REQUIRED_EXTENSION[:-1], REQUIRED_EXTENSION.upper()):
        answer = await send(other, 'work complete', options={'headers': [(EXTENSIONS, variant)]})
        answer.refused(EXTENSION_REQUIRED)


ACTIVATED = SECTION.should(
    'T:extensions', 'The answer says by `A2A-Extensions` which extensions are active', sdk_fails=True
)


@ACTIVATED.check()
async def every_operation_says_which_extensions_are_active(wire: Wire, site: Site) -> None:
    other = wire.at(await site.service('extensions'))
    task = await task_of(other, 'ask', options={'headers': REQUIRED})
    for operation, params in (
        ('GetTask', {'id': task['id']}),
        ('ListTasks', {}),
        ('ListTaskPushNotificationConfigs', {'taskId': task['id']}),
        ('CancelTask', {'id': task['id']}),
    ):
        for headers in WAYS:
            answer = await other.call(operation, params, headers=headers)
            assert listed(answer.headers) == BOTH
            if operation == 'CancelTask':
                break


@ACTIVATED.check()
async def subscription_says_which_extensions_are_active(wire: Wire, site: Site) -> None:
    other = wire.at(await site.service('extensions'))
    task = await task_of(other, 'ask', options={'headers': REQUIRED})
    async with subscribing(other, task['id'], headers=WAYS[0]) as events:
        assert (await events.next()) is not None
        assert listed(events.headers) == BOTH


@ACTIVATED.check()
async def answer_says_nothing_when_nothing_was_asked_for(wire: Wire, site: Site) -> None:
    assert 'a2a-extensions' not in (await send(wire, 'work complete')).headers
    assert 'a2a-extensions' not in (await stream(wire, 'work complete')).headers


UNTRUSTED = SECTION.must('T:extensions', 'Data of extensions is input that is not trusted')


def place_of(event: Event) -> object:
    return event.value.get('metadata', {}).get(SEQUENCE)


@UNTRUSTED.check()
async def client_cannot_set_what_an_extension_says(wire: Wire, site: Site) -> None:
    own = {SEQUENCE: 99999}
    for headers in ([], [(EXTENSIONS, SEQUENCE)]):
        params = request_of('work complete', metadata=own, extensions=[SEQUENCE])
        params['message']['metadata'] = own
        collected = await wire.collect('SendStreamingMessage', params, headers=headers)
        places = [place_of(event) for event in collected.ok()]
        assert 99999 not in places
        assert all((place is not None) == bool(headers) for place in places)


@UNTRUSTED.check()
async def data_of_an_extension_reaches_the_agent_as_it_came(wire: Wire, site: Site) -> None:
    data = {OTHER_EXTENSION: {'deep': [1, {'a': None}], 'text': '<script>'}}
    context = site.unique('context')
    task = await task_of(wire, 'work ask', contextId=context, metadata=data, extensions=['urn:unknown'])
    assert wire.service.agent.context_of(task['id']).metadata == data
    assert [each['id'] for each in await found(wire, contextId=context)] == [task['id']]
    assert (await get(wire, task['id']))['history'][0]['extensions'] == ['urn:unknown']
