"""An HTTP/1.1 client that costs little: keep-alive connections, one request at a time, no more parsing than needed.

It must not be what a measurement measures, so it knows only what the servers here send: bodies with a length, and
bodies in chunks. With uvicorn a chunk is what the app gave in one message.
"""

import asyncio
from typing import Final, Self, cast

CHUNKED: Final = -1
CHUNKED_HEADER: Final = b'\r\ntransfer-encoding: chunked'
EVENT: Final = b'data:'


class BadAnswerError(Exception):
    """The server closed the connection, or answered what this client does not understand."""


class Answer:
    """What came back; `parts` are the chunks, or the pieces in which a body with a length arrived."""

    __slots__ = ('head', 'length', 'parts', 'status')

    def __init__(self, head: bytes) -> None:
        self.head = head.lower()
        self.status = int(head[9:12])
        self.length = CHUNKED if CHUNKED_HEADER in self.head else int(self.header(b'content-length') or b'0')
        self.parts: list[bytes] = []

    @property
    def messages(self) -> int:
        """In how many messages the app sent its body; one with a length comes in one from all apps here."""
        return len(self.parts) if self.length == CHUNKED else 1

    @property
    def body(self) -> bytes:
        return b''.join(self.parts)

    def header(self, name: bytes) -> bytes:
        _, _, rest = self.head.partition(b'\r\n' + name + b': ')
        return rest.partition(b'\r\n')[0]


class Exchange:
    """A request under way: `begun` when its first event was seen, `done` at its end."""

    __slots__ = ('begun', 'done')

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.begun: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[Answer] = loop.create_future()

    def begin(self) -> None:
        if not self.begun.done():
            self.begun.set_result(None)

    def fail(self, error: Exception) -> None:
        for future in (self.begun, self.done):
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever awaits it still gets it; nobody is told that nobody did


class Connection(asyncio.Protocol):
    """One connection to a server on this machine."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._answer: Answer | None = None
        self._rest = b''
        self._missing = 0

    @classmethod
    async def open(cls, port: int) -> Self:
        _, connection = await asyncio.get_running_loop().create_connection(cls, '127.0.0.1', port)
        return connection

    def start(self, request: bytes) -> Exchange:
        if self._transport is None or self._transport.is_closing():
            raise BadAnswerError('the connection is closed')
        self._exchange = Exchange(self._loop)
        self._transport.write(request)
        return self._exchange

    async def send(self, request: bytes) -> Answer:
        return await self.start(request).done

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast('asyncio.Transport', transport)  # uvloop's is none by its class

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(BadAnswerError(f'the server closed the connection: {exc}'))

    def data_received(self, data: bytes) -> None:
        try:
            self._rest = self._take(self._rest + data if self._rest else data)
        except ValueError as error:
            self._fail(BadAnswerError(str(error)))

    # -- parsing; each returns what it could not read yet

    def _take(self, data: bytes) -> bytes:
        answer = self._answer
        if answer is None:
            end = data.find(b'\r\n\r\n')
            if end < 0:
                return data
            answer = self._answer = Answer(data[: end + 2])
            self._missing = answer.length
            data = data[end + 4 :]
        if self._missing == CHUNKED:
            return self._take_chunks(data, answer)
        answer.parts.append(data)
        self._missing -= len(data)
        if self._missing == 0:
            self._finish(answer)
        return b''

    def _take_chunks(self, data: bytes, answer: Answer) -> bytes:
        at = 0
        while (line := data.find(b'\r\n', at)) >= 0:
            start = line + 2
            end = start + int(data[at:line], 16)
            if len(data) < end + 2:
                break
            if start == end:
                self._finish(answer)
                return b''
            answer.parts.append(data[start:end])
            at = end + 2
        if self._exchange is not None and not self._exchange.begun.done() and EVENT in answer.body:
            self._exchange.begin()
        return data[at:]

    def _finish(self, answer: Answer) -> None:
        exchange, self._exchange, self._answer = self._exchange, None, None
        if exchange is not None:
            exchange.begin()
            exchange.done.set_result(answer)

    def _fail(self, error: Exception) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.fail(error)
