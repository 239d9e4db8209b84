"""Section 9: the agent card: where it is, what it has, what it declares, how it is kept and signed."""

import re
from contextlib import AsyncExitStack

import httpx
from a2a.types.a2a_pb2 import AgentCard, AgentInterface, AgentProvider, AgentSkill
from grpc import aio

from tests.conformance.actor import Actor
from tests.conformance.declaring import declaring
from tests.conformance.errors import METHOD_NOT_FOUND, Json
from tests.conformance.kit import state_of, stream, task_of
from tests.conformance.over_http import RestWire
from tests.conformance.signing import KEY_ID, sign, verify
from tests.conformance.site import Service, Site, extended_card, new_card
from tests.conformance.table import Section
from tests.conformance.wire import GRPC, REST, Binding, Wire

SECTION = Section(9, 'Agent card')

PATH = '/.well-known/agent-card.json'
NAMES = {Binding.JSONRPC: 'JSONRPC', Binding.REST: 'HTTP+JSON', Binding.GRPC: 'GRPC'}


async def card_of(service: Service) -> Json:
    """The card as anyone gets it."""
    response = await service.http.get(service.url + PATH)
    assert response.status_code == 200
    card: Json = response.json()
    return card


PLACE = SECTION.must('8.1', 'The card is at /.well-known/agent-card.json, for everybody')


@PLACE.check(on=REST)
async def card_is_at_its_place(wire: RestWire, site: Site) -> None:
    response = await wire.request('GET', PATH, version=None)
    assert (response.status_code, response.headers['content-type']) == (200, 'application/json')
    assert response.json()['name'] == 'actor'


@PLACE.check(on=REST)
async def card_needs_neither_version_nor_extensions(wire: RestWire, site: Site) -> None:
    other = wire.at(await site.service('extensions'))
    for version in (None, '1.0', '99.0', '0.3'):
        assert (await other.request('GET', PATH, version=version)).json()['name'] == 'actor'


@PLACE.check(on=REST)
async def card_stays_at_its_place_when_bindings_are_elsewhere(wire: RestWire, site: Site) -> None:
    assert (await card_of(await site.service('prefixed')))['name'] == 'actor'


@PLACE.check(on=REST)
async def card_is_only_read(wire: RestWire, site: Site) -> None:
    for method in ('POST', 'PUT', 'DELETE', 'PATCH'):
        response = await wire.request(method, PATH)
        assert response.status_code == 405
        assert set(response.headers['allow'].split(', ')) == {'GET', 'HEAD'}
        assert response.json()['error']['details'][0]['reason'] == METHOD_NOT_FOUND.reason


OLDEST = SECTION.may('8.1', 'Clients older than 0.3 find the card at /.well-known/agent.json')


@OLDEST.check(on=REST)
async def card_is_at_its_old_place_too(wire: RestWire, site: Site) -> None:
    old = wire.at(await site.service('old'))
    response = await old.request('GET', '/.well-known/agent.json', version=None)
    assert response.status_code == 200
    assert response.json()['name'] == 'actor'


FIELDS = SECTION.must('proto', 'The card always has its required fields')
REQUIRED = {
    'name',
    'description',
    'supportedInterfaces',
    'version',
    'capabilities',
    'defaultInputModes',
    'defaultOutputModes',
    'skills',
}


@FIELDS.check(on=REST)
async def card_has_its_required_fields(wire: RestWire, site: Site) -> None:
    usual, bare = [await card_of(await site.service(kind)) for kind in ('usual', 'bare')]
    for card in (usual, bare):
        assert card.keys() >= REQUIRED - {'capabilities'}
        assert card['supportedInterfaces']
    assert (bare['name'], bare['description'], bare['skills'], bare['defaultInputModes']) == ('bare', '', [], [])


@FIELDS.check(on=REST)
async def card_without_capabilities_says_so(wire: RestWire, site: Site) -> None:
    assert (await card_of(await site.service('usual')))['capabilities']['streaming'] is True
    assert (await card_of(await site.service('bare'))).get('capabilities') == {}


@FIELDS.check(on=REST)
async def parts_of_a_card_have_their_required_fields(wire: RestWire, site: Site) -> None:
    given = AgentCard(skills=[AgentSkill(id='s')], provider=AgentProvider(organization='o'))
    given.supported_interfaces.add()
    async with site.serving(given) as service:
        card = await card_of(service)
    assert card['skills'] == [{'id': 's', 'name': '', 'description': '', 'tags': []}]
    assert card['provider'] == {'url': '', 'organization': 'o'}
    assert card['supportedInterfaces'] == [{'url': '', 'protocolBinding': '', 'protocolVersion': ''}]


@FIELDS.check(on=REST)
async def card_is_shown_as_its_author_wrote_it(wire: RestWire, site: Site) -> None:
    async with site.serving(extended_card()) as service:
        card = await card_of(service)
    assert card['skills'] == [
        {'id': 's', 'name': 'a skill', 'description': 'for those who are known', 'tags': ['secret']}
    ]
    assert (card['version'], card['defaultOutputModes']) == ('1', ['text/plain'])
    assert card['capabilities']['pushNotifications'] is True


INTERFACES = SECTION.must('8.3.1', 'Every interface is declared as it is, in the order of preference')


