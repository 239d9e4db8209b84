"""A reader that stops reading holds nobody up, costs bounded memory, and gets everything when it reads again.

How late others are while it does not read is measured by `python -m bench.slow_reader`. With `SCRIBE_FULL=1` the
streams over HTTP have as many events and readers as there.
"""

import asyncio
import os
import re
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

import grpc
import httpx
import orjson
import pytest
from a2a.types.a2a_pb2 import SubscribeToTaskRequest
from a2a.types.a2a_pb2_grpc import A2AServiceStub

from a2a_scribe.client import follow
from tests.support.proxy import HOST
from tests.support.streaming import (
    BINDINGS,
    GRPC,
    JSON_RPC,
    ServerProcess,
    chunk_of,
    connected,
    http_client,
    request,
    serving,
)

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')]

IS_FULL = bool(os.environ.get('SCRIBE_FULL'))
TOO_LONG = 300
SMALL_BUFFER = 4_096
NUMBER = re.compile(rb'"text":"chunk (\d+)')
NARROW = (('grpc.use_local_subchannel_pool', 1), ('grpc.enable_http_proxy', 0), ('grpc.http2.bdp_probe', 0))
"""A window that does not grow."""
Chunks = AsyncGenerator[int, None]


class Scale(NamedTuple):
    """How much is read, by how many."""

    readers: int
    events: int
    """So many that the stream is much longer than what the kernel keeps for a connection."""
    sleepers: int
    growth: int
    """Bytes that the server's memory may grow by."""
    warm_up: int
    """Streams after which the memory of a server with so many readers grows no more."""


SMALL = Scale(readers=2, events=40_000, sleepers=8, growth=40_000_000, warm_up=1)
"""With so many sleepers and few readers one sees what a server kept: 7 MB for each over gRPC, 9 MB over HTTP."""
FULL = Scale(readers=20, events=50_000, sleepers=1, growth=20_000_000, warm_up=2)


def scale_of(binding: str) -> Scale:
    """Over gRPC it is the clients in the test's own process that make many readers slow, so there are always few."""
    return FULL if IS_FULL and binding != GRPC else SMALL


async def http_chunks(server: ServerProcess, binding: str, task_id: str) -> Chunks:
    """Yields the numbers of a task's chunks from a bare connection that keeps next to nothing for a reader."""
    if binding == JSON_RPC:
        body = orjson.dumps({'jsonrpc': '2.0', 'id': 1, 'method': 'SubscribeToTask', 'params': {'id': task_id}})
        path = '/'
    else:
        body, path = b'{}', f'/tasks/{task_id}:subscribe'
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (HOST, server.ports[binding]))
    reader, writer = await asyncio.open_connection(sock=connection, limit=SMALL_BUFFER)
    try:
        head = f'POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n'
        writer.write(f'{head}A2A-Version: 1.0\r\nLast-Event-ID: 0\r\nConnection: close\r\n\r\n'.encode() + body)
        async for line in reader:
            if found := NUMBER.search(line):
                yield int(found[1])
    finally:
        writer.close()
        await writer.wait_closed()


async def grpc_chunks(server: ServerProcess, task_id: str) -> Chunks:
    """The same over gRPC."""
    async with grpc.aio.insecure_channel(f'{HOST}:{server.ports[GRPC]}', options=NARROW) as channel:
        subscribe = A2AServiceStub(channel).SubscribeToTask  # type: ignore[no-untyped-call]
        call = subscribe(SubscribeToTaskRequest(id=task_id), metadata=(('a2a-version', '1.0'), ('last-event-id', '0')))
        async for response in call:
            if (number := chunk_of(response)) is not None:
                yield number


def chunks(server: ServerProcess, binding: str, task_id: str) -> Chunks:
    return grpc_chunks(server, task_id) if binding == GRPC else http_chunks(server, binding, task_id)


async def count(server: ServerProcess, binding: str, task_id: str) -> int:
    """Reads all of a stream."""
    return len([number async for number in chunks(server, binding, task_id)])


@asynccontextmanager
async def started(server: ServerProcess, http: httpx.AsyncClient, events: int) -> AsyncIterator[str]:
    """A task whose agent has begun to emit."""
    async with connected(JSON_RPC, server.ports[JSON_RPC], http) as client:
        async with aclosing(follow(client, request(0, events))) as followed:
            opening = await anext(followed)
        yield opening.response.task.id


@pytest.mark.parametrize('binding', BINDINGS)
async def test_readers_that_stop_in_the_middle(binding: str, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Else glibc keeps some megabytes for each thread of SQLite, more or fewer, whether somebody sleeps or not.
    monkeypatch.setenv('MALLOC_ARENA_MAX', '1')
    scale = scale_of(binding)

    async def read_all(task_id: str) -> None:
        counts = await asyncio.gather(*(count(server, binding, task_id) for _ in range(scale.readers)))
        assert counts == [scale.events] * scale.readers

    async with asyncio.timeout(TOO_LONG), serving(sqlite_url) as server, http_client() as http:
        for _ in range(scale.warm_up):
            async with started(server, http, scale.events) as task_id:
                await read_all(task_id)
        before = server.resident_bytes
        async with started(server, http, scale.events) as task_id:
            sleepers = [chunks(server, binding, task_id) for _ in range(scale.sleepers)]
            beginnings = [[await anext(sleeper) for _ in range(scale.events // 10)] for sleeper in sleepers]
            await read_all(task_id)
            assert server.resident_bytes - before < scale.growth
            for sleeper in sleepers[1:]:
                await sleeper.aclose()
            assert beginnings[0] + [number async for number in sleepers[0]] == list(range(scale.events))
