"""The SQL journal keeps the contract on PostgreSQL."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.testing.journal_contract import Connect, JournalContract


class TestPostgresql(JournalContract):
    engines: list[AsyncEngine]

    @pytest.fixture
    async def connect(self, postgres_database_url: str) -> AsyncIterator[Connect]:
        self.engines = []

        def connect() -> Journal:
            self.engines.append(create_async_engine(postgres_database_url))
            return SqlJournal(self.engines[-1])

        yield connect
        for engine in self.engines:
            await engine.dispose()
