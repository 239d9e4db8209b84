"""Nodes that die, and what becomes of their tasks."""

import pytest

from a2a_scribe.errors import NodeFencedError
from a2a_scribe.journal.port import Journal, LivingNode, NodeRow
from a2a_scribe.journal.results import Claimed, Missing, NextTurn, Queued, Released, Stale
from a2a_scribe.protocol.states import FAILED
from a2a_scribe.protocol.types import NodeId
from a2a_scribe.testing.contract.adapter import AdapterContract
from a2a_scribe.testing.contract.checks import check
from a2a_scribe.testing.contract.scenes import OTHER_AGENT, born, bury, settle_all, write
from a2a_scribe.testing.journal_driver import EPOCH, ScriptedNode, ScriptedTask


class DeathsContract(AdapterContract):
    """What a dead node owned can be taken over, once, and by nobody before it is dead."""

    async def test_a_journal_knows_who_lives_and_owns(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        await born(node, 'task')
        await born(other, 'parked', parked=True)
        expected = {LivingNode(node.id, node.number, owns=True), LivingNode(other.id, other.number, owns=False)}
        assert set(await journal.living_nodes('agent')) == expected
        assert await journal.living_nodes('another agent') == []
        await bury(journal, node)
        assert [each.node_id for each in await journal.living_nodes('agent')] == [other.id]

    async def test_a_node_that_has_moved_is_not_dead(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        assert not await journal.declare_dead(node.id, node.number - 1)
        await node.commit(task.append(task.chunk('alive')))
        await check(journal, task)

    async def test_death_is_declared_once(self, journal: Journal, node: ScriptedNode) -> None:
        await born(node, 'task')
        assert await journal.declare_dead(node.id, node.number)
        assert not await journal.declare_dead(node.id, node.number)

    async def test_only_tasks_of_the_dead_are_orphans(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        tasks = [await born(node, f'task {number}') for number in range(3)]
        await born(node, 'parked', parked=True)
        await born(other, 'of a living node')
        theirs = ScriptedTask(node, 'of another agent', OTHER_AGENT)
        await node.commit(theirs.birth())
        assert await journal.orphans('agent', 10) == []
        await bury(journal, node)
        found = await journal.orphans('agent', 10)
        assert found == [task.row for task in tasks]
        assert await journal.orphans('agent', 2) == found[:2]
        assert await journal.orphans('agent', 2, found[0].task_id) == found[1:]
        assert await journal.orphans('agent', 2, found[-1].task_id) == []
        assert [row.task_id for row in await journal.orphans('another agent', 10)] == [theirs.id]

    async def test_a_task_is_taken_over_and_ended(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        await bury(journal, node)
        claimed = await write(other, task.take_over())
        assert isinstance(claimed, Claimed)
        row, before = claimed.row, task.row
        assert (row.node, row.epoch, row.open_turn, row.seq) == (
            other.id,
            before.epoch + 1,
            before.open_turn,
            before.seq,
        )
        task.settle_claim(claimed, other)
        await check(journal, task)
        result = await other.append(task.end(task.status(FAILED), snapshot=True))
        assert result == Released()
        task.settle(result)
        await check(journal, task)
        assert await journal.orphans('agent', 10) == []

    async def test_a_task_is_taken_over_and_run_again(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        await bury(journal, node)
        take = task.take_over(again=True)
        claimed = await write(other, take)
        assert isinstance(claimed, Claimed)
        assert (claimed.row.seq, claimed.row.attempt) == (task.row.seq + 1, 2)
        assert claimed.row.open_turn == task.row.open_turn
        task.settle_claim(claimed, other, take.start)
        await check(journal, task)
        task.settle(await other.append(task.end(task.chunk('again'))))
        await check(journal, task)

    async def test_what_waits_goes_on_after_a_take_over(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        assert await write(other, task.accept('turn 2')) == Queued()
        await bury(journal, node)
        claimed = await write(other, task.take_over())
        assert isinstance(claimed, Claimed)
        task.settle_claim(claimed, other)
        result = await other.append(task.end())
        assert isinstance(result, NextTurn)
        task.settle(result)
        await check(journal, task)

    async def test_of_two_heirs_one_gets_the_task(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        third = await ScriptedNode(journal, 'third node').register()
        await bury(journal, node)
        take = task.take_over()
        assert isinstance(await write(other, take), Claimed)
        assert await write(third, take) == Stale()
        assert await write(other, take) == Stale()

    async def test_a_node_takes_over_from_itself(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        take = task.take_over(again=True)
        claimed = await write(node, take)
        assert isinstance(claimed, Claimed)
        assert (claimed.row.node, claimed.row.epoch, claimed.row.attempt) == (node.id, task.row.epoch + 1, 2)
        task.settle_claim(claimed, node, take.start)
        await check(journal, task)
        assert await write(node, take) == Stale()

    async def test_a_take_over_comes_too_early_or_too_late(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task, parked = await born(node, 'task'), await born(node, 'parked')
        late = parked.take_over()
        assert await write(other, task.take_over()) == Stale(), 'its owner lives'
        await settle_all(node, parked)
        await bury(journal, node)
        assert await write(other, late) == Stale(), 'nobody owns it'
        assert await write(other, task.take_over(epoch=task.row.epoch + 1)) == Stale()
        assert await write(other, ScriptedTask(node, 'unknown').take_over()) == Missing()
        await check(journal, task)

    async def test_a_node_that_owns_nothing_is_forgotten(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        await born(node, 'task')
        await born(other, 'parked', parked=True)
        await journal.retire(node.id)
        await journal.retire(other.id)
        assert [each.node_id for each in await journal.living_nodes('agent')] == [node.id]
        with pytest.raises(NodeFencedError):
            await other.commit()

    async def test_only_dead_nodes_that_own_nothing_are_forgotten_together(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        """One that is forgotten can be registered as if it was new; one that is known to be dead stays dead."""
        await born(node, 'task')
        known = [NodeRow(node.id, 'agent', 'host', EPOCH), NodeRow(NodeId('idle'), 'agent', 'host', EPOCH)]
        known.append(NodeRow(NodeId('theirs'), 'another agent', 'host', EPOCH))
        for row in known:
            await journal.register(row)
            assert await journal.declare_dead(row.node_id, node.number if row.node_id == node.id else 0)
        await journal.forget_dead('agent')
        assert [each.node_id for each in await journal.living_nodes('agent')] == [other.id]
        for row in known:
            await journal.register(row)
        assert {each.node_id for each in await journal.living_nodes('agent')} == {other.id, 'idle'}
        assert await journal.living_nodes('another agent') == []

    async def test_tasks_of_a_node_that_nobody_knows_are_orphans(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        await bury(journal, node)
        claimed = await write(other, task.take_over())
        assert isinstance(claimed, Claimed)
        task.settle_claim(claimed, other)
        await bury(journal, other)
        assert await journal.orphans('agent', 10) == [task.row]
