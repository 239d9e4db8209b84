"""A message that is executed again because an operator has asked for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from a2a_scribe import Rerun, Settings, rerun_of
from a2a_scribe.core.records import CANCEL, RERUN, RerunAsked, encode_rerun
from a2a_scribe.core.statuses import RECOVERY
from a2a_scribe.journal.port import NodeRow
from a2a_scribe.journal.results import Queued
from a2a_scribe.journal.tasks import OPERATOR
from a2a_scribe.journal.writes import Ask
from a2a_scribe.protocol.states import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, WORKING
from a2a_scribe.protocol.types import TurnId
from a2a_scribe.testing.agents import Script, ScriptedAgent, artifact, emit, status, task, wait
from a2a_scribe.testing.journal_driver import EPOCH, ScriptedNode, cancel_body
from tests.component.kit import Site, running, settle, state_of, until
from tests.component.test_takeovers import LONG, die, live, recovery_of, stuck_agent, two_nodes

pytestmark = pytest.mark.anyio

STUCK: Script = [emit(task(WORKING), artifact('one')), wait('gate'), emit(artifact('too late'))]
AGAIN: Script = [emit(artifact('two', append=True), status(COMPLETED))]
PATIENCE = EPOCH


@asynccontextmanager
async def site_and_operator(
    agent: ScriptedAgent, settings: Settings = LONG
) -> AsyncIterator[tuple[Site, ScriptedNode]]:
    """A process that works on tasks, and an operator's command, which is a node of the same agent."""
    async with running(agent, settings=settings, checked=False) as site:
        await site.engine.start()
        operator = ScriptedNode(site.journal, 'operator')
        await site.journal.register(NodeRow(operator.id, site.caller().scope.agent, 'host', EPOCH))
        yield site, operator


async def wish_for(site: Site, *, attempt: int = 1, turn: str = '') -> Ask:
    stored = await site.journal.read_task(site.task_id, OPERATOR)
    assert stored is not None
    assert stored.row.open_turn is not None
    body = encode_rerun(RerunAsked(TurnId(turn or stored.row.open_turn), attempt))
    return Ask(RERUN, site.task_id, OPERATOR, f'ask {attempt} {turn}', body, PATIENCE)


async def ask(site: Site, operator: ScriptedNode, *, attempt: int = 1, turn: str = '') -> None:
    """Asks as the command does, and gives the process the time to look."""
    wish = await wish_for(site, attempt=attempt, turn=turn)
    assert (await operator.commit(writes=[wish])).written == [Queued()]
    await live(site, 5)


async def test_the_message_is_executed_again_and_its_sender_gets_that_answer() -> None:
    agent = ScriptedAgent(STUCK, AGAIN)
    async with site_and_operator(agent) as (site, operator):
        blocking = site.begin('do it')
        await agent.reached('gate')
        await settle()
        stream = site.subscribe(site.task_id)
        await until(lambda: stream.events)
        await ask(site, operator)
        answer = await blocking
        assert answer.status.state == COMPLETED
        assert [part.text for part in answer.artifacts[0].parts] == ['one', 'two']
        assert recovery_of(answer) == {'reason': 'operator', 'attempt': 1}
        events = await stream.end()
        assert state_of(events[-1]) == COMPLETED
        assert [recovery_of(each)['reason'] for each in events if RECOVERY in each.metadata] == ['operator']
        first, second = agent.contexts
        assert (rerun_of(first), second.get_user_input()) == (None, 'do it')
        rerun = rerun_of(second)
        assert rerun is not None
        assert rerun == Rerun(2, rerun.last_seq, 'operator')
        assert (await site.kinds(site.task_id)).count('turn_started') == 2
        assert agent.finished == 2, 'the first attempt was interrupted'
        await site.left_memory()


async def test_an_agent_that_ignores_its_interruption_records_nothing_more() -> None:
    async def swallow(run: object) -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    released = asyncio.Event()
    agent = ScriptedAgent([emit(task(WORKING)), swallow, emit(artifact('too late'))], AGAIN)
    settings = replace(LONG, cancel_grace=1.0)
    async with site_and_operator(agent, settings) as (site, operator):
        blocking = site.begin()
        await until(lambda: site.engine.live_tasks == 1 and agent.contexts)
        await settle()
        await ask(site, operator)
        await live(site, 2)
        answer = await blocking
        assert answer.status.state == COMPLETED
        before = await site.records(site.task_id)
        released.set()
        await until(lambda: agent.finished == 2)
        assert await site.records(site.task_id) == before


