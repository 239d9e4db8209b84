"""Deadlines: a turn that takes too long, or emits nothing for too long, ends as FAILED, whatever its executor does."""

import asyncio
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.utils.errors import InternalError, TaskNotCancelableError, UnsupportedOperationError

from a2a_scribe import Deadlines, Settings, SettingsError
from a2a_scribe.core.records import TURN_ENDED, TurnEnded, decode
from a2a_scribe.errors import TurnEndedError
from a2a_scribe.protocol.states import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, SUBMITTED, WORKING
from a2a_scribe.protocol.types import Task
from a2a_scribe.signals import TurnPoint
from a2a_scribe.testing.agents import (
    Run,
    Script,
    ScriptedAgent,
    artifact,
    attempt,
    do,
    emit,
    fail,
    message,
    status,
    task,
    wait,
)
from tests.component.kit import Site, history_of, running, settle, state_of, text_of, until

pytestmark = pytest.mark.anyio

TOO_LONG, TOO_SILENT = 'The agent did not finish within 30 seconds.', 'The agent was silent for 5 seconds.'
WHOLE, SILENCE, BOTH = (
    Settings(turn_timeout=30.0),
    Settings(inactivity_timeout=5.0),
    Settings(turn_timeout=30.0, inactivity_timeout=5.0),
)
ENDLESS: Script = [emit(task(WORKING)), wait('never')]


async def ends_of(site: Site, task_id: str) -> list[tuple[str, str]]:
    """Returns how the turns of a task ended: outcome and error."""
    ends = [decode(record) for record in await site.records(task_id) if record.kind == TURN_ENDED]
    return [(end.outcome, end.error) for end in ends if isinstance(end, TurnEnded)]


async def check_failed(site: Site, task_id: str, text: str, error: str) -> Task:
    """Asserts that a task failed because of a limit, and that operators are told where its agent was."""
    failed = await site.get(task_id)
    assert failed.status.state == FAILED
    assert text_of(failed.status.message) == text
    await site.left_memory()
    assert (await ends_of(site, task_id))[-1] == ('failed', error)
    assert error in await site.notes(task_id)
    return failed


@pytest.mark.parametrize(
    ('settings', 'text', 'error', 'seconds'),
    [
        (WHOLE, TOO_LONG, 'TurnTimeoutError', 30.0),
        (SILENCE, TOO_SILENT, 'InactivityTimeoutError', 5.0),
        (BOTH, TOO_SILENT, 'InactivityTimeoutError', 5.0),
    ],
)
async def test_a_turn_without_an_end_fails_at_its_limit(
    settings: Settings, text: str, error: str, seconds: float
) -> None:
    agent = ScriptedAgent(ENDLESS)
    async with running(agent, settings=settings, failure_answer='task') as site:
        blocking, stream = site.begin(), site.stream()
        await until(lambda: len(site.task_ids) == 2 and stream.events)
        ended: list[TurnPoint] = []
        site.engine.signals.turn_ended.connect(ended.append)
        await site.advance(seconds - 0.01)
        assert not blocking.done()
        await site.advance(0.01)
        answer = await blocking
        assert [state_of(event) for event in await stream.end()] == [WORKING, FAILED]
        for task_id in site.task_ids:
            await check_failed(site, task_id, text, error)
            assert 'await gate.opened.wait()' in await site.notes(task_id)
        assert answer == await site.get(answer.id)
        assert [point.outcome for point in ended] == ['failed', 'failed']
        assert agent.finished == 2


async def test_a_caller_who_wants_failures_raised_is_told_which_limit_passed() -> None:
    async with running(ScriptedAgent(ENDLESS), settings=WHOLE) as site:
        blocking = site.begin()
        await site.advance(30.0)
        with pytest.raises(InternalError, match='did not finish within 30 seconds'):
            await blocking


async def test_without_limits_a_turn_takes_as_long_as_it_likes_and_no_timer_runs() -> None:
    agent = ScriptedAgent(ENDLESS)
    async with running(agent) as site:
        before = site.clock.timers
        begun = await site.begin_task()
        await site.advance(1_000.0)
        assert (await site.get(begun.id)).status.state == WORKING
        assert site.clock.timers <= before + 4, 'the heartbeat, the lookout, the mailbox and the webhooks'