@INTERFACES.check()
async def declared_interface_works(wire: Wire, site: Site) -> None:
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(declaring())
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=None, trust_env=False))
        card = (await http.get(url + PATH)).json()
        assert [each['protocolBinding'] for each in card['supportedInterfaces']] == ['JSONRPC', 'HTTP+JSON', 'GRPC']
        (own,) = (each for each in card['supportedInterfaces'] if each['protocolBinding'] == NAMES[wire.binding])
        assert own['protocolVersion'] == '1.0'
        channel = await stack.enter_async_context(aio.insecure_channel(own['url']))
        place = own['url'].rstrip('/')
        there = wire.at(Service(Actor(), wire.service.app, place, own['url'], http, channel))
        assert state_of(await task_of(there, 'work complete')) == 'COMPLETED'
        assert (await stream(there, 'work complete')).states[-1] == 'COMPLETED'


@INTERFACES.check(on=REST)
async def interfaces_of_the_author_are_kept_in_order(wire: RestWire, site: Site) -> None:
    given = [('GRPC', 'a.test:443', 'x'), ('HTTP+JSON', 'https://a.test/rest', ''), ('JSONRPC', 'https://a.test/', 't')]
    interfaces = [
        AgentInterface(protocol_binding=binding, url=url, tenant=tenant, protocol_version='1.0')
        for binding, url, tenant in given
    ]
    async with site.serving(new_card(supported_interfaces=interfaces)) as service:
        shown = (await card_of(service))['supportedInterfaces']
    assert [(each['protocolBinding'], each['url'], each.get('tenant', '')) for each in shown] == given


@INTERFACES.check(on=REST)
async def only_what_is_served_is_declared(wire: RestWire, site: Site) -> None:
    for left_out, binding in (('rest_prefix', 'JSONRPC'), ('rpc_path', 'HTTP+JSON')):
        options: Json = {left_out: None}
        async with site.serving(AgentCard(name='one'), **options) as service:
            shown = (await card_of(service))['supportedInterfaces']
        assert [each['protocolBinding'] for each in shown] == [binding]


URLS = SECTION.must('proto', 'URLs of interfaces are absolute, https in production; that of gRPC is host and port')


@URLS.check(on=REST)
async def urls_are_those_that_clients_reach(wire: RestWire, site: Site) -> None:
    for url in ('https://agent.example/base', 'https://agent.example/base/'):
        async with site.serving(AgentCard(name='far'), url=url, rpc_path='/rpc', rest_prefix='/rest') as service:
            shown = (await card_of(service))['supportedInterfaces']
        assert [each['url'] for each in shown] == ['https://agent.example/base/rpc', 'https://agent.example/base/rest']


@URLS.check(on=GRPC)
async def url_of_grpc_has_no_scheme(wire: Wire, site: Site) -> None:
    async with declaring() as url, httpx.AsyncClient(trust_env=False) as http:
        shown = (await http.get(url + PATH)).json()['supportedInterfaces']
    (target,) = (each['url'] for each in shown if each['protocolBinding'] == 'GRPC')
    assert re.fullmatch(r'127\.0\.0\.1:\d+', target)


CACHING = SECTION.should('8.6.1', 'The card has Cache-Control and ETag, and If-None-Match is answered with 304')


@CACHING.check(on=REST)
async def card_says_how_long_it_may_be_kept(wire: RestWire, site: Site) -> None:
    response = await wire.request('GET', PATH)
    assert response.headers['cache-control'] == 'public, max-age=60'
    assert re.fullmatch(r'"[^"]+"', response.headers['etag'])


@CACHING.check(on=REST)
async def card_that_has_not_changed_is_304(wire: RestWire, site: Site) -> None:
    etag = (await wire.request('GET', PATH)).headers['etag']
    for given in (etag, f'W/{etag}', f'"other", {etag}', '*'):
        response = await wire.request('GET', PATH, headers=[('If-None-Match', given)])
        assert (response.status_code, response.content, response.headers['etag']) == (304, b'', etag)
        assert response.headers['cache-control'] == 'public, max-age=60'
    assert (await wire.request('GET', PATH, headers=[('If-None-Match', '"other"')])).status_code == 200


@CACHING.check(on=REST)
async def tag_is_that_of_the_content(wire: RestWire, site: Site) -> None:
    tags = []
    for version in ('1', '1', '2'):
        async with site.serving(new_card(version=version)) as service:
            tags.append((await service.http.get(service.url + PATH)).headers['etag'])
    assert tags[0] == tags[1] != tags[2]


@CACHING.check(on=REST)
async def head_of_the_card_has_no_body(wire: RestWire, site: Site) -> None:
    full, head = await wire.request('GET', PATH), await wire.request('HEAD', PATH)
    assert (head.status_code, head.content) == (200, b'')
    for name in ('etag', 'cache-control', 'content-type', 'content-length'):
        assert head.headers[name] == full.headers[name]


SIGNATURES = SECTION.may('8.4', 'Cards are signed: JWS over canonical JSON without the signatures')


@SIGNATURES.check(on=REST)
async def signature_of_the_author_stays_good(wire: RestWire, site: Site) -> None:
    async with site.serving(sign(extended_card())) as service:
        card = await card_of(service)
    assert [verify(card, signature)['kid'] for signature in card['signatures']] == [KEY_ID]


@SIGNATURES.check(on=REST)
async def server_signs_its_card(wire: RestWire, site: Site) -> None:
    card = await card_of(await site.service('signing'))
    assert len(card.get('signatures', [])) == 1
    header = verify(card, card['signatures'][0])
    assert (header['alg'], header['kid'], header['typ']) == ('HS256', KEY_ID, 'JOSE')
