"""Connections of gRPC before gRPC knows of them: who they are, how many there may be, and how they end."""

import asyncio
import socket
import struct
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import SendMessageRequest, SendMessageResponse
from starlette.applications import Starlette

from a2a_scribe import Settings, create_app, serve_grpc
from a2a_scribe.errors import SettingsError
from a2a_scribe.protocol.states import COMPLETED, WORKING
from a2a_scribe.testing.agents import ScriptedAgent, emit, status, task, wait
from a2a_scribe.transport import grpc_connections, grpc_gate, grpc_serving
from a2a_scribe.transport.anteroom import Anteroom
from a2a_scribe.transport.grpc_connections import Outside
from a2a_scribe.transport.grpc_gate import AT_ONCE, CROWD, IN_A_CROWD, Gate
from a2a_scribe.transport.http2 import (
    ACK,
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    MOST_FIELDS,
    NO_SETTINGS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    goaway,
)
from tests.component.kit import DEADLINE, new_card, new_request

pytestmark = pytest.mark.anyio

QUICK, LONG = 0.2, 60.0
PING = 6
OWN_CONNECTION = (('grpc.use_local_subchannel_pool', 1),)
VERSION = [('a2a-version', '1.0')]
SEND = '/lf.a2a.v1.A2AService/SendMessage'
TOO_MUCH = {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT}
"""gRPC's own answer, and ours where it lets such a call through."""
NO_PLACE = Path('/nowhere/grpc')


async def soon(wanted: Callable[[], bool]) -> None:
    """Waits for what sockets bring."""
    while not wanted():
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
async def deadline() -> AsyncIterator[None]:
    async with asyncio.timeout(3 * DEADLINE):
        yield


@asynccontextmanager
async def serving(
    agent: ScriptedAgent | None = None, host: str = '127.0.0.1', context_builder: Any = None, **settings: Any
) -> AsyncIterator[str]:
    """Serves an agent; gives the address."""
    async with opened(agent, **settings) as app, serve_grpc(app, host, context_builder=context_builder) as port:
        yield f'[{host}]:{port}' if ':' in host else f'{host}:{port}'


@asynccontextmanager
async def opened(agent: ScriptedAgent | None = None, **settings: Any) -> AsyncIterator[Starlette]:
    script = agent or ScriptedAgent([emit(task(WORKING)), emit(status(COMPLETED))])
    app = create_app(script, new_card(push_notifications=False), 'memory', settings=Settings(**settings))
    async with app.router.lifespan_context(app):
        yield app


def channel(target: str) -> grpc.aio.Channel:
    """A channel with a connection of its own."""
    return grpc.aio.insecure_channel(target, options=OWN_CONNECTION)


def send(over: grpc.aio.Channel, metadata: list[tuple[str, str]] = VERSION, method: str = SEND) -> Any:
    call = over.unary_unary(method, SendMessageRequest.SerializeToString, SendMessageResponse.FromString)
    return call(new_request(), metadata=metadata)


async def is_served(target: str) -> bool:
    async with channel(target) as over:
        answer: SendMessageResponse = await send(over)
        return answer.task.status.state == COMPLETED


class Raw:
    """A client that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, target: str, said: bytes = b'') -> 'Raw':
        host, _, port = target.rpartition(':')
        client = cls(*await asyncio.open_connection(host, int(port)))
        client.say(said)
        return client

    def say(self, said: bytes) -> None:
        self._writer.write(said)

    async def frames(self) -> AsyncIterator[tuple[int, int, bytes]]:
        """What comes, until the connection is closed: type, flags and payload."""
        while len(head := await self._reader.read(9)) == 9:
            yield head[3], head[4], await self._reader.readexactly(int.from_bytes(head[:3]))

    async def until(self, kind: int, flags: int = 0) -> bytes:
        """Waits for a frame."""
        async for found, has, payload in self.frames():
            if (found, has) == (kind, flags):
                return payload
        raise EOFError(kind)

    async def rest(self) -> bytes:
        return await self._reader.read()

    def say_no_more(self) -> None:
        self._writer.write_eof()

    def stop_reading(self) -> None:
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def close(self) -> None:
        self._writer.close()


def frame(kind: int, flags: int, stream: int, payload: bytes = b'') -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


GREETING = PREFACE + frame(SETTINGS, 0, 0)


async def where_from(host: str, target_of: str) -> list[str]:
    """What a user's builder of contexts is told of who calls."""
    told: list[str] = []

    def build(call: Any) -> ServerCallContext:
        told.append(call.peer())
        return ServerCallContext(state={'headers': {}})

    async with serving(host=host, context_builder=build) as target:
        assert await is_served(target_of.format(target.rpartition(':')[2]))
    return told


