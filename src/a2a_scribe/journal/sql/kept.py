"""Connections of SQLite that stay for the next who needs one.

To take a connection out of its pool and to put it back costs more than a small transaction on it. So after use a few
are kept, beside the pool and not out of its number. They belong to the engine: they are closed with it, or with a
journal on it. Where a server is asked, a round trip costs more than a pool, and none is kept.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Literal
from weakref import ReferenceType, WeakKeyDictionary, ref

from sqlalchemy import Engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from a2a_scribe.journal.sql.dialects import is_sqlite, shares_one_connection
from a2a_scribe.journal.sql.errands import to_its_end

Purpose = Literal['read', 'write']

READERS: Final = 4
"""How many read from SQLite at once: more of them would share one processor all the same."""
MOST: Final[dict[Purpose, int]] = {'read': READERS, 'write': 2}
"""How many are kept. One writes at a time, and another waits."""


class KeptConnections:
    """Those of one engine."""

    def __init__(self, engine: AsyncEngine) -> None:
        """Keeps none yet. `kept_of` is how to get one."""
        self._engine = engine
        self._keeps = is_sqlite(engine) and not shares_one_connection(engine)
        self._idle: dict[Purpose, list[AsyncConnection]] = {'read': [], 'write': []}
        self._taken: set[int] = set()
        """Which connections are in use, and may be kept afterwards: nothing was closed since they were taken."""
        self._process = os.getpid()
        self._readers: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        event.listen(engine.sync_engine, 'engine_disposed', self._drop)

    def room_for_reading(self) -> asyncio.Semaphore:
        """Returns what those who read pass through, on the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._readers:
            self._readers[loop] = asyncio.Semaphore(READERS)
        return self._readers[loop]

    async def take(self, purpose: Purpose) -> AsyncConnection:
        """Returns one that is kept, or one out of the pool; `give_back` or `close_one` must follow."""
        self._forget_those_of_parent()
        idle = self._idle[purpose]
        connection = idle.pop() if idle else await self._engine.connect()
        self._taken.add(id(connection))
        return connection

    async def give_back(self, connection: AsyncConnection, purpose: Purpose) -> None:
        """Keeps a connection outside of a transaction, unless there are enough already."""
        idle = self._idle[purpose]
        may_stay = self._keeps and id(connection) in self._taken and len(idle) < MOST[purpose]
        if may_stay and connection.sync_connection is not None:
            self._taken.discard(id(connection))
            if not connection.sync_connection.connection.is_detached:
                connection.sync_connection.detach()
            idle.append(connection)
        else:
            await self.close_one(connection)

    async def close_one(self, connection: AsyncConnection) -> None:
        """Closes one that was taken, or puts it back into the pool."""
        self._taken.discard(id(connection))
        await to_its_end(connection.close())

    async def close(self) -> None:
        """Closes those that are kept."""
        self._forget_those_of_parent()
        self._taken.clear()
        for connection in self._all_idle():
            await to_its_end(connection.close())

    def _drop(self, _engine: Engine) -> None:
        """Closes them with their engine, which waits for it wherever it can wait at all."""
        self._forget_those_of_parent()
        self._taken.clear()
        for connection in self._all_idle():
            with suppress(SQLAlchemyError):
                if connection.sync_connection is not None:
                    connection.sync_connection.close()

    def _forget_those_of_parent(self) -> None:
        """After a fork there is no thread here that they could be used in, or closed."""
        if self._process != os.getpid():
            self._process = os.getpid()
            for idle in self._idle.values():
                idle.clear()

    def _all_idle(self) -> Iterator[AsyncConnection]:
        """Takes them all out, one after the other."""
        for idle in self._idle.values():
            while idle:
                yield idle.pop()


_KEPT: WeakKeyDictionary[Engine, ReferenceType[KeptConnections]] = WeakKeyDictionary()
"""By engine, which itself holds them: it calls them when it is disposed of."""


def kept_of(engine: AsyncEngine) -> KeptConnections:
    """Returns the connections that are kept of an engine, the same for all who use it."""
    known = _KEPT.get(engine.sync_engine)
    kept = None if known is None else known()
    if kept is None:
        kept = KeptConnections(engine)
        _KEPT[engine.sync_engine] = ref(kept)
    return kept
