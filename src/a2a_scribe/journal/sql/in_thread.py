"""Work on SQLite as one errand for the thread in which its connection lives.

aiosqlite sends each statement to that thread and each answer back, which costs ten times as much as a statement. Here
the whole work goes there, and its result comes back; it is the same coroutine that waits for a server's answers
elsewhere, and never has to wait for any.
"""

import sqlite3
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import aiosqlite
from sqlalchemy import Executable

from a2a_scribe.core.records import Record
from a2a_scribe.journal.sql.compiling import Compiled, for_once, with_values, without_lists
from a2a_scribe.journal.sql.portions import Values, in_portions
from a2a_scribe.journal.sql.running import Parameters, Work

T = TypeVar('T')


def takes_errands(driver: aiosqlite.Connection) -> bool:
    """Whether its thread can be given something to do: the one name for that is private, and may go."""
    return hasattr(driver, '_execute')


async def thread_of(driver: object) -> 'SqliteThread | None':
    """Returns where a connection lives; `None` if it is not aiosqlite's, or nothing can be done there."""
    if not isinstance(driver, aiosqlite.Connection) or not takes_errands(driver):
        return None
    return SqliteThread(driver, (await driver.cursor()).connection)


class SqliteThread:
    """The thread of one connection."""

    __slots__ = ('_connection', '_driver')

    def __init__(self, driver: aiosqlite.Connection, connection: sqlite3.Connection) -> None:
        """Takes the driver, and its own connection, which may be used in its thread only."""
        self._driver = driver
        self._connection = connection

    async def do(self, work: Work[T]) -> T:
        """Does work outside of a transaction.

        Raises:
            sqlite3.Error: What the database says.
            Exception: What the work raises.
        """
        return await self._errand(work, in_transaction=False)

    async def do_in_transaction(self, work: Work[T]) -> T:
        """Does writing work, and makes it durable; a transaction that fails is left to be rolled back.

        Raises:
            sqlite3.Error: What the database says.
            Exception: What the work raises.
        """
        return await self._errand(work, in_transaction=True)

    async def rollback(self) -> None:
        """Undoes what a transaction has done, if there is one. Raises: sqlite3.Error."""
        await self._driver.rollback()

    async def _errand(self, work: Work[T], *, in_transaction: bool) -> T:
        # The thread holds on to its last errand, which then holds on to nothing of the journal.
        waiting, connection = [work], self._connection
        del work

        def errand() -> T:
            if in_transaction:
                connection.execute('BEGIN IMMEDIATE')
            result = _without_waiting(waiting.pop()(InThread(connection)))
            if in_transaction:
                connection.commit()
            return result

        done: T = await self._driver._execute(errand)  # type: ignore[no-untyped-call]  # noqa: SLF001
        return done


class InThread:
    """Implements `Running`, in the thread of the connection."""

    __slots__ = ('_connection',)

    is_sqlite = True

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Takes a connection inside a transaction."""
        self._connection = connection

    async def now(self, own: int) -> int:
        """Returns `own`: all who use the file are on one machine."""
        return own

    async def rows(self, statement: Executable, parameters: Parameters) -> Sequence[Sequence[Any]]:
        """Runs a query and returns its rows."""
        return self._connection.execute(*with_values(statement, parameters)).fetchall()

    async def query(self, statement: Executable) -> Sequence[Sequence[Any]]:
        """Runs a query that was made for this call, and returns its rows."""
        return self._connection.execute(*for_once(statement)).fetchall()

    async def change(self, statement: Executable, parameters: Parameters) -> int:
        """Runs a statement and returns how many rows it changed."""
        return self._connection.execute(*with_values(statement, parameters)).rowcount

    async def change_many(self, statement: Executable, parameters: Sequence[Parameters]) -> None:
        """Runs a statement once for each set of parameters."""
        if parameters:
            direct = without_lists(statement)
            self._run_many(direct, [direct.values_of(values) for values in parameters])

    async def insert_records(self, statement: Executable, records: Sequence[Record]) -> None:
        """Inserts records."""
        if records:
            self._run_many(without_lists(statement), records)

    def _run_many(self, direct: Compiled, rows: Sequence[Values]) -> None:
        if not direct.row or len(rows) == 1:
            self._connection.executemany(direct.sql, rows)
            return
        for size, portions in in_portions(rows):
            self._connection.executemany(direct.for_rows(size), portions)


def _without_waiting(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError('work on SQLite waited for something else')
