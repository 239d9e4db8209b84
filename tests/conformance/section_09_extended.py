"""Section 9: the extended card, and what all bindings offer alike."""

from tests.conformance.errors import CARD_NOT_CONFIGURED, TASK_NOT_FOUND, UNSUPPORTED_OPERATION, Json
from tests.conformance.kit import get, request_of, send, stream, task_of
from tests.conformance.over_grpc import GrpcWire
from tests.conformance.over_http import HttpWire, JsonRpcWire, RestWire
from tests.conformance.section_09_cards import card_of
from tests.conformance.site import USER, Site
from tests.conformance.table import Section
from tests.conformance.wire import HTTP, REST, Pairs, Wire

SECTION = Section(9, 'Extended card, and bindings that are alike')

WIRES = (JsonRpcWire, RestWire, GrpcWire)
ANN: Pairs = ((USER, 'ann'),)
BEN: Pairs = ((USER, 'ben'),)

AVAILABLE = SECTION.must(
    '3.3.4', 'An extended card that is not declared is UnsupportedOperationError; one that is not there, NotConfigured'
)


@AVAILABLE.check()
async def extended_card_has_to_be_declared(wire: Wire, site: Site) -> None:
    (await wire.call('GetExtendedAgentCard')).refused(UNSUPPORTED_OPERATION)


@AVAILABLE.check()
async def extended_card_has_to_be_there(wire: Wire, site: Site) -> None:
    other = wire.at(await site.service('unconfigured'))
    (await other.call('GetExtendedAgentCard', headers=ANN)).refused(CARD_NOT_CONFIGURED)


@AVAILABLE.check()
async def extended_card_is_answered(wire: Wire, site: Site) -> None:
    members = wire.at(await site.service('members'))
    card = (await members.call('GetExtendedAgentCard', headers=ANN)).ok()
    assert card['name'] == 'extended'
    assert [skill['id'] for skill in card['skills']] == ['s']


@AVAILABLE.check(on=HTTP)
async def extended_card_has_its_required_fields(wire: Wire, site: Site) -> None:
    members = wire.at(await site.service('old'))
    card = (await members.call('GetExtendedAgentCard', headers=ANN)).ok()
    assert card.keys() >= {'name', 'description', 'supportedInterfaces', 'version', 'capabilities', 'skills'}
    assert card.keys() >= {'defaultInputModes', 'defaultOutputModes'}


CALLERS = SECTION.must('3.1.11', 'The extended card is for callers who are authenticated by a declared scheme')


@CALLERS.check()
async def extended_card_is_not_for_strangers(wire: Wire, site: Site) -> None:
    members = wire.at(await site.service('members'))
    if isinstance(members, HttpWire):
        response = await members.request(**members.prepare('GetExtendedAgentCard', None))
        assert response.status_code == 401
        assert response.headers['www-authenticate'].lower().startswith('bearer')
        assert 'a skill' not in response.text
    else:
        error = (await members.call('GetExtendedAgentCard')).error
        assert error is not None
        assert error.grpc == 'UNAUTHENTICATED'


EACH = SECTION.may('3.1.11', 'The content of the extended card depends on the caller')


@EACH.check()
async def extended_card_is_made_for_the_caller(wire: Wire, site: Site) -> None:
    members = wire.at(await site.service('members'))
    for caller, text in ((ANN, 'for ann'), (BEN, 'for ben'), (ANN, 'for ann')):
        assert (await members.call('GetExtendedAgentCard', headers=caller)).ok()['description'] == text


KEPT = SECTION.should('8.6', 'The extended card has headers for caches, and is kept by nobody but its caller')


@KEPT.check(on=REST)
async def extended_card_is_private(wire: RestWire, site: Site) -> None:
    members = wire.at(await site.service('members'))
    response = await members.request('GET', '/extendedAgentCard', headers=ANN)
    directives = {each.strip() for each in response.headers['cache-control'].split(',')}
    assert directives & {'private', 'no-store'}
    assert 'public' not in directives