async def test_where_a_call_is_from() -> None:
    (first, *_) = await where_from('127.0.0.1', '127.0.0.1:{}')
    kind, host, port = first.split(':')
    assert (kind, host) == ('ipv4', '127.0.0.1')
    assert 0 < int(port) < 65_536


@pytest.mark.skipif(not socket.has_ipv6, reason='there is no IPv6')
async def test_where_a_call_is_from_over_ipv6() -> None:
    (first, *_) = await where_from('::1', '[::1]:{}')
    assert first.startswith('ipv6:%5B::1%5D:')


@pytest.mark.parametrize('said', [b'', PREFACE[:10], PREFACE], ids=['nothing', 'half', 'a-preface'])
async def test_who_does_not_begin_has_to_go(said: bytes) -> None:
    async with serving(header_timeout=QUICK) as target:
        client = await Raw.connect(target, said)
        assert await client.until(GOAWAY) == bytes(8)
        assert await client.rest() == b''
        client.close()


async def test_who_has_begun_may_wait_with_the_first_call() -> None:
    async with serving(header_timeout=QUICK) as target:
        begun = await Raw.connect(target, GREETING)
        await begun.until(SETTINGS)
        silent = await Raw.connect(target)
        await silent.until(GOAWAY)
        begun.say(frame(PING, 0, 0, b'12345678'))
        assert await begun.until(PING, ACK) == b'12345678'
        begun.close()
        silent.close()


async def test_the_first_settings_come_before_anything_is_asked() -> None:
    async with serving() as target:
        client = await Raw.connect(target)
        reader = client.frames()
        assert await anext(reader) == (SETTINGS, 0, b'')
        client.say(GREETING + frame(SETTINGS, ACK, 0))
        kind, flags, payload = await anext(reader)
        assert (kind, flags) == (SETTINGS, 0)
        assert payload, 'those of gRPC come second'
        client.say(frame(SETTINGS, ACK, 0) + frame(PING, 0, 0, b'12345678'))
        assert await client.until(PING, ACK) == b'12345678', 'gRPC was acknowledged once, as it expects'
        client.close()


async def test_what_is_not_http2_is_closed() -> None:
    async with serving() as target:
        client = await Raw.connect(target, b'GET / HTTP/1.1\r\nHost: agent\r\nAccept: text/plain\r\n\r\n' * 3)
        assert (await client.rest()).startswith(NO_SETTINGS)
        client.close()
        assert await is_served(target)


async def test_one_more_takes_the_place_of_one_without_calls() -> None:
    async with serving(max_connections=2) as target:
        idle = [await Raw.connect(target, GREETING) for _ in range(2)]
        for each in idle:
            await each.until(SETTINGS, ACK)
        assert await is_served(target)
        assert await idle[0].until(GOAWAY) == bytes(8)
        idle[1].say(frame(PING, 0, 0, b'12345678'))
        assert await idle[1].until(PING, ACK) == b'12345678'
        for each in idle:
            each.close()


