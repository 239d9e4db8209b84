"""Each limit of a request on three bindings: just below it passes, just above it gets its error, which names it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from a2a.types import a2a_pb2
from google.protobuf import json_format
from google.protobuf.struct_pb2 import ListValue, Value

from a2a_scribe import Settings
from a2a_scribe.protocol.codec.wire import DELIMITED, delimited, tag, varint
from a2a_scribe.transport.calls import Wire as Wires
from tests.component.kit import DEADLINE
from tests.conformance.errors import Json
from tests.conformance.kit import found, get, held, message_of, request_of, subscribing, task_of, texts_of
from tests.conformance.over_grpc import GrpcWire
from tests.conformance.over_http import HttpWire, JsonRpcWire, RestWire
from tests.conformance.site import QUICK, USER, Service, Site, TrustingBuilder, soon, trusting_builder
from tests.conformance.wire import Refused, Wire

pytestmark = pytest.mark.anyio

WIRES = pytest.mark.parametrize('kind', [JsonRpcWire, RestWire, GrpcWire], ids=['jsonrpc', 'rest', 'grpc'])
HTTP_WIRES = pytest.mark.parametrize('kind', [JsonRpcWire, RestWire], ids=['jsonrpc', 'rest'])
ANN, BOB = [(USER, 'ann')], [(USER, 'bob')]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with asyncio.timeout(3 * DEADLINE), Site(tmp_path) as opened:
        yield opened


@asynccontextmanager
async def serving(site: Site, **settings: Any) -> AsyncIterator[Service]:
    """A service with these settings, which takes callers' word for who they are."""
    async with site.serving(
        settings=replace(QUICK, **settings),
        context_builder=TrustingBuilder(),
        grpc_context_builder=trusting_builder,
    ) as service:
        yield service


class Outcome(NamedTuple):
    """How a request was answered."""

    status: int | str
    """HTTP's status, or the name of gRPC's."""
    text: str = ''
    """Of the error."""
    retry_after: str | None = None
    reason: str = ''
    fields: tuple[str, ...] = ()


OK = Outcome(200)


async def ask(wire: Wire, operation: str, params: Json, headers: Any = ANN) -> Outcome:
    """Sends a request, and returns how it was answered."""
    if isinstance(wire, HttpWire):
        prepared = wire.prepare(operation, params)
        async with wire.service.http.stream(
            prepared['method'],
            wire.service.url + prepared['path'],
            headers=[('A2A-Version', '1.0'), *headers],
            **{name: value for name, value in prepared.items() if name not in ('method', 'path')},
        ) as response:
            if response.headers['content-type'].startswith('text/event-stream'):
                return OK
            await response.aread()
        body = response.json()
        if response.status_code == 200 and 'error' not in body:
            return OK
        error = body['error']
        details = error.get('details', error.get('data'))
        return Outcome(
            response.status_code,
            error['message'],
            response.headers.get('retry-after'),
            details[0]['reason'],
            tuple(each['field'] for detail in details for each in detail.get('fieldViolations', ())),
        )
    if operation in ('SendStreamingMessage', 'SubscribeToTask'):
        try:
            async with wire.open(operation, params, headers=headers) as stream:
                await stream.next()
        except Refused as refusal:
            told = refusal.error
        else:
            return OK
    else:
        answer = await wire.call(operation, params, headers=headers)
        if answer.error is None:
            return OK
        told = answer.error
    delays = [each['retryDelay'] for each in told.details if 'retryDelay' in each]
    reason = told.details[0]['reason'] if told.details else ''
    fields = [each['field'] for detail in told.details for each in detail.get('fieldViolations', ())]
    return Outcome(str(told.grpc), told.message, delays[0] if delays else None, reason, tuple(fields))


class Bound(NamedTuple):
    """One limit on the size of something."""

    setting: str
    value: int
    make: Callable[[int], Json]
    """Makes a request which has so much of it."""
    field: str
    most: int
    """What may be had of it."""
    operation: str = 'SendMessage'
    http: int = 413


def metadata(size: int) -> Json:
    """Metadata of so many bytes: what stands around a short value takes 9."""
    return {'k': 'x' * (size - 9)}


def parts(count: int) -> Json:
    return {'message': message_of('complete', parts=[{'text': 'complete'}] * count)}


