"""The SQL journal keeps the contract on SQLite: in a file, and in memory, where there is one connection only.

It does so too where aiosqlite's thread cannot be given a whole transaction.
"""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.sql import in_thread
from a2a_scribe.journal.sql.journal import SqlJournal
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
