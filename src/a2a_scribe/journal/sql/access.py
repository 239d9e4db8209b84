"""Connections to the database: opening it once per loop, reading, writing, and whose fault an error is.

A transaction on a database server has a time limit, after which its connection is terminated and not returned to the
pool. A call into SQLite's thread is shielded and awaited, never abandoned: the thread goes on whatever we do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from a2a_scribe.errors import JournalBusyError
from a2a_scribe.journal.sql.connected import Connected
from a2a_scribe.journal.sql.dialects import (
    DATABASE_ERRORS,
    cause_of,
    check_dialect,
    is_sqlite,
    shares_one_connection,
    translate,
)
from a2a_scribe.journal.sql.errands import to_its_end
from a2a_scribe.journal.sql.kept import kept_of
from a2a_scribe.journal.sql.running import Work

T = TypeVar('T')
Look = Callable[[Connected], Awaitable[T]]

OPENING_ATTEMPTS, OPENING_PAUSE = 600, 0.05
"""How often, and after how many seconds, the schema of a busy SQLite file is tried again."""

TURNSTILES: WeakKeyDictionary[Engine, WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()
"""By engine and loop: journals that share an engine with one connection only must not mix their transactions."""


class Access:
    """One database, for one journal."""

    def __init__(self, engine: AsyncEngine, *, deadline: float) -> None:
        """Takes the engine of the user; `deadline` is in seconds, for one transaction on a server.

        Raises:
            SettingsError: The database is of an unsupported kind.
        """
        check_dialect(engine)
        self.engine = engine
        self._deadline = deadline
        self._sqlite = is_sqlite(engine)
        self._opened_on: asyncio.AbstractEventLoop | None = None
        self._turnstiles = TURNSTILES.setdefault(engine.sync_engine, WeakKeyDictionary())
        self._exclusive = shares_one_connection(engine)
        self._kept = kept_of(engine)

    async def open_once(self, work: Look[None]) -> None:
        """Does `work` on this loop's first call; others wait until it is done."""
        loop = asyncio.get_running_loop()
        if self._opened_on is loop:
            return
        async with self._turnstile():
            if self._opened_on is loop:
                return
            if self._opened_on is not None and not self._sqlite:
                await self.engine.dispose(close=False)
            await self._open(work)
            self._opened_on = loop

    async def _open(self, work: Look[None]) -> None:
        for _ in range(OPENING_ATTEMPTS):
            try:
                await self._guarded(self._look(work))
            except JournalBusyError:
                await asyncio.sleep(OPENING_PAUSE)
            else:
                return
        raise JournalBusyError

    async def close(self) -> None:
        """Forgets that the database is open, and keeps no connection of it; the engine stays its user's."""
        self._opened_on = None
        await self._kept.close()

    async def read(self, work: Work[T]) -> T:
        """Does reading work. Raises: JournalUnavailableError."""
        if self._exclusive:
            async with self._turnstile():
                return await self._guarded(self._read(work))
        return await self._guarded(self._read(work))

    async def look(self, work: Look[T]) -> T:
        """Does reading work that needs the connection itself. Raises: JournalUnavailableError."""
        if self._exclusive:
            async with self._turnstile():
                return await self._guarded(self._look(work))
        return await self._guarded(self._look(work))

    async def write(self, work: Work[T]) -> T:
        """Does writing work in a transaction. Raises: JournalUnavailableError, JournalRefusedError."""
        if self._exclusive:
            async with self._turnstile():
                return await self._guarded(self._transaction(work))
        return await self._guarded(self._transaction(work))

    def _turnstile(self) -> asyncio.Lock:
        """Lets one through at a time where there is one connection only, and while the schema is made."""
        loop = asyncio.get_running_loop()
        if loop not in self._turnstiles:
            self._turnstiles[loop] = asyncio.Lock()
        return self._turnstiles[loop]

    async def _look(self, work: Look[T]) -> T:
        async with self.engine.connect() as connection:
            connected = Connected(connection)
            await connected.prepare()
            return await work(connected)

    async def _read(self, work: Work[T]) -> T:
        if not self._sqlite:
            return await self._look(work)
        async with self._kept.room_for_reading():
            connection = await self._kept.take('read')
            try:
                connected = Connected(connection)
                await connected.prepare()
                result = await self._run(connected, work)
            except BaseException:
                await self._kept.close_one(connection)
                raise
            await self._kept.give_back(connection, 'read')
            return result

    async def _run(self, connected: Connected, work: Work[T]) -> T:
        return await (work(connected) if connected.thread is None else connected.thread.do(work))

    async def _transaction(self, work: Work[T]) -> T:
        connection = await self._kept.take('write')
        try:
            connected = Connected(connection)
            await connected.prepare()
            result = await self._write(connected, work)
        except Exception:
            await self._undo(connection)
            raise
        except BaseException:
            await to_its_end(self._discard(connection))
            raise
        await self._kept.give_back(connection, 'write')
        return result

    async def _write(self, connected: Connected, work: Work[T]) -> T:
        if connected.thread is not None:
            return await connected.thread.do_in_transaction(work)
        await connected.begin_writing(self._deadline)
        result = await work(connected)
        await connected.commit()
        return result

    async def _undo(self, connection: AsyncConnection) -> None:
        """Ends a failed transaction; a connection that cannot even do that, or not in time, is not used again."""
        try:
            await Connected(connection).rollback()
        except BaseException as error:
            await to_its_end(self._discard(connection))
            if not isinstance(error, Exception):
                raise
        else:
            await self._kept.close_one(connection)

    async def _discard(self, connection: AsyncConnection) -> None:
        try:
            await connection.invalidate()
        finally:
            await self._kept.close_one(connection)

    async def _guarded(self, errand: Awaitable[T]) -> T:
        try:
            if self._sqlite:
                return await to_its_end(errand)
            async with asyncio.timeout(self._deadline):
                return await errand
        except DATABASE_ERRORS as error:
            raise translate(error) from cause_of(error)
