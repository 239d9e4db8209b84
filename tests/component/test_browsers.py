"""What browsers are told: whose pages may call, what not to guess, what not to keep, and to insist on TLS."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from a2a_scribe import create_app
from a2a_scribe.errors import SettingsError
from a2a_scribe.testing.agents import ScriptedAgent
from tests.component.kit import DEADLINE, new_card
from tests.conformance.doorman import POWERLESS, Doorman, bearing
from tests.conformance.kit import held, request_of
from tests.conformance.over_http import HttpWire, JsonRpcWire, RestWire
from tests.conformance.site import Site

pytestmark = pytest.mark.anyio

PAGE, OTHER = 'https://app.example', 'https://other.example'
HTTP_WIRES = pytest.mark.parametrize('kind', [JsonRpcWire, RestWire], ids=['jsonrpc', 'rest'])


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with asyncio.timeout(3 * DEADLINE), Site(tmp_path) as opened:
        yield opened


def preflight(origin: str) -> dict[str, str]:
    return {
        'Origin': origin,
        'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': 'a2a-version,authorization,content-type,last-event-id,x-api-key',
    }


def paths(kind: type[HttpWire]) -> str:
    return '/' if kind is JsonRpcWire else '/message:send'


@HTTP_WIRES
async def test_pages_of_named_origins_may_call(site: Site, kind: type[HttpWire]) -> None:
    async with site.serving(cors_origins=[PAGE]) as service:
        wire = kind(service)
        asked = await wire.request('OPTIONS', paths(kind), headers=list(preflight(PAGE).items()))
        assert asked.status_code == 200
        assert asked.headers['access-control-allow-origin'] == PAGE
        allowed = asked.headers['access-control-allow-headers'].lower()
        assert all(name in allowed for name in ('a2a-version', 'authorization', 'last-event-id', 'x-api-key'))
        assert {'GET', 'POST', 'DELETE'} <= set(asked.headers['access-control-allow-methods'].split(', '))
        assert 'access-control-allow-credentials' not in asked.headers
        prepared = wire.prepare('SendMessage', request_of('complete'))
        answer = await wire.request(**prepared, headers=[('Origin', PAGE)])
        assert answer.status_code == 200
        assert answer.headers['access-control-allow-origin'] == PAGE
        exposed = answer.headers['access-control-expose-headers'].lower()
        assert all(
            name in exposed
            for name in ('a2a-extensions', 'x-a2a-extensions', 'retry-after', 'www-authenticate', 'etag')
        )


@HTTP_WIRES
async def test_pages_of_other_origins_may_not(site: Site, kind: type[HttpWire]) -> None:
    async with site.serving(cors_origins=[PAGE]) as service:
        wire = kind(service)
        asked = await wire.request('OPTIONS', paths(kind), headers=list(preflight(OTHER).items()))
        assert asked.status_code == 400
        assert 'access-control-allow-origin' not in asked.headers
        answer = await wire.request(**wire.prepare('ListTasks', {}), headers=[('Origin', OTHER)])
        assert 'access-control-allow-origin' not in answer.headers


@HTTP_WIRES
async def test_nobody_may_by_default(site: Site, kind: type[HttpWire]) -> None:
    async with site.serving() as service:
        wire = kind(service)
        asked = await wire.request('OPTIONS', paths(kind), headers=list(preflight(PAGE).items()))
        assert asked.status_code == 405
        answer = await wire.request(**wire.prepare('ListTasks', {}), headers=[('Origin', PAGE)])
        assert not [name for name in answer.headers if name.startswith('access-control')]


@HTTP_WIRES
async def test_errors_can_be_read_by_pages_too(site: Site, kind: type[HttpWire]) -> None:
    async with site.serving(cors_origins=['*']) as service:
        wire = kind(service)
        answer = await wire.request(**wire.prepare('GetTask', {'id': 'none'}), headers=[('Origin', OTHER)])
        assert 'error' in answer.json()
        assert answer.headers['access-control-allow-origin'] == '*'


@HTTP_WIRES
@pytest.mark.parametrize('version', ['1.0', '0.3'])
async def test_pages_are_told_that_they_are_not_known(site: Site, kind: type[HttpWire], version: str) -> None:
    options: dict[str, Any] = {'cors_origins': [PAGE], 'authenticate': Doorman(), 'enable_v0_3_compat': True}
    async with site.serving(**options) as service:
        wire = kind(service)
        path = paths(kind) if version == '1.0' or kind is JsonRpcWire else '/v1/message:send'
        asked = await wire.request('OPTIONS', path, headers=list(preflight(PAGE).items()), version=None)
        assert asked.status_code == 200
        for headers, status in (((), 401), (bearing(POWERLESS), 403)):
            answer = await wire.request('POST', path, json={}, headers=[('Origin', PAGE), *headers], version=version)
            assert answer.status_code == status
            assert answer.headers['access-control-allow-origin'] == PAGE
            assert answer.headers['x-content-type-options'] == 'nosniff'
            assert ('www-authenticate' in answer.headers) is (status == 401)


@HTTP_WIRES
async def test_events_come_as_they_happen_and_not_at_the_end(site: Site, kind: type[HttpWire]) -> None:
    async with site.serving(cors_origins=[PAGE], hsts=60) as service:
        wire = kind(service)
        async with (
            held(wire, site) as running,
            wire.open('SubscribeToTask', {'id': running.id}, headers=[('Origin', PAGE)]) as events,
        ):
            assert events.headers['access-control-allow-origin'] == PAGE
            assert await events.next() is not None
            running.release()
            assert [event.state for event in await events.rest()][-1] == 'COMPLETED'


async def test_answers_are_not_guessed_at_and_not_kept(site: Site) -> None:
    async with site.serving(hsts=3600) as service:
        for path, caching in (
            ('/tasks', 'no-store'),
            ('/tasks/none', 'no-store'),
            ('/nowhere', 'no-store'),
            ('/healthz', 'no-store'),
            ('/.well-known/agent-card.json', 'public, max-age=60'),
        ):
            headers = (await RestWire(service).request('GET', path)).headers
            assert headers['cache-control'] == caching
            assert headers['x-content-type-options'] == 'nosniff'
            assert headers['referrer-policy'] == 'no-referrer'
            assert headers['strict-transport-security'] == 'max-age=3600'


async def test_tls_is_not_insisted_on_by_default(site: Site) -> None:
    async with site.serving() as service:
        assert 'strict-transport-security' not in (await RestWire(service).request('GET', '/tasks')).headers


@pytest.mark.parametrize(
    'origins',
    [['app.example'], ['https://app.example/path'], ['https://'], [''], ['null'], 'app.example', [PAGE, 'x']],
)
def test_what_is_no_origin_is_refused(origins: Sequence[str]) -> None:
    with pytest.raises(SettingsError, match='cors_origins'):
        create_app(ScriptedAgent([]), new_card(), 'memory', cors_origins=origins)


@pytest.mark.parametrize('origins', [PAGE, [PAGE + '/'], [PAGE.upper()], ['http://localhost:3000'], ['*']])
def test_origins_are_taken_as_people_write_them(origins: Any) -> None:
    create_app(ScriptedAgent([]), new_card(), 'memory', cors_origins=origins)


def test_a_time_for_tls_is_not_negative() -> None:
    with pytest.raises(SettingsError, match='hsts'):
        create_app(ScriptedAgent([]), new_card(), 'memory', hsts=-1)
