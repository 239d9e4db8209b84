"""A proxy in front of PostgreSQL that does to a connection what networks and fail-overs do.

It passes everything on until it is told otherwise: cut and refuse (`away`), be slow (`delay`), lose a COMMIT on its way
(`lose_next_commit`: it did not happen), or lose the answer to one (`swallow_next_commit`: it did happen). A client
cannot tell the last two apart.
"""

import asyncio
import enum
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import URL, make_url

HOST = '127.0.0.1'
SSL_REQUEST, GSS_REQUEST = (code.to_bytes(4) for code in (80877103, 80877104))
ENCRYPTION_REFUSED = b'N'
READY = b'Z'
DEFAULT_PORT = 5432


class Message(NamedTuple):
    """One message of PostgreSQL's protocol; the first that a client sends has no kind."""

    kind: bytes
    body: bytes

    @property
    def wire(self) -> bytes:
        """The message as it is sent."""
        return self.kind + (len(self.body) + 4).to_bytes(4) + self.body


COMMITTED = Message(b'C', b'COMMIT\0')


async def read_message(reader: asyncio.StreamReader, *, first: bool = False) -> Message:
    """Reads one message; raises `IncompleteReadError` when the other side has closed."""
    kind = b'' if first else await reader.readexactly(1)
    length = int.from_bytes(await reader.readexactly(4))
    return Message(kind, await reader.readexactly(length - 4))


async def messages(reader: asyncio.StreamReader) -> AsyncGenerator[Message]:
    """Yields what arrives until the other side closes."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            yield await read_message(reader)


def is_commit(statement: bytes) -> bool:
    """Whether a statement ends a transaction well."""
    return statement.strip(b'\0; \n').upper() in (b'COMMIT', b'END')


@dataclass(slots=True)
class CommitSpotter:
    """Follows what a client sends and knows a COMMIT, as a simple query and as a prepared statement."""

    statements: set[bytes] = field(default_factory=set)
    portals: set[bytes] = field(default_factory=set)

    def is_commit(self, message: Message) -> bool:
        """Whether this message makes the server commit."""
        first, _, rest = message.body.partition(b'\0')
        second = rest.partition(b'\0')[0]
        match message.kind:
            case b'Q':
                return is_commit(first)
            case b'P':  # Parse: the statement's name, its text
                keep(self.statements, first, is_commit(second))
            case b'B':  # Bind: the portal's name, the statement's name
                keep(self.portals, first, second in self.statements)
            case b'E':  # Execute: the portal's name
                return first in self.portals
        return False


def keep(names: set[bytes], name: bytes, wanted: bool) -> None:
    """Adds a name, or removes it when it now means something else."""
    if wanted:
        names.add(name)
    else:
        names.discard(name)


class Trap(enum.Enum):
    """Which half of the next COMMIT gets lost."""

    COMMIT = enum.auto()
    ANSWER = enum.auto()


@dataclass(eq=False, slots=True)
class End:
    """One side of a link."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Sends, as fast as the other side reads; what a cut connection is sent is lost."""
        with suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    def cut(self) -> None:
        """Ends the connection at once."""
        self.writer.transport.abort()

    async def wait_for_close(self) -> None:
        """Waits until nothing of the connection is left."""
        with suppress(OSError):
            await self.writer.wait_closed()


