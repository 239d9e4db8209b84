"""Who uses a database now, so that whoever gives it back can wait until nobody does."""

import asyncio
from types import TracebackType


class Visits:
    """How many are on one database, on one loop; each is there until its block ends."""

    __slots__ = ('_count', '_gone', 'loop')

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Nobody is there yet."""
        self.loop = loop
        self._count = 0
        self._gone: asyncio.Future[None] | None = None

    def __enter__(self) -> None:
        """Comes."""
        self._count += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaves."""
        self._count -= 1
        if not self._count and self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    async def end(self) -> None:
        """Waits until nobody is there, also of those who come meanwhile; on another loop nobody can be waited for."""
        while self._count and asyncio.get_running_loop() is self.loop:
            if self._gone is None or self._gone.done():
                self._gone = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._gone)
