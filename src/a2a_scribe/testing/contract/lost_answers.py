"""Groups that are sent again."""

import pytest

from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import Continues, Full, Missing, Queued, Refused, Stale, WriteResult
from a2a_scribe.testing.contract.adapter import AdapterContract
from a2a_scribe.testing.contract.checks import all_records, check
from a2a_scribe.testing.contract.lost_groups import LOST, TASK_IDS
from a2a_scribe.testing.contract.scenes import born
from a2a_scribe.testing.journal_driver import ScriptedNode, ScriptedTask


def known(result: WriteResult) -> WriteResult:
    """What leaves no trace may be judged anew after a lost answer: `Stale` makes the engine read and ask again."""
    return Stale() if isinstance(result, Refused | Full | Missing) else result


class LostAnswersContract(AdapterContract):
    """A group that is sent again is written once, with the same receipt."""

    @pytest.mark.parametrize('kind', list(LOST))
    async def test_the_same_group_again_gives_the_same_receipt(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode, kind: str
    ) -> None:
        group = await LOST[kind](node, other)
        receipt = await journal.commit(group)
        before = [await all_records(journal, task_id) for task_id in TASK_IDS]
        for _ in range(2):
            again = await journal.commit(group)
            assert again.appended == receipt.appended
            assert [known(result) for result in again.written] == [known(result) for result in receipt.written]
        assert [await all_records(journal, task_id) for task_id in TASK_IDS] == before

    async def test_a_message_that_was_queued_and_started_elsewhere_is_remembered(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(other, 'task')
        group = node.group(writes=[task.accept('turn 2'), task.accept('turn 3')])
        receipt = await journal.commit(group)
        task.settle(await other.append(task.end()))
        task.settle(await other.append(task.end(task.chunk('answer to 2'))))
        again = await journal.commit(group)
        assert again.written == receipt.written == [Queued(), Queued()]
        await check(journal, task)

    async def test_after_a_lost_answer_the_node_goes_on(self, journal: Journal, node: ScriptedNode) -> None:
        task = ScriptedTask(node, 'task')
        group = node.group([task.birth()])
        await journal.commit(group)
        await journal.commit(group)
        assert await node.append(task.append(task.chunk('more'))) == Continues()
        await check(journal, task)
