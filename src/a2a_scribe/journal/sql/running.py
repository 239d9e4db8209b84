"""Runs statements on one connection.

Each statement that SQLAlchemy runs on SQLite crosses to the driver's thread three times (cursor, execute, close),
which costs more than the statement. Where the driver is aiosqlite, statements are therefore compiled by SQLAlchemy and
given to aiosqlite directly, one crossing each; everywhere else, and for lists of keys, SQLAlchemy runs them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import aiosqlite
from sqlalchemy import Dialect, Executable, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

from a2a_scribe.core.records import Record
from a2a_scribe.journal.sql.portions import Values, in_portions

END_WHEN_IDLE = text("SELECT set_config('idle_in_transaction_session_timeout', :milliseconds, true)")
"""For this transaction alone: the connection is the user's."""

SERVERS_TIME = text('SELECT cast(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)')

PREPARED = 'a2a_scribe.prepared'

Parameters = Mapping[str, Any]


class Running:
    """One connection, for as long as somebody has it."""

    __slots__ = ('_driver', 'connection')

    def __init__(self, connection: AsyncConnection) -> None:
        """Finds out how the connection is to be used."""
        self.connection = connection
        driver = None
        if connection.dialect.name == 'sqlite' and connection.sync_connection is not None:
            driver = connection.sync_connection.connection.driver_connection
        self._driver = driver if isinstance(driver, aiosqlite.Connection) else None

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is SQLite."""
        return self.connection.dialect.name == 'sqlite'

    async def prepare(self) -> None:
        """Makes a connection durable: once for each connection of the pool."""
        if self.is_sqlite and self.connection.sync_connection is not None:
            known = self.connection.sync_connection.info
            if PREPARED not in known:
                await self.connection.exec_driver_sql('PRAGMA journal_mode=WAL')
                await self.connection.exec_driver_sql('PRAGMA synchronous=FULL')
                known[PREPARED] = True

    async def now(self, own: int) -> int:
        """Returns the time on the clock that all users of the database share, in microseconds since the epoch.

        That is the server's, or `own`, which the caller has read, where all of them are on one machine.
        """
        if self.is_sqlite:
            return own
        return int((await self.connection.execute(SERVERS_TIME)).scalar_one())

    async def begin_writing(self, deadline: float) -> None:
        """Begins a transaction that will write.

        SQLite must not find out halfway that another one was faster. PostgreSQL ends a transaction in which nothing has
        happened for `deadline` seconds: its process has been stopped, and holds locks that others wait for.
        """
        if self._driver is not None:
            await self._driver.execute('BEGIN IMMEDIATE')
        elif self.is_sqlite:
            await self.connection.exec_driver_sql('BEGIN IMMEDIATE')
        else:
            await self.connection.execute(END_WHEN_IDLE, {'milliseconds': str(math.ceil(deadline * 1000))})

    async def commit(self) -> None:
        """Ends the transaction and makes it durable."""
        if self._driver is not None:
            await self._driver.commit()
        await self.connection.commit()

    async def rollback(self) -> None:
        """Ends the transaction and undoes it."""
        if self._driver is not None:
            await self._driver.rollback()
        await self.connection.rollback()

    async def query(self, statement: Executable) -> Sequence[Sequence[Any]]:
        """Runs a query that was made for this call, and returns its rows."""
        return (await self.connection.execute(statement)).all()

    async def rows(self, statement: Executable, parameters: Parameters) -> Sequence[Sequence[Any]]:
        """Runs a query and returns its rows, columns in the order of the statement."""
        direct = self._compiled(statement)
        if direct is None or self._driver is None:
            return (await self.connection.execute(statement, parameters)).all()
        return list(await self._driver.execute_fetchall(direct.sql, direct.values_of(parameters)))

    async def change(self, statement: Executable, parameters: Parameters) -> int:
        """Runs a statement and returns how many rows it changed."""
        direct = self._compiled(statement)
        if direct is None or self._driver is None:
            return (await self.connection.execute(statement, parameters)).rowcount
        return (await self._driver.execute(direct.sql, direct.values_of(parameters))).rowcount

    async def change_many(self, statement: Executable, parameters: Sequence[Parameters]) -> None:
        """Runs a statement once for each set of parameters."""
        if not parameters:
            return
        direct = self._compiled(statement)
        if direct is None or self._driver is None:
            await self.connection.execute(statement, parameters)
        else:
            await self._run_many(self._driver, direct, [direct.values_of(values) for values in parameters])

    async def insert_records(self, statement: Executable, records: Sequence[Record]) -> None:
        """Inserts records; the columns of their table are the fields of a record."""
        if not records:
            return
        direct = self._compiled(statement)
        if direct is None or self._driver is None:
            await self.connection.execute(statement, [record._asdict() for record in records])
        else:
            await self._run_many(self._driver, direct, records)

    async def _run_many(self, driver: aiosqlite.Connection, direct: '_Direct', rows: Sequence[Values]) -> None:
        if not direct.row or len(rows) == 1:
            await driver.executemany(direct.sql, rows)
            return
        for size, portions in in_portions(rows):
            await driver.executemany(direct.for_rows(size), portions)

    def _compiled(self, statement: Executable) -> '_Direct | None':
        return None if self._driver is None else _compile(statement)


@dataclass(frozen=True, slots=True)
class _Direct:
    """A statement as text, with the order of its parameters and the values that it brings itself."""

    sql: str
    names: tuple[str, ...]
    constants: Mapping[str, Any]
    row: str
    """What the text ends with for one row, if it can insert several; empty otherwise."""

    def for_rows(self, count: int) -> str:
        """Returns the text that inserts so many rows."""
        return f'{self.sql}{f", {self.row}" * (count - 1)}'

    def values_of(self, parameters: Parameters) -> tuple[Any, ...]:
        """Returns the values to run it with."""
        constants = self.constants
        return tuple([parameters[name] if name in parameters else constants[name] for name in self.names])


@lru_cache(maxsize=256)
def _compile(statement: Executable) -> _Direct | None:
    """Returns a statement as text; `None` if lists have to be expanded in it."""
    assert isinstance(statement, ClauseElement)
    compiled = statement.compile(dialect=SQLITE)
    assert isinstance(compiled, SQLCompiler)
    if compiled.post_compile_params or compiled.positiontup is None:
        return None
    constants = {name: value for name, value in compiled.params.items() if not compiled.binds[name].required}
    sql, names = str(compiled), tuple(compiled.positiontup)
    row = f'({", ".join("?" * len(names))})'
    return _Direct(sql, names, constants, row if compiled.isinsert and sql.endswith(f' VALUES {row}') else '')


SQLITE: Dialect = sqlite.dialect(paramstyle='qmark')
