"""A server that is killed again and again while clients work with it: nothing that they saw is lost, no task hangs.

`SCRIBE_FULL=1 python -m pytest tests/acceptance/test_kill.py` runs 1,000 tasks and kills the server at least 50 times
on each database, in place of a few.
"""

import asyncio
import os
import random
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import pytest
from a2a.client import Client
from a2a.types.a2a_pb2 import GetTaskRequest, ListTasksRequest, StreamResponse, Task, TaskState
from a2a.utils.errors import A2AError

from a2a_scribe.client import Backoff, Followed, follow
from a2a_scribe.core.statuses import RECOVERY
from a2a_scribe.protocol.states import COMPLETED, FAILED, INPUT_REQUIRED, SUBMITTED, TERMINAL, WORKING
from tests.support.cutting import CuttingProxy, cutting
from tests.support.proxy import wait_for_seconds
from tests.support.streaming import JSON_RPC, chunk_of, connected, http_client, request, serving

pytestmark = pytest.mark.anyio

IS_FULL = bool(os.environ.get('SCRIBE_FULL'))
TASKS = 1_000 if IS_FULL else 60
KILLS = 50 if IS_FULL else 4
CLIENTS = 24
TOO_LONG = 1_500 if IS_FULL else 120
OFTEN = Backoff(most=0.3)
LEASE = 3.0
"""Seconds; PostgreSQL has no lock files, so there a death is noticed by silence."""
QUICKLY: dict[str, Any] = {'heartbeat': 0.5, 'lease': LEASE, 'poll_interval': 0.2}


@dataclass
class Conversation:
    """What one client did, and what it was told."""

    client: Client
    chance: random.Random
    seen: list[Followed] = field(default_factory=list)

    @property
    def task_id(self) -> str:
        return self.seen[0].response.task.id

    async def run(self) -> None:
        """Has a task done, with a question in the middle of every third; a message that never arrived is said again."""
        asks = self.chance.random() < 0.33
        count, pace = self.chance.choice([(1, 0), (20, 0), (200, 0), (30, 10), (10, 50)])
        await self._say(0, count, pace, 'ask' if asks else 'complete')
        if state_of(self.seen[-1].response) == INPUT_REQUIRED:
            await self._say(count, count, pace, 'complete', self.task_id)

    async def _say(self, first: int, count: int, pace: int, end: str, task_id: str = '') -> None:
        more: list[Followed] = []
        while not more:
            message = request(first, count, pace=pace, end=end, task_id=task_id)
            try:
                async for followed in follow(self.client, message, attempts=None, backoff=OFTEN):
                    more.append(followed)  # noqa: PERF401 - as it comes
            except (A2AError, httpx.HTTPError):
                if more:
                    raise
                if task_id and await self._has_ended(task_id):
                    return
                await wait_for_seconds(0.1)
        self.seen += more

    async def _has_ended(self, task_id: str) -> bool:
        """Whether the answer arrived although nobody heard of it, or the task ended with a server."""
        try:
            return (await self.client.get_task(GetTaskRequest(id=task_id))).status.state in TERMINAL
        except (A2AError, httpx.HTTPError):
            return False

    def check(self, stored: Task) -> None:
        """All that the client saw is stored, in the same order; what it saw last is how it stands or stood."""
        assert stored.status.state in {COMPLETED, FAILED}, stored.status
        chunks = [number for followed in self.seen if (number := chunk_of(followed.response)) is not None]
        kept = [int(part.text.removeprefix('chunk ')) for artifact in stored.artifacts for part in artifact.parts]
        assert kept[: len(chunks)] == chunks
        assert kept == list(range(len(kept)))
        seqs = [followed.seq for followed in self.seen if not followed.response.HasField('task')]
        assert all(earlier is not None and later is not None and earlier < later for earlier, later in pairwise(seqs))
        if stored.status.state == FAILED:
            assert RECOVERY in stored.metadata


def state_of(response: StreamResponse) -> TaskState | None:
    if response.HasField('task'):
        return response.task.status.state
    return response.status_update.status.state if response.HasField('status_update') else None


async def have_done(proxy: CuttingProxy, http: httpx.AsyncClient, killed_enough: asyncio.Event) -> list[Conversation]:
    """Runs the clients side by side until all tasks are done, and more until the server was killed often enough."""
    conversations: list[Conversation] = []

    async def work(client: Client) -> None:
        while len(conversations) < TASKS or not killed_enough.is_set():
            conversation = Conversation(client, random.Random(f'{len(conversations)}'))
            conversations.append(conversation)
            await conversation.run()

    async with connected(JSON_RPC, proxy.port, http) as client, asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(work(client))
    return conversations


async def nothing_is_open(client: Client) -> None:
    """Waits until no task is being worked on: those that no client knows of end as well."""
    for state in (SUBMITTED, WORKING):
        while (await client.list_tasks(ListTasksRequest(status=state, page_size=1))).total_size:
            await wait_for_seconds(0.1)


@pytest.fixture(params=['sqlite_url', 'postgres_database_url'])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


async def test_a_server_that_is_killed_loses_nothing(url: str) -> None:
    done, killed_enough = asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(TOO_LONG), http_client() as http, cutting(0) as proxy:
        proxy.upstream = None

        async def serve() -> int:
            chance, kills = random.Random(7), 0
            while kills < KILLS:
                async with serving(url, **QUICKLY) as server:
                    proxy.upstream = server.ports[JSON_RPC]
                    await wait_for_seconds(chance.uniform(0.1, 1.0))
                    proxy.upstream = None
                    await server.kill()
                    kills += 1
            killed_enough.set()
            async with serving(url, **QUICKLY) as server:
                proxy.upstream = server.ports[JSON_RPC]
                await done.wait()
                async with connected(JSON_RPC, server.ports[JSON_RPC], http) as client:
                    await nothing_is_open(client)
            return kills

        serving_task = asyncio.create_task(serve())
        conversations = await have_done(proxy, http, killed_enough)
        async with connected(JSON_RPC, proxy.port, http) as client:
            for conversation in conversations:
                conversation.check(await client.get_task(GetTaskRequest(id=conversation.task_id)))
            done.set()
            assert await serving_task == KILLS
    command = [sys.executable, '-m', 'a2a_scribe', 'db', 'check', url]
    check = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    told, _ = await check.communicate()
    assert check.returncode == 0, told.decode()
