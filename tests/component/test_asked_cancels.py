"""Cancels of tasks that another process works on."""

import asyncio
from typing import Any

import pytest
from a2a.types.a2a_pb2 import CancelTaskRequest
from a2a.utils.errors import InternalError, TaskNotCancelableError, TaskNotFoundError

from a2a_scribe import Settings
from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.port import WaitingAsk
from a2a_scribe.protocol.states import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, WORKING
from a2a_scribe.protocol.types import NodeId
from a2a_scribe.testing.agents import Run, Script, ScriptedAgent, artifact, do, emit, status, task, wait
from a2a_scribe.testing.clock import FakeClock
from a2a_scribe.testing.journals import TroubledJournal
from tests.component.kit import Site, new_context, running, settle, state_of, until
from tests.component.two_sites import pass_time, two_sites

pytestmark = pytest.mark.anyio

WORK: Script = [emit(task(WORKING)), wait('gate'), emit(status(COMPLETED))]


async def outcome(site: Site, cancelling: 'asyncio.Task[Any]', seconds: int = 5) -> Any:
    await pass_time(site, seconds, cancelling)
    assert cancelling.done()
    return cancelling.result()


async def test_the_process_that_works_on_a_task_cancels_it_for_another() -> None:
    agent = ScriptedAgent(WORK, on_cancel=[emit(artifact('last words'))])
    async with two_sites(agent) as (owner, asker):
        blocking = owner.begin()
        await agent.reached('gate')
        await settle()
        stream = asker.subscribe(owner.task_id)
        await until(lambda: stream.events)
        canceled = await outcome(asker, asker.begin_cancel(owner.task_id))
        assert canceled.status.state == CANCELED
        assert canceled == await owner.get(owner.task_id)
        assert [part.text for part in canceled.artifacts[0].parts] == ['last words']
        assert (await blocking).status.state == CANCELED
        await pass_time(asker, 2)
        assert state_of((await stream.end())[-1]) == CANCELED
        assert (agent.cancels, agent.finished) == (1, 1)
        await owner.left_memory()


async def test_the_agent_hears_who_cancels_and_why() -> None:
    heard: list[Any] = []

    async def hear(run: Run) -> None:
        heard.append(run.context)

    agent = ScriptedAgent(WORK, on_cancel=[do(hear)])
    async with two_sites(agent) as (owner, asker):
        begun = await owner.begin_task()
        request = CancelTaskRequest(id=begun.id)
        request.metadata.update({'reason': 'too slow'})
        cancelling = asyncio.create_task(asker.handler.on_cancel_task(request, new_context()))
        assert (await outcome(asker, cancelling)).status.state == CANCELED
        (context,) = heard
        assert context.metadata == {'reason': 'too slow'}
        assert context.call_context.user.user_name == 'ada'
        assert context.call_context.user.is_authenticated
        assert (context.task_id, context.current_task.status.state) == (begun.id, WORKING)


async def test_a_strangers_cancel_finds_nothing() -> None:
    async with two_sites(ScriptedAgent(WORK)) as (owner, asker):
        begun = await owner.begin_task()
        with pytest.raises(TaskNotFoundError):
            await asker.cancel(begun.id, user='eve')
        assert not asker.journal.attempts


async def test_cancels_from_everywhere_join() -> None:
    agent = ScriptedAgent(WORK, on_cancel=[wait('flush')])
    async with two_sites(agent) as (owner, asker):
        begun = await owner.begin_task()
        cancelling = [asker.begin_cancel(begun.id), asker.begin_cancel(begun.id)]
        await pass_time(asker, 4)
        cancelling.append(owner.begin_cancel(begun.id))
        await agent.reached('flush')
        await settle()
        agent.open('flush')
        for each in cancelling:
            assert (await outcome(asker, each)).status.state == CANCELED
        assert agent.cancels == 1


async def test_a_task_that_ends_otherwise_first_is_not_cancelable() -> None:
    agent = ScriptedAgent(WORK)
    async with two_sites(agent) as (owner, asker):
        begun = await owner.begin_task()
        cancelling = asker.begin_cancel(begun.id)
        await settle()
        agent.open('gate')
        with pytest.raises(TaskNotCancelableError, match='COMPLETED'):
            await outcome(asker, cancelling)
        assert agent.cancels == 0
        assert (await owner.get(begun.id)).status.state == COMPLETED


@pytest.mark.parametrize('follow_up', [False, True])
async def test_a_cancel_goes_before_the_next_message_and_before_the_release(follow_up: bool) -> None:
    script: Script = [emit(task(WORKING)), wait('gate'), emit(status(INPUT_REQUIRED))]
    agent = ScriptedAgent(script, WORK, on_cancel=[emit(artifact('last words'))])
    async with two_sites(agent) as (owner, asker):
        begun = await owner.begin_task()
        waiting = asker.begin('more', task_id=begun.id) if follow_up else None
        await settle()
        cancelling = asker.begin_cancel(begun.id)
        await settle()
        agent.open('gate')
        await owner.left_memory()
        assert (await outcome(asker, cancelling)).status.state == CANCELED
        kinds = await owner.kinds(begun.id)
        assert kinds[-3:] == ['turn_ended', 'artifact', 'status'], 'the turn ended, and then the task'
        assert kinds.count('turn_started') == 1
        assert agent.cancels == 1
        if waiting is not None:
            await pass_time(asker, 2)
            assert waiting.exception() is not None


