"""A connection that stays for the next transaction.

To take a connection of SQLite out of its pool and to put it back costs more than a small transaction on it. So one of
them is kept after use, if the pool has others; where a server is asked, a round trip costs more than a pool does.
"""

from sqlalchemy import NullPool, QueuePool
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from a2a_scribe.journal.sql.errands import to_its_end


class KeptConnection:
    """At most one connection of an engine."""

    def __init__(self, engine: AsyncEngine) -> None:
        """Keeps none yet."""
        pool = engine.sync_engine.pool
        has_others = isinstance(pool, NullPool) or (isinstance(pool, QueuePool) and pool.size() != 1)
        self._engine = engine
        self._keeps = engine.dialect.name == 'sqlite' and has_others
        self._kept: AsyncConnection | None = None

    async def take(self) -> AsyncConnection:
        """Returns the one that is kept, or one out of the pool."""
        kept, self._kept = self._kept, None
        return await self._engine.connect() if kept is None else kept

    async def give_back(self, connection: AsyncConnection) -> None:
        """Keeps a connection outside of a transaction; puts it back into the pool if there is one already."""
        if self._keeps and self._kept is None:
            self._kept = connection
        else:
            await to_its_end(connection.close())

    async def close(self) -> None:
        """Puts the one that is kept back."""
        kept, self._kept = self._kept, None
        if kept is not None:
            await kept.close()