async def test_who_was_answered_makes_room_too() -> None:
    async with serving(max_connections=2) as target, channel(target) as first, channel(target) as second:
        for each in (first, second):
            assert (await send(each)).task.status.state == COMPLETED
        assert await is_served(target)
        for each in (first, second):
            assert (await send(each)).task.status.state == COMPLETED, 'it connects again'


async def test_nobody_makes_room_while_all_are_being_answered() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(status(COMPLETED))])
    async with serving(agent, max_connections=1) as target, channel(target) as first, channel(target) as second:
        running = send(first)
        await agent.reached('gate')
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await send(second)
        assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE
        agent.open('gate')
        assert (await running).task.status.state == COMPLETED


@pytest.mark.parametrize(
    ('method', 'metadata', 'codes'),
    [
        ('/lf.a2a.v1.A2AService/Nothing', VERSION, {grpc.StatusCode.UNIMPLEMENTED}),
        (SEND, [*VERSION, ('x', 'y' * 200_000)], TOO_MUCH),
    ],
    ids=['unknown-method', 'too-much-metadata'],
)
async def test_what_grpc_refuses_by_itself_holds_nobody_up(
    method: str, metadata: list[tuple[str, str]], codes: set[grpc.StatusCode]
) -> None:
    async with serving() as target, channel(target) as over:
        calls = [send(over, metadata, method) for _ in range(4 * AT_ONCE)]
        assert {await call.code() for call in calls} <= codes
        assert await is_served(target)


async def test_fields_without_an_end_end_the_connection() -> None:
    async with serving() as target:
        begin = frame(HEADERS, 0, 1, b'\x40' + b'x' * 100)
        client = await Raw.connect(target, GREETING + begin)
        await client.until(SETTINGS)
        client.say(frame(CONTINUATION, 0, 1, b'x' * 16_000) * (MOST_FIELDS // 16_000 + 1))
        await client.until(GOAWAY)
        client.close()
        assert await is_served(target)


async def test_many_calls_on_one_connection_are_all_answered() -> None:
    async with serving() as target, channel(target) as over:
        answers = await asyncio.gather(*(send(over) for _ in range(20 * AT_ONCE)))
        assert {each.task.status.state for each in answers} == {COMPLETED}


async def test_many_connections_are_all_answered() -> None:
    async with serving() as target:
        assert all(await asyncio.gather(*(is_served(target) for _ in range(10 * AT_ONCE))))


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short name."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def names_in(place: Path) -> list[str]:
    return [each.name[:4] for each in place.iterdir()]


async def test_what_runs_when_the_server_goes_is_answered(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, 'tempdir', str(place))
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(status(COMPLETED))])
    async with opened(agent) as app:
        stack = serve_grpc(app)
        target = f'127.0.0.1:{await stack.__aenter__()}'
        assert names_in(place) == ['a2a-']
        silent = await Raw.connect(target)
        async with channel(target) as over:
            running = send(over)
            await agent.reached('gate')
            leaving = asyncio.ensure_future(stack.__aexit__(None, None, None))
            assert await silent.until(GOAWAY) == bytes(8)
            with pytest.raises(ConnectionRefusedError):
                await Raw.connect(target)
            agent.open('gate')
            assert (await running).task.status.state == COMPLETED
        await leaving
        silent.close()
    assert names_in(place) == [], 'the directory of its socket is gone'


async def test_a_directory_with_a_long_name_is_none_for_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ('d' * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, 'tempdir', str(long))
    async with serving() as target:
        assert await is_served(target)
        assert names_in(long) == []


async def test_without_a_place_for_its_socket_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path / 'nothing'))
    async with opened() as app:
        with pytest.raises(SettingsError, match='TMPDIR'):
            await serve_grpc(app).__aenter__()


async def test_without_sockets_of_unix_grpc_listens_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_serving, 'HAS_GATE', False)
    async with serving() as target:
        client = await Raw.connect(target, GREETING)
        assert await client.until(SETTINGS) != b'', 'the first settings are its own'
        client.close()
        assert await is_served(target)


