"""The SQL journal keeps the contract on SQLite: in a file, and in memory, where there is one connection only.

It does so too where aiosqlite's thread cannot be given a whole transaction.
"""

from collections.abc import AsyncIterator

import aiosqlite
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from a2a_scribe.core.records import Record
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.sql import in_thread
from a2a_scribe.journal.sql.in_thread import thread_of
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.journal.sql.rows import record
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


class TestSqliteStatementByStatement(TestSqliteFile):
    @pytest.fixture(autouse=True)
    def no_errands(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(in_thread, 'takes_errands', lambda _: False)


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
        await connection.commit()
        driver = (await connection.get_raw_connection()).driver_connection
        assert isinstance(driver, aiosqlite.Connection)
        await driver.set_trace_callback(statements.append)
        thread = await thread_of(driver)
        assert thread is not None

        async def insert(running: Running) -> None:
            await running.insert_records(statements_of('x_').insert_records, records)

        async def read(running: Running) -> list[Record]:
            key = {'the_id': 'task', 'after': -1, 'the_limit': 200}
            return [record(row) for row in await running.rows(statements_of('x_').read_records, key)]

        await thread.do_in_transaction(insert)
        assert len(statements) < 10
        assert {statement.split()[0] for statement in statements} <= {'BEGIN', 'INSERT', 'COMMIT'}
        assert await thread.do(read) == records
    await engine.dispose()
