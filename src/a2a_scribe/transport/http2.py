"""The frames of HTTP/2 (RFC 9113, section 4), as far as one who only passes them on has to know them.

Of a frame nothing is read but the nine bytes before it: its length, type, flags and stream. What is wrong with the rest
is for the server to say. Pure; called by `grpc_connections`.
"""

import struct
from typing import Final

PREFACE: Final = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
HEAD: Final = 9
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, CONTINUATION = 0, 1, 3, 4, 7, 9
ACK = END_STREAM = 1
STREAM: Final = 0x7FFF_FFFF
"""The bits of a head that name a stream."""
LONGEST: Final = 16_384
"""Bytes of the longest frame that a client may send before it is told otherwise."""
MOST_FIELDS: Final = 1_000_000
"""Bytes that the fields of one request may have. Servers keep all of them until they end; those that have a limit of
their own, as gRPC does, do not always heed it."""

NO_SETTINGS: Final = bytes((0, 0, 0, SETTINGS, 0, 0, 0, 0, 0))
"""What a server has to send first, if it has nothing to ask for: clients send no request before it has come."""
ACKNOWLEDGED: Final = bytes((0, 0, 0, SETTINGS, ACK))


def goaway(stream: int) -> bytes:
    """Says that the connection ends, and that no request after the one of `stream` was looked at."""
    return bytes((0, 0, 8, GOAWAY, 0)) + struct.pack('>III', 0, stream, 0)


class Incoming:
    """What a client sends: passed on up to the next request, which waits until it is let in."""

    def __init__(self) -> None:
        """Begins before the preface."""
        self._held = b''
        self._next = len(PREFACE)
        """Where the next request begins in what is held, or the next frame if no request is known, or its end."""
        self._has_acknowledged = False
        self._fields = 0
        """Bytes of the newest request's fields."""
        self.is_too_long = False
        """Whether a request has more fields than it may."""
        self.has_begun = False
        """Whether the preface is there, and the head of a frame."""
        self.newest = 0
        """The stream of the newest request that was let in."""
        self.unanswered: set[int] = set()
        """The streams of requests that were let in and go on."""

    def feed(self, data: bytes) -> None:
        """Adds what has come."""
        self._held = self._held + data if self._held else data
        self.has_begun = self.has_begun or len(self._held) >= self._next + HEAD
        self._look()

    @property
    def held_bytes(self) -> int:
        """How much was not passed on."""
        return len(self._held)

    def take(self) -> bytes:
        """Returns what is to be passed on now."""
        passed = self._held[: self._next]
        self._held, self._next = self._held[self._next :], self._next - len(passed)
        return passed

    def request(self) -> bytes | None:
        """Returns the fields of the request that is to be let in next, as they are written; `None` if there is none."""
        data, at = self._held, self._next
        if not self._is_request(at):
            return None
        end = at + HEAD + min(_length(data, at), LONGEST)
        return data[at + HEAD : end] if len(data) >= end else None

    def let_in(self) -> None:
        """Has the next request passed on."""
        self.newest = _stream(self._held, self._next)
        self.unanswered.add(self.newest)
        self._count(HEADERS, _length(self._held, self._next))
        self._next += HEAD + _length(self._held, self._next)
        self._look()

    def _is_request(self, at: int) -> bool:
        data = self._held
        if len(data) < at + HEAD or data[at + 3] != HEADERS:
            return False
        stream = _stream(data, at)
        return stream > self.newest and stream % 2 == 1  # others are none of a client's, and servers pass over them

    def _look(self) -> None:
        """Goes on to the next request, or to the end of what there is."""
        at = self._next
        while at + HEAD <= len(self._held) and not self._is_request(at):
            data = self._held
            if data[at : at + 5] == ACKNOWLEDGED and not self._has_acknowledged:
                # It answers `NO_SETTINGS`, of which the server behind us knows nothing.
                self._has_acknowledged = True
                self._held = data[:at] + data[at + HEAD :]
                continue
            if data[at + 3] == RST_STREAM:
                self.unanswered.discard(_stream(data, at))
            self._count(data[at + 3], _length(data, at))
            at += HEAD + _length(data, at)
        self._next = at

    def _count(self, kind: int, length: int) -> None:
        if kind in (HEADERS, CONTINUATION):
            self._fields = length + (self._fields if kind == CONTINUATION else 0)
            self.is_too_long = self.is_too_long or self._fields > MOST_FIELDS


class Outgoing:
    """What a server sends."""

    def __init__(self) -> None:
        """Begins before the first frame."""
        self._split = b''
        """The beginning of a head."""
        self._next = 0
        """Bytes of a frame that are still to come."""

    @property
    def is_between_frames(self) -> bool:
        """Whether another frame can be put in here."""
        return not self._split and not self._next

    def ended(self, data: bytes) -> list[int]:
        """Returns the streams of requests that are answered in full with what is sent."""
        data = self._split + data if self._split else data
        at, found = self._next, []
        while at + HEAD <= len(data):
            kind = data[at + 3]
            if kind == RST_STREAM or (kind in (DATA, HEADERS) and data[at + 4] & END_STREAM):
                found.append(_stream(data, at))
            at += HEAD + _length(data, at)
        self._split, self._next = data[at:], max(0, at - len(data))
        return found


def _length(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 3])


def _stream(data: bytes, at: int) -> int:
    return int.from_bytes(data[at + 5 : at + HEAD]) & STREAM