async def test_an_agent_that_reports_another_end_is_heard() -> None:
    agent = ScriptedAgent(WORK, on_cancel=[emit(status(FAILED, 'too late'))])
    async with two_sites(agent) as (owner, asker):
        begun = await owner.begin_task()
        with pytest.raises(TaskNotCancelableError, match='FAILED'):
            await outcome(asker, asker.begin_cancel(begun.id))


async def test_who_asks_in_vain_hears_that_it_may_try_again_and_the_cancel_is_dropped() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(status(INPUT_REQUIRED))])
    settings = Settings(cancel_deadline=3.0, cancel_grace=1.0, journal_patience=3600.0)
    async with two_sites(agent, settings=settings) as (owner, asker):
        begun = await owner.begin_task()
        await pass_time(owner, 3)
        owner.journal.reads_fail = True
        cancelling = asker.begin_cancel(begun.id)
        await pass_time(asker, 8, cancelling)
        assert not cancelling.done()
        with pytest.raises(InternalError) as caught:
            await outcome(asker, cancelling, 2)
        assert caught.value.data == {'retryable': 'true'}
        owner.journal.heal()
        await pass_time(owner, 5)
        agent.open('gate')
        await owner.left_memory()
        assert (agent.cancels, (await owner.get(begun.id)).status.state) == (0, INPUT_REQUIRED)


async def test_a_caller_who_goes_away_stops_no_cancel() -> None:
    agent = ScriptedAgent(WORK)
    async with two_sites(agent) as (owner, asker):
        begun = await owner.begin_task()
        cancelling = asker.begin_cancel(begun.id)
        await settle()
        cancelling.cancel()
        await pass_time(asker, 4)
        assert (await owner.get(begun.id)).status.state == CANCELED


async def test_a_lost_answer_of_the_asking_is_no_matter() -> None:
    agent = ScriptedAgent(WORK)
    async with two_sites(agent) as (owner, asker):
        begun = await owner.begin_task()
        asker.journal.lose_answers()
        assert (await outcome(asker, asker.begin_cancel(begun.id))).status.state == CANCELED
        assert agent.cancels == 1


@pytest.mark.parametrize('policy', ['fail', 'rerun'])
async def test_a_cancel_outlives_the_process_that_it_was_meant_for(policy: Any) -> None:
    settings = Settings(after_crash=policy, journal_patience=3600.0)
    heirs = ScriptedAgent(WORK)
    async with two_sites(ScriptedAgent(WORK), heirs, settings) as (owner, asker):
        begun = await owner.begin_task()
        await pass_time(asker, 4)
        owner.journal.hold()
        owner.journal.reads_fail = True
        cancelling = asker.begin_cancel(begun.id)
        await pass_time(asker, 12, cancelling)
        if policy == 'rerun':
            assert (await outcome(asker, cancelling)).status.state == CANCELED
            assert heirs.cancels == 1
        else:
            with pytest.raises(TaskNotCancelableError, match='FAILED'):
                await outcome(asker, cancelling)
        assert not heirs.contexts
        assert (await asker.kinds(begun.id)).count('turn_started') == 1


class WatchedJournal(MemoryJournal):
    """Counts how often somebody looks for cancels."""

    looks = 0

    async def waiting_asks(self, node_id: NodeId, now: int) -> list[WaitingAsk]:
        self.looks += 1
        return await super().waiting_asks(node_id, now)


async def test_a_process_that_is_alone_or_idle_does_not_look() -> None:
    memory, clock = WatchedJournal(), FakeClock()
    async with running(ScriptedAgent(WORK), journal=TroubledJournal(memory), clock=clock, checked=False) as site:
        begun = await site.begin_task()
        await pass_time(site, 5)
        assert memory.looks == 0
        other = ScriptedAgent([emit(task(), status(INPUT_REQUIRED))])
        async with running(other, journal=TroubledJournal(memory), clock=clock, checked=False) as idle:
            await idle.send()
            await pass_time(site, 5)
            assert 2 <= memory.looks <= 5
        await site.cancel(begun.id)


async def test_a_closing_server_sends_those_away_who_wait_for_anothers_cancel() -> None:
    agent = ScriptedAgent(WORK, on_cancel=[wait('flush')])
    async with two_sites(agent) as (owner, asker):
        begun = await owner.begin_task()
        cancelling = asker.begin_cancel(begun.id)
        await pass_time(asker, 4)
        await asker.close()
        with pytest.raises(InternalError) as caught:
            await cancelling
        assert caught.value.data == {'retryable': 'true'}
        agent.open('flush')
        await owner.left_memory()
        assert (await owner.get(begun.id)).status.state == CANCELED