async def test_events_put_the_silence_off_and_cost_no_timers() -> None:
    agent = ScriptedAgent(ENDLESS)
    async with running(agent, settings=SILENCE) as site:
        begun = await site.begin_task()
        await settle()
        (queue,) = agent.queues
        before = site.clock.timers
        for _ in range(4):
            await site.advance(3.0)
            for number in range(50):
                await queue.enqueue_event(artifact(f'{number}', append=True))
            await settle()
            assert site.clock.timers <= before
        assert (await site.get(begun.id)).status.state == WORKING
        await site.advance(4.99)
        assert (await site.get(begun.id)).status.state == WORKING
        await site.advance(0.01)
        await check_failed(site, begun.id, TOO_SILENT, 'InactivityTimeoutError')


async def test_events_do_not_put_off_the_end_of_the_whole_turn() -> None:
    agent = ScriptedAgent(ENDLESS)
    async with running(agent, settings=BOTH) as site:
        begun = await site.begin_task()
        for _ in range(9):
            await site.advance(3.0)
            await agent.queues[0].enqueue_event(artifact())
        await site.advance(3.0)
        failed = await check_failed(site, begun.id, TOO_LONG, 'TurnTimeoutError')
        assert failed.artifacts


async def test_refused_events_are_no_activity() -> None:
    agent = ScriptedAgent(ENDLESS)
    async with running(agent, settings=SILENCE) as site:
        begun = await site.begin_task()
        await site.advance(4.0)
        with pytest.raises(Exception, match='task'):
            await agent.queues[0].enqueue_event(status(WORKING, task_id='another'))
        await site.advance(1.0)
        await check_failed(site, begun.id, TOO_SILENT, 'InactivityTimeoutError')


async def test_an_agent_that_never_said_a_word_has_a_failed_task() -> None:
    agent = ScriptedAgent([wait('never')])
    async with running(agent, settings=SILENCE, failure_answer='task') as site:
        blocking = site.begin()
        await site.advance(5.0)
        answer = await blocking
        failed = await check_failed(site, answer.id, TOO_SILENT, 'InactivityTimeoutError')
        assert history_of(failed) == ['go']


# Chosen by request


def by_text(context: RequestContext) -> Deadlines | None:
    match context.get_user_input():
        case 'quick':
            return Deadlines(turn_timeout=1.0)
        case 'patient':
            return Deadlines()
        case 'broken':
            raise LookupError('no such plan')
        case _:
            return None


async def test_a_callable_chooses_the_limits_of_a_turn() -> None:
    agent = ScriptedAgent(ENDLESS)
    async with running(agent, settings=SILENCE, deadlines=by_text) as site:
        quick, usual, patient = [await site.begin_task(text) for text in ('quick', 'usual', 'patient')]
        await site.advance(1.0)
        await check_quick(site, quick.id)
        await site.advance(4.0)
        assert text_of((await site.get(usual.id)).status.message) == TOO_SILENT
        await site.advance(100.0)
        assert (await site.get(patient.id)).status.state == WORKING


async def check_quick(site: Site, task_id: str) -> None:
    failed = await site.get(task_id)
    assert text_of(failed.status.message) == 'The agent did not finish within 1 seconds.'


async def test_it_chooses_for_follow_ups_by_their_own_context() -> None:
    agent = ScriptedAgent(answers={'go': [emit(status(INPUT_REQUIRED))], 'quick': [wait('never')]})
    seen: list[RequestContext] = []

    def choose(context: RequestContext) -> Deadlines | None:
        seen.append(context)
        return by_text(context)

    async with running(agent, deadlines=choose, failure_answer='task') as site:
        parked = await site.send()
        answer = site.begin('quick', task_id=parked.id)
        await site.advance(1.0)
        assert (await answer).status.state == FAILED
        assert [context.call_context.user.user_name for context in seen if context.call_context] == ['ada', 'ada']
        assert seen[1].current_task is not None
        await check_quick(site, parked.id)


async def test_a_callable_that_fails_fails_the_turn_before_the_agent_is_called() -> None:
    agent = ScriptedAgent(ENDLESS)
    async with running(agent, deadlines=by_text, failure_answer='task') as site:
        failed = await site.send('broken')
        assert (failed.status.state, agent.contexts) == (FAILED, [])
        await site.left_memory()
        assert 'no such plan' in await site.notes(failed.id)


