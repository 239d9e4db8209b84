"""Time, the only module that reads it.

Everything else is given a `Clock`; `a2a_scribe.testing` has one whose time moves when a test says so.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that was asked for later and can still be called off."""

    def cancel(self) -> None:
        """Calls it off; harmless when it has been made."""


class Clock(Protocol):
    """What the engine wants to know about time."""

    def now(self) -> int:
        """Returns microseconds since the epoch, UTC."""

    def monotonic(self) -> float:
        """Returns seconds that only ever grow."""

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Calls back after `seconds`, on the running loop."""


class SystemClock:
    """The machine's time."""

    def now(self) -> int:
        """Returns microseconds since the epoch, UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Returns seconds that only ever grow."""
        return time.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Calls back after `seconds`, on the running loop."""
        return asyncio.get_running_loop().call_later(seconds, callback)
