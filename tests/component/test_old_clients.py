"""Clients of version 0.3 at the addresses of 1.0: who is served, by which card, and that nothing else is different."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old_pb2
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc as old_grpc
from a2a.compat.v0_3 import types
from a2a.server.context import ServerCallContext
from a2a.server.routes import ServerCallContextBuilder
from a2a.types import a2a_pb2, a2a_pb2_grpc
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    APIKeySecurityScheme,
    HTTPAuthSecurityScheme,
    MutualTlsSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from google.protobuf import json_format
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from starlette.applications import Starlette
from starlette.requests import Request

from a2a_scribe import Settings, create_app, create_jsonrpc_routes, create_rest_routes
from a2a_scribe.protocol.states import COMPLETED, INPUT_REQUIRED, WORKING
from a2a_scribe.server import serve_grpc
from a2a_scribe.testing.agents import ScriptedAgent, Step, artifact, emit, status, wait
from a2a_scribe.transport.card_signing import card_signer
from tests.component.kit import DEADLINE, NamedUser

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
CARD, OLD_CARD = '/.well-known/agent-card.json', '/.well-known/agent.json'
SEQUENCE = 'urn:a2a-scribe:extension:sequence:1'
AT = 'http://agent.test'
DONE = (emit(status(WORKING), artifact('one', 'a'), status(COMPLETED)),)
ASKING = (emit(status(INPUT_REQUIRED)),)
NEW = {'messageId': 'm', 'role': 'ROLE_USER', 'parts': [{'text': 'hi'}]}


def new_card(*versions: str, **fields: Any) -> AgentCard:
    """A card with an interface for each version, or with none at all."""
    given: Json = {
        'name': 'agent',
        'description': 'An agent.',
        'version': '1',
        'supported_interfaces': [
            AgentInterface(url=f'{AT}/own', protocol_binding='JSONRPC', protocol_version=version)
            for version in versions
        ],
        'capabilities': AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        'default_input_modes': ['text/plain'],
        'default_output_modes': ['text/plain'],
        'skills': [AgentSkill(id='s', name='skill', description='A skill.', tags=['t'])],
    }
    return AgentCard(**(given | fields))


class ByHeader(ServerCallContextBuilder):
    """Takes the header's word for who calls."""

    def build(self, request: Request) -> ServerCallContext:
        return ServerCallContext(user=NamedUser(request.headers.get('x-user', 'ada')))


@asynccontextmanager
async def opened(
    *script: Step, card: AgentCard | None = None, compat: bool | None = True, **options: Any
) -> AsyncIterator[tuple[Starlette, httpx.AsyncClient]]:
    """An app, and a client that names no version."""
    agent = ScriptedAgent(script or DONE)
    app = create_app(
        agent,
        card or new_card(),
        'memory',
        url=AT,
        enable_v0_3_compat=compat,
        context_builder=ByHeader(),
        **options,
    )
    transport = httpx.ASGITransport(app)
    async with (
        asyncio.timeout(DEADLINE),
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=AT) as http,
    ):
        yield app, http
        agent.open_all()


def envelope(method: str, params: object = None, number: int | None = 1) -> Json:
    body: Json = {'jsonrpc': '2.0', 'method': method, 'params': params}
    return body if number is None else {**body, 'id': number}


def params_of(**fields: Any) -> Json:
    return {'message': {'messageId': 'm', 'role': 'user', 'parts': [{'kind': 'text', 'text': 'hi'}], **fields}}


def body_of(**fields: Any) -> Json:
    message = {'messageId': 'm', 'role': 'ROLE_USER', 'content': [{'text': 'hi'}], **fields}
    return {'message': message, 'configuration': {'blocking': True}}


async def rpc(http: httpx.AsyncClient, method: str, params: object = None, **headers: str) -> Json:
    response = await http.post('/', json=envelope(method, params), headers={'x-user': 'ada', **headers})
    assert response.status_code == 200
    body: Json = response.json()
    return body


def blocks_of(response: httpx.Response) -> list[dict[str, str]]:
    """The events of a stream, each of its blocks one."""
    assert response.headers['content-type'].startswith('text/event-stream')
    blocks = response.text.split('\n\n')[:-1]  # what is not ended by an empty line is no event
    return [dict(line.split(': ', 1) for line in block.split('\n')) for block in blocks]


# Who is served


