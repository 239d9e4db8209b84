"""Messages to tasks."""

import pytest

from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import Claimed, Full, Missing, Queued, Refused, Stale
from a2a_scribe.journal.tasks import Caller
from a2a_scribe.protocol.states import COMPLETED
from a2a_scribe.testing.contract.adapter import AdapterContract
from a2a_scribe.testing.contract.checks import all_records, check
from a2a_scribe.testing.contract.scenes import BOB, OTHER_AGENT, OTHER_TENANT, born, started_by, write
from a2a_scribe.testing.journal_driver import ScriptedNode, ScriptedTask


class MessagesContract(AdapterContract):
    """A message starts a turn, waits for one, or is turned away."""

    async def test_a_message_claims_a_parked_task(
        self, journal: Journal, other: ScriptedNode, node: ScriptedNode
    ) -> None:
        task = await born(node, 'task', parked=True)
        accept = task.accept('turn 2')
        receipt = await other.commit(writes=[accept])
        [claimed] = receipt.written
        assert isinstance(claimed, Claimed)
        row = claimed.row
        assert (row.node, row.epoch, row.seq) == (other.id, task.row.epoch + 1, task.row.seq + 1)
        assert (row.open_turn, row.attempt) == ('turn 2', 1)
        task.settle_claim(claimed, other, accept.body)
        await check(journal, task)

    async def test_a_message_waits_while_a_turn_is_open(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        assert await write(node, task.accept('turn 2')) == Queued()
        assert await write(other, task.accept('turn 3', expected=1)) == Queued()
        await check(journal, task)

    async def test_the_owner_sees_which_tasks_are_waited_for(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task, theirs, canceled = await born(node, 'task'), await born(other, 'theirs'), await born(node, 'canceled')
        assert await journal.waited_for(node.id) == []
        await other.commit(writes=[task.accept('turn 2'), task.accept('turn 3'), theirs.accept('turn 4')])
        await other.commit(writes=[canceled.ask_cancel('cancel')])
        assert await journal.waited_for(node.id) == ['task']
        assert await journal.waited_for(other.id) == ['theirs']
        for last in ('turn 2', 'turn 3'):
            result = await node.append(task.end(task.chunk(f'before {last}')))
            task.settle(result)
        assert await journal.waited_for(node.id) == []

    async def test_a_message_is_turned_away_when_too_many_wait(self, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        answers = [await write(node, task.accept(f'turn {n}', limit=2)) for n in range(2, 6)]
        assert answers == [Queued(), Queued(), Full(), Full()]

    async def test_a_message_for_an_ended_task_is_refused(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task', COMPLETED, parked=True)
        assert await write(node, task.accept('turn 2')) == Refused()
        await check(journal, task)

    async def test_a_message_from_one_who_has_read_an_older_task_is_stale(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        task = await born(node, 'task', parked=True)
        assert await write(node, task.accept('turn 2', expected=task.row.seq + 1)) == Stale()
        assert await write(node, task.accept('turn 2', expected=0)) == Stale()
        await check(journal, task)

    async def test_a_message_for_no_task_is_missing(self, journal: Journal, node: ScriptedNode) -> None:
        assert await write(node, ScriptedTask(node, 'task').accept('turn')) == Missing()
        assert await all_records(journal, 'task') == []

    @pytest.mark.parametrize('stranger', [BOB, OTHER_TENANT, OTHER_AGENT])
    async def test_a_message_for_a_strangers_running_task_is_missing(
        self, node: ScriptedNode, stranger: Caller
    ) -> None:
        task = await born(node, 'task')
        assert await write(node, task.accept('turn 2', stranger)) == Missing()
        assert await write(node, task.claim(stranger)) == Missing()

    async def test_of_several_messages_in_one_group_the_first_starts(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        task, free = await born(node, 'task', parked=True), await born(node, 'free', parked=True)
        first = task.accept('turn 2', limit=1)
        writes = [first, task.accept('turn 3', limit=1), task.accept('turn 4', limit=1), free.accept('another')]
        written = (await node.commit(writes=writes)).written
        assert [type(result) for result in written] == [Claimed, Queued, Full, Claimed]
        assert isinstance(written[0], Claimed)
        task.settle_claim(written[0], node, first.body)
        await check(journal, task)
        assert await started_by(node, task.end()) == 'turn 3'
