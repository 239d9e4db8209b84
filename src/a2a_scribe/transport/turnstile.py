"""New connections are heard one after the other, so that a crowd of them holds up nobody who is there already.

An event loop reads from all connections that have sent something, and then answers all of them: with thousands, nothing
else happens for a second. So the first bytes of a new connection wait, one is let through in each round of the loop,
and a connection that has been heard once never waits again. The newest of those that wait is heard first: so a crowd
waits for itself, and not whoever comes after it. Used by `listening` alone.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, cast

AT_ONCE: Final = 1
"""First requests in one round of the loop, each up to half a millisecond's work. A message takes about a dozen
rounds, in which those wait who were here before."""

CROWD: Final = 16
"""Newcomers that wait, from which on the loop will be busy with them for a while."""


class Newcomer(Protocol):
    """A connection that has not been heard yet."""

    def hear(self) -> None:
        """Looks at what it has sent."""


class Turnstile:
    """The new connections of one loop."""

    def __init__(self, on_crowd: Callable[[], None]) -> None:
        """Lets through; `on_crowd` is called for each newcomer to a crowd."""
        self._on_crowd = on_crowd
        self._waiting: list[Newcomer] = []
        self._let_through = 0
        self._counts = False

    def lets_through(self) -> bool:
        """Whether a newcomer is heard at once; one that is not has to `wait`."""
        if self._waiting or self._let_through >= AT_ONCE:
            return False
        self._let_through += 1
        self._look_again()
        return True

    def wait(self, newcomer: Newcomer) -> None:
        """Has a newcomer heard in a later round."""
        self._waiting.append(newcomer)
        if len(self._waiting) >= CROWD:
            self._on_crowd()
        self._look_again()

    def _look_again(self) -> None:
        if not self._counts:
            self._counts = True
            asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        self._counts, self._let_through = False, min(AT_ONCE, len(self._waiting))
        heard = [self._waiting.pop() for _ in range(self._let_through)]
        if heard:
            self._look_again()
        for newcomer in heard:
            newcomer.hear()


def in_turn(protocol: type[asyncio.Protocol], turnstile: Turnstile) -> type[asyncio.Protocol]:
    """Returns a protocol like the given one, whose connections go through the turnstile."""
    return type('InTurn', (_InTurn, protocol), {'turnstile': turnstile})


class _InTurn(asyncio.Protocol):
    """Stands before a protocol, and holds back the first bytes of a connection; nothing more is read meanwhile."""

    turnstile: Turnstile

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Notes the transport."""
        self._transport: asyncio.Transport | None = cast('asyncio.Transport', transport)
        self._is_new, self._waits, self._first = True, False, b''
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Hears a connection, or lets it wait."""
        if not self._is_new or (not self._waits and self.turnstile.lets_through()):
            self._is_new = False
            super().data_received(data)
            return
        self._first += data
        if not self._waits and self._transport is not None:
            self._waits = True
            self._transport.pause_reading()
            self.turnstile.wait(self)

    def hear(self) -> None:
        """Hears what has waited, if the connection is still there."""
        self._is_new = False
        first, self._first = self._first, b''
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            super().data_received(first)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the transport."""
        self._transport = None
        super().connection_lost(exc)