async def test_a_port_that_is_taken_meanwhile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_serving, 'HAS_GATE', False)
    with socket.create_server(('127.0.0.1', 0)) as taken:
        monkeypatch.setattr(grpc_serving, 'listen', lambda host, port: taken.dup())
        port = taken.getsockname()[1]
        async with opened() as app:
            with pytest.raises(SettingsError, match=f'cannot listen on 127.0.0.1:{port} for gRPC'):
                await serve_grpc(app, port=port).__aenter__()


class Door:
    """A gate before nothing."""

    def __init__(self) -> None:
        self.crowds = 0
        self.anteroom = Anteroom(1_000, LONG)
        self.gate = Gate(NO_PLACE, self.anteroom, self._note)
        self.made, self.lost = list[Outside](), list[Outside]()

    def _make(self) -> Outside:
        door = self

        class Noted(Outside):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                door.made.append(self)

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                door.lost.append(self)

        return Noted(self.gate)

    def _note(self) -> None:
        self.crowds += 1

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        server = await asyncio.get_running_loop().create_server(self._make, '127.0.0.1', 0)
        async with server:
            yield f'127.0.0.1:{server.sockets[0].getsockname()[1]}'


CALL = GREETING + frame(HEADERS, 4, 1, b'fields')


async def test_who_waits_and_goes_leaves_nothing_behind() -> None:
    door = Door()
    for _ in range(AT_ONCE):
        door.gate.give()
    async with door.open() as target:
        clients = [await Raw.connect(target, CALL) for _ in range(2 * CROWD)]
        await soon(lambda: door.crowds == CROWD + 1)
        assert door.anteroom.count == 2 * CROWD
        for client in clients:
            client.close()
        await soon(lambda: door.anteroom.count == 0)
        await door.gate.closed(0)


async def test_who_cannot_be_brought_to_grpc_is_closed() -> None:
    door = Door()
    async with door.open() as target:
        client = await Raw.connect(target, CALL)
        assert await client.rest() == NO_SETTINGS + goaway(0)
        client.close()


async def test_what_grpc_says_nothing_of_counts_no_more_after_a_moment() -> None:
    door = Door()
    for _ in range(AT_ONCE):
        door.gate.give()
    async with door.open() as target:
        client = await Raw.connect(target, CALL)
        assert await client.rest() == NO_SETTINGS + goaway(0), 'its turn has come'
        client.close()


async def test_in_a_crowd_few_are_let_in_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_gate, 'PATIENCE', LONG)
    gate, went = Door().gate, list[int]()
    count = AT_ONCE + 2 * CROWD
    for number in range(count):
        someone = Someone(gate, number, went)
        if gate.lets_in(someone, number):
            someone.go_on()
    assert went == list(range(AT_ONCE))
    for _ in range(AT_ONCE - IN_A_CROWD):
        gate.handed_over()
    assert len(went) == AT_ONCE
    for _ in range(3):
        gate.handed_over()
    assert went[AT_ONCE:] == [count - 1, AT_ONCE, count - 2], 'the newest, and who has waited for longest'


class Someone:
    """Who waits, and notes that it goes on."""

    def __init__(self, gate: Gate, number: int, went: list[int]) -> None:
        self._gate = gate
        self._number = number
        self._went = went

    def go_on(self) -> None:
        self._went.append(self._number)
        self._gate.give()

    def leave_unserved(self) -> None:
        raise NotImplementedError

    def cut_off(self) -> None:
        raise NotImplementedError