BOUNDS = [
    Bound('message_parts', 3, parts, 'message.parts', 3),
    Bound('metadata_bytes', 100, lambda n: request_of('complete', metadata=metadata(n)), 'metadata', 100),
    Bound(
        'metadata_bytes',
        100,
        lambda n: {'message': message_of('complete', metadata=metadata(n))},
        'message.metadata',
        100,
    ),
    Bound(
        'metadata_bytes',
        100,
        lambda n: {
            'message': message_of(
                '',
                metadata=metadata(50),
                parts=[{'text': 'complete', 'metadata': metadata(n - 50)}],
            )
        },
        'message.metadata',
        100,
    ),
    Bound('page_size', 2, lambda n: {'pageSize': n}, 'pageSize', 2, 'ListTasks', 400),
]


@WIRES
@pytest.mark.parametrize('bound', BOUNDS, ids=[f'{bound.setting}-{bound.field}' for bound in BOUNDS])
async def test_a_request_is_as_large_as_it_may_be(site: Site, kind: type[Wire], bound: Bound) -> None:
    async with serving(site, **{bound.setting: bound.value}) as service:
        wire = kind(service)
        assert await ask(wire, bound.operation, bound.make(bound.most)) == OK
        before = len(await found(wire, pageSize=1))
        refused = await ask(wire, bound.operation, bound.make(bound.most + 1))
        http = 200 if bound.http == 400 and kind is JsonRpcWire else bound.http
        assert refused.status == ('INVALID_ARGUMENT' if wire.is_grpc else http)
        assert (refused.reason, refused.fields) == ('INVALID_PARAMS', (bound.field,))
        assert f'({bound.setting})' in refused.text
        assert len(await found(wire, pageSize=1)) == before


@WIRES
async def test_a_cancel_has_as_much_metadata_as_it_may_have(site: Site, kind: type[Wire]) -> None:
    async with serving(site, metadata_bytes=100) as service:
        wire = kind(service)
        async with held(wire, site) as running:
            refused = await ask(wire, 'CancelTask', {'id': running.id, 'metadata': metadata(101)}, ())
            assert refused.status == ('INVALID_ARGUMENT' if wire.is_grpc else 413)
            assert await ask(wire, 'CancelTask', {'id': running.id, 'metadata': metadata(100)}, ()) == OK


def nested(levels: int) -> Json:
    """A message whose data has so many lists within each other."""
    value: Any = 'x' * 200
    for _ in range(levels):
        value = [value]
    return {'message': message_of('', parts=[{'text': 'complete'}, {'data': value}])}


@HTTP_WIRES
async def test_data_is_nested_as_deeply_as_it_may_be(site: Site, kind: type[HttpWire]) -> None:
    async with serving(site) as service:
        wire = kind(service)
        depths = [levels for levels in range(40, 50) if await ask(wire, 'SendMessage', nested(levels)) == OK]
        deepest = depths[-1]
        assert depths == list(range(40, deepest + 1))
        refused = await ask(wire, 'SendMessage', nested(deepest + 1))
        assert refused.reason in ('INVALID_PARAMS', 'INVALID_REQUEST')
        assert refused.status == (200 if kind is JsonRpcWire else 400)


def nested_bytes(levels: int) -> bytes:
    """The same in protobuf, in which clients cannot write what is nested too deeply."""
    within: list[tuple[Any, str]] = [
        (a2a_pb2.SendMessageRequest, 'message'),
        (a2a_pb2.Message, 'parts'),
        (a2a_pb2.Part, 'data'),
        *[(Value, 'list_value'), (ListValue, 'values')] * levels,
    ]
    body = Value(string_value='x').SerializeToString()
    for kind, name in reversed(within):
        body = delimited(varint(tag(kind.DESCRIPTOR.fields_by_name[name].number, DELIMITED)), body)
    sent = json_format.ParseDict({'message': message_of('complete')}, a2a_pb2.SendMessageRequest())
    return sent.SerializeToString() + body


