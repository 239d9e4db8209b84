"""Records that are appended, and read again."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from a2a_scribe.core.records import Record
from a2a_scribe.errors import JournalRefusedError
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import Continues
from a2a_scribe.testing.contract.adapter import AdapterContract
from a2a_scribe.testing.contract.checks import NO_BOUND, all_records, check
from a2a_scribe.testing.contract.scenes import born, history_of
from a2a_scribe.testing.journal_driver import ScriptedNode


def expected(records: Sequence[Record], limit: int, max_bytes: int) -> list[Record]:
    """Returns the longest beginning of records that is within the bounds, by trying."""
    beginnings = [list(records[:count]) for count in range(2, min(limit, len(records)) + 1)]
    fitting = [each for each in beginnings if sum(len(record.body) for record in each) <= max_bytes]
    return fitting[-1] if fitting else list(records[:1])


class AppendsContract(AdapterContract):
    """Records come back in order, each as it was written."""

    async def test_records_are_kept_in_order_without_gaps(self, journal: Journal, node: ScriptedNode) -> None:
        tasks = [await born(node, f'task {number}') for number in range(3)]
        for count in (1, 5, 2, 40):
            appends = [task.append(*(task.chunk(f'{count}.{n}') for n in range(count))) for task in tasks]
            assert (await node.commit(*appends)).appended == [Continues()] * 3
        for task in tasks:
            await check(journal, task)
            assert [entry.seq for entry in await all_records(journal, task.id)] == list(range(1, task.row.seq + 1))

    async def test_a_record_is_never_overwritten(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        again = task.append(task.chunk('first'))
        await node.commit(again)
        with pytest.raises(JournalRefusedError):
            await node.commit(replace(again, records=[again.records[0]._replace(body=b'\x01')]))
        await check(journal, task)

    async def test_notes_are_kept(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        await node.commit(task.append(task.chunk('text'), note='Traceback: Ünïcödé 🜁\n  "quoted"'))
        await check(journal, task)

    async def test_metadata_artifacts_and_history_come_back(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        for change in history_of(task):
            await node.commit(task.append(change))
            await check(journal, task)

    @pytest.mark.parametrize('limit', [1, 2, 7, 1000])
    async def test_records_are_read_in_portions(self, journal: Journal, node: ScriptedNode, limit: int) -> None:
        task = await born(node, 'task')
        await node.commit(task.append(*(task.chunk(str(n)) for n in range(20))))
        found, after = [], 0
        while portion := await journal.read_records('task', after, limit, NO_BOUND):
            assert len(portion) <= limit
            found += portion
            after = portion[-1].seq
        assert found == task.records
        assert await journal.read_records('task', task.row.seq, 10, NO_BOUND) == []
        assert await journal.read_records('task', task.row.seq + 100, 10, NO_BOUND) == []

    @pytest.mark.parametrize('max_bytes', [1, 1_500, 4_000, NO_BOUND])
    @pytest.mark.parametrize('limit', [3, 1000])
    async def test_a_portion_has_bounded_bytes(
        self, journal: Journal, node: ScriptedNode, limit: int, max_bytes: int
    ) -> None:
        """Small and large ones in turn, so that no guess from those before would hold."""
        task, other = await born(node, 'task'), await born(node, 'other')
        await node.commit(other.append(*(other.chunk('x' * 10_000) for _ in range(20))))
        await node.commit(task.append(*(task.chunk('ü' * (1_000 if n % 5 == 3 else 100)) for n in range(40))))
        after = 0
        while portion := await journal.read_records('task', after, limit, max_bytes):
            assert portion == expected(task.records[after:], limit, max_bytes)
            after = portion[-1].seq
        assert after == task.row.seq

    async def test_a_record_beyond_the_bound_is_given_alone(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        await node.commit(task.append(*(task.chunk('x' * 3_000_000) for _ in range(3))))
        for record in task.records[-3:]:
            assert await journal.read_records('task', record.seq - 1, 500, 1_000_000) == [record]
