"""What everybody in a run shares: the loop, the dice, the trace, the ledger."""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, TypeVar

from a2a_scribe.clock import Timer
from tests.simulation.ledger import Ledger
from tests.simulation.loop import LIFE, Life, SimulatedLoop

T = TypeVar('T')

START = 1_750_000_000_000_000
"""The time of day when a run starts, in microseconds since the epoch."""


class World:
    """One run."""

    def __init__(self, seed: int) -> None:
        """Makes a world in which nobody lives yet."""
        self.random = Random(seed)
        self.loop = SimulatedLoop(Random(seed + 0.5), fifo=seed % 5 == 0)
        self.ledger = Ledger()
        self.trace: list[tuple[float, str, str]] = []
        self._names: Counter[str] = Counter()
        self.is_calm = False
        """No more trouble from here on."""

    def note(self, who: str, what: str) -> None:
        """Writes a line of the trace."""
        self.trace.append((self.loop.time(), who, what))

    def name(self, what: str) -> str:
        """Makes up a name that nobody has yet."""
        self._names[what] += 1
        return f'{what}-{self._names[what]}'

    def chance(self, probability: float) -> bool:
        """Throws a die."""
        return self.random.random() < probability

    def pick(self, things: Sequence[T]) -> T:
        """Chooses one of several things."""
        return things[int(self.random.random() * len(things))]

    async def pause(self, seconds: float) -> None:
        """Lets virtual time pass."""
        over = self.loop.create_future()
        timer = self.loop.call_later(seconds, _open, over)
        try:
            await over
        finally:
            timer.cancel()

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str, life: Life | None = None) -> 'asyncio.Task[T]':
        """Runs a coroutine in a process, or outside of all."""
        context = contextvars.copy_context()
        context.run(LIFE.set, life)
        return self.loop.create_task(coroutine, name=name, context=context)

    def written(self) -> str:
        """Returns the trace as a text."""
        return '\n'.join(f'{time:9.4f}  {who:<10} {what}' for time, who, what in self.trace)


def _open(future: 'asyncio.Future[None]') -> None:
    if not future.done():
        future.set_result(None)


class SimulatedClock:
    """The clock of one process: everybody's time, with an error of its own in the time of day."""

    def __init__(self, loop: SimulatedLoop, skew: int) -> None:
        """Takes the error, in microseconds."""
        self._loop = loop
        self._skew = skew

    def now(self) -> int:
        """Returns microseconds since the epoch."""
        return START + self._skew + int(self._loop.time() * 1_000_000)

    def monotonic(self) -> float:
        """Returns seconds that only ever grow."""
        return self._loop.time()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Calls back after `seconds`."""
        return self._loop.call_later(seconds, callback)