async def test_data_of_grpc_is_nested_as_deeply_as_it_may_be(site: Site) -> None:
    async with serving(site) as service:
        wire = GrpcWire(service)
        answers = [(await wire.call_bytes('SendMessage', nested_bytes(levels))).error for levels in range(40, 60)]
        deepest = next(number for number, error in enumerate(answers) if error is not None)
        assert deepest > 0
        assert [error.grpc for error in answers[deepest:] if error is not None] == ['INVALID_ARGUMENT'] * (20 - deepest)
        assert (await wire.call_bytes('SendMessage', nested_bytes(10_000))).error is not None
        assert await ask(wire, 'ListTasks', {}) == OK


@WIRES
async def test_a_page_is_never_larger_than_it_may_be(site: Site, kind: type[Wire]) -> None:
    async with serving(site, page_size=2) as service:
        wire = kind(service)
        for _ in range(3):
            await task_of(wire, 'complete')
        page = (await wire.call('ListTasks', {})).ok()
        assert (len(page['tasks']), page['pageSize'], page['totalSize']) == (2, 2, 3)
        rest = (await wire.call('ListTasks', {'pageToken': page['nextPageToken']})).ok()
        assert len(rest['tasks']) == 1


@WIRES
async def test_answers_show_no_more_history_than_they_may(site: Site, kind: type[Wire]) -> None:
    async with serving(site, history_messages=2) as service:
        wire = kind(service)
        task = await task_of(wire, 'ask:1')
        for number in (2, 3):
            task = await task_of(wire, f'ask:{number}', taskId=task['id'])
        newest = ['2', 'ask:3']
        assert texts_of(task) == newest
        assert texts_of(await get(wire, task['id'])) == newest
        assert texts_of(await get(wire, task['id'], historyLength=10)) == newest
        assert texts_of(await get(wire, task['id'], historyLength=1)) == newest[1:]
        assert texts_of((await found(wire, historyLength=10))[0]) == newest
        async with subscribing(wire, task['id']) as events:
            first = await events.next()
            assert first is not None
            assert texts_of(first.value) == newest
        canceled = (await wire.call('CancelTask', {'id': task['id']})).ok()
        assert len(canceled['history']) == 2


@WIRES
async def test_requests_of_one_owner_come_at_their_rate(site: Site, kind: type[Wire]) -> None:
    async with serving(site, requests_per_second=0.01, request_burst=2) as service:
        wire = kind(service)
        for operation, params in (('SendMessage', request_of('complete')), ('ListTasks', {})):
            assert await ask(wire, operation, params) == OK
        for operation, params in (
            ('SendMessage', request_of('complete')),
            ('SendStreamingMessage', request_of('complete')),
            ('ListTasks', {}),
            ('GetTask', {'id': 'x'}),
        ):
            refused = await ask(wire, operation, params)
            assert refused.status == ('RESOURCE_EXHAUSTED' if wire.is_grpc else 429)
            assert refused.reason == 'RATE_LIMITED'
            assert 'requests_per_second' in refused.text
            assert refused.retry_after is not None
            assert 90 <= int(refused.retry_after.removesuffix('s')) <= 100
        assert await ask(wire, 'ListTasks', {}, BOB) == OK
        assert service.agent.finished == 1


async def test_who_is_refused_need_not_send_the_body(site: Site) -> None:
    async with serving(site, requests_per_second=0.01, request_burst=1) as service:
        assert await ask(RestWire(service), 'ListTasks', {}) == OK
        for path in ('/', '/message:send'):
            head = f'POST {path} HTTP/1.1\r\nHost: x\r\n{USER}: ann\r\nContent-Length: 1000000\r\n\r\n{{'
            assert await first_line(service, head.encode()) == b'HTTP/1.1 429 Too Many Requests'


async def test_each_request_of_a_batch_counts(site: Site) -> None:
    async with serving(site, requests_per_second=0.01, request_burst=4) as service:
        wire = JsonRpcWire(service)
        batch = [wire.prepare('ListTasks', {})['json'] for _ in range(4)]
        assert (await wire.post(batch, headers=ANN)).status_code == 200
        assert (await ask(wire, 'ListTasks', {})).status == 429
        assert (await wire.post(batch[:2], headers=BOB)).status_code == 200
        assert (await wire.post(batch[:3], headers=BOB)).status_code == 429


