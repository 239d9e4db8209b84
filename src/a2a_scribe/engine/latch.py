"""One wait with an end: for something to happen, or for time to be up."""

import asyncio
import math

from a2a_scribe.clock import Clock


class Latch:
    """Opens once. Made on the loop on which it is waited for."""

    __slots__ = ('_opened',)

    def __init__(self) -> None:
        """Makes a closed latch."""
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def open(self, _: object = None) -> None:
        """Lets those who wait go on; harmless the second time. The argument is for done-callbacks."""
        if not self._opened.done():
            self._opened.set_result(None)

    async def wait(self, clock: Clock, seconds: float) -> None:
        """Waits until the latch is open, which it is after `seconds` at the latest; `math.inf` for no matter when."""
        if seconds == math.inf:
            await self._opened
            return
        timer = clock.call_later(seconds, self.open)
        try:
            await self._opened
        finally:
            timer.cancel()
