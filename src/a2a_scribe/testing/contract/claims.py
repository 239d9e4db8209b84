"""Claims without a message."""

from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import Claimed, Missing, NextTurn, Queued, Refused, Released, Stale
from a2a_scribe.protocol.states import FAILED
from a2a_scribe.protocol.types import TaskState
from a2a_scribe.testing.contract.adapter import AdapterContract
from a2a_scribe.testing.contract.checks import check
from a2a_scribe.testing.contract.scenes import born, write
from a2a_scribe.testing.journal_driver import ScriptedNode, ScriptedTask


class ClaimsContract(AdapterContract):
    """A claim takes a parked task, and no other."""

    async def test_a_claim_takes_a_parked_task(self, journal: Journal, node: ScriptedNode, other: ScriptedNode) -> None:
        task = await born(node, 'task', parked=True)
        claimed = await write(other, task.claim())
        assert isinstance(claimed, Claimed)
        assert (claimed.row.node, claimed.row.epoch) == (other.id, task.row.epoch + 1)
        assert (claimed.row.seq, claimed.row.open_turn) == (task.row.seq, None)
        task.settle_claim(claimed, other)
        await check(journal, task)
        result = await other.append(task.end(task.status(TaskState.TASK_STATE_CANCELED), snapshot=True))
        assert result == Released()
        task.settle(result)
        await check(journal, task)

    async def test_a_claim_comes_too_late(self, node: ScriptedNode, other: ScriptedNode) -> None:
        ended = await born(node, 'ended', FAILED, parked=True)
        running = await born(node, 'running')
        parked = await born(node, 'parked', parked=True)
        assert await write(other, ended.claim()) == Refused()
        assert await write(other, running.claim()) == Stale()
        assert await write(other, parked.claim(expected=parked.row.seq - 1)) == Stale()
        assert await write(other, ScriptedTask(other, 'unknown').claim()) == Missing()

    async def test_of_several_claims_in_one_group_the_first_counts(self, node: ScriptedNode) -> None:
        task = await born(node, 'task', parked=True)
        written = (await node.commit(writes=[task.claim(), task.claim(), task.accept('turn 2')])).written
        assert [type(result) for result in written] == [Claimed, Stale, Queued]

    async def test_a_claimed_task_goes_on_with_what_waits(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task', parked=True)
        claimed = await write(node, task.claim())
        assert isinstance(claimed, Claimed)
        task.settle_claim(claimed, node)
        assert await write(node, task.accept('turn 2')) == Queued()
        result = await node.append(task.end(task.said('still here')))
        assert isinstance(result, NextTurn)
        task.settle(result)
        await check(journal, task)