@pytest.mark.parametrize(
    ('versions', 'compat', 'served'),
    [
        ((), None, False),
        ((), True, True),
        (('1.0',), None, False),
        (('1.0', '0.3'), None, True),
        (('1.0', '0.3.0'), None, True),
        (('1.0', '0.3'), False, False),
        (('1.0',), True, True),
    ],
)
async def test_card_or_option_says_who_is_served(versions: tuple[str, ...], compat: bool | None, served: bool) -> None:
    async with opened(card=new_card(*versions), compat=compat) as (app, http):
        answer = await rpc(http, 'message/send', params_of())
        assert ('result' in answer) is served
        assert served or answer['error']['code'] == -32009
        assert (await http.post('/v1/message:send', json=body_of())).status_code == (200 if served else 400)
        assert (await http.get(OLD_CARD)).status_code == (200 if served else 404)
        assert ('url' in (await http.get(CARD)).json()) is served
        async with serve_grpc(app) as port, grpc.aio.insecure_channel(f'127.0.0.1:{port}') as channel:
            stub: Any = old_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
            call = stub.GetTask(old_pb2.GetTaskRequest(name='tasks/none'))
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await call
            wanted = grpc.StatusCode.NOT_FOUND if served else grpc.StatusCode.UNIMPLEMENTED
            assert raised.value.code() == wanted


async def test_routes_of_ones_own_serve_them_too() -> None:
    async with opened(compat=False) as (app, _):
        handler = app.state.handler
        routes = [
            *create_jsonrpc_routes(handler, '/rpc', enable_v0_3_compat=True),
            *create_rest_routes(handler, path_prefix='/rest', enable_v0_3_compat=True),
        ]
        transport = httpx.ASGITransport(Starlette(routes=routes))
        async with httpx.AsyncClient(transport=transport, base_url=AT) as http:
            answer = (await http.post('/rpc', json=envelope('message/send', params_of()))).json()
            assert answer['result']['status']['state'] == 'completed'
            assert (await http.post('/rest/v1/message:send', json=body_of())).status_code == 200


@pytest.mark.parametrize('version', [None, '', '0.3', '0.3.0', '0.3.17'])
async def test_version_says_which_methods_there_are(version: str | None) -> None:
    headers = {} if version is None else {'A2A-Version': version}
    async with opened() as (_, http):
        assert 'result' in await rpc(http, 'message/send', params_of(), **headers)
        told = (await rpc(http, 'SendMessage', params_of(), **headers))['error']
        assert told['code'] == -32601
        assert 'in version 0.3; for 1.0 send A2A-Version' in told['message']
        refused = await http.get('/tasks', headers=headers)
        assert (refused.status_code, refused.json()['code']) == (404, -32601)
        assert 'for 1.0 send A2A-Version' in refused.json()['message']


async def test_version_1_is_not_answered_in_old_forms() -> None:
    new = {'A2A-Version': '1.0'}
    async with opened() as (_, http):
        assert (await rpc(http, 'message/send', params_of(), **new))['error']['code'] == -32601
        listed = (await http.get('/tasks', headers=new)).json()
        assert listed['totalSize'] == 0
        # Below /v1 there is the tenant of that name.
        assert (await http.get('/v1/tasks', headers=new)).json() == listed
        told = (await rpc(http, 'tasks/get', {'id': 't'}, **{'A2A-Version': '2.0'}))['error']
        assert told['code'] == -32009
        assert told['data'][0]['metadata'] == {'supportedVersions': '1.0, 0.3'}


async def test_version_may_stand_in_the_query() -> None:
    async with opened() as (_, http):
        response = await http.post('/?A2A-Version=0.3', json=envelope('message/send', params_of()))
        assert response.json()['result']['kind'] == 'task'
        response = await http.post('/?A2A-Version=1.0', json=envelope('SendMessage', {'message': NEW}))
        assert response.json()['result']['task']['status']['state'] == 'TASK_STATE_COMPLETED'


async def test_services_of_grpc_speak_one_version_each() -> None:
    async with (
        opened() as (app, _),
        serve_grpc(app) as port,
        grpc.aio.insecure_channel(f'127.0.0.1:{port}') as channel,
    ):
        new: Any = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
        old: Any = old_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
        for version in ('', '0.3', '2.0'):
            with pytest.raises(grpc.aio.AioRpcError, match=r'is not supported: send A2A-Version: 1\.0'):
                await new.ListTasks(a2a_pb2.ListTasksRequest(), metadata=[('a2a-version', version)])
        with pytest.raises(grpc.aio.AioRpcError, match=r'is not supported: send A2A-Version: 0\.3'):
            await old.GetTask(old_pb2.GetTaskRequest(name='tasks/t'), metadata=[('a2a-version', '1.0')])