@pytest.mark.parametrize(('attempt', 'turn'), [(2, ''), (1, 'another turn')])
async def test_a_wish_for_another_attempt_than_the_one_at_work_changes_nothing(attempt: int, turn: str) -> None:
    agent = ScriptedAgent(STUCK, AGAIN)
    async with site_and_operator(agent) as (site, operator):
        blocking = site.begin()
        await agent.reached('gate')
        await settle()
        await ask(site, operator, attempt=attempt, turn=turn)
        assert len(agent.contexts) == 1
        agent.open('gate')
        assert (await blocking).status.state == FAILED


async def test_one_wish_makes_one_attempt() -> None:
    agent = ScriptedAgent(STUCK, [wait('second'), *AGAIN], AGAIN)
    async with site_and_operator(agent) as (site, operator):
        blocking = site.begin()
        await agent.reached('gate')
        await settle()
        await ask(site, operator)
        await agent.reached('second')
        await live(site, 5)
        assert len(agent.contexts) == 2
        agent.open('second')
        assert (await blocking).status.state == COMPLETED


async def test_an_attempt_that_was_asked_for_can_be_cancelled() -> None:
    agent = ScriptedAgent(STUCK, [wait('second')])
    async with site_and_operator(agent) as (site, operator):
        blocking = site.begin()
        await agent.reached('gate')
        await settle()
        await ask(site, operator)
        await agent.reached('second')
        cancelling = site.begin_cancel(site.task_id)
        assert (await cancelling).status.state == CANCELED
        assert (await blocking).status.state == CANCELED


async def test_a_cancel_that_waits_too_goes_before_the_new_attempt() -> None:
    agent = ScriptedAgent(STUCK, AGAIN, on_cancel=[emit(artifact('last words'))])
    async with site_and_operator(agent) as (site, operator):
        blocking = site.begin()
        await agent.reached('gate')
        await settle()
        cancel = Ask(CANCEL, site.task_id, OPERATOR, 'cancel', cancel_body('cancel'), PATIENCE)
        await operator.commit(writes=[await wish_for(site), cancel])
        await live(site, 5)
        canceled = await blocking
        assert canceled.status.state == CANCELED
        assert [part.text for part in canceled.artifacts[-1].parts] == ['last words']
        assert len(agent.contexts) == 1


async def test_messages_that_waited_run_after_the_new_attempt() -> None:
    agent = ScriptedAgent(STUCK, [wait('second'), emit(status(INPUT_REQUIRED))], [emit(status(COMPLETED))])
    async with site_and_operator(agent) as (site, operator):
        site.begin('first')
        await agent.reached('gate')
        await settle()
        await ask(site, operator)
        await agent.reached('second')
        following = site.begin('next', task_id=site.task_id)
        await settle()
        agent.open('second')
        assert (await following).status.state == COMPLETED
        assert [context.get_user_input() for context in agent.contexts] == ['first', 'first', 'next']


async def test_the_heir_of_a_dead_process_does_what_was_asked_instead_of_its_policy() -> None:
    again = ScriptedAgent(AGAIN)
    async with two_nodes(stuck_agent(), again) as (dead, heir):
        begun = await dead.begin_task('do it')
        operator = await ScriptedNode(heir.journal, 'operator').register()
        dead.journal.hold()
        stored = await heir.journal.read_task(begun.id, OPERATOR)
        assert stored is not None
        assert stored.row.open_turn is not None
        body = encode_rerun(RerunAsked(stored.row.open_turn, stored.row.attempt))
        await operator.commit(writes=[Ask(RERUN, begun.id, OPERATOR, 'ask', body, PATIENCE)])
        await die(dead, heir)
        ended = await heir.get(begun.id)
        assert ended.status.state == COMPLETED
        assert recovery_of(ended) == {'reason': 'crash', 'attempt': 1}
