"""Calls of gRPC by those who are not known, or do not go on: they keep nobody else out."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from a2a_scribe import Settings
from a2a_scribe.transport.grpc_guests import Guests
from tests.component.kit import DEADLINE
from tests.conformance.doorman import ANN, Doorman
from tests.conformance.over_grpc import GrpcWire, metadata
from tests.conformance.site import QUICK, Service, Site, soon, with_old_interfaces

pytestmark = pytest.mark.anyio

MOST = 6
SERVICE = a2a_pb2.DESCRIPTOR.services_by_name['A2AService']
OLD_SERVICE = a2a_v0_3_pb2.DESCRIPTOR.services_by_name['A2AService']


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with asyncio.timeout(3 * DEADLINE), Site(tmp_path) as opened:
        yield opened


def serving(site: Site, **settings: Any) -> Any:
    given = {'max_connections': MOST, **settings}
    return site.serving(with_old_interfaces(), authenticate=Doorman(), settings=replace(QUICK, **given))


Open = Callable[[grpc.aio.Channel], Any]


def watch(channel: grpc.aio.Channel) -> Any:
    return health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())


def watch_nothing(channel: grpc.aio.Channel) -> Any:
    request = health_pb2.HealthCheckRequest(service='none')
    return health_pb2_grpc.HealthStub(channel).Watch(request)


def reflect(channel: grpc.aio.Channel) -> Any:
    return reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()


def silent(path: str) -> Open:
    """Calls a method, and never sends its message."""
    return lambda channel: channel.stream_stream(path)()


CALLS: dict[str, Open] = {
    'watch': watch,
    'watch-nothing': watch_nothing,
    'reflection': reflect,
    'silent-check': silent('/grpc.health.v1.Health/Check'),
    'silent-list': silent('/grpc.health.v1.Health/List'),
    'silent-watch': silent('/grpc.health.v1.Health/Watch'),
    'silent-call': silent(f'/{SERVICE.full_name}/GetTask'),
    'silent-stream': silent(f'/{SERVICE.full_name}/SubscribeToTask'),
    'silent-old-call': silent(f'/{OLD_SERVICE.full_name}/GetTask'),
}


@pytest.mark.parametrize('open_one', CALLS.values(), ids=CALLS)
async def test_strangers_leave_room_for_those_who_are_known(site: Site, open_one: Open) -> None:
    async with serving(site) as service:
        calls = [open_one(service.channel) for _ in range(MOST - 1)]
        try:
            # Those that were opened after the first ones are there when one more is answered.
            calls += [open_one(service.channel) for _ in range(MOST)]

            async def is_served() -> bool:
                return (await GrpcWire(service).call('ListTasks', {}, headers=ANN)).error is None

            await soon(is_served)
            for _ in range(3):
                await soon(is_served)
        finally:
            for call in calls:
                call.cancel()


async def test_who_has_to_go_is_told(site: Site) -> None:
    async with serving(site) as service:
        first = watch(service.channel)
        assert (await first.read()).status == health_pb2.HealthCheckResponse.SERVING
        others = [watch(service.channel) for _ in range(MOST // 2)]
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await first.read()
        assert refusal.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        for other in others:
            assert (await other.read()).status == health_pb2.HealthCheckResponse.SERVING
            other.cancel()


async def test_reflection_and_health_answer_strangers(site: Site) -> None:
    async with serving(site) as service:
        call = reflect(service.channel)
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=''))
        names = {each.name for each in (await call.read()).list_services_response.service}
        assert names >= {SERVICE.full_name, OLD_SERVICE.full_name, 'grpc.health.v1.Health'}
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        stub = health_pb2_grpc.HealthStub(service.channel)
        for name in names & {SERVICE.full_name, OLD_SERVICE.full_name} | {''}:
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        for bad in (b'\xff', None):
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await said(service, '/grpc.health.v1.Health/Check', bad)
            assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def said(service: Service, path: str, body: bytes | None, headers: Any = ()) -> Any:
    """Calls a method with one message or with none."""
    call: Any = service.channel.stream_unary(path)(metadata=metadata('1.0', headers))
    if body is not None:
        await call.write(body)
    await call.done_writing()
    return await call


async def test_a_message_that_does_not_come_is_not_waited_for(site: Site) -> None:
    async with serving(site, body_timeout=0.05) as service:
        for path, headers, code in (
            (f'/{SERVICE.full_name}/GetTask', ANN, 'INVALID_ARGUMENT'),
            (f'/{SERVICE.full_name}/GetTask', (), 'UNAUTHENTICATED'),
            ('/grpc.health.v1.Health/Check', (), 'INVALID_ARGUMENT'),
        ):
            call: Any = service.channel.stream_unary(path)(metadata=metadata('1.0', headers))
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await call
            assert refusal.value.code().name == code
            assert ('body_timeout' in str(refusal.value.details())) is (code == 'INVALID_ARGUMENT')


async def test_a_request_without_a_message_is_refused(site: Site) -> None:
    async with serving(site) as service:
        for operation in ('GetTask', 'ListTasks'):
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await said(service, f'/{SERVICE.full_name}/{operation}', None, ANN)
            assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert await said(service, f'/{SERVICE.full_name}/ListTasks', b'', ANN)


class Peer:
    """A call as gRPC shows it, which waits until it has to go."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.sent_away = False

    def peer(self) -> str:
        return f'ipv4:{self.host}:1'

    async def read(self) -> bytes:
        return b''

    async def abort(self, *_: object) -> None:
        self.sent_away = True


async def test_a_crowd_from_one_place_makes_room_itself() -> None:
    guests = Guests(Settings(max_connections=8), grpc.StatusCode)

    async def wait(*_: object) -> None:
        await asyncio.Event().wait()

    handle = guests.once(wait, health_pb2.HealthCheckRequest)
    alone = Peer('10.0.0.1')
    crowd = [Peer('10.0.0.2') for _ in range(20)]
    stays = [asyncio.ensure_future(handle(None, peer)) for peer in (alone, *crowd)]

    async def are_sent_away() -> bool:
        return sum(peer.sent_away for peer in crowd) == 17

    await soon(are_sent_away)
    assert not alone.sent_away
    assert not any(peer.sent_away for peer in crowd[17:])
    for stay in stays:
        stay.cancel()
    await asyncio.wait(stays)