async def test_reflection_shows_both_services() -> None:
    async with opened() as (app, _), serve_grpc(app) as port:

        def services() -> set[str]:
            with grpc.insecure_channel(f'127.0.0.1:{port}') as channel:
                return set(ProtoReflectionDescriptorDatabase(channel).get_services())

        assert {'lf.a2a.v1.A2AService', 'a2a.v1.A2AService'} <= await asyncio.to_thread(services)


# The card


async def test_card_has_the_fields_of_both_versions() -> None:
    schemes = {
        'bearer': SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme='Bearer')),
        'key': SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(name='x-key', location='header')),
        'mtls': SecurityScheme(mtls_security_scheme=MutualTlsSecurityScheme()),
    }
    requirement = SecurityRequirement(schemes={'bearer': StringList(), 'key': StringList()})
    card = new_card(security_schemes=schemes, security_requirements=[requirement])
    async with opened(card=card) as (_, http):
        both, old = (await http.get(CARD)).json(), (await http.get(OLD_CARD)).json()
    read = types.AgentCard.model_validate(both)
    assert read == types.AgentCard.model_validate(old)
    assert (read.url, read.preferred_transport, read.protocol_version) == (f'{AT}/', 'JSONRPC', '0.3')
    assert [(each.transport, each.url) for each in read.additional_interfaces or []] == [('HTTP+JSON', AT)]
    assert read.security == [{'bearer': [], 'key': []}]
    assert set(read.security_schemes or {}) == set(schemes)
    new = json_format.ParseDict(both, AgentCard(), ignore_unknown_fields=True)
    assert dict(new.security_schemes) == schemes
    assert new.skills == card.skills
    assert [(each.protocol_version, each.protocol_binding) for each in new.supported_interfaces] == [
        (version, binding) for version in ('1.0', '0.3') for binding in ('JSONRPC', 'HTTP+JSON')
    ]
    assert 'supportedInterfaces' not in old


async def test_card_of_an_author_who_names_no_old_interface_says_the_same_urls() -> None:
    async with opened(card=new_card('1.0')) as (_, http):
        card = (await http.get(CARD)).json()
    assert (card['url'], card['protocolVersion']) == (f'{AT}/own', '0.3')
    assert [each['protocolVersion'] for each in card['supportedInterfaces']] == ['1.0']


async def test_signed_card_has_nothing_that_was_not_signed() -> None:
    signer = card_signer(b'long enough, and for tests only: no secret', 'HS256', 'k')
    async with opened(card=new_card(), card_signer=signer) as (_, http):
        card, old = (await http.get(CARD)).json(), (await http.get(OLD_CARD)).json()
    assert card['signatures']
    assert 'url' not in card
    assert old['url'] == f'{AT}/'
    assert 'signatures' not in old


async def test_extended_card_is_in_their_form() -> None:
    schemes = {'bearer': SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme='Bearer'))}
    extended = new_card('1.0', name='extended', security_schemes=schemes)
    async with opened(extended_agent_card=extended) as (_, http):
        over_rpc = (await rpc(http, 'agent/getAuthenticatedExtendedCard'))['result']
        over_http = (await http.get('/v1/card', headers={'x-user': 'ada'})).json()
    assert over_rpc['securitySchemes'] == {'bearer': {'type': 'http', 'scheme': 'Bearer'}}
    for card in (over_rpc, over_http):
        assert types.AgentCard.model_validate(card).name == 'extended'
    read = json_format.ParseDict(over_http, old_pb2.AgentCard(), ignore_unknown_fields=True)
    assert read.security_schemes['bearer'].http_auth_security_scheme.scheme == 'Bearer'


# Streams


