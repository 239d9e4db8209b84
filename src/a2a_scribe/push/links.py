"""One connection to a receiver: HTTP/1.1, one call at a time, as often as the receiver lets it be used.

A call has its answer when the head of it is there. What follows is read without anybody waiting for it, and thrown
away; a body that is long, or takes long, costs the receiver its connection. h11 knows the protocol.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

import h11

HEAD_BYTES = 64_000
"""Bytes that the head of an answer may have."""
BODY_BYTES = 64_000
"""Bytes of a body that are read, so that the connection can be used again."""
BODY_SECONDS = 1.0
"""Seconds for which they are read."""
IDLE_SECONDS = 15.0
"""Seconds for which a connection that nobody uses is kept."""

Headers = Iterable[tuple[bytes, bytes]]


class Head(NamedTuple):
    """What an answer begins with; the names of headers are in lower case."""

    status: int
    headers: Headers


class BrokenLinkError(ConnectionError):
    """The connection ended, or what came was not HTTP. `was_silent`: nothing had come for this call."""

    def __init__(self, *, was_silent: bool) -> None:
        """Says whether anything had come."""
        super().__init__('the connection broke')
        self.was_silent = was_silent


class Link(asyncio.Protocol):
    """A connection that is open."""

    def __init__(self, key: object, on_idle: Callable[['Link'], None], on_end: Callable[['Link'], None]) -> None:
        """`key` says to whom it leads; it is told when it can be used again, and when it is gone."""
        self.key = key
        self.was_used = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_idle = on_idle
        self._on_end = on_end
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        self._transport: asyncio.Transport | None = None
        self._head: asyncio.Future[Head] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_silent = True
        self._body = 0

    async def call(self, request: h11.Request, body: bytes) -> Head:
        """Makes a call; a link whose call is cancelled ends.

        Raises:
            BrokenLinkError: There is no answer.
            LocalProtocolError: The request cannot be written down.
        """
        self._stop_timer()
        if self._transport is None or self._transport.is_closing():
            raise BrokenLinkError(was_silent=True)
        try:
            data = [self._http.send(event) for event in (request, h11.Data(body), h11.EndOfMessage())]
            self._head, self._is_silent, self._body = asyncio.get_running_loop().create_future(), True, 0
            self._transport.write(b''.join(each for each in data if each))
            return await self._head
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Ends the connection, whatever is going on."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast('asyncio.Transport', transport)

    def data_received(self, data: bytes) -> None:
        """Something came: of the answer, or what nobody has asked for."""
        self._is_silent = False
        self._take(data)

    def eof_received(self) -> None:
        """Nothing more will come."""
        self._take(b'')

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._stop_timer()
        self._fail()
        if not self.ended.done():
            self.ended.set_result(None)
            self._on_end(self)

    def _take(self, data: bytes) -> None:
        if self._head is None:
            self.end()
            return
        try:
            self._http.receive_data(data)
            while self._happened(self._http.next_event()):
                pass
        except h11.RemoteProtocolError:
            self._fail()
            self.end()

    def _happened(self, event: object) -> bool:
        """Takes one event of the answer; returns whether there may be another."""
        match event:
            case h11.InformationalResponse():
                return True
            case h11.Response():
                assert self._head is not None
                if not self._head.done():
                    self._head.set_result(Head(event.status_code, list(event.headers)))
                self._start_timer(BODY_SECONDS)
                return True
            case h11.Data():
                self._body += len(event.data)
                if self._body <= BODY_BYTES:
                    return True
                self.end()
            case h11.EndOfMessage():
                self._rest()
            case h11.PAUSED | h11.ConnectionClosed():
                self._fail()
                self.end()
        return False

    def _rest(self) -> None:
        """The answer is complete: the link can be used again, if both sides want that and nothing else has come."""
        self._head = None
        if (
            self._http.our_state is not h11.DONE
            or self._http.their_state is not h11.DONE
            or self._http.trailing_data[0]
        ):
            self.end()
            return
        self._http.start_next_cycle()
        self.was_used = True
        self._start_timer(IDLE_SECONDS)
        self._on_idle(self)

    def _fail(self) -> None:
        if self._head is not None and not self._head.done():
            self._head.set_exception(BrokenLinkError(was_silent=self._is_silent))

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class IdleLinks:
    """Links that wait for their next call."""

    def __init__(self, limit: int) -> None:
        """Keeps as many as `limit`; when there are more, the one that has waited longest ends."""
        self._limit = limit
        self._by_key: dict[object, list[Link]] = {}
        self._oldest_first: dict[Link, None] = {}

    def take(self, key: object) -> Link | None:
        """Returns the link to somebody that was used last, if there is one."""
        links = self._by_key.get(key)
        if not links:
            return None
        link = links[-1]
        self.drop(link)
        return link

    def put(self, link: Link) -> None:
        """Keeps a link."""
        self._by_key.setdefault(link.key, []).append(link)
        self._oldest_first[link] = None
        if len(self._oldest_first) > self._limit:
            oldest = next(iter(self._oldest_first))
            self.drop(oldest)
            oldest.end()

    def drop(self, link: Link) -> None:
        """Forgets a link, if it is kept."""
        if link in self._oldest_first:
            del self._oldest_first[link]
            links = self._by_key[link.key]
            links.remove(link)
            if not links:
                del self._by_key[link.key]
