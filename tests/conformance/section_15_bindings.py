"""Section 15: the maps of the bindings: methods, URLs, media types, service parameters."""

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.conformance.errors import METHOD_NOT_FOUND, Json
from tests.conformance.kit import message_of, request_of, task_of
from tests.conformance.over_grpc import SERVICE, GrpcWire
from tests.conformance.over_http import ROUTES, HttpWire, JsonRpcWire, RestWire, envelope
from tests.conformance.site import Site, serving_http
from tests.conformance.table import Section
from tests.conformance.wire import GRPC, HTTP, JSONRPC, REST, Wire

SECTION = Section(15, 'Binding maps')

OPERATIONS = SECTION.must('5.1', 'Every binding has the same operations, with the same results', sdk_fails=True)


@OPERATIONS.check()
async def every_operation_is_there(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'work ask')
    config = {'taskId': task['id'], 'id': 'c'}
    assert (await wire.call('GetTask', {'id': task['id']})).ok() == task
    assert (await wire.call('ListTasks', {'contextId': task['contextId']})).ok()['totalSize'] == 1
    assert (await wire.call('CreateTaskPushNotificationConfig', {**config, 'url': 'https://h.test/'})).ok()['id'] == 'c'
    assert (await wire.call('GetTaskPushNotificationConfig', config)).ok()['url'] == 'https://h.test/'
    assert len((await wire.call('ListTaskPushNotificationConfigs', {'taskId': task['id']})).ok()['configs']) == 1
    assert (await wire.call('DeleteTaskPushNotificationConfig', config)).ok() in ({}, None)
    assert (await wire.call('CancelTask', {'id': task['id']})).ok()['status']['state'] == 'TASK_STATE_CANCELED'
    assert (await wire.collect('SendStreamingMessage', request_of('work complete'))).kinds[0] == 'task'
    assert (await wire.at(await site.service('extended')).call('GetExtendedAgentCard')).ok()['name'] == 'extended'
    assert (await wire.ask('SubscribeToTask', {'id': task['id']})).error is not None


RPC = SECTION.must('9', 'JSON-RPC is one POST endpoint for application/json')


@RPC.check(on=JSONRPC)
async def answers_are_json(wire: JsonRpcWire, site: Site) -> None:
    response = await wire.post(envelope('ListTasks'))
    assert response.headers['content-type'] == 'application/json'


@RPC.check(on=JSONRPC)
async def other_methods_are_405(wire: JsonRpcWire, site: Site) -> None:
    for method in ('GET', 'PUT', 'DELETE', 'PATCH'):
        response = await wire.request(method, '/')
        assert (response.status_code, response.headers['allow']) == (405, 'POST')
        assert response.json()['error']['code'] == METHOD_NOT_FOUND.code


SLASHES = SECTION.should('practice', 'URLs work with and without a slash at their end', sdk_fails=True)


@SLASHES.check(on=JSONRPC)
async def endpoint_takes_a_slash(wire: JsonRpcWire, site: Site) -> None:
    prefixed = wire.at(await site.service('prefixed'))
    for path in ('/a2a/rpc', '/a2a/rpc/'):
        response = await prefixed.request('POST', path, json=envelope('ListTasks'))
        assert 'tasks' in response.json()['result']


@SLASHES.check(on=REST)
async def urls_take_a_slash(wire: RestWire, site: Site) -> None:
    task = await task_of(wire, 'work ask')
    for path in ('/tasks', f'/tasks/{task["id"]}', f'/tasks/{task["id"]}/pushNotificationConfigs'):
        plain, slashed = await wire.request('GET', path), await wire.request('GET', f'{path}/')
        assert (plain.status_code, plain.json()) == (200, slashed.json())
    response = await wire.request('POST', '/message:send/', json={'message': message_of('work complete')})
    assert response.status_code == 200


PREFIXES = SECTION.must('11.3', 'URLs work below a prefix, and below a tenant there', sdk_fails=True)


