"""Hints between processes of one database that something was written: how each database can give them.

The connection is one of its own, made as those of the user's pool are made and outside of it. What goes wrong here is
no fault of what is written or read: whoever listens tries again, and meanwhile is only slower to notice.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from a2a_scribe.errors import JournalUnavailableError
from a2a_scribe.journal.port import Heard, Hints
from a2a_scribe.journal.sql.dialects import is_sqlite, lock_directory
from a2a_scribe.journal.sql.errands import to_its_end

POLL: Final = 0.025
"""Seconds between two looks at whether an SQLite file has changed."""
IDLE: Final = 0.1
"""Seconds between two looks at whether anybody wants to know."""
PAYLOAD_BYTES: Final = 7_900
"""What PostgreSQL takes with one notification, about."""
PATIENCE: Final = 5.0
"""Seconds that a notification may take."""


def hints_of(engine: AsyncEngine, prefix: str) -> Hints | None:
    """Returns how the processes of a database hear of each other, `None` for a database of one process."""
    if not is_sqlite(engine):
        return Notifications(engine, f'{prefix}hints')
    return None if lock_directory(engine) is None else FileChanges(engine)


class FileChanges:
    """SQLite counts for each connection what the others have changed in the file."""

    needs_telling = False

    def __init__(self, engine: AsyncEngine) -> None:
        """Takes the user's engine."""
        self._engine = engine

    async def tell(self, task_ids: Collection[str]) -> None:
        """Does nothing: the change itself is seen."""

    async def listen(self, heard: Heard, is_wanted: Callable[[], bool]) -> None:
        """Calls `heard` whenever the file has changed, while that is wanted."""
        async with _own_connection(self._engine) as connection:
            seen = None
            while True:
                if not is_wanted():
                    seen = None
                    await asyncio.sleep(IDLE)
                    continue
                version = await _data_version(connection)
                if version != seen:
                    seen = version
                    heard(None)
                await asyncio.sleep(POLL)


async def _data_version(connection: AsyncConnection) -> int | None:
    """Returns a number that changes with the file; `None` if the file is locked, which also means that it changes."""
    raw: Any = (await connection.get_raw_connection()).driver_connection
    try:
        ((version,),) = await raw.execute_fetchall('PRAGMA data_version')
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return None
    return int(version)


class Notifications:
    """PostgreSQL's LISTEN and NOTIFY, on one session."""

    needs_telling = True

    def __init__(self, engine: AsyncEngine, channel: str) -> None:
        """Takes the user's engine, and the name under which the processes of one journal find each other."""
        self._engine = engine
        self._channel = channel
        self._driver: Any = None

    async def tell(self, task_ids: Collection[str]) -> None:
        """Notifies the others, if there is a session now."""
        payload = '\n'.join(task_ids)
        if len(payload.encode()) > PAYLOAD_BYTES:
            payload = ''  # all
        driver = self._driver
        if driver is None:
            return
        try:
            await driver.execute('SELECT pg_notify($1, $2)', self._channel, payload, timeout=PATIENCE)
        except Exception as error:
            raise _unavailable(error) from error

    async def listen(self, heard: Heard, is_wanted: Callable[[], bool]) -> None:
        """Calls `heard` for what the others tell, whether or not it is wanted: silence costs nothing here."""
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def notified(_: object, process: int, __: str, payload: object) -> None:
            if process != own:
                heard(str(payload).split('\n') if payload else None)

        def ended(_: object) -> None:
            if not lost.done():
                lost.set_result(None)

        async with _own_connection(self._engine) as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            own = driver.get_server_pid()
            driver.add_termination_listener(ended)
            await driver.add_listener(self._channel, notified)
            self._driver = driver
            heard(None)
            try:
                await lost
                raise JournalUnavailableError('the session that listens has ended')
            finally:
                self._driver = None
                driver.remove_termination_listener(ended)
                await connection.invalidate()  # a session that listens is good for nothing else


@asynccontextmanager
async def _own_connection(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Gives a connection that is made as the user's are, from a pool of its own. Raises: JournalUnavailableError."""
    own = create_async_engine(engine.url, pool=engine.sync_engine.pool.recreate())
    connection = own.connect()
    try:
        try:
            await to_its_end(connection.start())
            yield connection
        finally:
            await to_its_end(_end(own, connection))
    except JournalUnavailableError:
        raise
    except Exception as error:
        raise _unavailable(error) from error


async def _end(engine: AsyncEngine, connection: AsyncConnection) -> None:
    """Closes a connection and what it is of: as one errand, because who waits may be cancelled at each wait."""
    try:
        if connection.sync_connection is not None:
            await connection.close()
    finally:
        await engine.dispose()


def _unavailable(error: Exception) -> JournalUnavailableError:
    """Returns whatever a driver raises as ours: a hint that fails has one remedy only."""
    return JournalUnavailableError(f'{type(error).__name__}: {str(error).partition(chr(10))[0]}')
