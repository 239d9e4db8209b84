"""A connection as SQLAlchemy has it."""

import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Executable, text
from sqlalchemy.ext.asyncio import AsyncConnection

from a2a_scribe.core.records import Record
from a2a_scribe.journal.sql.in_thread import SqliteThread, thread_of
from a2a_scribe.journal.sql.running import Parameters

END_WHEN_IDLE = text("SELECT set_config('idle_in_transaction_session_timeout', :milliseconds, true)")
"""For this transaction alone: the connection is the user's."""

SERVERS_TIME = text('SELECT cast(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)')

PREPARED = 'a2a_scribe.prepared'


class Connected:
    """Implements `Running`."""

    __slots__ = ('connection',)

    def __init__(self, connection: AsyncConnection) -> None:
        """Takes a connection; `prepare` comes before anything else."""
        self.connection = connection

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is SQLite."""
        return self.connection.dialect.name == 'sqlite'

    async def prepare(self) -> None:
        """Makes a connection durable: once for each connection of the pool."""
        if self.is_sqlite and PREPARED not in self._info:
            await self.connection.exec_driver_sql('PRAGMA journal_mode=WAL')
            await self.connection.exec_driver_sql('PRAGMA synchronous=FULL')
            self._info[PREPARED] = await thread_of(self._driver)

    @property
    def thread(self) -> SqliteThread | None:
        """Where work can be done as one errand, once this is prepared; `None` if there is no such place."""
        found: SqliteThread | None = self._info.get(PREPARED)
        return found

    @property
    def _info(self) -> dict[Any, Any]:
        """What is known of the connection for as long as it lives, in whoever's hands it is."""
        assert self.connection.sync_connection is not None
        return self.connection.sync_connection.info

    @property
    def _driver(self) -> object:
        assert self.connection.sync_connection is not None
        return self.connection.sync_connection.connection.driver_connection

    async def now(self, own: int) -> int:
        """Returns the time on the clock that all users of the database share."""
        if self.is_sqlite:
            return own
        return int((await self.connection.execute(SERVERS_TIME)).scalar_one())

    async def begin_writing(self, deadline: float) -> None:
        """Begins a transaction that will write.

        SQLite must not find out halfway that another one was faster. PostgreSQL ends a transaction in which nothing has
        happened for `deadline` seconds: its process has been stopped, and holds locks that others wait for.
        """
        if self.is_sqlite:
            await self.connection.exec_driver_sql('BEGIN IMMEDIATE')
        else:
            await self.connection.execute(END_WHEN_IDLE, {'milliseconds': str(math.ceil(deadline * 1000))})

    async def commit(self) -> None:
        """Ends the transaction and makes it durable."""
        await self.connection.commit()

    async def rollback(self) -> None:
        """Ends the transaction and undoes it."""
        if self.thread is not None:
            await self.thread.rollback()
        await self.connection.rollback()

    async def query(self, statement: Executable) -> Sequence[Sequence[Any]]:
        """Runs a query that was made for this call, and returns its rows."""
        return (await self.connection.execute(statement)).all()

    async def rows(self, statement: Executable, parameters: Parameters) -> Sequence[Sequence[Any]]:
        """Runs a query and returns its rows."""
        return (await self.connection.execute(statement, parameters)).all()

    async def change(self, statement: Executable, parameters: Parameters) -> int:
        """Runs a statement and returns how many rows it changed."""
        return (await self.connection.execute(statement, parameters)).rowcount

    async def change_many(self, statement: Executable, parameters: Sequence[Parameters]) -> None:
        """Runs a statement once for each set of parameters."""
        if parameters:
            await self.connection.execute(statement, parameters)

    async def insert_records(self, statement: Executable, records: Sequence[Record]) -> None:
        """Inserts records."""
        if records:
            await self.connection.execute(statement, [record._asdict() for record in records])
