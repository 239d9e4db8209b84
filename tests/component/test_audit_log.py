"""The audit log of three bindings: one line for each call, with its outcome, when the outcome is known."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a2a_scribe.transport.audit import logger
from tests.component.kit import DEADLINE
from tests.conformance.kit import held, request_of
from tests.conformance.over_grpc import GrpcWire
from tests.conformance.over_http import JsonRpcWire, RestWire
from tests.conformance.site import QUICK, USER, Service, Site, TrustingBuilder, soon, trusting_builder
from tests.conformance.wire import Wire

pytestmark = pytest.mark.anyio

NAMES = {JsonRpcWire: 'JSONRPC', RestWire: 'HTTP+JSON', GrpcWire: 'GRPC'}
WIRES = pytest.mark.parametrize('kind', NAMES, ids=['jsonrpc', 'rest', 'grpc'])
ANN = [(USER, 'ann')]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with asyncio.timeout(3 * DEADLINE), Site(tmp_path) as opened:
        yield opened


@pytest.fixture
async def service(site: Site, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Service]:
    caplog.set_level(logging.INFO, logger.name)
    async with site.serving(
        settings=replace(QUICK, audit_log=True),
        context_builder=TrustingBuilder(),
        grpc_context_builder=trusting_builder,
    ) as opened:
        yield opened


def told(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == logger.name]


@WIRES
async def test_each_call_is_told_with_who_what_and_how(
    service: Service, kind: type[Wire], caplog: pytest.LogCaptureFixture
) -> None:
    wire = kind(service)
    task = (await wire.call('SendMessage', request_of('ask', tenant='acme'), headers=ANN)).ok()['task']
    params = request_of('complete', taskId=task['id'], tenant='acme')
    streamed = await wire.collect('SendStreamingMessage', params, headers=ANN)
    assert streamed.error is None
    await wire.call('GetTask', {'id': task['id'], 'tenant': 'acme'}, headers=[(USER, 'eve')])
    await wire.call('SendMessage', {'message': {}}, headers=ANN)
    await wire.call('ListTasks', {}, version='9.9', headers=ANN)
    lines = told(caplog)
    assert [(each['operation'], each['owner'], each['outcome']) for each in lines] == [
        ('SendMessage', 'ann', 'OK'),
        ('SendStreamingMessage', 'ann', 'OK'),
        ('GetTask', 'eve', 'TASK_NOT_FOUND'),
        ('SendMessage', 'ann', 'INVALID_PARAMS'),
        ('ListTasks', 'ann', 'VERSION_NOT_SUPPORTED'),
    ]
    assert {each['binding'] for each in lines} == {NAMES[kind]}
    assert [each.get('task') for each in lines[:3]] == [task['id']] * 3
    assert [each.get('tenant') for each in lines[:3]] == ['acme'] * 3
    assert all(each['address'] for each in lines)
    assert len(lines) == 5


@WIRES
async def test_a_stream_is_told_when_it_begins(
    service: Service, site: Site, kind: type[Wire], caplog: pytest.LogCaptureFixture
) -> None:
    wire = kind(service)
    gate = site.unique('gate')
    async with wire.open('SendStreamingMessage', request_of(f'work hold:{gate} complete'), headers=ANN) as events:
        first = await events.next()
        assert first is not None
        (line,) = told(caplog)
        assert (line['operation'], line['outcome'], line['task']) == ('SendStreamingMessage', 'OK', first.value['id'])
        service.agent.open(gate)
        await events.rest()
    assert len(told(caplog)) == 1


@WIRES
async def test_who_goes_before_the_answer_is_told_too(
    service: Service, site: Site, kind: type[Wire], caplog: pytest.LogCaptureFixture
) -> None:
    wire = kind(service)
    gate = site.unique('gate')
    call = asyncio.ensure_future(wire.call('SendMessage', request_of(f'work hold:{gate} complete'), headers=ANN))
    await service.agent.reached(gate)
    call.cancel()

    async def is_told() -> bool:
        return bool(told(caplog))

    await soon(is_told)
    (line,) = told(caplog)
    assert (line['operation'], line['owner'], line['outcome']) == ('SendMessage', 'ann', 'CALLER_GONE')
    service.agent.open(gate)


async def test_each_request_of_a_batch_is_told(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    wire = JsonRpcWire(service)
    batch: list[Any] = [
        wire.prepare('ListTasks', {})['json'],
        wire.prepare('GetTask', {'id': 'none'})['json'],
        {'jsonrpc': '2.0', 'method': 'GetTask', 'params': {'id': 'none'}},
        {'jsonrpc': '2.0', 'id': 1, 'method': 'Nonsense'},
        7,
    ]
    await wire.post(batch, headers=ANN)
    assert [(each.get('operation'), each['outcome']) for each in told(caplog)] == [
        ('ListTasks', 'OK'),
        ('GetTask', 'TASK_NOT_FOUND'),
        ('GetTask', 'TASK_NOT_FOUND'),
        (None, 'METHOD_NOT_FOUND'),
        (None, 'INVALID_REQUEST'),
    ]


async def test_a_batch_whose_caller_goes_is_told_request_by_request(
    service: Service, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    wire = JsonRpcWire(service)
    gate = site.unique('gate')
    batch = [wire.prepare(*each)['json'] for each in (('ListTasks', {}), ('SendMessage', request_of(f'hold:{gate}')))]
    call = asyncio.ensure_future(wire.post(batch, headers=ANN))
    await service.agent.reached(gate)
    call.cancel()

    async def is_told() -> bool:
        return len(told(caplog)) > 1

    await soon(is_told)
    service.agent.open(gate)
    await wire.call('ListTasks', {}, headers=ANN)
    assert [(each.get('operation'), each['outcome']) for each in told(caplog)] == [
        ('ListTasks', 'OK'),
        ('SendMessage', 'CALLER_GONE'),
        ('ListTasks', 'OK'),
    ]


async def test_a_notification_that_fails_is_told(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    wire = JsonRpcWire(service)
    body = {'jsonrpc': '2.0', 'method': 'GetTask', 'params': {'id': 'none'}}
    assert (await wire.post(body, headers=ANN)).status_code == 204
    assert [each['outcome'] for each in told(caplog)] == ['TASK_NOT_FOUND']


async def test_what_is_no_call_is_told_as_far_as_it_is_known(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    wire = RestWire(service)
    await wire.request('GET', '/nowhere')
    await wire.request('PUT', '/tasks')
    await wire.request('POST', '/message:send', content=b'{')
    assert [(each.get('operation'), each['outcome'], each['error']) for each in told(caplog)] == [
        (None, 'METHOD_NOT_FOUND', 'MethodNotFoundError'),
        (None, 'METHOD_NOT_FOUND', 'NotAllowedError'),
        ('SendMessage', 'PARSE_ERROR', 'JSONParseError'),
    ]


async def test_nothing_is_told_unless_it_is_wanted(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger.name)
    async with site.serving() as plain, held(RestWire(plain), site):
        pass
    assert not told(caplog)
