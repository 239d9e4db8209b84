"""A server that is stopped in the middle of its work, taken over, and let go on: it records nothing any more.

`SCRIBE_FULL=1 python -m pytest tests/acceptance/test_zombies.py` does 100 rounds on each database, in place of a few.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from a2a.client import Client
from a2a.types.a2a_pb2 import GetTaskRequest, Task

from a2a_scribe.client import Backoff, Followed, follow
from a2a_scribe.core.statuses import RECOVERY
from a2a_scribe.protocol.states import COMPLETED, FAILED, TERMINAL
from tests.support.proxy import wait_for_seconds
from tests.support.streaming import JSON_RPC, ServerProcess, chunk_of, connected, http_client, request, serving

pytestmark = pytest.mark.anyio

ROUNDS = 100 if os.environ.get('SCRIBE_FULL') else 2
TOO_LONG = 60.0
"""Seconds for one round."""
LEASE = 1.2
QUICKLY: dict[str, Any] = {'heartbeat': 0.4, 'lease': LEASE, 'poll_interval': 0.1}
CHUNKS = 100_000


@dataclass
class Pair:
    """Two servers of one database, and a client of each."""

    zombie: ServerProcess
    heir: ServerProcess
    to_zombie: Client
    to_heir: Client

    def signal(self, number: signal.Signals) -> None:
        self.zombie.process.send_signal(number)


@pytest.fixture(params=['sqlite_url', 'postgres_database_url'])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@asynccontextmanager
async def two_servers(url: str, http: httpx.AsyncClient) -> AsyncIterator[Pair]:
    async with (
        serving(url, **QUICKLY) as zombie,
        serving(url, **QUICKLY) as heir,
        connected(JSON_RPC, zombie.ports[JSON_RPC], http) as to_zombie,
        connected(JSON_RPC, heir.ports[JSON_RPC], http) as to_heir,
    ):
        yield Pair(zombie, heir, to_zombie, to_heir)


async def ended(client: Client, task_id: str) -> Task:
    while (task := await client.get_task(GetTaskRequest(id=task_id))).status.state not in TERMINAL:
        await wait_for_seconds(0.05)
    return task


async def taken_over(pair: Pair, task_id: str) -> Task:
    """Waits for the heir. It cannot write where the zombie was stopped inside a transaction of SQLite's: then nobody is
    dead, and the zombie is stopped again somewhere else."""
    while True:
        try:
            return await asyncio.wait_for(ended(pair.to_heir, task_id), 4 * LEASE)
        except TimeoutError:
            pair.signal(signal.SIGCONT)
            await wait_for_seconds(0.1)
            pair.signal(signal.SIGSTOP)


async def records_of(client: Client, task_id: str) -> list[Followed]:
    """All events of a task that has ended, with their places."""
    return [followed async for followed in follow(client, task_id, after=0)]


async def play(pair: Pair) -> None:
    """One round: stop, take over, let go on."""
    seen: list[Followed] = []

    async def read() -> None:
        async for followed in follow(pair.to_zombie, request(0, CHUNKS), attempts=1, backoff=Backoff(most=0.1)):
            seen.append(followed)
            if chunk_of(followed.response) == 50:
                pair.signal(signal.SIGSTOP)  # the agent floods: records are pending and a commit is under way
                stopped.set()

    stopped = asyncio.Event()
    reading = asyncio.create_task(read())
    await stopped.wait()
    try:
        task_id = seen[0].response.task.id
        task = await taken_over(pair, task_id)
        assert task.status.state == FAILED
        assert RECOVERY in task.metadata
        before = await records_of(pair.to_heir, task_id)
    finally:
        pair.signal(signal.SIGCONT)
    await asyncio.wait([reading])
    assert not [followed for followed in seen if followed not in before], 'what was shown is there'
    served = [followed async for followed in follow(pair.to_zombie, request(0, 1))]
    assert served[-1].response.status_update.status.state == COMPLETED, 'the zombie serves on'
    assert await records_of(pair.to_heir, task_id) == before


async def test_a_zombie_records_nothing_after_it_was_taken_over(url: str) -> None:
    async with http_client() as http, two_servers(url, http) as pair:
        for _ in range(ROUNDS):
            async with asyncio.timeout(TOO_LONG):
                await play(pair)
