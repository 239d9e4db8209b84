"""Server-sent events: a stream of batches becomes an HTTP answer (A2A 1.0, sections 9.4.2 and 11.7).

Each event carries its place in the journal as its `id`. What is there at the same time goes out together, in pieces
that are each waited for; a reader that does not read stops the cursor and nothing else.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, NamedTuple

from a2a.utils.errors import A2AError

from a2a_scribe.clock import Clock
from a2a_scribe.core.records import Shown
from a2a_scribe.errors import CallerGoneError
from a2a_scribe.settings import Settings
from a2a_scribe.transport.asgi import Headers, HttpCall
from a2a_scribe.transport.faults import as_a2a_error
from a2a_scribe.transport.presence import Attendance

MEDIA_TYPE: Final = 'text/event-stream'
HEADERS: Final = (('content-type', MEDIA_TYPE), ('cache-control', 'no-store'), ('x-accel-buffering', 'no'))

PIECE_BYTES, MOST_BYTES = 64_000, 256_000
"""From so many bytes on, events wait for no further ones; an event with more than the second is cut."""


class Between(NamedTuple):
    """What a stream says that is no event."""

    retry: bytes
    """How long to wait before connecting again, in milliseconds."""
    keep_alive: bytes


BLOCKS: Final = Between(b'retry: %d\n\n', b': keep-alive\n\n')
LINES: Final = Between(b'retry: %d\n', b': keep-alive\n')
"""Without empty lines: some readers take each for the end of an event, and read what is not there as its data."""

Batches = AsyncGenerator[list[Shown], None]
Data = Callable[[Shown], bytes]
"""Makes the data of an event."""
ErrorData = Callable[[A2AError], bytes]


class EventStream:
    """One answer."""

    def __init__(
        self,
        call: HttpCall,
        settings: Settings,
        clock: Clock,
        data: Data,
        error_data: ErrorData,
        headers: Headers = (),
        between: Between = BLOCKS,
    ) -> None:
        """Takes how the binding writes events, and an error that comes when the stream has begun."""
        self._call = call
        self._headers = headers
        self._between = between
        self._settings = settings
        self._clock = clock
        self._data = data
        self._error_data = error_data
        self._attendance = Attendance(call, clock)
        self._sent_at = clock.monotonic()
        self._has_begun = False

    async def refuse(self, error: A2AError) -> None:
        """Sends nothing but an error."""
        await self._send(self._error_event(error))
        await self._call.part(b'', more=False)

    async def run(self, stream: Batches, *, starts_at_once: bool) -> None:
        """Sends the stream to its end.

        Raises:
            CallerGoneError: The reader has gone.
            Exception: What went wrong before anything was sent; after that it is told in the stream.
        """
        async with aclosing(stream) as batches:
            try:
                async for batch in batches:
                    await self._pass_on(batch, starts_at_once=starts_at_once)
                await self._send(b'')
            except CallerGoneError:
                raise
            except Exception as error:
                if not self._has_begun:
                    raise
                await self._send(self._error_event(as_a2a_error(error)))
            await self._call.part(b'', more=False)

    async def _pass_on(self, batch: list[Shown], *, starts_at_once: bool) -> None:
        if not await self._attendance.is_present():
            raise CallerGoneError
        if batch:
            await self._send_all(batch)
        elif starts_at_once and not self._has_begun:
            await self._send(b'')
        elif self._clock.monotonic() - self._sent_at >= self._settings.stream_keep_alive:
            await self._send(self._between.keep_alive)

    async def _send_all(self, batch: list[Shown]) -> None:
        """Sends events, the small ones together: no more of them is made into text than fits into a piece."""
        piece: list[bytes] = []
        size = 0
        for item in batch:
            piece.append(self._frame(item))
            size += len(piece[-1])
            if size >= PIECE_BYTES:
                await self._send(b''.join(piece))
                piece, size = [], 0
        if size:
            await self._send(b''.join(piece))

    async def _send(self, body: bytes) -> None:
        """Sends what may be empty, before it the head of the answer if that has to come still."""
        if not self._has_begun:
            self._has_begun = True
            await self._call.start(200, [*HEADERS, *self._headers])
            body = self._between.retry % int(self._settings.stream_retry * 1000) + body
        for start in range(0, len(body), MOST_BYTES):
            await self._call.part(body[start : start + MOST_BYTES])
        self._sent_at = self._clock.monotonic()

    def _error_event(self, error: A2AError) -> bytes:
        return b'event: error\ndata: ' + self._error_data(error) + b'\n\n'

    def _frame(self, item: Shown) -> bytes:
        place = b'' if item.seq is None else b'id: %d\n' % item.seq
        return b'%bdata: %b\n\n' % (place, self._data(item))
