"""Connections that ask for nothing now: they may take a while until they do, and have to make room for others.

uvicorn waits for a first request for ever, and for the rest of a request whose head comes byte by byte. Here each
connection has a deadline, and when there are as many as may be, one has to go of those that have asked for nothing: the
oldest from the address that has most of them, so that a crowd from one place keeps nobody out but itself.
"""

import asyncio
import logging
import math
from collections import Counter, OrderedDict
from itertools import islice
from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

logger = logging.getLogger(__name__)

TOO_SLOW: Final = b'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'
TOO_LONG: Final = b'HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'
FULL: Final = b'HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'

MOST_BETWEEN: Final = 64_000
"""Bytes that a connection may send beside bodies until what it says is complete: a head, trailers, the size of a chunk.
httptools keeps all of it, as much as comes; h11 has about the same limit of its own."""
LOOKED_AT: Final = 100
"""Of the connections that have waited for longest, those that one is chosen from."""
WARN_EVERY: Final = 60.0
"""Seconds between two lines that say that there is no room."""

Connection = Any
"""A protocol of ours."""


class Anteroom:
    """The connections of one server."""

    def __init__(self, most: int, patience: float) -> None:
        """Takes how many there may be, and for how many seconds one may wait without asking for anything."""
        self.most = most
        """How many connections there can be."""
        self._patience = patience
        self._waiting: OrderedDict[Connection, asyncio.TimerHandle | None] = OrderedDict()
        """With the end of their time; one that was answered and is silent since has none here, uvicorn sees to it."""
        self._of_address: Counter[str] = Counter()
        """How many wait from each address."""
        self._warned_at = -math.inf
        self.count = 0
        """How many connections there are."""

    def enter(self, connection: Connection) -> bool:
        """Takes a new connection, if need be for one that has asked for nothing; returns whether it did."""
        if self.count >= self.most and not self._make_room():
            return False
        self.count += 1
        self.wait(connection)
        return True

    def wait(self, connection: Connection) -> None:
        """A connection has said something, or nothing, that is no request yet; what it says more gives it no time."""
        if self._waiting.get(connection) is None:
            self.rest(connection)
            loop = asyncio.get_running_loop()
            self._waiting[connection] = loop.call_later(self._patience, self._expire, connection)

    def rest(self, connection: Connection) -> None:
        """A connection was answered, and says nothing."""
        if connection not in self._waiting:
            self._waiting[connection] = None
            self._of_address[connection.address] += 1

    def go_in(self, connection: Connection) -> None:
        """A connection has asked for something."""
        if connection not in self._waiting:
            return
        timer = self._waiting.pop(connection)
        if timer is not None:
            timer.cancel()
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]

    def leave(self, connection: Connection) -> None:
        """A connection that was taken is closed."""
        self.go_in(connection)
        self.count -= 1

    def _expire(self, connection: Connection) -> None:
        self.go_in(connection)
        connection.dismiss()

    def _make_room(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._warned_at > WARN_EVERY:
            self._warned_at = now
            logger.warning('There are %d connections, as many as there can be (max_connections)', self.count)
        if not self._waiting:
            return False
        oldest = islice(self._waiting, LOOKED_AT)
        self._expire(max(oldest, key=lambda each: self._of_address[each.address]))
        return True


class Guarded(asyncio.Protocol):
    """One connection, behind an anteroom: what is put before a protocol of uvicorn's."""

    anteroom: Anteroom
    transport: asyncio.Transport
    cycle: Any
    client: tuple[str, int] | None
    address = ''
    """Where it comes from."""
    counts_bytes = False
    """Whether uvicorn's protocol says what of a request has come, and does not bound it itself."""
    _was_taken = _has_spoken = False
    _cycles: tuple[Any, ...] = ()
    """Requests that are being answered, or wait behind one that is: uvicorn knows only the last of them."""
    _between = 0
    """Bytes that have come since something of a request was complete."""

    def connection_made(self, transport: Any) -> None:
        """Takes it, or says that there is no room."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ''
        self._was_taken = self.anteroom.enter(self)
        if not self._was_taken:
            transport.write(FULL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Notes whether this was the end of a request's head."""
        if not self._was_taken:
            return
        self._has_spoken = True
        self._between += len(data)
        super().data_received(data)
        if self.counts_bytes and self._between > MOST_BETWEEN:
            self._cut_off()
        elif self._is_busy():
            self.anteroom.go_in(self)
        elif not self.transport.is_closing():
            self.anteroom.wait(self)

    def on_headers_complete(self) -> None:
        """Notes that a head is complete, and what is being answered beside the request that it begins."""
        self._between = 0
        super().on_headers_complete()  # type: ignore[misc]
        open_cycles = [each for each in self._cycles if each is not self.cycle and not each.response_complete]
        self._cycles = (*open_cycles, self.cycle)

    def on_body(self, body: bytes) -> None:
        """Notes that something of a body has come."""
        self._between = 0
        super().on_body(body)  # type: ignore[misc]

    def on_message_complete(self) -> None:
        """Notes that a request is complete."""
        self._between = 0
        super().on_message_complete()  # type: ignore[misc]

    def on_response_complete(self) -> None:
        """Lets it stand back for others, unless it has asked for more already."""
        super().on_response_complete()  # type: ignore[misc]
        if self._was_taken and not self._is_busy() and not self.transport.is_closing():
            self.anteroom.rest(self)

    def _cut_off(self) -> None:
        """Closes it; whoever is not being answered is told why."""
        if not self._is_busy() and not self.transport.is_closing():
            self.transport.write(TOO_LONG)
        self.transport.close()

    def _is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets it, and tells all that were to be answered on it."""
        for cycle in self._cycles:
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._cycles = ()
        if self._was_taken:
            self._was_taken = False
            self.anteroom.leave(self)
        super().connection_lost(exc)

    def dismiss(self) -> None:
        """Closes it; whoever has begun with a first request is told why."""
        if self._has_spoken and self.cycle is None:
            self.transport.write(TOO_SLOW)
        self.transport.close()


def protocol_of(anteroom: Anteroom) -> type[asyncio.Protocol]:
    """Returns uvicorn's protocol for HTTP, behind an anteroom."""
    fields = {'anteroom': anteroom, 'counts_bytes': hasattr(AutoHTTPProtocol, 'on_body')}
    return type('GuardedProtocol', (Guarded, AutoHTTPProtocol), fields)


def room_for_connections(wanted: int, files: int = 1, reserve: int = 200) -> int:
    """Returns how many connections there can be: as many as wanted, if the process may open so many files.

    Each needs as many as it is said. The process's own limit is raised as far as it may be; a part of it is kept for
    files, databases and others.
    """
    try:
        import resource
    except ImportError:  # Windows
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted * files + reserve
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        if raised > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
        return min(wanted, max(soft - reserve, soft // 2) // files)
    return wanted
