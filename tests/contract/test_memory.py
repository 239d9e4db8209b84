"""The journal in memory keeps the contract."""

import pytest

from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.port import Journal
from a2a_scribe.protocol.types import NodeId
from a2a_scribe.testing.journal_contract import Connect, JournalContract


class TestMemoryJournal(JournalContract):
    @pytest.fixture
    async def connect(self) -> Connect:
        journal = MemoryJournal()
        return lambda: journal

    async def declare_dead(self, journal: Journal, node_id: NodeId) -> None:
        assert isinstance(journal, MemoryJournal)
        assert await journal.declare_dead(node_id, number)