async def test_credit_is_given_once() -> None:
    """What was late, or is over, is not counted for others when it is handed over after all."""
    gate, went = Door().gate, list[int]()
    credits_out = [gate.give() for _ in range(AT_ONCE)]
    assert not gate.lets_in(Someone(gate, 0, went), 0)
    for credit in credits_out[: AT_ONCE // 2]:
        gate.take_back(credit)
        gate.take_back(credit)
    assert went == [0]
    for number in range(1, AT_ONCE // 2):
        assert gate.lets_in(Someone(gate, number, went), number)
        gate.give()
    assert not gate.lets_in(Someone(gate, AT_ONCE, went), AT_ONCE)


@pytest.mark.parametrize('stream', [2, 0x7FFF_FFFE])
async def test_a_stream_that_is_no_clients_own_changes_nothing(stream: int) -> None:
    async with serving(max_connections=1) as target:
        client = await Raw.connect(target, GREETING + frame(HEADERS, 5, stream, b'\x82'))
        await client.until(SETTINGS, ACK)
        assert await is_served(target), 'it makes room'
        await client.until(GOAWAY)
        client.close()


async def test_who_gives_a_call_up_makes_room() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(status(COMPLETED))])
    async with serving(agent, max_connections=2) as target, channel(target) as first, channel(target) as second:
        for each in (first, second):
            running = send(each)
            await agent.reached('gate')
            running.cancel()
        agent.open('gate')
        assert await is_served(target)


class Counting(Gate):
    """Notes what is taken back."""

    def __init__(self, place: Path) -> None:
        super().__init__(place, Anteroom(1, LONG), lambda: None)
        self.given, self.taken = 0, set[int]()

    def give(self) -> int:
        self.given += 1
        return super().give()

    def take_back(self, credit: int) -> None:
        self.taken.add(credit)
        super().take_back(credit)


@asynccontextmanager
async def before_one_who_never_answers(place: Path) -> AsyncIterator[tuple[Counting, str]]:
    """A gate, and its address."""

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_now.append(writer)
        came.set()
        await reader.read()
        writer.close()
        await writer.wait_closed()
        open_now.remove(writer)

    came, open_now = asyncio.Event(), list[asyncio.StreamWriter]()
    gate = Counting(place / 'grpc')
    server = await asyncio.get_running_loop().create_server(lambda: Outside(gate), '127.0.0.1', 0)
    async with await asyncio.start_unix_server(say_nothing, place / 'grpc'), server:
        yield gate, f'127.0.0.1:{server.sockets[0].getsockname()[1]}'
        await came.wait()
        await soon(lambda: not open_now)


async def test_of_calls_that_were_given_up_nothing_is_kept(place: Path) -> None:
    async with before_one_who_never_answers(place) as (gate, target):
        client = await Raw.connect(target, GREETING)
        for stream in range(1, 41, 2):
            client.say(frame(HEADERS, 4, stream, b'fields') + frame(RST_STREAM, 0, stream, bytes(4)))
        await soon(lambda: gate.given == 21)
        assert len(gate.taken) == 20, 'all but that of the connection'
        client.close()


async def test_who_asks_without_end_and_is_not_answered_is_closed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_connections, 'MOST_CALLS', 5)
    async with before_one_who_never_answers(place) as (_, target):
        client = await Raw.connect(target, GREETING)
        client.say(b''.join(frame(HEADERS, 4, stream, b'fields') for stream in range(1, 13, 2)))
        await client.until(GOAWAY)
        client.close()


async def test_who_half_closes_is_closed() -> None:
    async with serving() as target:
        client = await Raw.connect(target, GREETING)
        await client.until(SETTINGS, ACK)
        client.say_no_more()
        await client.rest()
        client.close()


async def test_who_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_connections, 'STALLED', QUICK)
    door = Door()
    async with door.open() as target:
        client = await Raw.connect(target)
        await soon(lambda: bool(door.made))
        (server_side,) = door.made
        client.stop_reading()
        while not door.lost:
            server_side.answer(frame(DATA, 0, 1, bytes(60_000)))
            await asyncio.sleep(0)
        assert door.anteroom.count == 0
        client.close()


async def test_a_connection_that_is_reset_at_once_does_no_harm() -> None:
    async with serving() as target:
        host, _, port = target.rpartition(':')
        for _ in range(50):
            gone = socket.create_connection((host, int(port)))
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            gone.close()
        assert await is_served(target)