async def test_stream_is_resumed_after_an_event() -> None:
    async with opened() as (_, http):
        whole = blocks_of(await http.post('/', json=envelope('message/stream', params_of())))
        task_id = json.loads(whole[0]['data'])['result']['id']
        for number, block in enumerate(whole):
            seen = {'Last-Event-ID': block['id']}
            rest = await http.post('/', json=envelope('tasks/resubscribe', {'id': task_id}), headers=seen)
            assert [(each['id'], each['data']) for each in blocks_of(rest)] == [
                (each['id'], each['data']) for each in whole[number + 1 :]
            ]
            over_http = await http.get(f'/v1/tasks/{task_id}:subscribe', headers=seen)
            assert [each['id'] for each in blocks_of(over_http)] == [each['id'] for each in whole[number + 1 :]]


async def test_every_block_of_a_stream_is_an_event() -> None:
    """Some clients take a block without data for an event that they cannot read."""
    settings = Settings(stream_keep_alive=0.001, poll_interval=0.01, create_task_after=0.001)
    agent = ScriptedAgent([emit(status(WORKING)), wait('gate'), emit(status(COMPLETED))])
    app = create_app(agent, new_card(), 'memory', url=AT, enable_v0_3_compat=True, settings=settings)
    async with asyncio.timeout(DEADLINE), app.router.lifespan_context(app):
        sent: list[bytes] = []

        async def send(message: Any) -> None:
            sent.append(message.get('body', b''))
            if b''.join(sent).count(b'keep-alive') > 2:
                agent.open('gate')

        body = json.dumps(envelope('message/stream', params_of())).encode()
        requests = iter([{'type': 'http.request', 'body': body, 'more_body': False}])

        async def receive() -> Any:
            for request in requests:
                return request
            return await asyncio.Event().wait()

        scope = {'type': 'http', 'method': 'POST', 'path': '/', 'headers': [], 'query_string': b''}
        await app(scope, receive, send)
    blocks = [block for block in b''.join(sent).decode().split('\n\n') if block]
    assert blocks[0].startswith('retry: ')
    assert all('\ndata: ' in f'\n{block}' for block in blocks)
    assert json.loads(blocks[-1].rpartition('data: ')[2])['result']['final'] is True


async def test_error_of_a_stream_is_told_in_a_stream() -> None:
    async with opened() as (_, http):
        for method, params, code in (
            ('tasks/resubscribe', {'id': 'none'}, -32001),
            ('message/stream', {}, -32602),
            ('message/stream', params_of(taskId='none'), -32001),
        ):
            [block] = blocks_of(await http.post('/', json=envelope(method, params)))
            assert (block['event'], json.loads(block['data'])['error']['code']) == ('error', code)
        response = await http.post('/v1/tasks/none:subscribe')
        assert (response.status_code, response.json()['code']) == (404, -32001)


async def test_message_cannot_be_resumed() -> None:
    async with opened() as (_, http):
        response = await http.post('/', json=envelope('message/stream', params_of()), headers={'Last-Event-ID': '1'})
        assert json.loads(blocks_of(response)[0]['data'])['error']['code'] == -32602


async def test_extensions_have_their_old_name() -> None:
    async with opened() as (_, http):
        for name in ('X-A2A-Extensions', 'A2A-Extensions'):
            response = await http.post('/', json=envelope('message/stream', params_of()), headers={name: SEQUENCE})
            assert response.headers['X-A2A-Extensions'] == SEQUENCE
            assert 'A2A-Extensions' not in response.headers
            last = blocks_of(response)[-1]
            assert json.loads(last['data'])['result']['metadata'] == {SEQUENCE: int(last['id'])}


async def test_agent_sees_extensions_by_their_old_name() -> None:
    async with opened() as (app, http):
        await rpc(http, 'message/send', params_of(), **{'X-A2A-Extensions': 'urn:a, urn:b'})
        await rpc(http, 'SendMessage', {'message': NEW}, **{'X-A2A-Extensions': 'urn:a', 'A2A-Version': '1.0'})
    contexts = app.state.handler.agent_executor.contexts
    assert [context.requested_extensions for context in contexts] == [{'urn:a', 'urn:b'}, set()]


async def test_extension_that_is_required_is_asked_for_in_old_words() -> None:
    capabilities = AgentCapabilities(streaming=True, extensions=[AgentExtension(uri='urn:must', required=True)])
    async with opened(card=new_card(capabilities=capabilities)) as (_, http):
        told = (await rpc(http, 'message/send', params_of()))['error']
        assert (told['code'], told['message']) == (-32600, 'The agent requires X-A2A-Extensions: urn:must')
        assert 'result' in await rpc(http, 'message/send', params_of(), **{'X-A2A-Extensions': 'urn:must'})