@KEPT.check(on=REST)
async def extended_card_that_has_not_changed_is_304(wire: RestWire, site: Site) -> None:
    members = wire.at(await site.service('members'))
    etag = (await members.request('GET', '/extendedAgentCard', headers=ANN)).headers['etag']
    known = ('If-None-Match', etag)
    assert (await members.request('GET', '/extendedAgentCard', headers=[*ANN, known])).status_code == 304
    other = await members.request('GET', '/extendedAgentCard', headers=[*BEN, known])
    assert (other.status_code, other.json()['description']) == (200, 'for ben')


SECRETS = SECTION.should('14.3', 'The public card has no secrets: nothing of the extended card is in it')


@SECRETS.check()
async def public_card_shows_nothing_of_the_extended_card(wire: Wire, site: Site) -> None:
    service = await site.service('members')
    before = await card_of(service)
    await send(wire.at(service), 'work complete')
    await wire.at(service).call('GetExtendedAgentCard', headers=ANN)
    assert await card_of(service) == before
    assert before['skills'] == []
    assert 'extended' not in before['name']
    assert 'for ann' not in str(before)


ALIKE = SECTION.must('5.1', 'All bindings have the same results, errors and callers', sdk_fails=True)


@ALIKE.check()
async def task_is_the_same_over_every_binding(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'work:now artifact:a more:a ask:name?', metadata={'a': [1, 'x', None]})
    assert [await get(kind(wire.service), task['id']) for kind in WIRES] == [task] * len(WIRES)


@ALIKE.check()
async def task_goes_on_over_every_other_binding(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask:first?')
    for kind in WIRES:
        assert (await task_of(kind(wire.service), 'ask:next?', taskId=task['id']))['id'] == task['id']
    assert len((await get(wire, task['id']))['history']) >= len(WIRES) + 1


@ALIKE.check()
async def stream_is_the_same_over_every_binding(wire: Wire, site: Site) -> None:
    def shape(events: list[Json]) -> str:
        volatile = ('id', 'taskId', 'contextId', 'messageId', 'timestamp')
        return str([without(event, volatile) for event in events])

    script = 'work:now artifact:a more:a last:a complete:done'
    wires = (wire, *(kind(wire.service) for kind in WIRES))
    shapes = [shape([event.data for event in (await stream(each, script)).ok()]) for each in wires]
    assert shapes == shapes[:1] * len(shapes)


def without(value: object, names: tuple[str, ...]) -> object:
    """A value of JSON without some of its members, in an order of its own."""
    if isinstance(value, list):
        return [without(each, names) for each in value]
    if isinstance(value, dict):
        return sorted((name, str(without(each, names))) for name, each in value.items() if name not in names)
    return value


@ALIKE.check()
async def errors_are_the_same_over_every_binding(wire: Wire, site: Site) -> None:
    ended = await task_of(wire, 'complete')
    for operation, params in (
        ('GetTask', {'id': 'none'}),
        ('CancelTask', {'id': ended['id']}),
        ('SendMessage', request_of('more', taskId=ended['id'])),
        ('SendMessage', request_of('', parts=[])),
        ('ListTasks', {'pageSize': -1}),
        ('GetExtendedAgentCard', {}),
    ):
        own = (await wire.call(operation, params)).error
        assert own is not None, operation
        for kind in WIRES:
            error = (await kind(wire.service).call(operation, params)).error
            assert error is not None, operation
            assert (error.message, error.details) == (own.message, own.details)


@ALIKE.check()
async def metadata_and_tenant_reach_the_agent(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'complete', metadata={'a': {'b': [1, True]}}, tenant='acme')
    context = wire.service.agent.context_of(task['id'])
    assert (context.metadata, context.tenant) == ({'a': {'b': [1, True]}}, 'acme')


@ALIKE.check()
async def caller_is_the_same_over_every_binding(wire: Wire, site: Site) -> None:
    users = wire.at(await site.service('users'))
    task = await task_of(users, 'ask', options={'headers': ANN})
    for kind in WIRES:
        other = kind(users.service)
        assert (await other.call('GetTask', {'id': task['id']}, headers=ANN)).ok() == task
        (await other.call('GetTask', {'id': task['id']}, headers=BEN)).refused(TASK_NOT_FOUND)
        (await send(other, 'complete', taskId=task['id'], options={'headers': BEN})).refused(TASK_NOT_FOUND)
