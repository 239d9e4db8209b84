"""How long a reader waits before it connects again."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

ENOUGH: Final = 64
"""Failures after which a delay grows no more, so that no number overflows."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that grow with each failure, and differ between readers that were cut off at the same moment."""

    first: float = 0.1
    """Seconds after a connection that brought something."""
    factor: float = 2.0
    """What each further failure multiplies the delay by."""
    most: float = 5.0
    """Seconds that a delay has at most."""
    jitter: float = 0.5
    """The part of a delay that chance may take away, from 0 to 1."""
    chance: Callable[[], float] = random.random
    """Where numbers from 0 to 1 come from."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """What waits for so many seconds."""

    def delay(self, failures: int) -> float:
        """Returns the seconds to wait after so many failures in a row."""
        whole = min(self.most, self.first * self.factor ** min(failures, ENOUGH))
        return whole * (1 - self.jitter * self.chance())

    async def wait(self, failures: int) -> None:
        """Waits as long as `delay` says."""
        await self.sleep(self.delay(failures))
