"""The SQL journal keeps the contract on PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import QueuePool, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from a2a_scribe.errors import JournalUnavailableError
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import CancelDue, Queued
from a2a_scribe.journal.sql.access import Access
from a2a_scribe.journal.sql.connected import Connected
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.journal.sql.running import Running
from a2a_scribe.testing.contract.scenes import born, write
from a2a_scribe.testing.journal_contract import Connect, JournalContract
from a2a_scribe.testing.journal_driver import EPOCH, ScriptedNode, cancel_body

MINUTE = 60_000_000


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

    async def test_differing_clocks_of_nodes_drop_no_cancels(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        """The clock of whoever asks is slow by a year at least, and that of whoever looks is fast by many."""
        task = await born(node, 'task')
        assert await write(other, task.ask_cancel('cancel', patience=MINUTE)) == Queued()
        assert len(await journal.waiting_asks(node.id, 4 * EPOCH)) == 1
        group = node.group([task.end()])
        group.now = 4 * EPOCH
        (result,) = (await journal.commit(group)).appended
        assert result == CancelDue(cancel_body('cancel'))


async def test_a_transaction_of_a_process_that_was_stopped_ends(postgres_database_url: str) -> None:
    """And only ours: the connection goes back to the user's pool."""
    engine = create_async_engine(postgres_database_url, pool_size=1, max_overflow=0)

    async def limit_of(connected: Running) -> str:
        assert isinstance(connected, Connected)
        found = await connected.connection.execute(text('SHOW idle_in_transaction_session_timeout'))
        return str(found.scalar_one())

    access = Access(engine, deadline=2.5)
    try:
        assert await access.write(limit_of) == '2500ms'
        assert await access.read(limit_of) == '0'
    finally:
        await engine.dispose()


async def test_a_rollback_that_no_server_answers_takes_no_longer_than_a_transaction_may(
    postgres_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = create_async_engine(postgres_database_url)
    access = Access(engine, deadline=0.2)

    async def fail(_: Running) -> None:
        raise ValueError

    async def wait_for_nobody(_: Connected) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(Connected, 'rollback', wait_for_nobody)
    try:
        async with asyncio.timeout(10):
            with pytest.raises(JournalUnavailableError):
                await access.write(fail)
        pool = engine.sync_engine.pool
        assert isinstance(pool, QueuePool)
        assert pool.checkedout() == 0
    finally:
        await engine.dispose()
