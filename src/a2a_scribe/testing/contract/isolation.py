"""What strangers see."""

import pytest

from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import Claimed, Missing
from a2a_scribe.journal.tasks import OPERATOR, Caller
from a2a_scribe.protocol.types import ListTasksRequest
from a2a_scribe.testing.contract.adapter import AdapterContract, Point, needs
from a2a_scribe.testing.contract.checks import check, check_absent
from a2a_scribe.testing.contract.scenes import ANY_AGENT, BOB, OTHER_AGENT, OTHER_TENANT, born, write
from a2a_scribe.testing.journal_driver import ALICE, ScriptedNode, ScriptedTask


async def check_hidden(journal: Journal, node: ScriptedNode, task: ScriptedTask, stranger: Caller) -> None:
    """Asserts that a parked task does not exist for a stranger."""
    assert not await journal.has_task(task.id, stranger)
    assert await journal.read_task(task.id, stranger) is None
    page = await journal.list_tasks(stranger, ListTasksRequest())
    assert (page.tasks, page.total) == ([], 0)
    assert await write(node, task.accept('turn 2', stranger)) == Missing()
    assert await write(node, task.claim(stranger)) == Missing()
    assert not await journal.delete_task(task.id, stranger)
    await check(journal, task)


class IsolationContract(AdapterContract):
    """A stranger's task does not exist."""

    async def test_strangers_see_nothing_of_a_running_task(self, journal: Journal, node: ScriptedNode) -> None:
        await born(node, 'task')
        for stranger in (BOB, OTHER_TENANT, OTHER_AGENT):
            assert not await journal.has_task('task', stranger)
            assert await journal.read_task('task', stranger) is None
        assert await journal.has_task('task', ANY_AGENT)
        assert await journal.read_task('task', ANY_AGENT) is not None

    async def test_other_owners_see_nothing_of_a_parked_task(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task', parked=True)
        await check_hidden(journal, node, task, BOB)
        assert [task.id for task in (await journal.list_tasks(ANY_AGENT, ListTasksRequest())).tasks] == ['task']

    @needs(Point.AGENTS_AND_TENANTS)
    @pytest.mark.parametrize('stranger', [OTHER_TENANT, OTHER_AGENT])
    async def test_other_agents_and_tenants_see_nothing_of_a_parked_task(
        self, journal: Journal, node: ScriptedNode, stranger: Caller
    ) -> None:
        await check_hidden(journal, node, await born(node, 'task', parked=True), stranger)

    @needs(Point.AGENTS_AND_TENANTS, Point.LISTS)
    async def test_operators_see_the_tasks_of_everybody(self, journal: Journal, node: ScriptedNode) -> None:
        owners = (ALICE, BOB, OTHER_TENANT, OTHER_AGENT)
        tasks = [ScriptedTask(node, f'task {number}', owner) for number, owner in enumerate(owners)]
        for task in tasks:
            task.settle(await node.append(task.birth(ends_turn=True)))
            assert await journal.has_task(task.id, OPERATOR)
            stored = await journal.read_task(task.id, OPERATOR)
            assert stored is not None
            assert stored.row == task.row
        page = await journal.list_tasks(OPERATOR, ListTasksRequest(page_size=3))
        assert (len(page.tasks), page.total) == (3, 4)
        assert isinstance(await write(node, tasks[3].claim(OPERATOR)), Claimed)
        assert await journal.delete_task(tasks[1].id, OPERATOR)
        await check_absent(journal, tasks[1])
