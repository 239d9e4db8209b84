"""Clients of version 0.3 where callers are known, counted and told: they get no further than others, on any binding."""

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
from tests.component.old_calls import CARDS, OldCall, Seen, all_calls, calls_about, see
from tests.conformance.doorman import ANN, BEN, POWERLESS, UNKNOWN, Doorman, bearing
from tests.conformance.kit import held, request_of
from tests.conformance.old import old_params
from tests.conformance.over_grpc import GrpcWire
from tests.conformance.over_http import JsonRpcWire, RestWire, envelope
from tests.conformance.section_16_security import renamed, tasks_in_every_state, unknown
from tests.conformance.site import QUICK, Service, Site, soon, with_old_interfaces
from tests.conformance.wire import Pairs, Wire

pytestmark = pytest.mark.anyio

WIRES = pytest.mark.parametrize('kind', [JsonRpcWire, RestWire, GrpcWire], ids=['jsonrpc', 'rest', 'grpc'])
STRANGERS: dict[str, Pairs] = {'nobody': (), 'a stranger': bearing(UNKNOWN), 'two': (*ANN, *BEN)}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with asyncio.timeout(3 * DEADLINE), Site(tmp_path) as opened:
        yield opened


def serving(site: Site, **settings: Any) -> Any:
    """A server for both versions that asks who calls."""
    return site.serving(
        with_old_interfaces(),
        extended_agent_card=with_old_interfaces('extended'),
        authenticate=Doorman(),
        settings=replace(QUICK, **settings),
    )


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[Any, ...]]:
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == logger.name]
    return [(each.get('operation'), each.get('owner'), each['outcome']) for each in lines]


def is_refused(wire: Wire, seen: Seen, http: int, grpc: str) -> bool:
    return bool(seen.status == (grpc if wire.is_grpc else http))


@WIRES
async def test_strangers_get_nothing_done(site: Site, kind: type[Wire]) -> None:
    async with serving(site) as service:
        wire = kind(service)
        task = (await wire.call('SendMessage', request_of('ask'), headers=ANN)).ok()['task']
        contexts = len(service.agent.contexts)
        for call in all_calls(wire, task['id']):
            for name, headers in STRANGERS.items():
                seen = await see(wire, call, headers)
                assert is_refused(wire, seen, 401, 'UNAUTHENTICATED'), (call, name, seen)
                assert seen.challenges == ['Bearer realm="a2a"']
            for task_id in (task['id'], unknown(task)):
                denied = OldCall(*renamed(list(call), task['id'], task_id))
                seen = await see(wire, denied, bearing(POWERLESS))
                assert is_refused(wire, seen, 403, 'PERMISSION_DENIED'), (call, seen)
        assert len(service.agent.contexts) == contexts
        assert (await wire.call('GetTask', {'id': task['id']}, headers=ANN)).ok() == task


@WIRES
async def test_who_is_known_is_served_and_told(site: Site, kind: type[Wire], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger.name)
    async with serving(site, audit_log=True) as service:
        wire = kind(service)
        calls = [CARDS[wire.binding], *calls_about(wire, 'none')]
        for call in calls:
            await see(wire, call, ANN)
    assert told(caplog) == [
        ('GetExtendedAgentCard', 'ann', 'OK'),
        *[(call.operation, 'ann', 'TASK_NOT_FOUND') for call in calls[1:]],
    ]


@WIRES
async def test_authenticator_is_told_what_was_asked_for(site: Site, kind: type[Wire]) -> None:
    async with serving(site) as service:
        wire = kind(service)
        doorman = service.app.state.wire.authenticate
        for call in all_calls(wire, 'none'):
            await see(wire, call, ANN)
            method = call.method.rpartition(' ')[2]
            wanted = '/' if kind is JsonRpcWire else f'/a2a.v1.A2AService/{method}' if wire.is_grpc else method
            assert doorman.calls[-1].url == wanted


