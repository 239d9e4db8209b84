"""Whether the client of a call still waits, looked at now and then.

Streams and blocking calls ask at every turn of their loops, which an agent that emits all the time makes many; here is
decided how often the connection is really asked.
"""

from typing import Final

from a2a_scribe.clock import Clock
from a2a_scribe.transport.asgi import HttpCall

LOOK_AROUND: Final = 0.9
"""Seconds between two looks, at least: less than the default `poll_interval`, so that no round of a silent call comes
too early for one, however timers round."""


class Attendance:
    """Who looks for the client of one call."""

    __slots__ = ('_call', '_clock', '_looked_at')

    def __init__(self, call: HttpCall, clock: Clock) -> None:
        """Takes it that the client is there now."""
        self._call = call
        self._clock = clock
        self._looked_at = clock.monotonic()

    async def is_present(self) -> bool:
        """Whether the client was there when it was last looked for."""
        now = self._clock.monotonic()
        if now - self._looked_at < LOOK_AROUND:
            return True
        self._looked_at = now
        return await self._call.is_present()
