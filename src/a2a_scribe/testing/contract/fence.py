"""The fence around nodes."""

import pytest

from a2a_scribe.errors import NodeFencedError
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import Claimed
from a2a_scribe.testing.contract.adapter import AdapterContract
from a2a_scribe.testing.contract.checks import all_records, check, check_absent, read
from a2a_scribe.testing.contract.scenes import born, bury, put, write
from a2a_scribe.testing.journal_driver import ALICE, ScriptedNode, ScriptedTask


class FenceContract(AdapterContract):
    """Only a living node writes, and each of its numbers once."""

    async def test_a_node_that_nobody_knows_writes_nothing(self, journal: Journal) -> None:
        stranger = ScriptedNode(journal, 'stranger')
        task = ScriptedTask(stranger, 'task')
        with pytest.raises(NodeFencedError):
            await stranger.commit(task.birth(), writes=[put(task, 'config')])
        await check_absent(journal, task)

    async def test_a_dead_node_writes_nothing(self, journal: Journal, node: ScriptedNode, other: ScriptedNode) -> None:
        task, parked = await born(node, 'task'), await born(node, 'parked', parked=True)
        await bury(journal, node)
        young = ScriptedTask(node, 'young')
        seq, known = task.row.seq, list(task.records)
        with pytest.raises(NodeFencedError):
            await node.commit(task.append(task.chunk('late')), young.birth(), writes=[parked.accept('turn 2')])
        assert (await all_records(journal, task.id)) == known
        assert (await read(journal, task)).row.seq == seq
        await check_absent(journal, young)
        await check(journal, parked)
        assert isinstance(await write(other, parked.accept('turn 3')), Claimed)

    async def test_a_dead_node_stays_dead(self, journal: Journal, node: ScriptedNode) -> None:
        await node.commit()
        await bury(journal, node)
        await node.register()
        with pytest.raises(NodeFencedError):
            await node.commit()

    async def test_a_dead_node_gets_no_receipt(self, journal: Journal, node: ScriptedNode) -> None:
        group = node.group([ScriptedTask(node, 'task').birth()])
        await journal.commit(group)
        await bury(journal, node)
        with pytest.raises(NodeFencedError):
            await journal.commit(group)

    async def test_numbers_only_grow(self, journal: Journal, node: ScriptedNode) -> None:
        early, late = node.group([ScriptedTask(node, 'early').birth()]), ScriptedTask(node, 'late')
        await node.commit(late.birth())
        with pytest.raises(NodeFencedError):
            await journal.commit(early)
        assert await journal.read_task('early', ALICE) is None
        await check(journal, late)

    async def test_numbers_may_be_left_out(self, journal: Journal, node: ScriptedNode) -> None:
        node.number = 41
        task = await born(node, 'task')
        await check(journal, task)

    async def test_registering_again_changes_nothing(self, journal: Journal, node: ScriptedNode) -> None:
        early = node.group([ScriptedTask(node, 'early').birth()])
        await born(node, 'task')
        await node.register()
        with pytest.raises(NodeFencedError):
            await journal.commit(early)
        await born(node, 'another')

    async def test_an_empty_group_is_a_sign_of_life(self, node: ScriptedNode) -> None:
        receipt = await node.commit()
        assert (receipt.appended, receipt.written) == ([], [])
