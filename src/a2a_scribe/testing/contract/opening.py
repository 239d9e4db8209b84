"""Opening and closing."""

from a2a_scribe.journal.port import Journal
from a2a_scribe.protocol.types import ListTasksRequest
from a2a_scribe.testing.contract.adapter import AdapterContract, Connect
from a2a_scribe.testing.contract.checks import all_records, check
from a2a_scribe.testing.journal_driver import ALICE, ScriptedNode, ScriptedTask


class OpeningContract(AdapterContract):
    """A journal may be opened and closed at any time, and loses nothing."""

    async def test_opening_and_closing_again_is_harmless(self, connect: Connect) -> None:
        journal = connect()
        await journal.open()
        await journal.open()
        await journal.close()
        await journal.close()
        await journal.open()
        assert await journal.read_task('task', ALICE) is None
        await journal.close()

    async def test_an_empty_journal_has_nothing(self, journal: Journal) -> None:
        assert not await journal.has_task('task', ALICE)
        assert await journal.read_task('task', ALICE) is None
        assert await all_records(journal, 'task') == []
        assert await journal.read_configs('task') == []
        page = await journal.list_tasks(ALICE, ListTasksRequest())
        assert (page.tasks, page.next_token, page.total) == ([], '', 0)

    async def test_what_is_written_outlives_the_connection(self, connect: Connect) -> None:
        first = connect()
        await first.open()
        task = ScriptedTask(await ScriptedNode(first, 'node').register(), 'task')
        await task.node.commit(task.birth(task.chunk('text')))
        await first.close()
        second = connect()
        await second.open()
        await check(second, task)
        await second.close()
