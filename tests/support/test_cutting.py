"""The cutting proxy, as a bare client sees it."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

import pytest

from tests.support.cutting import Cut, CuttingProxy, cutting, first_grpc_message, first_sse_event
from tests.support.proxy import HOST

pytestmark = pytest.mark.anyio

HEAD = b'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nretry: 1000\n\n'
FIRST = b'id: 1\ndata: {}\n\n'
ANSWER = HEAD + FIRST + b'id: 2\ndata: {}\n\n' * 1_000


@asynccontextmanager
async def proxied(cuts: Iterable[Cut], answer: bytes = ANSWER) -> AsyncIterator[CuttingProxy]:
    """A server that answers each line with the same bytes, behind a proxy."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with (
        await asyncio.start_server(serve, HOST, 0) as server,
        cutting(server.sockets[0].getsockname()[1], cuts) as proxy,
    ):
        yield proxy


async def ask(proxy: CuttingProxy) -> bytes:
    """Returns what comes over a connection until it ends. Raises: ConnectionError."""
    reader, writer = await asyncio.open_connection(HOST, proxy.port)
    try:
        writer.write(b'hello\n')
        return await reader.read()
    finally:
        writer.close()


async def test_connections_are_cut_as_planned_and_then_passed_through() -> None:
    async with proxied([Cut(0), Cut(1), Cut(len(HEAD)), Cut(5, first_sse_event)]) as proxy:
        answers = [await ask(proxy) for _ in range(6)]
    assert answers == [b'', HEAD[:1], HEAD, HEAD + FIRST + b'id: 2', ANSWER, ANSWER]
    assert (proxy.cuts, proxy.connections) == (4, 6)


async def test_a_cut_beyond_the_answer_does_not_happen() -> None:
    async with proxied([Cut(len(ANSWER) + 1)]) as proxy:
        assert await ask(proxy) == ANSWER
        assert proxy.cuts == 0


async def test_a_reset_is_an_error() -> None:
    async with proxied([Cut(100, is_reset=True)]) as proxy:
        with pytest.raises(ConnectionResetError):
            await ask(proxy)
        assert proxy.cuts == 1


async def test_nobody_is_there_after_the_last_cut() -> None:
    async with proxied([Cut(10, is_last=True)]) as proxy:
        upstream = proxy.upstream
        assert await ask(proxy) == HEAD[:10]
        assert not proxy.refused.is_set()
        with suppress(ConnectionResetError):
            assert await ask(proxy) == b''
        assert proxy.refused.is_set()
        proxy.upstream = upstream
        assert await ask(proxy) == ANSWER


@pytest.mark.parametrize('length', range(len(HEAD + FIRST)))
def test_the_first_event_is_over_with_its_empty_line(length: int) -> None:
    assert first_sse_event((HEAD + FIRST)[:length]) is None
    assert first_sse_event(HEAD + FIRST + b'id') == len(HEAD + FIRST)


def frame(kind: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, 0, 0, 0, 0, 1]) + payload


def test_the_first_message_of_grpc_is_the_first_frame_with_data() -> None:
    sent = frame(4, b'settings') + frame(1, b'headers') + frame(0, b'') + frame(0, b'message')
    assert first_grpc_message(sent + frame(0, b'next')) == len(sent)
    assert all(first_grpc_message(sent[:length]) is None for length in range(len(sent)))