@pytest.mark.parametrize('given', [{'turn_timeout': 0}, {'inactivity_timeout': -1.0}, {'turn_timeout': '5'}])
def test_what_is_no_limit_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(given))):
        Deadlines(**given)
    with pytest.raises(SettingsError, match=next(iter(given))):
        Settings(**given)


# Agents that do not behave


async def test_an_agent_that_swallows_its_cancellation_is_left_behind_and_records_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate', stubborn=True), attempt(artifact(), status(COMPLETED))])
    async with running(agent, settings=WHOLE) as site:
        begun = await site.begin_task()
        await site.advance(30.0)
        await check_failed(site, begun.id, TOO_LONG, 'TurnTimeoutError')
        records = await site.records(begun.id)
        assert 'left behind' not in caplog.text
        await site.advance(site.engine.settings.cancel_grace)
        assert 'left behind' in caplog.text
        agent.open('gate')
        await until(lambda: agent.finished)
        assert [type(refusal) for refusal in agent.refusals] == [TurnEndedError, TurnEndedError]
        assert await site.records(begun.id) == records


async def test_an_agent_that_answers_its_cancellation_with_a_status_records_nothing() -> None:
    async def clean_up(run: Run) -> None:
        try:
            await wait('never')(run)
        except asyncio.CancelledError:
            await attempt(status(CANCELED))(run)
            raise

    agent = ScriptedAgent([emit(task(WORKING)), do(clean_up)])
    async with running(agent, settings=WHOLE) as site:
        begun = await site.begin_task()
        await site.advance(30.0)
        await check_failed(site, begun.id, TOO_LONG, 'TurnTimeoutError')
        assert [type(refusal) for refusal in agent.refusals] == [TurnEndedError]


async def test_an_agent_that_raises_after_its_limit_changes_nothing() -> None:
    async def raise_instead(run: Run) -> None:
        try:
            await wait('never')(run)
        except asyncio.CancelledError:
            await fail(RuntimeError('no time'))(run)

    agent = ScriptedAgent([emit(task(WORKING)), do(raise_instead)])
    async with running(agent, settings=WHOLE) as site:
        begun = await site.begin_task()
        await site.advance(30.0)
        await check_failed(site, begun.id, TOO_LONG, 'TurnTimeoutError')


async def test_what_an_agent_emits_after_it_has_blocked_the_loop_counts() -> None:
    """Nothing can stop an agent that does not return to the loop; what counts is how things are when it does."""
    agent = ScriptedAgent(
        [emit(task(WORKING)), wait('gate'), do(lambda _: site.clock.skip(6.0)), emit(artifact()), wait('never')]
    )
    async with running(agent, settings=SILENCE) as site:
        begun = await site.begin_task()
        agent.open('gate')
        await agent.reached('never')
        await site.advance(4.9)
        assert (await site.get(begun.id)).status.state == WORKING
        await site.advance(0.2)
        await check_failed(site, begun.id, TOO_SILENT, 'InactivityTimeoutError')


async def test_an_agent_that_has_blocked_the_loop_beyond_the_whole_limit_fails_when_it_returns() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), do(lambda _: site.clock.skip(31.0)), wait('never')])
    async with running(agent, settings=WHOLE) as site:
        begun = await site.begin_task()
        agent.open('gate')
        await agent.reached('never')
        await site.advance(0.0)
        await check_failed(site, begun.id, TOO_LONG, 'TurnTimeoutError')


# Other states of a turn


async def test_a_detached_turn_ends_by_its_silence() -> None:
    agent = ScriptedAgent([emit(task(WORKING))])
    async with running(agent, settings=SILENCE, unfinished='keep') as site:
        begun = await site.begin_task()
        await until(lambda: agent.finished)
        await site.advance(4.0)
        await agent.queues[0].enqueue_event(artifact('from the background'))
        await site.advance(4.0)
        assert (await site.get(begun.id)).status.state == WORKING
        await site.advance(1.0)
        await check_failed(site, begun.id, TOO_SILENT, 'InactivityTimeoutError')
        assert 'it had returned' in await site.notes(begun.id)
        with pytest.raises(TurnEndedError):
            await agent.queues[0].enqueue_event(status(COMPLETED))


