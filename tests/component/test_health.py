"""What probes are told: over HTTP and gRPC, while the journal is away, while the server closes, and when many ask."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import grpc.aio
import httpx
import pytest
from a2a.server.owner_resolver import resolve_user_scope
from a2a.server.tasks import InMemoryTaskStore
from grpc_health.v1 import health_pb2, health_pb2_grpc
from starlette.applications import Starlette

from a2a_scribe import create_health_routes, create_rest_routes
from a2a_scribe.errors import SchemaError
from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.stores import JournalTaskStore
from a2a_scribe.testing.agents import ScriptedAgent
from a2a_scribe.testing.journals import TroubledJournal
from a2a_scribe.transport import health as health_module
from a2a_scribe.transport.grpc import SERVICE
from a2a_scribe.transport.health import KEPT, PATIENCE, Health
from tests.component.kit import DEADLINE, Site, running, settle
from tests.conformance.kit import held, subscribing
from tests.conformance.over_http import RestWire
from tests.conformance.site import QUICK, Service, soon
from tests.conformance.site import Site as Servers

pytestmark = pytest.mark.anyio

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Servers]:
    async with asyncio.timeout(3 * DEADLINE), Servers(tmp_path) as opened:
        yield opened


@pytest.fixture
def journal() -> TroubledJournal:
    return TroubledJournal(MemoryJournal())


@pytest.fixture
async def service(
    servers: Servers, journal: TroubledJournal, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Service]:
    """A service whose journal can be troubled, and which forgets soon what it has found."""
    monkeypatch.setattr(health_module, 'KEPT', 0.01)
    monkeypatch.setattr(health_module, 'PATIENCE', 0.1)
    async with servers.serving(database=JournalTaskStore(journal, resolve_user_scope)) as opened:
        yield opened


async def ready(service: Service) -> tuple[int, Any]:
    response = await service.http.get(f'{service.url}/readyz')
    assert response.headers['cache-control'] == 'no-store'
    return response.status_code, response.json()


async def over_grpc(service: Service, name: str = '') -> Any:
    stub = health_pb2_grpc.HealthStub(service.channel)
    return (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status


async def is_ready(service: Service) -> bool:
    return (await ready(service))[0] == 200


async def is_away(service: Service) -> bool:
    return not await is_ready(service)


# From outside


async def test_a_server_that_works_says_so(service: Service) -> None:
    for path in ('/healthz', '/readyz'):
        response = await service.http.get(service.url + path)
        assert (response.status_code, response.json()) == (200, {'status': 'ok'})
        head = await service.http.head(service.url + path)
        assert (head.status_code, head.content) == (200, b'')
        assert (await service.http.post(service.url + path)).status_code == 405
    assert [await over_grpc(service, name) for name in ('', SERVICE)] == [SERVING, SERVING]


async def test_a_probe_leaves_nothing_behind(service: Service, journal: TroubledJournal) -> None:
    assert await is_ready(service)
    groups = journal.attempts
    assert groups
    assert all(not group.appends and not group.writes for group in groups)


async def test_an_outage_of_the_journal_is_told_and_its_end_too(service: Service, journal: TroubledJournal) -> None:
    assert await is_ready(service)
    journal.is_away = True
    await soon(lambda: is_away(service))
    status, body = await ready(service)
    assert (status, body) == (503, {'status': 'unavailable', 'failed': 'journal'})
    assert await over_grpc(service) == NOT_SERVING
    assert (await service.http.get(f'{service.url}/healthz')).status_code == 200
    journal.heal()
    journal.is_away = False
    await soon(lambda: is_ready(service))
    assert await over_grpc(service) == SERVING


async def test_a_database_that_cannot_be_written_is_told(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, 'KEPT', 0.01)
    monkeypatch.setattr(health_module, 'PATIENCE', 0.2)
    url = servers.database()
    async with servers.serving(database=url) as service:
        assert await is_ready(service)
        path = url.removeprefix('sqlite+aiosqlite:///')
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            await soon(lambda: has_begun(other))
            await soon(lambda: is_away(service))
            assert await ready(service) == (503, {'status': 'unavailable', 'failed': 'journal'})
            other.execute('ROLLBACK')
        await soon(lambda: is_ready(service))
        with closing(sqlite3.connect(path)) as other:
            assert other.execute('SELECT count(*) FROM scribe_records').fetchone() == (0,)


async def has_begun(other: sqlite3.Connection) -> bool:
    """Whether a transaction that writes has begun: a connection of the server's may be at it still."""
    try:
        other.execute('BEGIN IMMEDIATE')
    except sqlite3.OperationalError:
        return False
    return True


async def test_a_store_of_ones_own_is_ready(servers: Servers) -> None:
    async with servers.serving(database=InMemoryTaskStore()) as service:
        assert await is_ready(service)


async def test_a_server_that_closes_says_so_before_its_streams_end(service: Service, servers: Servers) -> None:
    wire = RestWire(service)
    stub = health_pb2_grpc.HealthStub(service.channel)
    async with held(wire, servers) as task, subscribing(wire, task.id) as events:
        await events.next()
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
        closing = asyncio.ensure_future(service.app.state.handler.aclose())
        await asyncio.sleep(0)
        assert await ready(service) == (503, {'status': 'unavailable', 'failed': 'draining'})
        assert await over_grpc(service) == NOT_SERVING
        assert (await watch.read()).status == NOT_SERVING
        assert not closing.done()
        task.release()
        assert [event.state for event in await events.rest()][-1] == 'COMPLETED'
        await closing
        assert (await service.http.get(f'{service.url}/healthz')).status_code == 200


