"""A connection of a client of gRPC, and the one to gRPC that is made for it: what comes from one goes to the other.

Bytes stay as they are; only the first settings are ours, because clients send no call before they have come, and one
has to know the call to say who is next.
"""

import asyncio
from collections.abc import Hashable
from typing import Final, cast

from a2a_scribe.ids import new_secret
from a2a_scribe.transport.grpc_gate import Credit, Gate
from a2a_scribe.transport.grpc_peers import name_of
from a2a_scribe.transport.http2 import NO_SETTINGS, Incoming, Outgoing, goaway

LINGER: Final = 10.0
"""Seconds within which a client has to take what is left for it when its connection is closed."""
STALLED: Final = 80.0
"""Seconds after which a client is cut off that takes nothing of what is sent: after a minute gRPC itself would ask
whether it is there, and wait for 20 more."""
MOST_CALLS: Final = 50_000
"""Calls of one connection that wait for an answer: gRPC never answers some that are no calls."""
CONNECTION: Final = 0
"""The stream that frames of the connection itself name, which no call has."""
MOST_HELD: Final = 65_536
"""Bytes of one that waits and has not asked for anything, after which nothing more is read."""


class Outside(asyncio.Protocol):
    """The client's connection."""

    def __init__(self, gate: Gate) -> None:
        """Is made by a server for each client."""
        self._gate = gate
        self._incoming, self._outgoing = Incoming(), Outgoing()
        self._inside: asyncio.Transport | None = None
        self._was_taken = self._is_opening = self._waits = self._is_behind = False
        self._reads = True
        self._end: asyncio.TimerHandle | None = None
        self._credits: dict[int, Credit] = {}
        """Of calls, by their streams; that of the connection itself is the first."""
        self.address = ''
        """Where it comes from."""
        self._name = ''

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes it if there is room."""
        self._transport = cast('asyncio.Transport', transport)
        self._gate.enter(self)
        try:
            self.address, port, *_ = transport.get_extra_info('peername')
            self._name = name_of(self.address, port, new_secret(8).hex())
        except (TypeError, ValueError):  # it has gone already
            self._transport.abort()
            return
        self._was_taken = self._gate.anteroom.enter(self)
        if self._was_taken:
            self._transport.write(NO_SETTINGS)
        else:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Passes on what can be, and keeps the rest."""
        if not self._was_taken or self._transport.is_closing():
            return
        self._incoming.feed(data)
        if self._incoming.is_too_long:
            self.dismiss()
        elif self._waits:
            self._gate.looks(self, self._look())
            self._stand_back_if_silent()
        elif self._inside is not None:
            self._pass_on()
        elif not self._is_opening and self._incoming.has_begun:
            self._gate.anteroom.go_in(self)
            self._waits = not self._gate.lets_in(self, self._look())
            if self._waits:
                self._stand_back_if_silent()
            else:
                self._open()
        self._choose_whether_to_read()

    def go_on(self) -> None:
        """Its turn has come."""
        self._waits = False
        if self._inside is None:
            self._gate.anteroom.go_in(self)
            self._open()
        else:
            self._let_in()
            self._pass_on(again=True)
        self._choose_whether_to_read()

    def opened(self, inside: asyncio.Transport) -> None:
        """The connection to gRPC is there."""
        if self._transport.is_closing():
            inside.abort()
            return
        self._inside, self._is_opening = inside, False
        self._pass_on(again=True)
        self._rest()
        self._choose_whether_to_read()

    def answer(self, data: bytes) -> None:
        """gRPC has sent something."""
        self._take_back(CONNECTION)
        for stream in self._outgoing.ended(data):
            self._incoming.unanswered.discard(stream)
            self._take_back(stream)
        if not self._transport.is_closing():
            self._transport.write(data)
            self._rest()

    def close(self) -> None:
        """Closes it when all is sent: gRPC has closed its side, or cannot be reached."""
        self._gate.withdraw(self)
        self._waits = False
        if not self._transport.is_closing():
            self._transport.close()
            self._stop_clock()
            self._end = asyncio.get_running_loop().call_later(LINGER, self.cut_off)

    def dismiss(self) -> None:
        """Closes it for lack of room; what its client sends meanwhile, it can send again."""
        if self._outgoing.is_between_frames and not self._transport.is_closing():
            self._transport.write(goaway(0 if self._inside is None else self._incoming.newest))
        self.close()

    def leave_unserved(self) -> None:
        """Closes it, unless gRPC knows of it and will say itself that it goes."""
        if self._inside is None:
            self.dismiss()

    def cut_off(self) -> None:
        """Closes it, whatever is left to be sent."""
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets it."""
        self._gate.leave(self)
        for stream in tuple(self._credits):
            self._take_back(stream)
        if self._was_taken:
            self._gate.anteroom.leave(self)
        if self._inside is not None:
            self._inside.close()
        self._stop_clock()

    def eof_received(self) -> bool:
        """Closes it: who sends nothing more reads nothing more, as far as gRPC is concerned."""
        self.close()
        return True

    def pause_writing(self) -> None:
        """Its client is slow."""
        if self._inside is not None:
            self._inside.pause_reading()
        if self._end is None:
            self._end = asyncio.get_running_loop().call_later(STALLED, self.cut_off)

    def resume_writing(self) -> None:
        """Its client has caught up."""
        if not self._transport.is_closing():
            self._stop_clock()
        if self._inside is not None and not self._inside.is_closing():
            self._inside.resume_reading()

    def fall_behind(self, *, is_behind: bool) -> None:
        """gRPC is slow, or has caught up."""
        self._is_behind = is_behind
        self._choose_whether_to_read()

    def _look(self) -> Hashable:
        """First calls look alike if their fields are the same, byte for byte; all others as their connection does."""
        request = self._incoming.request()
        return self if request is not None and self._incoming.newest else request

    def _open(self) -> None:
        self._is_opening = True
        self._credits[CONNECTION] = self._gate.give()
        if self._incoming.request() is not None:
            self._let_in()
        self._gate.connect(lambda: Inside(self), self._name, self.dismiss)

    def _pass_on(self, *, again: bool = False) -> None:
        assert self._inside is not None
        if self._inside.is_closing():
            return
        incoming = self._incoming
        while True:
            if passed := incoming.take():
                self._inside.write(passed)
            if incoming.request() is None:
                break
            self._waits = not self._gate.lets_in(self, self._look(), again=again)
            if self._waits:
                break
            self._let_in()
            again = True
        self._forget_given_up()
        if incoming.unanswered:
            self._gate.anteroom.go_in(self)
        else:
            self._rest()
        if len(incoming.unanswered) > MOST_CALLS:
            self.dismiss()

    def _let_in(self) -> None:
        self._incoming.let_in()
        self._credits[self._incoming.newest] = self._gate.give()

    def _take_back(self, stream: int) -> None:
        credit = self._credits.pop(stream, None)
        if credit is not None:
            self._gate.take_back(credit)

    def _forget_given_up(self) -> None:
        """gRPC says nothing of calls that clients have given up."""
        if len(self._credits) > len(self._incoming.unanswered) + 1:
            for stream in self._credits.keys() - self._incoming.unanswered - {CONNECTION}:
                self._take_back(stream)

    def _stop_clock(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def _stand_back_if_silent(self) -> None:
        """Makes room for others while it waits, unless it has asked for something."""
        if self._incoming.request() is None:
            self._gate.anteroom.rest(self)
        else:
            self._gate.anteroom.go_in(self)

    def _rest(self) -> None:
        """Lets it stand back for others while nothing is asked for."""
        if not self._incoming.unanswered and not self._waits:
            self._gate.anteroom.rest(self)

    def _choose_whether_to_read(self) -> None:
        """Stops reading while nothing more could be passed on, but not before a call is known."""
        has_enough = self._incoming.request() is not None or self._incoming.held_bytes > MOST_HELD
        reads = not (self._is_behind or self._is_opening or (self._waits and has_enough))
        if reads is self._reads or self._transport.is_closing():
            return
        self._reads = reads
        if reads:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()


class Inside(asyncio.Protocol):
    """The connection to gRPC."""

    def __init__(self, outside: Outside) -> None:
        """Is made for a client's."""
        self._outside = outside

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tells the client's."""
        self._outside.opened(cast('asyncio.Transport', transport))

    def data_received(self, data: bytes) -> None:
        """Passes it on."""
        self._outside.answer(data)

    def pause_writing(self) -> None:
        """The server is slow."""
        self._outside.fall_behind(is_behind=True)

    def resume_writing(self) -> None:
        """The server has caught up."""
        self._outside.fall_behind(is_behind=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Closes the client's."""
        self._outside.close()
