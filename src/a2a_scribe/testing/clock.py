"""Time that moves when a test says so."""

import heapq
import itertools
from collections.abc import Callable

START = 1_750_000_000_000_000
"""Where the time of a new clock stands, in microseconds since the epoch."""


class FakeTimer:
    """A call that a test's clock will make once its time has come."""

    __slots__ = ('callback', 'when')

    def __init__(self, when: int, callback: Callable[[], object]) -> None:
        """Makes a timer for the moment `when`, in microseconds since the epoch."""
        self.when = when
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Calls it off; harmless when it has been made."""
        self.callback = None


class FakeClock:
    """A `Clock` that stands still until it is advanced; timers are called in the order of their times."""

    def __init__(self, now: int = START) -> None:
        """Starts at `now`, in microseconds since the epoch."""
        self._now = now
        self._order = itertools.count()
        self._timers: list[tuple[int, int, FakeTimer]] = []

    def now(self) -> int:
        """Returns microseconds since the epoch, UTC."""
        return self._now

    def monotonic(self) -> float:
        """Returns seconds that only ever grow."""
        return self._now / 1_000_000

    def call_later(self, seconds: float, callback: Callable[[], object]) -> FakeTimer:
        """Calls back once the clock has been advanced by `seconds`."""
        timer = FakeTimer(self._now + round(seconds * 1_000_000), callback)
        heapq.heappush(self._timers, (timer.when, next(self._order), timer))
        return timer

    @property
    def timers(self) -> int:
        """How many calls are still to be made."""
        return sum(timer.callback is not None for _, _, timer in self._timers)

    def advance(self, seconds: float) -> None:
        """Moves time and makes the calls that fall due, each at its own moment."""
        end = self._now + round(seconds * 1_000_000)
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
        self._now = end

    def skip(self, seconds: float) -> None:
        """Moves time without making a call, as it passes for a loop that is kept busy."""
        self._now += round(seconds * 1_000_000)
