"""The SQL journal keeps the contract on SQLite: in a file, and in memory, where there is one connection only."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from a2a_scribe.core.records import Record
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.journal.sql.running import Running
from a2a_scribe.journal.sql.statements import statements_of
from a2a_scribe.journal.sql.tables import tables_of
from a2a_scribe.testing.journal_contract import Connect, JournalContract


class TestSqliteFile(JournalContract):
    engines: list[AsyncEngine]

    @pytest.fixture
    async def connect(self, sqlite_url: str) -> AsyncIterator[Connect]:
        self.engines = []

        def connect() -> Journal:
            self.engines.append(create_async_engine(sqlite_url))
            return SqlJournal(self.engines[-1])

        yield connect
        for engine in self.engines:
            await engine.dispose()


class TestSqliteInMemory(JournalContract):
    engine: AsyncEngine

    @pytest.fixture
    async def connect(self) -> AsyncIterator[Connect]:
        self.engine = create_async_engine('sqlite+aiosqlite://')
        yield lambda: SqlJournal(self.engine)
        await self.engine.dispose()


@pytest.mark.anyio
async def test_the_interpreter_is_given_up_a_few_times_and_not_for_each_record(sqlite_url: str) -> None:
    engine = create_async_engine(sqlite_url)
    statements: list[str] = []
    records = [Record('task', number, 'kind', b'body', 0, None) for number in range(100)]
    async with engine.connect() as connection:
        await connection.run_sync(tables_of('x_').metadata.create_all)
        driver = (await connection.get_raw_connection()).driver_connection
        assert driver is not None
        await driver.set_trace_callback(statements.append)
        running = Running(connection)
        await running.insert_records(statements_of('x_').insert_records, records)
        assert len(statements) < 10
        assert {statement.split()[0] for statement in statements} <= {'BEGIN', 'INSERT'}
        assert await running.rows(
            statements_of('x_').read_records, {'the_id': 'task', 'after': -1, 'the_limit': 200}
        ) == [tuple(record) for record in records]
    await engine.dispose()
