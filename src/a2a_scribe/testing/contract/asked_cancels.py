"""Cancels, and wishes for other attempts, that wait for the node that owns the task."""

from a2a_scribe.core.records import CANCEL, RERUN
from a2a_scribe.journal.port import Journal, WaitingAsk
from a2a_scribe.journal.results import CancelDue, Claimed, Missing, NextTurn, Queued, Refused, Released, Stale
from a2a_scribe.protocol.states import CANCELED, COMPLETED
from a2a_scribe.testing.contract.adapter import AdapterContract
from a2a_scribe.testing.contract.checks import check
from a2a_scribe.testing.contract.scenes import BOB, born, bury, write
from a2a_scribe.testing.journal_driver import EPOCH, ScriptedNode, ScriptedTask, cancel_body, rerun_body

OVER = -1_000_000
"""A patience that has come to its end already."""


async def waiting(journal: Journal, node: ScriptedNode, now: int = EPOCH) -> list[WaitingAsk]:
    return await journal.waiting_asks(node.id, now)


class AskedCancelsContract(AdapterContract):
    """A cancel waits for the owner of a task, goes before messages, and is gone with the end of the task."""

    async def test_a_cancel_waits_for_the_owner(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task, theirs = await born(node, 'task'), await born(other, 'theirs')
        assert await write(other, task.ask_cancel('one')) == Queued()
        assert await write(other, task.ask_cancel('two')) == Queued()
        assert await write(other, theirs.accept('a message')) == Queued()
        expected = [WaitingAsk(CANCEL, 'task', cancel_body(name)) for name in ('one', 'two')]
        assert await waiting(journal, node) == expected
        assert await waiting(journal, other) == []
        await check(journal, task)

    async def test_the_owner_is_named(self, node: ScriptedNode, other: ScriptedNode) -> None:
        task = await born(node, 'task')
        result = await write(other, task.ask_cancel('cancel'))
        assert isinstance(result, Queued)
        assert result.owner == node.id

    async def test_a_cancel_finds_nobody_to_wait_for(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        parked = await born(node, 'parked', parked=True)
        ended = await born(node, 'ended', COMPLETED, parked=True)
        running = await born(node, 'running')
        assert await write(other, parked.ask_cancel('1')) == Stale()
        assert await write(other, ended.ask_cancel('2')) == Refused()
        assert await write(other, running.ask_cancel('3', BOB)) == Missing()
        assert await write(other, ScriptedTask(other, 'unknown').ask_cancel('4')) == Missing()
        assert await waiting(journal, node) == []

    async def test_a_cancel_comes_after_the_end_of_a_running_turns_task(
        self, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        await node.commit(task.append(task.status(COMPLETED)))
        assert await write(other, task.ask_cancel('cancel')) == Refused()

    async def test_the_end_of_a_turn_finds_the_cancel_before_messages(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        await other.commit(writes=[task.accept('turn 2'), task.ask_cancel('cancel')])
        result = await node.append(task.end(task.chunk('last')))
        assert result == CancelDue(cancel_body('cancel'))
        task.settle(result)
        assert (task.row.node, task.row.open_turn) == (node.id, None)
        await check(journal, task)
        ended = await node.append(task.append(task.status(CANCELED), ends_turn=True, snapshot=True))
        assert ended == Released()
        task.settle(ended)
        await check(journal, task)
        assert await waiting(journal, node) == []

    async def test_a_cancel_of_the_same_group_is_seen_by_the_turns_end(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        receipt = await node.commit(task.end(), writes=[task.ask_cancel('cancel')])
        assert receipt.appended == [CancelDue(cancel_body('cancel'))]
        task.settle(receipt.appended[0])
        await check(journal, task)

    async def test_messages_still_wait_while_a_cancel_is_carried_out(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        await other.commit(writes=[task.ask_cancel('cancel')])
        task.settle(await node.append(task.end()))
        assert await write(other, task.accept('turn 2')) == Queued()
        assert await write(other, task.claim()) == Stale()
        await check(journal, task)

    async def test_the_end_of_the_task_takes_cancels_along(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        await other.commit(writes=[task.accept('turn 2'), task.ask_cancel('cancel')])
        result = await node.append(task.end(task.status(COMPLETED), snapshot=True))
        assert result == Released()
        task.settle(result)
        await check(journal, task)
        assert await waiting(journal, node) == []

    async def test_a_cancel_whose_time_has_passed_is_ignored_and_removed(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task, parked = await born(node, 'task'), await born(node, 'parked')
        for each in (task, parked):
            assert await write(other, each.ask_cancel(f'cancel of {each.id}', patience=OVER)) == Queued()
        assert await waiting(journal, node) == []
        await other.commit(writes=[task.accept('turn 2', limit=1)])
        result = await node.append(task.end())
        assert isinstance(result, NextTurn)
        task.settle(result)
        released = await node.append(parked.end())
        assert released == Released()
        parked.settle(released)
        await check(journal, parked)
        assert await waiting(journal, node, 0) == []

    async def test_cancels_do_not_take_the_places_of_messages(self, node: ScriptedNode, other: ScriptedNode) -> None:
        task = await born(node, 'task')
        await other.commit(writes=[task.ask_cancel('cancel')])
        assert await write(other, task.accept('turn 2', limit=1)) == Queued()

    async def test_cancels_wait_for_the_heir_of_a_dead_owner(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        await bury(journal, node)
        assert await write(other, task.ask_cancel('cancel')) == Queued()
        claimed = await write(other, task.take_over())
        assert isinstance(claimed, Claimed)
        task.settle_claim(claimed, other)
        assert await waiting(journal, other) == [WaitingAsk(CANCEL, 'task', cancel_body('cancel'))]
        assert await waiting(journal, node) == []
        assert isinstance(await other.append(task.end()), CancelDue)

    async def test_a_turn_does_not_run_again_while_a_cancel_waits(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        await other.commit(writes=[task.ask_cancel('cancel')])
        await bury(journal, node)
        claimed = await write(other, task.take_over(again=True))
        assert isinstance(claimed, Claimed)
        assert (claimed.row.seq, claimed.row.attempt) == (task.row.seq, task.row.attempt)
        task.settle_claim(claimed, other)
        await check(journal, task)

    async def test_a_wish_for_another_attempt_waits_for_the_owner_and_is_no_message(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task, parked = await born(node, 'task'), await born(node, 'parked', parked=True)
        assert await write(other, task.ask_rerun('one')) == Queued()
        assert await write(other, task.ask_rerun('expired', patience=OVER)) == Queued()
        assert await write(other, parked.ask_rerun('two')) == Stale()
        assert await write(other, task.ask_rerun('three', BOB)) == Missing()
        assert await waiting(journal, node) == [WaitingAsk(RERUN, 'task', rerun_body('one'))]
        assert await waiting(journal, other) == []
        assert await write(other, task.accept('turn 2', limit=1)) == Queued()
        result = await node.append(task.end())
        assert isinstance(result, NextTurn)
        task.settle(result)
        assert await waiting(journal, node) == [], 'the turn that it meant has ended'
        await check(journal, task)

    async def test_the_end_of_the_task_takes_wishes_for_other_attempts_along(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        await other.commit(writes=[task.ask_rerun('one')])
        await node.commit(task.append(task.status(COMPLETED)))
        assert await waiting(journal, node) == []

    async def test_a_turn_runs_again_where_only_an_expired_cancel_waits(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        await other.commit(writes=[task.ask_cancel('cancel', patience=OVER)])
        await bury(journal, node)
        take = task.take_over(again=True)
        claimed = await write(other, take)
        assert isinstance(claimed, Claimed)
        assert claimed.row.attempt == 2
        task.settle_claim(claimed, other, take.start)
        await check(journal, task)
