"""Connections that ask for nothing, or take long for it: they have a deadline, and make room for others."""

import asyncio
import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from a2a_scribe import Settings, create_app
from a2a_scribe.interpreter import SHARE, Haste
from a2a_scribe.protocol.states import INPUT_REQUIRED
from a2a_scribe.testing.agents import ScriptedAgent, emit, status
from a2a_scribe.transport import anteroom as anteroom_module
from a2a_scribe.transport.anteroom import Anteroom, room_for_connections
from a2a_scribe.transport.listening import BACKLOG, listen, serve_http
from a2a_scribe.transport.turnstile import CROWD
from tests.component.kit import DEADLINE, new_card

pytestmark = pytest.mark.anyio

PROTOCOLS = {'h11': H11Protocol, 'httptools': HttpToolsProtocol}


@pytest.fixture(params=PROTOCOLS, autouse=True)
def _protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both of uvicorn's protocols stand behind an anteroom."""
    monkeypatch.setattr(anteroom_module, 'AutoHTTPProtocol', PROTOCOLS[request.param])


Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]
GET = b'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n'
OK = b'HTTP/1.1 200 OK\r\n'
LONG = 60.0


class Server:
    """A server on a socket, as `serve` has it."""

    def __init__(self, anteroom: Anteroom, listener: socket.socket, app: Starlette) -> None:
        self.anteroom = anteroom
        self._app = app
        self.listener = listener
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def open_streams(self) -> int:
        return int(self._app.state.wire.doors.open_streams)

    async def connect(self, data: bytes = b'', source: str = '127.0.0.1') -> Pipe:
        reader, writer = await asyncio.open_connection(*self.listener.getsockname(), local_addr=(source, 0))
        self._writers.append(writer)
        writer.write(data)
        return reader, writer

    async def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()

    async def until(self, count: int) -> None:
        """Waits until there are so many connections."""
        while self.anteroom.count != count:
            await asyncio.sleep(0)


@asynccontextmanager
async def serving(
    most: int = 100, patience: float = LONG, agent: ScriptedAgent | None = None, **options: Any
) -> AsyncIterator[Server]:
    app = create_app(agent or ScriptedAgent([]), new_card(), 'memory', **options)
    anteroom, ready, left = Anteroom(most, patience), asyncio.Event(), asyncio.Event()
    haste = Haste()

    async def nothing() -> None:
        left.set()

    with listen('127.0.0.1', 0) as listener, pytest.MonkeyPatch.context() as patch:
        patch.setattr(AppStatus, 'should_exit', False)  # the signal would end all streams of later tests too
        async with asyncio.timeout(3 * DEADLINE), app.router.lifespan_context(app):
            serving = asyncio.ensure_future(
                serve_http(app, listener, 1, ready.set, app.state.handler.aclose, anteroom, nothing, haste.ask)
            )
            await ready.wait()
            server = Server(anteroom, listener, app)
            try:
                yield server
            finally:
                await server.hang_up()
                stop(serving)
                await serving
                haste.end()
                assert left.is_set()
                await server.until(0)


def stop(serving: 'asyncio.Future[None]') -> None:
    """Ends the server as a signal would."""
    assert not serving.done()
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize('said', [b'', b'GET /heal', GET[:-2]], ids=['nothing', 'a-word', 'a-head'])
async def test_who_does_not_ask_in_time_has_to_go(said: bytes) -> None:
    async with serving(patience=0.05) as server:
        reader, _ = await server.connect(said)
        answer = await reader.read()
        assert answer.startswith(b'HTTP/1.1 408 ' if said else b'')
        assert bool(answer) == bool(said)
        await server.until(0)


async def test_saying_more_gives_no_more_time() -> None:
    async with serving(patience=0.2) as server:
        reader, writer = await server.connect(b'GET /healthz HTTP/1.1\r\n')
        ended = asyncio.ensure_future(reader.read())
        while not ended.done():
            writer.write(b'X: y\r\n')
            await asyncio.wait([ended], timeout=0.01)
        with suppress(ConnectionResetError):  # what is said after the answer has the connection reset
            assert (await ended).startswith(b'HTTP/1.1 408 ')
        await server.until(0)


