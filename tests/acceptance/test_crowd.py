"""Thousands of clients at once at a real server: each is served or refused clearly, and another owner is still served.

`SCRIBE_FULL=1 python -m pytest tests/acceptance/test_crowd.py` has 5,000 clients in place of 500, and judges memory and
delays, which only a quiet machine can hold.
"""

import asyncio
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.support.crowds import OWNER, REFUSED, SENDERS, SERVED, SHARED, Outcome, Send, crowd, outcome_of
from tests.support.proxy import wait_for_seconds
from tests.support.streaming import GRPC, ServerProcess, http_client, serving

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != 'linux', reason='memory is read from /proc'),
]

PROGRAM: Final = Path(__file__).parent / 'programs' / 'steady_agent.py'
IS_FULL = bool(os.environ.get('SCRIBE_FULL'))
CROWD = 5_000 if IS_FULL else 500
WAITING = 1_000 if IS_FULL else 100
RUNNING = 50
WORK, EVERY = 0.2, 0.05
NORMAL = 5.0 if IS_FULL else 1.0
"""Seconds for which it is measured how long a request takes without a crowd."""
FILES = 16_000
"""Connections need one each, on both sides."""
MEMORY = 60_000
"""Bytes that one client of the crowd may cost the server, its connection included."""
TOO_LONG = 240.0


@pytest.fixture(autouse=True)
def many_files() -> None:
    """Lets this process, and those that it starts, open many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))


async def send_steadily(send: Send, port: int, owner: str, is_over: Callable[[], bool]) -> list[Outcome]:
    """Sends messages one after the other, without waiting for the answers."""
    async with asyncio.TaskGroup() as group:
        sent = []
        while not is_over():
            sent.append(group.create_task(outcome_of(send, port, owner)))
            await wait_for_seconds(EVERY)
    return [each.result() for each in sent]


def p99(outcomes: Sequence[Outcome]) -> float:
    return sorted(outcome.seconds for outcome in outcomes)[len(outcomes) * 99 // 100]


async def tasks_of(server: ServerProcess, owner: str, http: httpx.AsyncClient) -> int:
    """Returns how many tasks an owner has."""
    answer = await http.get(f'{server.url}/tasks', params={'pageSize': 1}, headers={'A2A-Version': '1.0', OWNER: owner})
    return int(answer.json()['totalSize'])


@pytest.mark.parametrize('way', SENDERS)
async def test_a_crowd_is_served_or_refused_and_holds_nobody_up(
    way: str, sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    loop, binding = asyncio.get_running_loop(), GRPC if way == SHARED else way
    send = SENDERS[binding]
    bounds = {'max_running_turns': RUNNING, 'max_waiting_turns': WAITING}
    async with (
        asyncio.timeout(TOO_LONG),
        http_client() as http,
        serving(sqlite_url, f'{WORK}', program=PROGRAM, **bounds) as server,
    ):
        port = server.ports[binding]
        until = loop.time() + NORMAL
        alone = await send_steadily(send, port, 'alone', lambda: loop.time() > until)
        before = server.peak_bytes
        over = asyncio.Event()
        steadily = asyncio.create_task(send_steadily(send, port, 'other', over.is_set))
        began = loop.time()
        outcomes = await crowd(way, port, CROWD, 'crowd')
        took = loop.time() - began
        over.set()
        other = await steadily
        growth = server.peak_bytes - before
        found = Counter(outcome.answer for outcome in outcomes)
        with capsys.disabled():
            print(
                f'\n{way}: {found} in {took:.1f} s; p99 of another owner {p99(other) * 1000:.0f} ms, '
                f'without the crowd {p99(alone) * 1000:.0f} ms; memory grew by {growth / 1e6:.1f} MB'
            )
        assert set(found) <= {SERVED, REFUSED}
        assert found[SERVED] >= RUNNING
        assert {outcome.answer for outcome in (*alone, *other)} == {SERVED}
        assert await tasks_of(server, 'crowd', http) == found[SERVED], 'nothing is left of what was refused'
        if IS_FULL:
            assert found[REFUSED] > CROWD / 2
            assert p99(other) <= 2 * p99(alone) + 0.05
            assert growth < MEMORY * CROWD
