"""Snapshots among records."""

from a2a_scribe.journal.port import Journal
from a2a_scribe.protocol.states import COMPLETED
from a2a_scribe.protocol.types import ListTasksRequest
from a2a_scribe.testing.contract.adapter import AdapterContract
from a2a_scribe.testing.contract.checks import check
from a2a_scribe.testing.contract.scenes import born, changes_for, history_of, settle_all
from a2a_scribe.testing.journal_driver import ALICE, ScriptedNode, ScriptedTask


class SnapshotsContract(AdapterContract):
    """Where a snapshot is taken makes no difference to a task."""

    async def test_any_cut_of_snapshot_and_rest_gives_the_same_task(self, journal: Journal, node: ScriptedNode) -> None:
        changes = history_of(ScriptedTask(node, 'model'))
        for cut in range(len(changes) + 1):
            task = ScriptedTask(node, f'cut {cut}')
            await node.commit(task.birth(*changes_for(task, 0, cut), snapshot=True))
            await check(journal, task)
            await node.commit(task.append(*changes_for(task, cut, len(changes))))
            await check(journal, task)

    async def test_any_two_snapshots_give_the_same_task(self, journal: Journal, node: ScriptedNode) -> None:
        count = len(history_of(ScriptedTask(node, 'model')))
        for cut in range(count + 1):
            task = ScriptedTask(node, f'cut {cut}')
            await node.commit(task.birth(*changes_for(task, 0, cut // 2), snapshot=True))
            await node.commit(task.append(*changes_for(task, cut // 2, cut), snapshot=True))
            await node.commit(task.append(*changes_for(task, cut, count)))
            await check(journal, task)

    async def test_lists_show_tasks_without_snapshot_too(self, journal: Journal, node: ScriptedNode) -> None:
        bare = await born(node, 'bare')
        await node.commit(bare.append(bare.chunk('text')))
        cut = ScriptedTask(node, 'cut')
        await node.commit(cut.birth(cut.chunk('before'), snapshot=True))
        await node.commit(cut.append(cut.chunk('after')))
        for task in (bare, cut):
            await node.append(task.append(task.status(COMPLETED)))
        await settle_all(node, bare, cut)
        page = await journal.list_tasks(ALICE, ListTasksRequest())
        assert {task.id: task for task in page.tasks} == {t.id: t.projection.to_task() for t in (bare, cut)}