@PREFIXES.check(on=REST)
async def prefix_comes_before_the_tenant(wire: RestWire, site: Site) -> None:
    prefixed = wire.at(await site.service('prefixed'))
    body = {'message': message_of('work complete')}
    for place, others in (('/a2a/rest', '/a2a/rest/acme'), ('/a2a/rest/acme', '/a2a/rest')):
        response = await prefixed.request('POST', f'{place}/message:send', json=body)
        task = response.json()['task']
        assert (await prefixed.request('GET', f'{place}/tasks/{task["id"]}')).json() == task
        assert (await prefixed.request('GET', f'{others}/tasks/{task["id"]}')).status_code == 404


@PREFIXES.check(on=HTTP)
async def app_works_where_it_is_mounted(wire: HttpWire, site: Site) -> None:
    outer = Starlette(routes=[Mount('/agents/one', app=wire.service.app)])
    async with serving_http(outer) as url:
        for path in ('/agents/one/tasks', '/agents/one/acme/tasks/'):
            response = await wire.service.http.get(url + path, headers={'A2A-Version': '1.0'})
            assert 'tasks' in response.json()
        response = await wire.service.http.post(
            f'{url}/agents/one/', json=envelope('ListTasks'), headers={'A2A-Version': '1.0'}
        )
        assert 'tasks' in response.json()['result']


URLS = SECTION.must('11.3', 'The URLs of HTTP+JSON; subscriptions by POST and by GET')


@URLS.check(on=REST)
async def every_url_is_there(wire: RestWire, site: Site) -> None:
    for name, route in ROUTES.items():
        path = route.path.format('a', 'b')
        for prefix in ('', '/tenant'):
            content = b'{}' if route.method == 'POST' else b''
            response = await wire.request(route.method, prefix + path, content=content)
            error = response.json().get('error', {'details': [{'reason': 'none'}]})
            assert error['details'][0]['reason'] != METHOD_NOT_FOUND.reason, (name, prefix)


@URLS.check(on=REST)
async def subscriptions_are_taken_by_both_methods(wire: RestWire, site: Site) -> None:
    task = await task_of(wire, 'work ask')
    for method in ('GET', 'POST'):
        async with wire.open_request(method, f'/tasks/{task["id"]}:subscribe') as stream:
            event = await stream.next()
            assert event is not None
            assert event.value['id'] == task['id']


QUERIES = SECTION.must('11.5', 'Parameters of GET and DELETE stand in the query, decoded, as camelCase')


@QUERIES.check(on=REST)
async def queries_are_decoded(wire: RestWire, site: Site) -> None:
    context = site.unique('a b&c/ü')
    task = await task_of(wire, 'work complete', contextId=context)
    params = {'contextId': context, 'status': 'TASK_STATE_COMPLETED', 'includeArtifacts': 'true', 'pageSize': '7'}
    page = (await wire.request('GET', '/tasks', params=params)).json()
    assert ([each['id'] for each in page['tasks']], page['pageSize']) == ([task['id']], 7)


@QUERIES.check(on=REST)
async def queries_are_strict(wire: RestWire, site: Site) -> None:
    for name, value in (
        ('includeArtifacts', 'maybe'),
        ('includeArtifacts', 'True'),
        ('pageSize', 'ten'),
        ('pageSize', '1.5'),
        ('historyLength', '99999999999'),
        ('status', 'COMPLETED'),
        ('statusTimestampAfter', 'yesterday'),
    ):
        wire.answer_of(await wire.request('GET', '/tasks', params={name: value})).invalid(name)
    doubled = await wire.request('GET', '/tasks', params=[('pageSize', '1'), ('pageSize', '2')])
    wire.answer_of(doubled).invalid('pageSize')


MEDIA = SECTION.should('11.1', 'HTTP+JSON speaks application/a2a+json, and takes application/json', sdk_fails=True)