# What is as in 1.0


async def test_tasks_of_others_are_not_there() -> None:
    async with opened(*ASKING) as (_, http):
        task_id = (await rpc(http, 'message/send', params_of()))['result']['id']
        config = {'url': 'https://example.com/'}
        await rpc(http, 'tasks/pushNotificationConfig/set', {'taskId': task_id, 'pushNotificationConfig': config})
        named = {'id': task_id, 'pushNotificationConfigId': task_id}
        for method, params in (
            ('message/send', params_of(taskId=task_id)),
            ('tasks/get', {'id': task_id}),
            ('tasks/cancel', {'id': task_id}),
            ('tasks/pushNotificationConfig/set', {'taskId': task_id, 'pushNotificationConfig': config}),
            ('tasks/pushNotificationConfig/get', {'id': task_id}),
            ('tasks/pushNotificationConfig/get', named),
            ('tasks/pushNotificationConfig/list', {'id': task_id}),
            ('tasks/pushNotificationConfig/delete', named),
        ):
            answers = [
                (await rpc(http, method, json.loads(json.dumps(params).replace(task_id, each)), **{'x-user': 'bob'}))
                for each in (task_id, 'none')
            ]
            assert answers[0] == json.loads(json.dumps(answers[1]).replace('none', task_id)), method
            assert answers[0]['error']['code'] == -32001, method
        for path in (task_id, f'{task_id}:subscribe', f'{task_id}/pushNotificationConfigs'):
            response = await http.get(f'/v1/tasks/{path}', headers={'x-user': 'bob'})
            assert response.status_code == 404
        assert (await rpc(http, 'tasks/get', {'id': task_id}))['result']['id'] == task_id


async def test_part_of_an_id_is_no_id() -> None:
    async with opened(*ASKING) as (_, http):
        task_id = (await http.post('/v1/message:send', json=body_of(), headers={'x-user': 'ada'})).json()['task']['id']
        for wrong in (f'{task_id}%2Fx', f'{task_id}%0A', f'x%2F{task_id}'):
            assert (await http.get(f'/v1/tasks/{wrong}', headers={'x-user': 'ada'})).status_code == 404
            assert (await http.post(f'/v1/tasks/{wrong}:cancel', headers={'x-user': 'ada'})).status_code == 404
        assert (await http.get(f'/v1/tasks/{task_id}', headers={'x-user': 'ada'})).status_code == 200


async def test_message_that_is_sent_again_is_executed_once() -> None:
    async with opened() as (_, http):
        answers = [await rpc(http, 'message/send', params_of(), **{'Idempotency-Key': 'k'}) for _ in range(2)]
        assert answers[0]['result'] == answers[1]['result']
        answer = await rpc(http, 'SendMessage', {'message': NEW}, **{'Idempotency-Key': 'k', 'A2A-Version': '1.0'})
        assert answer['result']['task']['id'] == answers[0]['result']['id']


async def test_config_without_an_id_is_the_one_of_its_task() -> None:
    async with opened(*ASKING) as (_, http):
        task_id = (await rpc(http, 'message/send', params_of()))['result']['id']
        missing = await rpc(http, 'tasks/pushNotificationConfig/get', {'id': task_id})
        assert missing['error']['code'] == -32001
        other = {'id': 'a', 'url': 'https://example.com/other'}
        await rpc(http, 'tasks/pushNotificationConfig/set', {'taskId': task_id, 'pushNotificationConfig': other})
        found = (await rpc(http, 'tasks/pushNotificationConfig/get', {'id': task_id}))['result']
        assert found['pushNotificationConfig']['url'] == 'https://example.com/other'
        for number in (1, 2):
            config = {'url': f'https://example.com/{number}'}
            await rpc(http, 'tasks/pushNotificationConfig/set', {'taskId': task_id, 'pushNotificationConfig': config})
        found = (await rpc(http, 'tasks/pushNotificationConfig/get', {'id': task_id}))['result']
        assert found['pushNotificationConfig'] == {'id': task_id, 'url': 'https://example.com/2'}
        listed = (await rpc(http, 'tasks/pushNotificationConfig/list', {'id': task_id}))['result']
        assert len(listed) == 2


