"""Four servers on one database, each operation sent to any of them: everything is as it is with one server.

`SCRIBE_FULL=1 python -m pytest tests/acceptance/test_four_processes.py` has 500 tasks on each database in place of a
few, and judges the delays, which only a quiet machine can hold.
"""

import asyncio
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.support.conversations import Measures, Server
from tests.support.plots import converse
from tests.support.proxy import HOST, wait_for_seconds
from tests.support.streaming import JSON_RPC, connected, http_client, serving

pytestmark = pytest.mark.anyio

PROGRAM: Final = Path(__file__).parent / 'programs' / 'ordered_agent.py'
IS_FULL = bool(os.environ.get('SCRIBE_FULL'))
PROCESSES = 4
TASKS = 500 if IS_FULL else 28
AT_ONCE = 4
"""As many as leave two cores with room: of a machine that has too much to do, delays say nothing."""
TOO_LONG = 900 if IS_FULL else 120
NEWS = 3.0 if IS_FULL else 0.0
"""Seconds after which each server knows that the others are there, as it looks every two."""
CANCEL = 0.5
DELAY: Final = {'sqlite_url': 0.15, 'postgres_database_url': 0.1}
SETTINGS: Final = {'create_task_after': 30.0}
"""Tasks are made by the agent alone, however slow the machine is."""


@pytest.fixture(params=list(DELAY))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(request: pytest.FixtureRequest, kind: str) -> str:
    return str(request.getfixturevalue(kind))


@pytest.fixture
def gates(tmp_path: Path) -> Path:
    """Where conversations keep their gates: of one test several ones, below each other."""
    (tmp_path / 'one' / 'four').mkdir(parents=True)
    return tmp_path / 'one'


@asynccontextmanager
async def clients(port: int, process: int, http: httpx.AsyncClient) -> AsyncIterator[Server]:
    async with (
        connected(JSON_RPC, port, http, streaming=False) as plain,
        connected(JSON_RPC, port, http) as streaming,
    ):
        yield Server(plain, streaming, process)


@asynccontextmanager
async def servers(url: str, count: int) -> AsyncIterator[Sequence[Server]]:
    """Runs servers, all of which start at the same time, and clients of each."""
    async with AsyncExitStack() as stack, http_client() as http:
        starting = [stack.enter_async_context(serving(url, program=PROGRAM, **SETTINGS)) for _ in range(count)]
        running = await asyncio.gather(*starting)
        yield [
            await stack.enter_async_context(clients(each.ports[JSON_RPC], each.process.pid, http)) for each in running
        ]


@asynccontextmanager
async def workers(url: str) -> AsyncIterator[Server]:
    """Runs uvicorn with workers, one of which takes each connection; the client connects for each request."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    place = f'http://{HOST}:{port}'
    command = ['--factory', f'{PROGRAM.stem}:app', '--app-dir', str(PROGRAM.parent), '--log-level', 'warning']
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, '-m', 'uvicorn', *command, '--workers', f'{PROCESSES}', '--port', f'{port}'),
        env={**os.environ, 'DATABASE': url, 'URL': place, 'A2A_SCRIBE_CREATE_TASK_AFTER': '30'},
    )
    try:
        async with http_client(keep_alive=False) as http, clients(port, 0, http) as server:
            while not await is_served(http, place):
                assert process.returncode is None
                await wait_for_seconds(0.1)
            yield server
    finally:
        process.terminate()
        assert await process.wait() == 0


async def is_served(http: httpx.AsyncClient, place: str) -> bool:
    try:
        return (await http.get(f'{place}/.well-known/agent-card.json')).status_code == httpx.codes.OK
    except httpx.ConnectError:
        return False


async def is_sound(url: str) -> None:
    """Has the operator's command look through the whole journal."""
    process = await asyncio.create_subprocess_exec(sys.executable, '-m', 'a2a_scribe', 'db', 'check', url)
    assert await process.wait() == 0


def in_ms(seconds: Sequence[float], percent: int) -> str:
    return f'{percentile(seconds, percent) * 1000:.1f} ms'


def percentile(seconds: Sequence[float], percent: int) -> float:
    return sorted(seconds)[min(len(seconds) * percent // 100, len(seconds) - 1)]


def told(measures: Measures) -> str:
    """Says what was measured."""
    delays, cancels = measures.delays, measures.cancels
    return (
        f'{len(delays)} chunks by way of another process: p50 {in_ms(delays, 50)}, p99 {in_ms(delays, 99)}, '
        f'most {in_ms(delays, 100)}; {len(cancels)} cancels: p50 {in_ms(cancels, 50)}, most {in_ms(cancels, 100)}'
    )


async def test_four_servers_are_as_one(url: str, kind: str, gates: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with asyncio.timeout(TOO_LONG):
        async with servers(url, 1) as one:
            alone = await converse(range(TASKS), one, gates, Measures(), AT_ONCE)
        async with servers(url, PROCESSES) as four:
            measures = Measures(since=time.monotonic() + NEWS)
            together = await converse(range(TASKS), four, gates / 'four', measures, AT_ONCE)
        await is_sound(url)
    for number, (expected, found) in enumerate(zip(alone, together, strict=True)):
        assert found == expected, f'conversation {number}'
    assert measures.processes == {server.process for server in four}
    with capsys.disabled():
        print(f'\n{kind}: {told(measures)}')
    if IS_FULL:
        assert percentile(measures.delays, 99) < DELAY[kind]
        assert max(measures.cancels) < CANCEL


async def test_workers_of_uvicorn_are_as_one(sqlite_url: str, gates: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with asyncio.timeout(TOO_LONG):
        async with servers(sqlite_url, 1) as one:
            alone = await converse(range(TASKS), one, gates, Measures(), AT_ONCE)
        async with workers(sqlite_url) as any_of_four:
            measures = Measures(since=time.monotonic() + NEWS)
            together = await converse(range(TASKS), [any_of_four], gates / 'four', measures, AT_ONCE)
        told_of_check = await asyncio.create_subprocess_exec(
            sys.executable, '-m', 'a2a_scribe', 'db', 'check', sqlite_url
        )
        assert await told_of_check.wait() == 0
    for number, (expected, found) in enumerate(zip(alone, together, strict=True)):
        assert found == expected, f'conversation {number}'
    assert len(measures.processes) > 1
    with capsys.disabled():
        print(f'\nworkers of uvicorn: {len(measures.processes)} of them; {told(measures)}')
