"""How Python itself is set while a server runs, so that nobody waits long for it.

Both settings are of the whole process, which is why only `serve` makes them: the process is its own.
"""

import asyncio
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SHARE: Final = 0.0001
"""Seconds for which a thread goes on while another waits for the interpreter, when there is haste. SQLite's waits
after each statement: with Python's 5 ms, a transaction of a hundred tasks beside a busy event loop took up to 400 ms,
nearly all of them for that. Without need it costs more than it gives: messages that come one after the other take a
tenth longer."""
LASTS: Final = 1.0
"""Seconds for which there is haste after somebody has asked for it."""
YOUNG: Final = 10_000
"""New objects, a few megabytes, before the collector looks at them; every hundredth time it looks through all objects.
With Python's 700 that is a tenth of all time, and five thousand clients that come at once had everybody stand still for
50 to 100 ms, five times; hardly anything was found."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Has the garbage collector look seldom while the block lasts, or more seldom still if the process has it so."""
    young, middle, full = gc.get_threshold()
    gc.set_threshold(young and max(young, YOUNG), middle, full)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, full)


class Haste:
    """Has threads take turns quickly while there is need."""

    def __init__(self) -> None:
        """Leaves everything as it is."""
        self._usual: float | None = None
        self._until = 0.0

    def ask(self) -> None:
        """Begins it for a while, or makes it last."""
        loop = asyncio.get_running_loop()
        self._until = loop.time() + LASTS
        if self._usual is None:
            self._usual = sys.getswitchinterval()
            sys.setswitchinterval(min(self._usual, SHARE))
            loop.call_at(self._until, self._look)

    def end(self) -> None:
        """Sets back what was set; harmless if nothing was."""
        if self._usual is not None:
            sys.setswitchinterval(self._usual)
            self._usual = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if self._usual is not None and loop.time() < self._until:
            loop.call_at(self._until, self._look)
        else:
            self.end()
