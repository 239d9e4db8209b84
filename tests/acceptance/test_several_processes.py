"""Two servers on one database: what one works on is followed and cancelled at the other, long before it would look."""

import asyncio
import os
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final, cast

import pytest
from a2a.client import Client
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
)

from a2a_scribe.protocol.states import CANCELED
from tests.support.streaming import JSON_RPC, connected, http_client, serving

pytestmark = pytest.mark.anyio

PROGRAM: Final = Path(__file__).parent / 'programs' / 'timed_agent.py'
CHUNKS, PACE = 100, 20
LONG_ENOUGH = 60.0
NEWS: Final = 3
"""Seconds after which each server knows that the other is there: it looks every two."""
IS_FULL = bool(os.environ.get('SCRIBE_FULL'))
"""Judge the figures that a quiet machine has; otherwise only that nobody waits for the poll."""
POLL = 10.0
"""What a server does without a hint, it does so many seconds later."""


@pytest.fixture(params=['sqlite', 'postgresql'])
def database_url(request: pytest.FixtureRequest, sqlite_url: str) -> str:
    if request.param == 'sqlite':
        return sqlite_url
    url: str = request.getfixturevalue('postgres_database_url')
    return url


@asynccontextmanager
async def two_servers(url: str) -> AsyncIterator[tuple[Client, Client]]:
    """Clients of two servers that would look once in `POLL` seconds."""
    async with (
        http_client() as http,
        serving(url, program=PROGRAM, poll_interval=POLL) as one,
        serving(url, program=PROGRAM, poll_interval=POLL) as other,
        connected(JSON_RPC, one.ports[JSON_RPC], http) as here,
        connected(JSON_RPC, other.ports[JSON_RPC], http) as there,
    ):
        yield here, there


async def begin(client: Client, words: str) -> Task:
    """Begins a task and returns it."""
    message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text=words)])
    configuration = SendMessageConfiguration(return_immediately=True)
    async for response in client.send_message(SendMessageRequest(message=message, configuration=configuration)):
        return response.task
    raise AssertionError('no answer')


async def chunk_delays(client: Client, task: Task, count: int) -> list[float]:
    """Follows a task; returns after how many seconds its chunks arrived."""
    delays = []
    subscription = client.subscribe(SubscribeToTaskRequest(id=task.id))
    async with aclosing(cast(AsyncGenerator[StreamResponse, None], subscription)) as events:
        async for event in events:
            if event.HasField('artifact_update'):
                delays.append(time.monotonic() - float(event.artifact_update.artifact.parts[0].text))
            if len(delays) >= count:
                break
    return delays


async def test_a_stream_at_another_process_is_up_to_date(database_url: str) -> None:
    async with asyncio.timeout(LONG_ENOUGH), two_servers(database_url) as (here, there):
        started = time.monotonic()
        task = await begin(here, f'{2 * CHUNKS + NEWS * 1000 // PACE} {PACE}')
        await chunk_delays(here, task, NEWS * 1000 // PACE)
        assert time.monotonic() - started >= NEWS
        delays = sorted(await chunk_delays(there, task, CHUNKS))
        assert delays[len(delays) // 2] < (0.1 if IS_FULL else POLL / 5)
        assert delays[len(delays) * 99 // 100] < (0.15 if IS_FULL else POLL / 2)


async def test_a_cancel_at_another_process_reaches_the_agent_at_once(database_url: str) -> None:
    async with asyncio.timeout(LONG_ENOUGH), two_servers(database_url) as (here, there):
        task = await begin(here, f'{NEWS * 1000 // PACE} {PACE}')
        await chunk_delays(here, task, NEWS * 1000 // PACE - 10)
        asked_at = time.monotonic()
        canceled = await there.cancel_task(CancelTaskRequest(id=task.id))
        answered_at = time.monotonic()
        assert canceled.status.state == CANCELED
        (heard_at,) = (float(each.parts[0].text) for each in canceled.artifacts if each.artifact_id == 'cancel')
        assert heard_at - asked_at < (0.5 if IS_FULL else POLL / 2)
        assert answered_at - asked_at < (1.0 if IS_FULL else POLL / 2)