@WIRES
@pytest.mark.parametrize('operation', ['SendStreamingMessage', 'SubscribeToTask'])
@pytest.mark.parametrize('setting', ['max_streams', 'max_streams_per_owner'])
async def test_no_more_streams_are_open_than_may_be(site: Site, kind: type[Wire], operation: str, setting: str) -> None:
    async with serving(site, **{setting: 1}) as service:
        wire = kind(service)
        gate = site.unique('gate')
        one = await begun_as_ann(wire, f'work hold:{gate} complete')

        async def ask_again(headers: Any = ANN) -> Outcome:
            params = {'id': one} if operation == 'SubscribeToTask' else request_of('complete')
            return await ask(wire, operation, params, headers)

        async with wire.open('SubscribeToTask', {'id': one}, headers=ANN) as stream:
            assert await stream.next() is not None
            refused = await ask_again()
            assert refused.status == (
                'RESOURCE_EXHAUSTED' if wire.is_grpc else 503 if setting == 'max_streams' else 429
            )
            assert f'({setting})' in refused.text
            assert refused.retry_after is not None
            assert await ask(wire, 'ListTasks', {}) == OK
            if setting == 'max_streams_per_owner' and operation == 'SendStreamingMessage':
                assert await ask_again(BOB) == OK

        async def is_free() -> bool:
            return (await ask_again()) == OK

        await soon(is_free)
        service.agent.open(gate)


async def begun_as_ann(wire: Wire, script: str) -> str:
    params = request_of(script, configuration={'returnImmediately': True})
    task_id: str = (await wire.call('SendMessage', params, headers=ANN)).ok()['task']['id']
    return task_id


async def first_line(service: Service, request: bytes) -> bytes:
    """Sends bytes and returns the first line of what comes back."""
    host, port = service.url.removeprefix('http://').split(':')
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(request)
        return (await reader.readline()).strip()
    finally:
        writer.close()


@pytest.mark.parametrize('path', ['/', '/message:send'])
async def test_a_body_that_comes_too_slowly_is_not_waited_for(site: Site, path: str) -> None:
    async with serving(site, body_timeout=0.05) as service:
        head = f'POST {path} HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nContent-Length: 100\r\n\r\n{{'
        assert await first_line(service, head.encode()) == b'HTTP/1.1 408 Request Timeout'


@HTTP_WIRES
async def test_a_body_is_as_large_as_it_may_be(site: Site, kind: type[HttpWire]) -> None:
    async with serving(site, request_bytes=1000) as service:
        path = kind(service).prepare('SendMessage', {})['path']
        for size, status in ((1000, b'400'), (1001, b'413')):
            head = f'POST {path} HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nContent-Length: {size}\r\n\r\n'.encode()
            line = await first_line(service, head + b'[' * size)
            assert status in line or (status == b'400' and b' 200 ' in line)


async def test_a_message_of_grpc_is_as_large_as_it_may_be(site: Site) -> None:
    async with serving(site, request_bytes=1000) as service:
        wire = GrpcWire(service)
        assert (await wire.call_bytes('GetTask', b'\x12\xe5\x07' + b'x' * 997)).error is not None
        error = (await wire.call_bytes('GetTask', b'\x12\xe6\x07' + b'x' * 998)).error
        assert error is not None
        assert error.grpc == 'RESOURCE_EXHAUSTED'


async def test_no_more_calls_go_on_over_grpc_than_may(site: Site) -> None:
    async with serving(site, max_connections=1) as service:
        wire = GrpcWire(service)
        gate = site.unique('gate')
        async with wire.open('SendStreamingMessage', request_of(f'work hold:{gate} complete')) as stream:
            assert await stream.next() is not None
            assert (await ask(wire, 'ListTasks', {})).status == 'RESOURCE_EXHAUSTED'
            service.agent.open(gate)
            await stream.rest()

        async def is_free() -> bool:
            return await ask(wire, 'ListTasks', {}) == OK

        await soon(is_free)


async def test_copies_of_a_wire_count_together(site: Site) -> None:
    async with serving(site) as service:
        wire = service.app.state.wire
        assert replace(wire).doors is wire.doors
        assert Wires(wire.handler, wire.card, wire.settings).doors is not wire.doors


def test_the_settings_are_safe_by_themselves() -> None:
    settings = Settings()
    bounded = ('body_timeout', 'header_timeout', 'max_connections', 'max_streams', 'message_parts', 'metadata_bytes')
    assert all(getattr(settings, name) is not None for name in bounded)
