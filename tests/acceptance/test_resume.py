"""Streams that are cut, and servers that are killed: a reader that resumes gets every event once, in order.

`SCRIBE_FULL=1 python -m pytest tests/acceptance/test_resume.py` cuts 200 streams on each binding, in place of a few.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import pytest
from a2a.client import Client
from a2a.types.a2a_pb2 import GetTaskRequest, TaskState

from a2a_scribe.client import Backoff, Followed, follow
from a2a_scribe.protocol.states import COMPLETED, INPUT_REQUIRED
from tests.support.cutting import Cut, CuttingProxy, Mark, cutting, first_grpc_message, first_sse_event, the_start
from tests.support.streaming import (
    BINDINGS,
    GRPC,
    JSON_RPC,
    REST,
    ServerProcess,
    chunk_of,
    connected,
    http_client,
    request,
    serving,
)

pytestmark = pytest.mark.anyio

IS_FULL = bool(os.environ.get('SCRIBE_FULL'))
STREAMS = 200 if IS_FULL else 24
STREAMS_OVER_A_CRASH = 200 if IS_FULL else 10
CHUNKS, HALF = 500, 250
CUTS = 3
AT_ONCE = 16
TOO_LONG = 600 if IS_FULL else 120
LEAST_BYTES = {'JSONRPC': 300, 'HTTP+JSON': 240, 'GRPC': 150}
"""What an event takes at least: a cut has to come before the stream is over."""
PACE = 2
"""Milliseconds between the chunks of every other stream, whose agent is then still at work when it is cut."""
OFTEN = Backoff(most=0.5)


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with http_client() as client:
        yield client


@pytest.fixture
async def server(sqlite_url: str) -> AsyncIterator[ServerProcess]:
    async with serving(sqlite_url) as server:
        yield server


def first_event(binding: str) -> Mark:
    return first_grpc_message if binding == GRPC else first_sse_event


def plan(binding: str, chance: random.Random, events: int) -> list[Cut]:
    """Three cuts at random bytes: the first anywhere after the first event, the others even before theirs."""
    most = LEAST_BYTES[binding] * events // (CUTS + 1)
    marks = [first_event(binding), the_start, the_start]
    return [Cut(chance.randrange(most), mark, is_reset=chance.random() < 0.5) for mark in marks]


def state_of(followed: Followed) -> TaskState | None:
    """The state that an event shows."""
    response = followed.response
    if response.HasField('task'):
        return response.task.status.state
    return response.status_update.status.state if response.HasField('status_update') else None


def assert_complete(seen: Sequence[Followed], chunks: range, state: TaskState) -> None:
    """Every chunk once and in order, then the end."""
    assert [number for followed in seen if (number := chunk_of(followed.response)) is not None] == list(chunks)
    seqs = [followed.seq for followed in seen]
    assert all(earlier is not None and later is not None and earlier < later for earlier, later in pairwise(seqs))
    assert state_of(seen[-1]) == state


async def read(events: AsyncIterator[Followed], into: list[Followed]) -> None:
    """Reads to the end; what was read is there also if that never comes."""
    async for followed in events:
        into.append(followed)  # noqa: PERF401 - as it comes


async def final_state(client: Client, task_id: str) -> TaskState | None:
    """Waits until a task has ended, or asks for input."""
    seen: list[Followed] = []
    await read(follow(client, task_id), seen)
    return state_of(seen[-1])


# Cuts


async def follow_cut(binding: str, number: int, server: ServerProcess, http: httpx.AsyncClient) -> None:
    chance = random.Random(f'{binding} {number}')
    seen: list[Followed] = []
    async with (
        cutting(server.ports[binding], plan(binding, chance, CHUNKS)) as proxy,
        connected(binding, proxy.port, http) as client,
    ):
        await read(follow(client, request(0, CHUNKS, pace=PACE * (number % 2))), seen)
    assert_complete(seen, range(CHUNKS), COMPLETED)
    assert proxy.cuts == CUTS
    assert proxy.connections >= CUTS + 1


@pytest.mark.parametrize('binding', BINDINGS)
async def test_streams_that_are_cut(binding: str, server: ServerProcess, http: httpx.AsyncClient) -> None:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with places:
            await follow_cut(binding, number, server, http)

    async with asyncio.timeout(TOO_LONG), asyncio.TaskGroup() as group:
        for number in range(STREAMS):
            group.create_task(one(number))


@pytest.mark.parametrize('binding', [JSON_RPC, REST])
async def test_who_stops_early_frees_the_connection(
    binding: str, server: ServerProcess, http: httpx.AsyncClient
) -> None:
    """Over gRPC, streams share a connection that stays open."""
    async with (
        asyncio.timeout(TOO_LONG),
        cutting(server.ports[binding]) as proxy,
        connected(binding, proxy.port, http) as client,
    ):
        async with aclosing(follow(client, request(0, CHUNKS, pace=PACE))) as events:
            async for followed in events:
                if chunk_of(followed.response) == 2:
                    break
        await proxy.idle.wait()
        assert proxy.connections == 1
        assert proxy.cuts == 0


# Crashes


@dataclass
class Reading:
    """One reader, on one generator, of a task that ends or asks."""

    client: Client
    proxy: CuttingProxy
    end: str
    seen: list[Followed] = field(default_factory=list)

    @property
    def state(self) -> TaskState:
        return COMPLETED if self.end == 'complete' else INPUT_REQUIRED

    @property
    def task_id(self) -> str:
        return self.seen[0].response.task.id

    async def run(self) -> None:
        """Reads to the end or to the question, with patience."""
        await read(follow(self.client, request(0, HALF, end=self.end), attempts=None, backoff=OFTEN), self.seen)

    async def answer(self) -> None:
        """Gives a parked task what it waits for, and reads on."""
        more: list[Followed] = []
        await read(follow(self.client, request(HALF, HALF, task_id=self.task_id)), more)
        assert_complete(more, range(HALF, CHUNKS), COMPLETED)
        assert (more[0].seq or 0) > (self.seen[-1].seq or 0)


@asynccontextmanager
async def readings(binding: str, server: ServerProcess, http: httpx.AsyncClient) -> AsyncIterator[list[Reading]]:
    """Readers who find nobody after the first cut, and are cut twice more once the server is back."""
    async with AsyncExitStack() as stack:
        opened = []
        for number in range(STREAMS_OVER_A_CRASH):
            first, *rest = plan(binding, random.Random(f'crash {binding} {number}'), HALF)
            proxy = await stack.enter_async_context(
                cutting(server.ports[binding], [first._replace(is_last=True), *rest])
            )
            client = await stack.enter_async_context(connected(binding, proxy.port, http))
            opened.append(Reading(client, proxy, 'ask' if number % 2 else 'complete'))
        yield opened


@pytest.mark.parametrize('binding', BINDINGS)
async def test_streams_that_are_cut_when_the_server_is_killed(
    binding: str, sqlite_url: str, http: httpx.AsyncClient
) -> None:
    """Their tasks had finished, or were waiting for input."""
    async with (
        asyncio.timeout(TOO_LONG),
        serving(sqlite_url) as first,
        readings(binding, first, http) as streams,
        asyncio.TaskGroup() as group,
    ):
        running = [group.create_task(stream.run()) for stream in streams]
        async with connected(binding, first.ports[binding], http) as direct:
            for stream in streams:
                await stream.proxy.refused.wait()
                assert 0 < len(stream.seen) < HALF
                assert await final_state(direct, stream.task_id) == stream.state
        await first.kill()
        async with serving(sqlite_url) as second:
            for stream in streams:
                stream.proxy.upstream = second.ports[binding]
            await asyncio.gather(*running)
            for stream in streams:
                assert stream.proxy.cuts == CUTS
                assert_complete(stream.seen, range(HALF), stream.state)
            await asyncio.gather(*(stream.answer() for stream in streams if stream.end == 'ask'))


@pytest.mark.parametrize('binding', BINDINGS)
async def test_a_reader_that_comes_back_after_a_crash(binding: str, sqlite_url: str, http: httpx.AsyncClient) -> None:
    """With nothing but the task's id and the place of the last event: what a program of its own would have kept."""
    seen: list[Followed] = []
    async with asyncio.timeout(TOO_LONG):
        async with serving(sqlite_url) as server, connected(binding, server.ports[binding], http) as client:
            await read(follow(client, request(0, CHUNKS), until=lambda response: chunk_of(response) == HALF), seen)
            assert await final_state(client, seen[0].response.task.id) == COMPLETED
            await server.kill()
        async with serving(sqlite_url) as server, connected(binding, server.ports[binding], http) as client:
            rest: list[Followed] = []
            await read(follow(client, seen[0].response.task.id, after=seen[-1].seq), rest)
            again: list[Followed] = []
            await read(follow(client, seen[0].response.task.id, after=0), again)
            stored = await client.get_task(GetTaskRequest(id=seen[0].response.task.id))
    assert_complete([*seen, *rest], range(CHUNKS), COMPLETED)
    assert again == [*seen, *rest]
    assert len(stored.artifacts[0].parts) == CHUNKS


# Another process


@pytest.mark.parametrize('binding', BINDINGS)
async def test_a_stream_goes_on_at_another_process(binding: str, sqlite_url: str, http: httpx.AsyncClient) -> None:
    """The first goes on running the task; the second reads the journal that they share."""
    cut = Cut(LEAST_BYTES[binding] * 50, first_event(binding), is_last=True)
    quickly: dict[str, Any] = {'poll_interval': 0.1}
    seen: list[Followed] = []
    async with (
        asyncio.timeout(TOO_LONG),
        serving(sqlite_url, **quickly) as first,
        serving(sqlite_url, **quickly) as second,
        cutting(first.ports[binding], [cut]) as proxy,
        connected(binding, proxy.port, http) as client,
    ):
        reading = asyncio.create_task(read(follow(client, request(0, CHUNKS, pace=PACE), attempts=None), seen))
        await proxy.refused.wait()
        count = len(seen)
        proxy.upstream = second.ports[binding]
        await reading
    assert_complete(seen, range(CHUNKS), COMPLETED)
    assert count < CHUNKS / 2