async def test_a_server_that_is_about_to_close_works_still(service: Service) -> None:
    leaving = asyncio.ensure_future(service.app.state.health.announce_leave(60))
    await asyncio.sleep(0)
    assert await ready(service) == (503, {'status': 'unavailable', 'failed': 'draining'})
    assert (await RestWire(service).call('ListTasks')).ok()['totalSize'] == 0
    assert not leaving.done()
    leaving.cancel()
    await service.app.state.health.announce_leave(0.001)
    await service.app.state.health.announce_leave(None)


async def test_services_that_are_not_there_are_not_spoken_for(service: Service) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await over_grpc(service, 'nobody')
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    stub = health_pb2_grpc.HealthStub(service.channel)
    watch = stub.Watch(health_pb2.HealthCheckRequest(service='nobody'))
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()
    statuses = (await stub.List(health_pb2.HealthListRequest())).statuses
    assert {name: each.status for name, each in statuses.items()} == {'': SERVING, SERVICE: SERVING}


async def test_probes_can_be_left_out(servers: Servers) -> None:
    async with servers.serving(health=False) as service:
        for path in ('/healthz', '/readyz'):
            assert (await service.http.get(service.url + path)).status_code == 404


async def test_tenants_of_these_names_are_served(servers: Servers) -> None:
    async with servers.serving(settings=QUICK) as service:
        for tenant in ('healthz', 'readyz'):
            assert (await service.http.get(f'{service.url}/{tenant}/tasks', headers={'A2A-Version': '1.0'})).is_success


async def test_an_app_of_ones_own_has_them_too() -> None:
    async with running(ScriptedAgent([])) as site:
        app = Starlette(routes=[*create_health_routes(site.handler), *create_rest_routes(site.handler)])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url='http://agent.test') as http:
            assert [(await http.get(path)).status_code for path in ('/healthz', '/readyz')] == [200, 200]


# From inside


def health_of(site: Site) -> Health:
    return Health(site.engine, site.clock)


async def test_many_probes_cost_as_much_as_one() -> None:
    async with running(ScriptedAgent([])) as site:
        health = health_of(site)
        await site.handler.start()
        await settle()
        before = len(site.journal.attempts)
        found = await asyncio.gather(*[health.find_trouble() for _ in range(50)])
        assert found == [None] * 50
        assert await health.find_trouble() is None
        assert len(site.journal.attempts) == before + 1
        await site.advance(KEPT)
        assert await health.find_trouble() is None
        assert len(site.journal.attempts) == before + 2


async def test_a_journal_that_hangs_is_not_waited_for() -> None:
    async with running(ScriptedAgent([])) as site:
        health = health_of(site)
        await site.handler.start()
        site.journal.hold()
        asking = asyncio.ensure_future(health.find_trouble())
        await site.journal.wait_until_held()
        await site.advance(PATIENCE)
        assert await asking == 'journal'
        site.journal.let_go()
        await settle()
        await site.advance(KEPT)
        assert await health.find_trouble() is None


async def test_a_probe_that_is_given_up_leaves_the_others_their_answer() -> None:
    async with running(ScriptedAgent([])) as site:
        health = health_of(site)
        await site.handler.start()
        site.journal.hold()
        first, second = (asyncio.ensure_future(health.find_trouble()) for _ in range(2))
        await site.journal.wait_until_held()
        first.cancel()
        await settle()
        site.journal.let_go()
        assert await second is None


async def test_a_journal_that_refuses_everything_is_told() -> None:
    async with running(ScriptedAgent([])) as site:
        await site.handler.start()
        site.journal.refuse(lambda group: True)
        assert await health_of(site).find_trouble() == 'journal'


async def test_a_schema_that_cannot_be_used_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(ScriptedAgent([])) as site:

        async def open_it() -> None:
            raise SchemaError('the schema is newer than this package')

        with monkeypatch.context() as patch:
            patch.setattr(site.journal, 'open', open_it)
            assert await health_of(site).find_trouble() == 'schema'


async def test_an_engine_whose_services_have_died_is_told_until_it_has_new_ones() -> None:
    async with running(ScriptedAgent([]), checked=False) as site:
        await site.handler.start()
        await settle()
        commit = site.journal.commit
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(site.journal, 'commit', AsyncMock(side_effect=ZeroDivisionError))
            health = health_of(site)
            asking = asyncio.ensure_future(health.find_trouble())
            await settle()
            await site.advance(PATIENCE)
            assert await asking == 'journal'
        assert site.journal.commit == commit
        await site.advance(KEPT)
        assert await health.find_trouble() is None


async def test_a_closed_engine_is_told_at_once() -> None:
    async with running(ScriptedAgent([])) as site:
        health = health_of(site)
        assert await health.find_trouble() is None
        await site.close()
        assert await health.find_trouble() == 'draining'
