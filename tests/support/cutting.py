"""A TCP proxy in front of a server that cuts connections after a chosen byte of what the server sends.

Each connection takes the next cut of the plan; when there are none left, connections are passed through. Where bytes
are counted from is told by a *mark*, a function that finds it in what the server has sent so far.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

from tests.support.proxy import HOST, End

AT_ONCE: Final = struct.pack('ii', 1, 0)
"""A lingering of no time: closing sends a reset, and what was not sent yet is lost."""
FRAME_HEAD: Final = 9
DATA_FRAME: Final = 0

Mark = Callable[[bytes], int | None]
"""Returns the place in what was sent so far that bytes are counted from, `None` if it has not come yet."""


def the_start(_: bytes) -> int | None:
    """Counts from the first byte."""
    return 0


def first_sse_event(sent: bytes) -> int | None:
    """Counts from the end of the first server-sent event that has data."""
    data = sent.find(b'\ndata:')
    end = sent.find(b'\n\n', data)
    return end + 2 if data >= 0 and end >= 0 else None


def first_grpc_message(sent: bytes) -> int | None:
    """Counts from the end of the first DATA frame of HTTP/2."""
    start = 0
    while start + FRAME_HEAD <= len(sent):
        length, kind = int.from_bytes(sent[start : start + 3]), sent[start + 3]
        start += FRAME_HEAD + length
        if kind == DATA_FRAME and length and start <= len(sent):
            return start
    return None


class Cut(NamedTuple):
    """Where a connection ends, and how."""

    after: int
    """Bytes after the mark that the client still gets."""
    mark: Mark = the_start
    is_reset: bool = False
    """Whether the client sees a reset rather than an end."""
    is_last: bool = False
    """Whether the server cannot be reached from then on, until the proxy is told where it is."""


class CuttingProxy:
    """Listens on a port of its own; the server is another port of this machine."""

    def __init__(self, upstream: int, cuts: Iterable[Cut], group: asyncio.TaskGroup) -> None:
        """Starts nothing yet."""
        self.upstream: int | None = upstream
        """The server's port; `None` while there is no server."""
        self.port = 0
        self.connections = 0
        self.cuts = 0
        """How many connections were cut."""
        self.refused = asyncio.Event()
        """Set once somebody has tried to connect while there is no server."""
        self.idle = asyncio.Event()
        """Set while nobody is connected."""
        self._plan = iter(cuts)
        self._group = group
        self._links: set[tuple[End, End]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Accepts connections until the block ends, and leaves none behind."""
        server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for link in self._links:
                for end in link:
                    end.cut()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._group.create_task(self._serve(End(reader, writer)))

    async def _serve(self, client: End) -> None:
        server = await self._connect()
        if server is None:
            self.refused.set()
            client.cut()
            await client.wait_for_close()
            return
        self.connections += 1
        client.writer.transport.set_write_buffer_limits(0)
        link = (client, server)
        self._links.add(link)
        self.idle.clear()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._forward_requests(client, server))
            group.create_task(self._forward_answers(client, server, next(self._plan, None)))
        self._links.remove(link)
        for end in link:
            await end.wait_for_close()
        if not self._links:
            self.idle.set()

    async def _connect(self) -> End | None:
        """Returns the server; `None` if there is none, or it dies just then."""
        if self.upstream is None:
            return None
        try:
            return End(*await asyncio.open_connection(HOST, self.upstream))
        except ConnectionError:
            return None

    async def _forward_requests(self, client: End, server: End) -> None:
        while data := await read(client):
            await server.send(data)
        server.cut()

    async def _forward_answers(self, client: End, server: End, cut: Cut | None) -> None:
        sent, left = b'', None
        while data := await read(server):
            if cut is not None and left is None:
                sent += data
                mark = cut.mark(sent)
                left = None if mark is None else mark + cut.after - (len(sent) - len(data))
            if cut is not None and left is not None:
                if len(data) >= left:
                    await client.send(data[:left])
                    self._cut(client, cut)
                    server.cut()
                    return
                left -= len(data)
            await client.send(data)
        client.writer.close()

    def _cut(self, client: End, cut: Cut) -> None:
        self.cuts += 1
        if cut.is_last:
            self.upstream = None
        if cut.is_reset:
            client.writer.get_extra_info('socket').setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        client.cut()


async def read(end: End) -> bytes:
    """Returns what has come, nothing at the end."""
    with suppress(ConnectionError):
        return await end.reader.read(65_536)
    return b''


@asynccontextmanager
async def cutting(upstream: int, cuts: Iterable[Cut] = ()) -> AsyncIterator[CuttingProxy]:
    """Runs a proxy in front of a port of this machine."""
    async with asyncio.TaskGroup() as group:
        proxy = CuttingProxy(upstream, cuts, group)
        async with proxy.listening():
            yield proxy