async def test_a_detached_turn_that_the_next_message_has_ended_is_not_watched_any_more() -> None:
    agent = ScriptedAgent(answers={'go': [emit(task(WORKING))], 'next': [emit(status(COMPLETED))]})
    async with running(agent, settings=SILENCE, unfinished='keep') as site:
        begun = await site.begin_task()
        await until(lambda: agent.finished)
        assert (await site.send('next', task_id=begun.id)).status.state == COMPLETED
        await site.advance(10.0)
        assert (await site.get(begun.id)).status.state == COMPLETED


async def test_a_cancel_that_has_begun_wins() -> None:
    agent = ScriptedAgent(ENDLESS, on_cancel=[wait('cancelling')])
    async with running(agent, settings=BOTH) as site:
        begun = await site.begin_task()
        await site.advance(4.0)
        canceling = site.begin_cancel(begun.id)
        await agent.reached('cancelling')
        await site.advance(3.0)
        agent.open('cancelling')
        assert (await canceling).status.state == CANCELED
        await site.left_memory()
        assert await ends_of(site, begun.id) == [('canceled', '')]


async def test_a_cancel_after_the_limit_finds_the_task_failed() -> None:
    agent = ScriptedAgent(ENDLESS)
    async with running(agent, settings=WHOLE) as site:
        begun = await site.begin_task()
        await settle()
        site.journal.hold()
        site.clock.advance(30.0)
        canceling = site.begin_cancel(begun.id)
        await settle()
        site.journal.let_go()
        with pytest.raises(TaskNotCancelableError, match='FAILED'):
            await canceling
        assert agent.cancels == 0


async def test_messages_that_wait_for_the_turn_are_refused_with_its_end() -> None:
    agent = ScriptedAgent(ENDLESS)
    async with running(agent, settings=WHOLE) as site:
        begun = await site.begin_task()
        second = site.begin('second', task_id=begun.id)
        await site.advance(30.0)
        with pytest.raises(UnsupportedOperationError):
            await second
        assert agent.heard == ['go']


async def test_a_task_that_has_ended_stays_as_it_is_when_its_agent_hangs() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED)), wait('never')])
    async with running(agent, settings=WHOLE) as site:
        done = await site.send()
        await site.advance(30.0)
        await site.left_memory()
        assert (await site.get(done.id)) == done
        assert await ends_of(site, done.id) == [('failed', 'TurnTimeoutError')]
        assert 'TurnTimeoutError' in await site.notes(done.id)


async def test_a_reply_makes_no_task_when_its_agent_hangs() -> None:
    agent = ScriptedAgent([emit(message('hello')), wait('never')])
    async with running(agent, settings=WHOLE) as site:
        assert text_of(await site.send()) == 'hello'
        assert site.engine.live_tasks == 1
        await site.advance(30.0)
        await site.left_memory()
        assert (site.task_ids, agent.finished) == ([], 1)


async def test_a_reply_makes_no_task_when_the_server_closes() -> None:
    agent = ScriptedAgent([emit(message('hello')), wait('never')])
    site: Site
    async with running(agent) as site:
        assert text_of(await site.send()) == 'hello'
        await site.close()
    assert site.task_ids == []


async def test_a_parked_task_waits_as_long_as_it_likes() -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED))], [emit(status(COMPLETED))])
    async with running(agent, settings=BOTH) as site:
        parked = await site.send()
        await site.left_memory()
        await site.advance(1_000.0)
        assert (await site.send('answer', task_id=parked.id)).status.state == COMPLETED


# The journal's time is not the agent's


async def test_waiting_for_the_journal_is_no_silence() -> None:
    agent = ScriptedAgent([emit(task(SUBMITTED)), wait('gate'), emit(artifact(), artifact()), wait('never')])
    settings = Settings(inactivity_timeout=5.0, pending_records=1, journal_patience=1_000.0)
    async with running(agent, settings=settings) as site:
        begun = await site.begin_task()
        await settle()
        site.journal.hold()
        agent.open('gate')
        await site.journal.wait_until_held()
        for _ in range(3):
            await site.advance(6.0)
        site.journal.let_go()
        await site.advance(4.9)
        assert (await site.get(begun.id)).status.state == SUBMITTED
        await site.advance(0.1)
        await check_failed(site, begun.id, TOO_SILENT, 'InactivityTimeoutError')


async def test_no_timer_is_left_of_a_turn_that_has_ended() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent, settings=BOTH) as site:
        await site.send()
        await site.left_memory()
        idle = site.clock.timers
        for _ in range(20):
            await site.send()
        await site.left_memory()
        assert site.clock.timers <= idle
