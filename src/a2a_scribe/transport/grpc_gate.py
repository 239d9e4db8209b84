"""Stands before gRPC's own server and lets calls in one after the other, so that a crowd holds up nobody else.

gRPC takes every connection at once and hands calls over in the order in which they have come: behind five thousand,
one more waits for seconds. So the socket that clients reach is ours, and gRPC listens on a socket of Unix, in a
directory that only its user can enter. While gRPC has some calls that it has not handed over yet, others wait here; who
is next, `grpc_line` says. Called by `grpc_serving`; `grpc_connections` passes the bytes on.
"""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable, Hashable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final, Protocol

from a2a_scribe.services import Background
from a2a_scribe.transport.anteroom import Anteroom
from a2a_scribe.transport.grpc_line import Line

logger = logging.getLogger(__name__)

AT_ONCE: Final = 32
"""Connections that gRPC has not answered and calls that it has not handed over: enough to keep it busy."""
IN_A_CROWD: Final = 4
"""The same while many wait: what goes on already is not to wait long for those that begin."""
PATIENCE: Final = 0.05
"""Seconds after which such a one counts no more: gRPC has refused it by itself, or is busy without it."""
LATE: Final = 2.0
"""Seconds within which it may be handed over still; a loop that is busy hands nothing over for a while."""
CROWD: Final = 16
"""Those that wait, from which on the loop will be busy with them for a while."""
Credit = int
"""One that gRPC was given."""


class Waiting(Protocol):
    """A connection of a client."""

    def go_on(self) -> None:
        """Has it go on, which has waited until now."""

    def leave_unserved(self) -> None:
        """Closes it unless gRPC knows of it."""

    def cut_off(self) -> None:
        """Closes it at once."""


class Gate:
    """The gate before one server of gRPC."""

    def __init__(self, place: Path, anteroom: Anteroom, on_crowd: Callable[[], None]) -> None:
        """Takes the path of gRPC's socket and the bound of connections; `on_crowd` is called when many wait."""
        self._place = place
        self.anteroom = anteroom
        self._on_crowd = on_crowd
        self._given: dict[Credit, float] = {}
        """When gRPC was given what it has not handed over yet, the oldest first."""
        self._late: dict[Credit, float] = {}
        """The same of those that count no more, but may be handed over still."""
        self._numbers = count()
        self._is_closed = False
        self._line: Line[Waiting] = Line()
        self._looks_at: asyncio.TimerHandle | None = None
        self._connecting = Background()
        self._connections: set[Waiting] = set()
        self._is_empty = asyncio.Event()

    def enter(self, who: Waiting) -> None:
        """There is somebody new."""
        self._connections.add(who)
        self._is_empty.clear()

    def lets_in(self, who: Waiting, look: Hashable, *, again: bool = False) -> bool:
        """Whether somebody can go in now, and then has to `give`; who cannot waits, and `go_on` is called.

        Args:
            who: A connection that is new, or has a new call.
            look: What it has in common with others of a crowd.
            again: Whether it has just been let in.
        """
        if not self._line and self._has_room():
            return True
        self._line.add(who, look, again=again)
        if len(self._line) >= CROWD:
            self._on_crowd()
        self._look_later()
        return False

    def withdraw(self, who: Waiting) -> None:
        """One waits no more; harmless if it did not."""
        self._line.remove(who)

    def looks(self, who: Waiting, look: Hashable) -> None:
        """One that waits looks otherwise now."""
        self._line.add(who, look)

    def leave(self, who: Waiting) -> None:
        """Somebody has gone, whether or not they have waited."""
        self._line.remove(who)
        self._connections.discard(who)
        if not self._connections:
            self._is_empty.set()

    def give(self) -> Credit:
        """gRPC is given one more; returns what can be taken back if gRPC is done with it."""
        credit = next(self._numbers)
        self._given[credit] = asyncio.get_running_loop().time()
        return credit

    def take_back(self, credit: Credit) -> None:
        """gRPC is done with one; harmless if it was handed over."""
        self._late.pop(credit, None)
        if self._given.pop(credit, None) is not None and self._line:
            self._look()

    def handed_over(self) -> None:
        """gRPC has handed a call over; it does not say which."""
        handed_over = self._late or self._given
        if handed_over:
            del handed_over[next(iter(handed_over))]
        if self._line:
            self._look()

    def connect(self, to: Callable[[], asyncio.Protocol], name: str, on_failure: Callable[[], None]) -> None:
        """Connects to gRPC, from a socket that has a name."""
        self._connecting.spawn(self._connect(to, name, on_failure), 'connection to gRPC')

    def close(self) -> None:
        """Sends those away of whom gRPC does not know yet."""
        self._is_closed = True
        for each in list(self._connections):
            each.leave_unserved()

    async def closed(self, patience: float) -> None:
        """Waits until all connections are closed, and cuts off those that are not within so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self._connections:
                    await self._is_empty.wait()
        for each in list(self._connections):
            each.cut_off()

    async def _connect(self, to: Callable[[], asyncio.Protocol], name: str, on_failure: Callable[[], None]) -> None:
        try:
            with_name = socket.socket(socket.AF_UNIX)
            try:
                with_name.setblocking(False)
                self._name(with_name, name)
                with_name.connect(str(self._place))
                await asyncio.get_running_loop().create_unix_connection(to, sock=with_name)
            except BaseException:
                with_name.close()
                raise
        except (OSError, RuntimeError) as error:
            if not self._is_closed:
                logger.warning('A client cannot be connected to gRPC: %s', error)
            on_failure()

    def _name(self, connection: socket.socket, name: str) -> None:
        """Binds a socket to a name that nobody else has, on Linux without the file that other systems need for it."""
        path = self._place.with_name(name)
        if sys.platform == 'linux':
            connection.bind(f'\0{path.parent.name}/{name}')
        else:
            connection.bind(str(path))
            path.unlink()

    def _has_room(self) -> bool:
        now = asyncio.get_running_loop().time()
        self._late.update(_older(self._given, now - PATIENCE))
        _older(self._late, now - LATE)
        return len(self._given) < (AT_ONCE if len(self._line) < CROWD else IN_A_CROWD)

    def _look(self) -> None:
        try:
            while self._line and self._has_room():
                self._line.pop().go_on()
        finally:
            self._look_later()

    def _look_later(self) -> None:
        """Looks again when time has passed: of what gRPC has refused it says nothing."""
        if self._looks_at is None and self._line:
            self._looks_at = asyncio.get_running_loop().call_later(PATIENCE, self._look_again)

    def _look_again(self) -> None:
        self._looks_at = None
        self._look()


def _older(times: dict[Credit, float], than: float) -> dict[Credit, float]:
    """Takes out what is older, of what is in the order of time."""
    found = {}
    while times and times[oldest := next(iter(times))] < than:
        found[oldest] = times.pop(oldest)
    return found