@WIRES
async def test_tasks_of_others_do_not_exist(site: Site, kind: type[Wire]) -> None:
    async with serving(site) as service:
        wire = kind(service)
        async with tasks_in_every_state(wire, site) as tasks:
            before = {name: await see(wire, get_call(wire, task['id']), ANN) for name, task in tasks.items()}
            for name, task in tasks.items():
                nothing = unknown(task)
                theirs = [await see(wire, call, BEN) for call in calls_about(wire, task['id'])]
                none = [await see(wire, call, BEN) for call in calls_about(wire, nothing)]
                for call, one, other in zip(calls_about(wire, nothing), theirs, none, strict=True):
                    assert renamed(list(one), task['id'], nothing) == list(other), (name, call)
                    assert one.status != 'OK', (name, call)
                    assert kind is not JsonRpcWire or b'-32001' in one.body, (name, call)
            after = {name: await see(wire, get_call(wire, task['id']), ANN) for name, task in tasks.items()}
            assert after == before


@WIRES
async def test_streams_of_others_are_not_resumed(site: Site, kind: type[Wire]) -> None:
    async with serving(site) as service:
        wire = kind(service)
        request = request_of('artifact:a complete')
        task_id = (await wire.call('SendMessage', request, headers=ANN)).ok()['task']['id']
        stream = next(each for each in calls_about(wire, task_id) if each.operation == 'SubscribeToTask')
        for last in ('0', '1', '99'):
            after = ('Last-Event-ID', last)
            seen = await see(wire, stream, (*BEN, after))
            nothing = OldCall(*renamed(list(stream), task_id, unknown({'id': task_id})))
            assert renamed(list(seen), task_id, '') == renamed(
                list(await see(wire, nothing, (*BEN, after))), unknown({'id': task_id}), ''
            )
            refused = await wire.collect('SubscribeToTask', {'id': task_id}, headers=(*BEN, after))
            assert refused.error is not None
            assert refused.error.reason == 'TASK_NOT_FOUND'
        assert is_served(await see(wire, stream, (*ANN, ('Last-Event-ID', '1'))))


def get_call(wire: Wire, task_id: str) -> OldCall:
    return next(call for call in calls_about(wire, task_id) if call.operation == 'GetTask')


@WIRES
async def test_requests_count_whatever_their_version(site: Site, kind: type[Wire]) -> None:
    async with serving(site, requests_per_second=0.01, request_burst=2) as service:
        wire = kind(service)
        (await wire.call('ListTasks', {}, headers=ANN)).ok()
        assert is_served(await see(wire, CARDS[wire.binding], ANN))
        for call in all_calls(wire, 'none'):
            seen = await see(wire, call, ANN)
            assert is_refused(wire, seen, 429, 'RESOURCE_EXHAUSTED'), (call, seen)
            assert wire.is_grpc or ('retry-after', '100') in seen.headers
        assert is_served(await see(wire, CARDS[wire.binding], BEN))


def is_served(seen: Seen) -> bool:
    return seen.status in (200, 'OK')


async def test_each_request_of_a_batch_counts(site: Site) -> None:
    async with serving(site, requests_per_second=0.01, request_burst=3) as service:
        wire = JsonRpcWire(service)
        batch = [envelope('message/send', old_params('complete')) for _ in range(2)]
        assert len((await wire.post(batch, version=None, headers=ANN)).json()) == 2
        assert (await wire.post(batch, version=None, headers=ANN)).status_code == 429
        assert service.agent.finished == 2


@WIRES
async def test_streams_count_whatever_their_version(site: Site, kind: type[Wire]) -> None:
    async with serving(site, max_streams_per_owner=1) as service:
        wire = kind(service)
        async with held(wire, site, options={'headers': ANN}) as running:
            stream = next(each for each in calls_about(wire, running.id) if each.operation == 'SubscribeToTask')
            reader = asyncio.ensure_future(see(wire, stream, ANN))
            await soon(lambda: has_streams(service, 1))
            for call in calls_about(wire, running.id):
                if call.operation in ('SendStreamingMessage', 'SubscribeToTask'):
                    seen = await see(wire, call, ANN)
                    assert is_refused(wire, seen, 429, 'RESOURCE_EXHAUSTED'), (call, seen)
            running.release()
            assert is_served(await reader)
            await soon(lambda: has_streams(service, 0))


async def has_streams(service: Service, count: int) -> bool:
    return bool(service.app.state.wire.doors.open_streams == count)
