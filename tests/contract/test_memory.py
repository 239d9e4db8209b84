"""The journal in memory keeps the contract."""

import pytest

from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.testing.journal_contract import Connect, JournalContract


class TestMemoryJournal(JournalContract):
    @pytest.fixture
    async def connect(self) -> Connect:
        journal = MemoryJournal()
        return lambda: journal
