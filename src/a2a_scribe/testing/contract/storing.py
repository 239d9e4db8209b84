"""Tasks that are stored and deleted from outside."""

from dataclasses import replace

import pytest

from a2a_scribe.errors import TaskConflictError
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import Claimed, Missing
from a2a_scribe.journal.tasks import Caller, Ended
from a2a_scribe.protocol.states import COMPLETED, FAILED, WORKING
from a2a_scribe.protocol.types import ListTasksRequest, Task, TaskStatus
from a2a_scribe.testing.contract.adapter import AdapterContract, Point, needs
from a2a_scribe.testing.contract.checks import all_records, check, check_absent
from a2a_scribe.testing.contract.scenes import (
    ANY_AGENT,
    BOB,
    OTHER_AGENT,
    OTHER_TENANT,
    born,
    listed,
    outside,
    put,
    settle_all,
    write,
)
from a2a_scribe.testing.journal_driver import ALICE, EPOCH, ScriptedNode, ScriptedTask


async def all_deleted(journal: Journal, ended: Ended) -> list[str]:
    """Deletes all tasks that ended long ago, and returns their ids."""
    deleted: list[str] = []
    while some := await journal.delete_ended(ended):
        deleted += some
    return deleted


class StoringContract(AdapterContract):
    """Who is no agent may store and delete tasks on which nobody works."""

    @needs(Point.REPLACING)
    async def test_a_task_stored_from_outside_is_there(self, journal: Journal) -> None:
        task = outside('task', WORKING, EPOCH + 5)
        await journal.replace_task(task, ALICE, EPOCH + 9)
        stored = await journal.read_task('task', ALICE)
        assert stored is not None
        assert stored.projection.to_task() == task
        assert (stored.row.seq, stored.row.node, stored.row.open_turn) == (1, None, None)
        assert (stored.row.state, stored.row.status_time, stored.row.created_at) == (WORKING, EPOCH + 5, EPOCH + 9)
        assert [entry.kind for entry in await all_records(journal, 'task')] == ['replaced']

    @needs(Point.REPLACING)
    async def test_a_task_stored_without_a_status_time_gets_the_present(self, journal: Journal) -> None:
        task = Task(id='task', status=TaskStatus(state=WORKING))
        await journal.replace_task(task, ALICE, EPOCH + 9)
        stored = await journal.read_task('task', ALICE)
        assert stored is not None
        assert stored.row.status_time == EPOCH + 9

    @needs(Point.REPLACING)
    async def test_a_parked_task_may_be_replaced(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task', parked=True, snapshot=True)
        new = outside('task', WORKING, EPOCH + 50, context_id='new context', text='new')
        await journal.replace_task(new, ANY_AGENT, EPOCH + 60)
        stored = await journal.read_task('task', ALICE)
        assert stored is not None
        assert stored.projection.to_task() == new
        row = replace(task.row, seq=task.row.seq + 1, state=WORKING, status_time=EPOCH + 50, context_id='new context')
        assert stored.row == replace(row, size=stored.row.size)
        assert stored.row.size > task.row.size
        listed = await journal.list_tasks(ALICE, ListTasksRequest(context_id='new context'))
        assert [entry.id for entry in listed.tasks] == ['task']
        accept = ScriptedTask(node, 'task').accept('turn 2', expected=stored.row.seq)
        assert isinstance(await write(node, accept), Claimed)

    @needs(Point.REPLACING)
    async def test_a_task_may_be_replaced_again_and_again(self, journal: Journal) -> None:
        for number in range(5):
            task = outside('task', WORKING, EPOCH + number, text=f'version {number}')
            await journal.replace_task(task, ALICE, EPOCH + number)
            stored = await journal.read_task('task', ALICE)
            assert stored is not None
            assert stored.projection.to_task() == task
        assert [entry.seq for entry in await all_records(journal, 'task')] == [1, 2, 3, 4, 5]

    async def test_a_task_with_an_open_turn_is_neither_replaced_nor_deleted(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        with pytest.raises(TaskConflictError):
            await journal.replace_task(outside('task', COMPLETED, EPOCH), ALICE, EPOCH)
        with pytest.raises(TaskConflictError):
            await journal.delete_task('task', ALICE)
        await check(journal, task)

    async def test_an_ended_task_is_only_stored_as_it_is(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task', COMPLETED, parked=True)
        await journal.replace_task(task.projection.to_task(), ALICE, EPOCH + 9)
        with pytest.raises(TaskConflictError):
            await journal.replace_task(outside('task', WORKING, EPOCH + 9), ALICE, EPOCH + 9)
        await check(journal, task)

    @needs(Point.REFUSES_KNOWN_IDS, Point.AGENTS_AND_TENANTS)
    @pytest.mark.parametrize('stranger', [BOB, OTHER_TENANT, OTHER_AGENT])
    async def test_a_strangers_task_is_neither_replaced_nor_deleted(
        self, journal: Journal, node: ScriptedNode, stranger: Caller
    ) -> None:
        task = await born(node, 'task', parked=True)
        with pytest.raises(TaskConflictError):
            await journal.replace_task(outside('task', WORKING, EPOCH), stranger, EPOCH)
        assert not await journal.delete_task('task', stranger)
        await check(journal, task)

    async def test_deleting_takes_all_that_belongs_to_a_task(self, journal: Journal, node: ScriptedNode) -> None:
        task, other = await born(node, 'task'), await born(node, 'another', parked=True)
        await node.commit(writes=[put(task, 'config'), put(other, 'config')])
        await settle_all(node, task)
        assert await journal.delete_task('task', ALICE)
        assert not await journal.delete_task('task', ALICE)
        await check_absent(journal, task)
        await check(journal, other)
        assert await write(node, task.accept('turn 2')) == Missing()
        assert [config.id for config in await journal.read_configs('another')] == ['config']

    async def test_a_deleted_id_may_be_used_again(self, journal: Journal, node: ScriptedNode) -> None:
        await born(node, 'task', parked=True)
        await journal.delete_task('task', ALICE)
        task = await born(node, 'task', WORKING, parked=True)
        await check(journal, task)

    @needs(Point.AGENTS_AND_TENANTS, Point.LISTS)
    async def test_tasks_that_ended_long_ago_are_deleted(self, journal: Journal, node: ScriptedNode) -> None:
        old = [await listed(node, f'old {number}', COMPLETED, EPOCH + number) for number in range(3)]
        kept = [
            await listed(node, 'young', COMPLETED, EPOCH + 10),
            await listed(node, 'failed', FAILED, EPOCH),
            await listed(node, 'parked', WORKING, EPOCH),
            await born(node, 'at work', COMPLETED),
        ]
        await node.commit(writes=[put(old[0], 'config')])
        assert await journal.delete_ended(Ended(COMPLETED, EPOCH + 10, 'another agent')) == []
        ended = Ended(COMPLETED, EPOCH + 10, 'agent')
        assert sorted(await all_deleted(journal, ended)) == ['old 0', 'old 1', 'old 2']
        for task in old:
            await check_absent(journal, task)
        for task in kept:
            await check(journal, task)
        assert await all_deleted(journal, Ended(FAILED, EPOCH + 10)) == ['failed']

    @needs(Point.AGENTS_AND_TENANTS, Point.LISTS)
    async def test_many_tasks_are_deleted_little_by_little(self, journal: Journal, node: ScriptedNode) -> None:
        tasks = [ScriptedTask(node, f'task {number}') for number in range(150)]
        await node.commit(*(task.birth(task.status(COMPLETED, EPOCH), ends_turn=True) for task in tasks))
        long = ScriptedTask(node, 'long')
        await node.append(long.birth(*[long.chunk('x')] * 1500, long.status(COMPLETED, EPOCH), ends_turn=True))
        deleted = await all_deleted(journal, Ended(COMPLETED, EPOCH + 1))
        assert sorted(deleted) == sorted(task.id for task in [*tasks, long])
