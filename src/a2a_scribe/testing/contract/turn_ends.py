"""The end of a turn."""

from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import Continues, NextTurn, Queued, Refused, Released
from a2a_scribe.protocol.states import COMPLETED, FAILED, INPUT_REQUIRED
from a2a_scribe.testing.contract.adapter import AdapterContract
from a2a_scribe.testing.contract.checks import check
from a2a_scribe.testing.contract.scenes import born, settle_all, write
from a2a_scribe.testing.journal_driver import EPOCH, ScriptedNode


class TurnEndsContract(AdapterContract):
    """A turn that ends starts the next one or releases its task."""

    async def test_a_turn_that_ends_with_nobody_waiting_releases(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        result = await node.append(task.end(task.status(INPUT_REQUIRED)))
        assert result == Released()
        task.settle(result)
        await check(journal, task)

    async def test_a_turn_that_ends_hands_over_to_the_next_message(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        accept = task.accept('turn 2')
        await other.commit(writes=[accept])
        result = await node.append(task.end(task.status(INPUT_REQUIRED), snapshot=True))
        assert isinstance(result, NextTurn)
        assert (result.started.seq, result.started.body) == (task.row.seq + 1, accept.body)
        assert result.started.recorded_at == EPOCH + node.number
        task.settle(result)
        await check(journal, task)
        await settle_all(node, task)
        await check(journal, task)

    async def test_messages_start_in_the_order_of_their_acceptance(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        await node.commit(writes=[task.accept('turn 4'), task.accept('turn 2')])
        await other.commit(writes=[task.accept('turn 3')])
        await node.commit(writes=[task.accept('turn 1')])
        started = []
        while isinstance(result := await node.append(task.end()), NextTurn):
            task.settle(result)
            started.append(task.row.open_turn)
        task.settle(result)
        assert started == ['turn 4', 'turn 2', 'turn 3', 'turn 1']
        await check(journal, task)

    async def test_turns_of_several_tasks_end_in_one_group(self, journal: Journal, node: ScriptedNode) -> None:
        tasks = [await born(node, f'task {number}') for number in range(4)]
        await node.commit(writes=[task.accept(f'next of {task.id}') for task in tasks[::2]])
        appended = (await node.commit(*(task.end() for task in tasks))).appended
        assert [type(result) for result in appended] == [NextTurn, Released, NextTurn, Released]
        for task, result in zip(tasks, appended, strict=True):
            task.settle(result)
            await check(journal, task)

    async def test_a_message_of_the_same_group_is_seen_by_the_turns_end(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        receipt = await node.commit(task.end(), writes=[task.accept('turn 2')])
        assert receipt.written == [Queued()]
        task.settle(receipt.appended[0])
        assert task.row.open_turn == 'turn 2'
        await check(journal, task)

    async def test_the_end_of_a_task_sends_all_away_who_wait(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        await node.commit(writes=[task.accept('turn 2'), task.accept('turn 3')])
        result = await node.append(task.end(task.status(COMPLETED), snapshot=True))
        assert result == Released()
        task.settle(result)
        await check(journal, task)
        assert await write(node, task.accept('turn 4')) == Refused()

    async def test_a_turn_may_end_later_than_its_task(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        await node.commit(writes=[task.accept('turn 2')])
        assert await node.append(task.append(task.status(FAILED))) == Continues()
        assert await write(node, task.accept('turn 3')) == Refused()
        await settle_all(node, task)
        assert task.row.node is None
        await check(journal, task)

    async def test_a_message_of_the_same_group_as_the_tasks_end_never_starts(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        accept = task.accept('turn 2')
        receipt = await node.commit(task.end(task.status(COMPLETED)), writes=[accept])
        assert receipt.written[0] in (Queued(), Refused())
        assert receipt.appended == [Released()]
        task.settle(Released())
        await check(journal, task)