CHUNKED = b'POST /message:send HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n'
ENDLESS = {
    'headers': (GET[:-2], b'X-Y: z\r\n' * 1000),
    'a-header': (GET[:-2] + b'X-Y: ', b'y' * 8000),
    'a-path': (b'GET /', b'y' * 8000),
    'trailers': (CHUNKED + b'0\r\n', b'X-Y: z\r\n' * 1000),
    'the-size-of-a-chunk': (CHUNKED + b'2;', b'y' * 8000),
    'a-second-head': (GET + GET[:-2], b'X-Y: z\r\n' * 1000),
}


@pytest.mark.parametrize(('begins', 'more'), ENDLESS.values(), ids=ENDLESS)
async def test_what_does_not_end_is_not_kept(begins: bytes, more: bytes) -> None:
    async with serving() as server:
        reader, writer = await server.connect(begins)
        answer = asyncio.ensure_future(reader.read())
        sent = 0
        with suppress(ConnectionError):
            while not answer.done() and sent < 3_000_000:
                writer.write(more)
                await writer.drain()
                sent += len(more)
                await asyncio.sleep(0)
        assert sent < 3_000_000
        with suppress(ConnectionError):
            assert (await answer).startswith((b'HTTP/1.1 431 ', b'HTTP/1.1 400 ', b'HTTP/1.1 200 ', b''))
        await server.until(0)


@pytest.mark.parametrize('size', [60_000, 3_000_000])
async def test_large_bodies_are_no_heads(size: int) -> None:
    async with serving() as server:
        for head in (b'Content-Length: %d\r\n\r\n' % size, b'Transfer-Encoding: chunked\r\n\r\n%x\r\n' % size):
            reader, writer = await server.connect(
                b'POST /message:send HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nX-Y: ' + b'y' * 40_000 + b'\r\n' + head
            )
            writer.write(b'"%b"' % (b'x' * (size - 2)) + b'\r\n0\r\n\r\n')
            assert b'HTTP/1.1 400' in await reader.readline()


async def test_a_stream_ends_with_its_connection_whatever_was_asked_behind_it() -> None:
    settings = Settings(stream_keep_alive=0.02, poll_interval=0.02)
    async with serving(agent=ScriptedAgent([emit(status(INPUT_REQUIRED))]), settings=settings) as server:
        body = json.dumps({'message': {'messageId': 'm', 'role': 'ROLE_USER', 'parts': [{'text': 'x'}]}}).encode()
        line = b'POST /message:stream HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nContent-Length: %d\r\n\r\n' % len(body)
        reader, _ = await server.connect(line + body)
        told = await reader.readuntil(b'INPUT_REQUIRED')
        task_id = told.partition(b'"id":"')[2].partition(b'"')[0]
        follow = b'GET /tasks/%b:subscribe HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\n\r\n' % task_id
        reader, _ = await server.connect(follow + GET)
        await reader.readuntil(b'INPUT_REQUIRED')
        assert server.open_streams > 0
        await server.hang_up()
        while server.open_streams:
            await asyncio.sleep(0)


async def test_who_asks_again_too_slowly_has_to_go() -> None:
    async with serving(patience=0.2) as server:
        reader, writer = await server.connect(GET)
        assert await reader.readline() == OK
        await reader.readuntil(b'}')
        writer.write(GET[:20])
        assert await reader.read() == b''


async def test_a_connection_between_two_requests_has_no_deadline_of_ours() -> None:
    async with serving(patience=0.05) as server:
        reader, writer = await server.connect(GET)
        await reader.readuntil(b'}')
        over = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.15, over.set_result, None)
        await over
        writer.write(GET)
        assert await reader.readline() == OK


async def test_whoever_has_waited_longest_makes_room() -> None:
    async with serving(most=10) as server:
        slow = [await server.connect(b'GET') for _ in range(10)]
        await server.until(10)
        for _ in range(3):
            reader, _ = await server.connect(GET)
            assert await reader.readline() == OK
        for reader, _ in slow[:3]:
            assert (await reader.read()).startswith(b'HTTP/1.1 408 ')
        assert server.anteroom.count == 10


