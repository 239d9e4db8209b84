"""Births of tasks."""

import pytest

from a2a_scribe.errors import JournalRefusedError
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import Continues, Released
from a2a_scribe.protocol.states import COMPLETED, WORKING
from a2a_scribe.testing.contract.adapter import AdapterContract, Point, needs
from a2a_scribe.testing.contract.checks import check, read
from a2a_scribe.testing.contract.scenes import BOB, born
from a2a_scribe.testing.journal_driver import EPOCH, ScriptedNode, ScriptedTask


class BirthsContract(AdapterContract):
    """A birth stores the whole of a new task."""

    async def test_a_birth_stores_row_records_and_task(self, journal: Journal, node: ScriptedNode) -> None:
        task = ScriptedTask(node, 'task')
        assert await node.append(task.birth(task.status(WORKING, EPOCH + 7, text='on it'))) == Continues()
        await check(journal, task)
        stored = await read(journal, task)
        assert (stored.row.node, stored.row.epoch, stored.row.attempt) == (node.id, 1, 1)
        assert (stored.row.state, stored.row.status_time) == (WORKING, EPOCH + 7)

    async def test_a_birth_may_end_its_turn(self, journal: Journal, node: ScriptedNode) -> None:
        task = ScriptedTask(node, 'task')
        result = await node.append(task.birth(task.status(COMPLETED), snapshot=True, ends_turn=True))
        assert result == Released()
        task.settle(result)
        await check(journal, task)

    async def test_many_tasks_are_born_and_move_in_one_group(self, journal: Journal, node: ScriptedNode) -> None:
        tasks = [ScriptedTask(node, f'task {number:02}') for number in range(20)]
        old, young = tasks[::2], tasks[1::2]
        await node.commit(*(task.birth() for task in old))
        appends = [task.append(task.chunk(task.id)) for task in old]
        appends += [task.birth(task.chunk(task.id), snapshot=True) for task in young]
        appends.sort(key=lambda append: append.row.task_id, reverse=True)
        assert (await node.commit(*appends)).appended == [Continues()] * 20
        for task in tasks:
            await check(journal, task)

    async def test_tasks_of_all_sizes_are_born_in_one_group(self, journal: Journal, node: ScriptedNode) -> None:
        tasks = [ScriptedTask(node, f'task {number:02}') for number in range(45)]
        sizes = [1 if number % 7 else 20_000 for number in range(len(tasks))]
        appends = [
            task.birth(task.chunk('x' * size), snapshot=size > 1) for task, size in zip(tasks, sizes, strict=True)
        ]
        assert (await node.commit(*appends)).appended == [Continues()] * len(tasks)
        for task in tasks:
            await check(journal, task)

    @needs(Point.REFUSES_KNOWN_IDS)
    async def test_a_birth_under_a_known_id_is_refused(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task', parked=True)
        with pytest.raises(JournalRefusedError):
            await node.commit(ScriptedTask(node, 'task', BOB).birth())
        await check(journal, task)
        assert await journal.read_task('task', BOB) is None