async def test_all_configs_are_listed_unless_a_page_is_asked_for() -> None:
    async with opened(*ASKING) as (app, http), serve_grpc(app, context_builder=as_ada) as port:
        task_id = (await rpc(http, 'message/send', params_of()))['result']['id']
        ids = sorted([task_id, *(f'a{number:03}' for number in range(102))])
        for config_id in ids:
            config = {'id': config_id, 'url': f'https://example.com/{config_id}'}
            await rpc(http, 'tasks/pushNotificationConfig/set', {'taskId': task_id, 'pushNotificationConfig': config})
        found = (await rpc(http, 'tasks/pushNotificationConfig/list', {'id': task_id}))['result']
        assert sorted(each['pushNotificationConfig']['id'] for each in found) == ids
        own = (await rpc(http, 'tasks/pushNotificationConfig/get', {'id': task_id}))['result']
        assert own['pushNotificationConfig']['id'] == task_id
        path = f'/v1/tasks/{task_id}/pushNotificationConfigs'
        assert len((await http.get(path, headers={'x-user': 'ada'})).json()['configs']) == len(ids)
        page = (await http.get(path, params={'pageSize': 60}, headers={'x-user': 'ada'})).json()
        more = {'pageSize': 60, 'pageToken': page['nextPageToken']}
        rest = (await http.get(path, params=more, headers={'x-user': 'ada'})).json()
        assert (len(page['configs']), len(rest['configs']), 'nextPageToken' in rest) == (60, 43, False)
        async with grpc.aio.insecure_channel(f'127.0.0.1:{port}') as channel:
            stub = old_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
            asked = old_pb2.ListTaskPushNotificationConfigRequest(parent=f'tasks/{task_id}', page_size=60)
            first = await stub.ListTaskPushNotificationConfig(asked)
            asked.page_token = first.next_page_token
            second = await stub.ListTaskPushNotificationConfig(asked)
        assert (len(first.configs), len(second.configs), second.next_page_token) == (60, 43, '')


def as_ada(_: Any) -> ServerCallContext:
    return ServerCallContext(user=NamedUser('ada'))


async def test_batches_and_notifications_are_answered() -> None:
    async with opened() as (_, http):
        batch = [envelope('message/send', params_of(), 1), envelope('tasks/get', {'id': 'none'}, 2), 3]
        first, second, third = (await http.post('/', json=batch)).json()
        assert first['result']['status']['state'] == 'completed'
        assert (second['error']['code'], third['error']['code']) == (-32001, -32600)
        for method in ('message/send', 'message/stream', 'nothing'):
            assert (await http.post('/', json=envelope(method, params_of(), None))).status_code == 204


async def test_what_is_too_large_is_refused() -> None:
    async with opened(settings=Settings(request_bytes=10_000, request_values=1_000)) as (_, http):
        large, many = params_of(metadata={'a': 'x' * 10_000}), params_of(metadata={'a': [1] * 2_000})
        for params in (large, many):
            response = await http.post('/', json=envelope('message/send', params))
            assert (response.status_code, response.json()['error']['code']) == (413, -32600)
        response = await http.post('/v1/message:send', json=body_of(metadata={'a': 'x' * 10_000}))
        assert (response.status_code, response.json()['code']) == (413, -32600)


@pytest.mark.parametrize(
    ('method', 'path', 'content', 'status', 'code'),
    [
        ('GET', '/v1/message:send', None, 405, -32601),
        ('POST', '/v1/message:send', b'{', 400, -32700),
        ('POST', '/v1/message:send', b'[]', 400, -32602),
        ('POST', '/v1/message:send', b'{}', 400, -32602),
        ('POST', '/v1/message:send', b'{"message": {"role": "nobody"}}', 400, -32602),
        ('POST', '/v1/message:send', b'{"message": {"content": [{}]}}', 400, -32602),
        ('POST', '/v1/tasks/t/pushNotificationConfigs', b'{}', 400, -32602),
        ('GET', '/v1/tasks/t?historyLength=x', None, 400, -32602),
        ('GET', '/v1/nothing', None, 404, -32601),
        ('GET', '/v1/tasks', None, 404, -32601),
        ('GET', '/tenant/v1/card', None, 404, -32601),
    ],
)
async def test_error_over_http_says_its_code(
    method: str, path: str, content: bytes | None, status: int, code: int
) -> None:
    async with opened() as (_, http):
        response = await http.request(method, path, content=content)
        assert (response.status_code, response.json()['code']) == (status, code)
        assert response.headers['content-type'] == 'application/json'