async def test_while_a_crowd_is_heard_threads_take_turns_quickly() -> None:
    usual = sys.getswitchinterval()
    async with serving() as server:
        pipes = [await server.connect() for _ in range(3 * CROWD)]
        await server.until(len(pipes))
        assert sys.getswitchinterval() == usual
        for _, writer in pipes:
            writer.write(GET)
        for reader, _ in pipes:
            assert await reader.readline() == OK
        assert sys.getswitchinterval() == pytest.approx(SHARE)
    assert sys.getswitchinterval() == usual


def most_that_may_wait() -> int:
    return int(Path('/proc/sys/net/core/somaxconn').read_text(encoding='ascii'))


@pytest.mark.skipif(sys.platform != 'linux', reason='the kernel does not say')
async def test_as_many_connections_may_wait_to_be_taken_as_the_kernel_lets_them() -> None:
    async with serving() as server:
        said = server.listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        *_, room = struct.unpack('8B6I', said[:32])
        assert room == min(BACKLOG, most_that_may_wait())


@pytest.mark.skipif(sys.platform != 'linux', reason='has one loopback address')
async def test_a_crowd_from_one_address_makes_room_itself() -> None:
    async with serving(most=10) as server:
        reader, writer = await server.connect(b'GET')
        await server.until(1)
        crowd = [await server.connect(b'GET', '127.0.0.2') for _ in range(50)]
        await server.until(10)
        writer.write(GET[3:])
        assert await reader.readline() == OK
        for each, _ in crowd[:41]:
            assert (await each.read()).startswith((b'HTTP/1.1 408 ', b''))
        assert server.anteroom.count == 10


async def test_who_was_answered_and_is_silent_makes_room_too() -> None:
    async with serving(most=10) as server:
        for _ in range(10):
            reader, _ = await server.connect(GET)
            await reader.readuntil(b'}')
        for _ in range(10):
            reader, _ = await server.connect(GET)
            assert await reader.readline() == OK


async def test_who_has_asked_is_not_sent_away_for_others() -> None:
    async with serving(most=2) as server:
        busy = []
        for _ in range(2):
            reader, writer = await server.connect(
                b'POST /message:send HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nContent-Length: 5\r\n\r\n'
            )
            busy.append((reader, writer))
        await server.until(2)
        refused, _ = await server.connect(GET)
        answer = await refused.read()
        assert answer.startswith(b'HTTP/1.1 503 ')
        assert b'Retry-After: 2\r\n' in answer
        for reader, writer in busy:
            writer.write(b'{"x":')
            assert b'HTTP/1.1 400' in await reader.readline()


@pytest.mark.parametrize(
    ('limits', 'found', 'raised'),
    [
        ((1024, 1_000_000), 10_000, 10_200),
        ((1024, 4096), 3_896, 4096),
        ((1024, 1024), 824, None),
        ((100, 100), 50, None),
        ((20_000, 20_000), 10_000, None),
        ((1_000_000, 1_000_000), 10_000, None),
        ((-1, -1), 10_000, None),
        ((1024, -1), 10_000, 10_200),
    ],
)
def test_there_are_no_more_connections_than_files(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], found: int, raised: int | None
) -> None:
    was_set: list[int] = []
    monkeypatch.setattr(resource, 'getrlimit', lambda _: limits)
    monkeypatch.setattr(resource, 'setrlimit', lambda _, given: was_set.append(given[0]))
    assert room_for_connections(10_000) == found
    assert was_set == ([] if raised is None else [raised])


@pytest.mark.parametrize(
    ('limits', 'found', 'raised'),
    [((1024, 1_000_000), 10_000, 30_200), ((1024, 6_200), 2_000, 6_200), ((1024, 1024), 274, None)],
)
def test_connections_that_need_several_files_are_fewer_where_files_are(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], found: int, raised: int | None
) -> None:
    was_set: list[int] = []
    monkeypatch.setattr(resource, 'getrlimit', lambda _: limits)
    monkeypatch.setattr(resource, 'setrlimit', lambda _, given: was_set.append(given[0]))
    assert room_for_connections(10_000, files=3) == found
    assert was_set == ([] if raised is None else [raised])