@MEDIA.check(on=REST)
async def answers_have_the_type_of_a2a(wire: RestWire, site: Site) -> None:
    for path in ('/tasks', '/tasks/none', '/nope'):
        assert (await wire.request('GET', path)).headers['content-type'] == 'application/a2a+json'
        plain = await wire.request('GET', path, headers=[('Accept', 'application/json')])
        assert plain.headers['content-type'] == 'application/json'


@MEDIA.check(on=REST)
async def both_types_are_taken(wire: RestWire, site: Site) -> None:
    content = b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"work complete"}]}}'
    for kind in ('application/json', 'application/a2a+json', 'application/json; charset=utf-8'):
        response = await wire.request('POST', '/message:send', content=content, headers=[('Content-Type', kind)])
        assert response.status_code == 200


@MEDIA.check(on=HTTP)
async def other_types_are_415(wire: HttpWire, site: Site) -> None:
    path = '/' if wire.binding == 'jsonrpc' else '/message:send'
    for kind in ('text/plain', 'application/x-www-form-urlencoded', 'application/xml', 'multipart/form-data'):
        response = await wire.request('POST', path, content=b'{}', headers=[('Content-Type', kind)])
        assert response.status_code == 415
        assert 'error' in response.json()


SERVICES = SECTION.must('10', 'gRPC has the service lf.a2a.v1.A2AService')


@SERVICES.check(on=GRPC)
async def service_has_every_method(wire: GrpcWire, site: Site) -> None:
    assert SERVICE.full_name == 'lf.a2a.v1.A2AService'
    for method in SERVICE.methods:
        if method.name not in ('SendStreamingMessage', 'SubscribeToTask', 'ListTasks', 'GetExtendedAgentCard'):
            error = (await wire.call(method.name, {})).error
            assert error is not None
            assert error.grpc == 'INVALID_ARGUMENT', method.name


@SERVICES.check(on=GRPC)
async def unknown_methods_are_unimplemented(wire: GrpcWire, site: Site) -> None:
    error = (await wire.call_bytes('Nope', b'')).error
    assert error is not None
    assert error.grpc == 'UNIMPLEMENTED'


BESIDE = SECTION.ours('10', 'gRPC has reflection and the health service')


@BESIDE.check(on=GRPC)
async def reflection_lists_the_services(wire: GrpcWire, site: Site) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(wire.service.channel)
    requests = iter([reflection_pb2.ServerReflectionRequest(list_services='')])
    async for response in stub.ServerReflectionInfo(requests):
        names = {each.name for each in response.list_services_response.service}
        assert {SERVICE.full_name, 'grpc.health.v1.Health'} <= names


@BESIDE.check(on=GRPC)
async def health_says_that_it_serves(wire: GrpcWire, site: Site) -> None:
    stub = health_pb2_grpc.HealthStub(wire.service.channel)
    for name in ('', SERVICE.full_name):
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await stub.Check(health_pb2.HealthCheckRequest(service='nope'))
    assert refusal.value.code() == grpc.StatusCode.NOT_FOUND


PARAMETERS = SECTION.must('3.2.6', 'Names of service parameters do not depend on upper and lower case')


@PARAMETERS.check(on=HTTP)
async def headers_are_taken_in_any_case(wire: HttpWire, site: Site) -> None:
    for name in ('a2a-version', 'A2A-VERSION', 'A2a-VeRsIoN'):
        answer = await wire.call('ListTasks', {}, version=None, headers=[(name, '1.0')])
        assert 'tasks' in answer.ok()


@PARAMETERS.check(on=HTTP)
async def query_parameters_are_taken_in_any_case(wire: HttpWire, site: Site) -> None:
    for name in ('A2A-Version', 'a2a-version'):
        if wire.binding == 'jsonrpc':
            request: Json = {'method': 'POST', 'path': f'/?{name}=1.0', 'json': envelope('ListTasks')}
        else:
            request = {'method': 'GET', 'path': f'/tasks?{name}=1.0'}
        response = await wire.request(**request, version=None)
        assert wire.answer_of(response).ok()['pageSize'] == 50