class Proxy:
    """Listens on a port of its own and forwards to the server whose socket it is given."""

    def __init__(self, upstream: str, group: asyncio.TaskGroup) -> None:
        """Starts nothing yet."""
        self.port = 0
        self.commits_lost = 0
        """How many traps have sprung."""
        self._upstream = upstream
        self._group = group
        self._server: asyncio.Server | None = None
        self._links: set[tuple[End, End]] = set()
        self._trap: Trap | None = None
        self._sprung = asyncio.Event()
        self._delay = 0.0

    def url(self, database_url: str) -> str:
        """Returns the URL of the same database, reached through the proxy."""
        url = make_url(database_url)
        through = URL.create(url.drivername, username=url.username, host=HOST, port=self.port, database=url.database)
        return through.render_as_string()

    def lose_next_commit(self) -> None:
        """Lets the next COMMIT of any client end with its connection before the server has seen it."""
        self._set(Trap.COMMIT)

    def swallow_next_commit(self) -> None:
        """Lets the next COMMIT of any client reach the server; its answer ends with the connection."""
        self._set(Trap.ANSWER)

    async def wait_for_loss(self) -> None:
        """Waits until the trap that was set last has sprung."""
        await self._sprung.wait()

    @contextmanager
    def delay(self, seconds: float) -> Iterator[None]:
        """Holds back each answer of the server for so long."""
        self._delay = seconds
        try:
            yield
        finally:
            self._delay = 0.0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Accepts connections until the block ends, and leaves none behind."""
        await self.come_back()
        try:
            yield
        finally:
            self.go_away()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Cuts all connections and refuses new ones until the block ends."""
        self.go_away()
        try:
            yield
        finally:
            await self.come_back()

    def go_away(self) -> None:
        """Cuts all connections and refuses new ones from now on."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    async def come_back(self) -> None:
        """Accepts connections, on the same port as before."""
        self._server = await asyncio.start_server(self._accept, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Ends all connections at once; new ones are welcome."""
        for client, server in self._links:
            client.cut()
            server.cut()

    def _set(self, trap: Trap) -> None:
        self._trap = trap
        self._sprung.clear()

    def _spring(self, client: End, server: End) -> None:
        self._trap = None
        self.commits_lost += 1
        client.cut()
        server.cut()
        self._sprung.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._group.create_task(self._serve(End(reader, writer)))

    async def _serve(self, client: End) -> None:
        try:
            server = End(*await asyncio.open_unix_connection(self._upstream))
        except OSError:
            client.cut()
            return
        link = (client, server)
        self._links.add(link)
        if self._server is None:  # accepted just before the proxy went away
            self.cut()
        await self._forward(client, server)
        self._links.remove(link)
        for end in link:
            await end.wait_for_close()

    async def _forward(self, client: End, server: End) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await greet(client, server)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._forward_requests(client, server))
            group.create_task(self._forward_answers(client, server))

    async def _forward_requests(self, client: End, server: End) -> None:
        spotter = CommitSpotter()
        async with aclosing(messages(client.reader)) as requests:
            async for request in requests:
                if spotter.is_commit(request) and self._trap is Trap.COMMIT:
                    self._spring(client, server)
                    return
                await server.send(request.wire)
        server.cut()

    async def _forward_answers(self, client: End, server: End) -> None:
        async with aclosing(messages(server.reader)) as answers:
            async for answer in answers:
                if self._trap is Trap.ANSWER and answer == COMMITTED:
                    self._spring(client, server)
                    return
                if self._delay and answer.kind == READY:
                    await wait_for_seconds(self._delay)
                await client.send(answer.wire)
        client.cut()


async def greet(client: End, server: End) -> None:
    """Passes on what a client says first; everything after it has the protocol's usual form."""
    first = await read_message(client.reader, first=True)
    while first.body in (SSL_REQUEST, GSS_REQUEST):
        await client.send(ENCRYPTION_REFUSED)
        first = await read_message(client.reader, first=True)
    await server.send(first.wire)


async def wait_for_seconds(seconds: float) -> None:
    """Lets time pass, which is what a slow network is."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    timer = loop.call_later(seconds, over.set_result, None)
    try:
        await over
    finally:
        timer.cancel()


@asynccontextmanager
async def proxy_before(database_url: str) -> AsyncIterator[Proxy]:
    """Runs a proxy in front of the server of a database URL that names a socket's folder."""
    url = make_url(database_url)
    async with asyncio.TaskGroup() as group:
        proxy = Proxy(f'{url.query["host"]}/.s.PGSQL.{url.port or DEFAULT_PORT}', group)
        async with proxy.listening():
            yield proxy
