"""Cancelling: one terminal record, whoever wins, and everybody hears of it."""

import asyncio

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.utils.errors import InternalError, TaskNotCancelableError, TaskNotFoundError

from a2a_scribe import Settings
from a2a_scribe.errors import TurnEndedError
from a2a_scribe.protocol.states import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, SUBMITTED, TERMINAL, WORKING
from a2a_scribe.protocol.states import name_of as named
from a2a_scribe.protocol.types import TaskState
from a2a_scribe.testing.agents import Run, Script, ScriptedAgent, artifact, attempt, do, emit, fail, status, task, wait
from a2a_scribe.testing.clock import START
from tests.component.kit import check_records, history_of, running, settle, state_of, text_of, until

pytestmark = pytest.mark.anyio

WORK: Script = [emit(task(WORKING)), wait('gate'), emit(status(COMPLETED))]


async def test_a_running_task_is_cancelled() -> None:
    agent = ScriptedAgent(WORK)
    async with running(agent) as site:
        begun = await site.begin_task()
        stream = site.subscribe(begun.id)
        await until(lambda: stream.events)
        site.clock.skip(3.0)
        canceled = await site.cancel(begun.id)
        assert canceled.status.state == CANCELED
        assert canceled == await site.get(begun.id)
        assert canceled.status.timestamp.ToMicroseconds() == START + 3_000_000
        assert [state_of(event) for event in await stream.end()] == [WORKING, CANCELED]
        assert (agent.cancels, agent.finished) == (1, 1)
        await site.left_memory()


async def test_everybody_who_waits_hears_of_a_cancel() -> None:
    agent = ScriptedAgent(WORK)
    async with running(agent) as site:
        blocking = site.begin()
        await agent.reached('gate')
        await settle()
        streaming, subscribed = site.stream(), site.subscribe(site.task_id)
        await until(lambda: len(site.task_ids) == 2 and subscribed.events and streaming.events)
        for task_id in site.task_ids:
            await site.cancel(task_id)
        assert (await blocking).status.state == CANCELED
        assert state_of((await streaming.end())[-1]) == CANCELED
        assert state_of((await subscribed.end())[-1]) == CANCELED


async def test_a_parked_task_is_cancelled_with_a_fresh_time_and_without_the_old_message() -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED, 'well?'))])
    async with running(agent) as site:
        parked = await site.send()
        await site.left_memory()
        stream = site.subscribe(parked.id)
        await until(lambda: stream.events)
        await site.advance(5.0)
        canceled = await site.cancel(parked.id)
        assert canceled.status.state == CANCELED
        assert canceled.status.timestamp.ToMicroseconds() == START + 5_000_000
        assert text_of(canceled.status.message) == ''
        assert history_of(canceled) == ['go', 'well?']
        assert state_of((await stream.end())[-1]) == CANCELED
        assert agent.cancels == 1
        await site.left_memory()


REPORTS: dict[str, Script] = {
    'nothing': (),
    'the end': [emit(status(CANCELED, 'by the agent'))],
    'a flush and the end': [emit(artifact('last')), emit(status(CANCELED, 'by the agent'))],
    'a flush': [emit(artifact('last'))],
    'the end twice': [attempt(status(CANCELED, 'by the agent'), status(CANCELED, 'again'))],
}


@pytest.mark.parametrize('report', REPORTS.values(), ids=REPORTS)
@pytest.mark.parametrize('parked', [False, True], ids=['running', 'parked'])
async def test_what_the_agent_reports_of_a_cancel_is_kept(report: Script, parked: bool) -> None:
    script: Script = [emit(status(INPUT_REQUIRED))] if parked else WORK
    agent = ScriptedAgent(script, on_cancel=report)
    async with running(agent) as site:
        begun = await site.begin_task()
        if parked:
            await site.left_memory()
        canceled = await site.cancel(begun.id)
        assert canceled.status.state == CANCELED
        by_the_agent = any(report is REPORTS[name] for name in REPORTS if 'end' in name)
        assert text_of(canceled.status.message) == ('by the agent' if by_the_agent else '')
        assert len(canceled.artifacts) == sum('flush' in name for name in REPORTS if REPORTS[name] is report)
        await site.left_memory()
        assert (await site.get(begun.id)) == canceled


@pytest.mark.parametrize('state', [COMPLETED, FAILED], ids=named)
@pytest.mark.parametrize('parked', [False, True], ids=['running', 'parked'])
async def test_an_agent_that_reports_another_end_is_heard(state: TaskState, parked: bool) -> None:
    script: Script = [emit(status(INPUT_REQUIRED))] if parked else WORK
    agent = ScriptedAgent(script, on_cancel=[emit(status(state, 'too late'))])
    async with running(agent) as site:
        begun = await site.begin_task()
        if parked:
            await site.left_memory()
        with pytest.raises(TaskNotCancelableError):
            await site.cancel(begun.id)
        assert (await site.get(begun.id)).status.state == state
        await site.left_memory()


@pytest.mark.parametrize('error', [NotImplementedError(), asyncio.CancelledError(), RuntimeError('oh'), KeyError('x')])
@pytest.mark.parametrize('parked', [False, True], ids=['running', 'parked'])
async def test_a_cancel_that_raises_cancels_all_the_same(error: BaseException, parked: bool) -> None:
    script: Script = [emit(status(INPUT_REQUIRED))] if parked else WORK
    agent = ScriptedAgent(script, on_cancel=[fail(error)])
    async with running(agent) as site:
        begun = await site.begin_task()
        if parked:
            await site.left_memory()
        assert (await site.cancel(begun.id)).status.state == CANCELED
        await site.left_memory()


class PlainCancel(ScriptedAgent):
    """Its `cancel` is no coroutine function, and raises or returns at once."""

    error: Exception | None = None

    def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:  # type: ignore[override]
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize('error', [None, NotImplementedError()])
async def test_a_cancel_that_is_no_coroutine_function_cancels_all_the_same(error: Exception | None) -> None:
    agent = PlainCancel(WORK)
    agent.error = error
    async with running(agent) as site:
        begun = await site.begin_task()
        assert (await site.cancel(begun.id)).status.state == CANCELED
        await site.left_memory()


async def test_a_cancel_that_hangs_is_given_up_after_its_deadline() -> None:
    agent = ScriptedAgent(WORK, on_cancel=[wait('never')])
    async with running(agent, settings=Settings(cancel_deadline=3.0)) as site:
        begun = await site.begin_task()
        canceling = site.begin_cancel(begun.id)
        await agent.reached('never')
        await site.advance(2.9)
        assert not canceling.done()
        await site.advance(0.2)
        assert (await canceling).status.state == CANCELED
        await site.left_memory()


async def test_a_cancel_that_hangs_and_ignores_its_own_end_holds_nobody_up() -> None:
    agent = ScriptedAgent(WORK, on_cancel=[wait('never', stubborn=True), attempt(status(WORKING))])
    async with running(agent, settings=Settings(cancel_deadline=3.0)) as site:
        begun = await site.begin_task()
        canceling = site.begin_cancel(begun.id)
        await agent.reached('never')
        await site.advance(3.1)
        assert (await canceling).status.state == CANCELED
        await site.left_memory()
        agent.open('never')
        await until(lambda: agent.refusals)
        assert isinstance(agent.refusals[0], TurnEndedError)


async def test_an_agent_that_ignores_that_it_is_cancelled_is_left_behind() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate', stubborn=True), attempt(status(COMPLETED))])
    async with running(agent, settings=Settings(cancel_grace=2.0)) as site:
        begun = await site.begin_task()
        canceling = site.begin_cancel(begun.id)
        await settle()
        assert not canceling.done()
        await site.advance(2.1)
        assert (await canceling).status.state == CANCELED
        await site.left_memory()
        agent.open('gate')
        await until(lambda: agent.finished)
        assert isinstance(agent.refusals[0], TurnEndedError)
        assert (await site.get(begun.id)).status.state == CANCELED


async def test_an_agent_that_answers_its_cancellation_with_a_status_records_nothing_of_it() -> None:
    async def answer(run: Run) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await attempt(status(CANCELED, 'me too'))(run)
            raise

    agent = ScriptedAgent([emit(task(WORKING)), do(answer)])
    async with running(agent) as site:
        begun = await site.begin_task()
        canceled = await site.cancel(begun.id)
        assert (canceled.status.state, text_of(canceled.status.message)) == (CANCELED, '')
        assert isinstance(agent.refusals[0], TurnEndedError)


async def test_an_execute_that_fails_because_of_the_cancel_does_not_fail_the_task() -> None:
    agent = ScriptedAgent(
        [emit(task(WORKING)), wait('gate'), fail(RuntimeError('connection closed'))],
        on_cancel=[do(lambda run: run.agent.open('gate')), wait('slow')],
    )
    async with running(agent) as site:
        begun = await site.begin_task()
        canceling = site.begin_cancel(begun.id)
        await until(lambda: agent.finished)
        await settle()
        agent.open('slow')
        assert (await canceling).status.state == CANCELED
        await site.left_memory()


async def test_an_execute_that_completes_during_the_cancel_wins() -> None:
    agent = ScriptedAgent(WORK, on_cancel=[do(lambda run: run.agent.open('gate')), wait('slow')])
    async with running(agent) as site:
        begun = await site.begin_task()
        canceling = site.begin_cancel(begun.id)
        await until(lambda: agent.finished)
        agent.open('slow')
        with pytest.raises(TaskNotCancelableError):
            await canceling
        assert (await site.get(begun.id)).status.state == COMPLETED
        await site.left_memory()


async def test_an_execute_that_parks_during_the_cancel_is_cancelled() -> None:
    agent = ScriptedAgent(
        [emit(task(WORKING)), wait('gate'), emit(status(INPUT_REQUIRED))],
        on_cancel=[do(lambda run: run.agent.open('gate')), wait('slow')],
    )
    async with running(agent) as site:
        begun = await site.begin_task()
        canceling = site.begin_cancel(begun.id)
        await until(lambda: agent.finished)
        await settle()
        agent.open('slow')
        assert (await canceling).status.state == CANCELED
        await site.left_memory()


@pytest.mark.parametrize('parked', [False, True], ids=['running', 'parked'])
async def test_five_cancels_at_once_agree(parked: bool) -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED))] if parked else WORK)
    async with running(agent) as site:
        begun = await site.begin_task()
        if parked:
            await site.left_memory()
        results = await asyncio.gather(*(site.cancel(begun.id) for _ in range(5)), return_exceptions=True)
        stored = await site.get(begun.id)
        assert all(result == stored or isinstance(result, TaskNotCancelableError) for result in results)
        assert stored in results
        assert stored.status.state == CANCELED
        assert (await site.kinds(begun.id)).count('status') == (2 if parked else 1)
        await site.left_memory()


async def test_a_cancelled_task_cannot_be_cancelled_again() -> None:
    agent = ScriptedAgent(WORK)
    async with running(agent) as site:
        begun = await site.begin_task()
        canceled = await site.cancel(begun.id)
        with pytest.raises(TaskNotCancelableError):
            await site.cancel(begun.id)
        assert await site.get(begun.id) == canceled


@pytest.mark.parametrize('state', sorted(TERMINAL), ids=named)
async def test_a_task_that_has_ended_cannot_be_cancelled(state: TaskState) -> None:
    agent = ScriptedAgent([emit(status(state, 'end'))])
    async with running(agent) as site:
        ended = await site.send()
        with pytest.raises(TaskNotCancelableError, match=named(state)):
            await site.cancel(ended.id)
        assert await site.get(ended.id) == ended
        assert agent.cancels == 0


async def test_an_unknown_task_cannot_be_cancelled() -> None:
    async with running(ScriptedAgent()) as site:
        with pytest.raises(TaskNotFoundError):
            await site.cancel('made-up')


async def test_a_client_that_goes_away_from_its_cancel_has_cancelled() -> None:
    agent = ScriptedAgent(WORK, on_cancel=[wait('slow')])
    async with running(agent) as site:
        begun = await site.begin_task()
        canceling = site.begin_cancel(begun.id)
        await agent.reached('slow')
        canceling.cancel()
        await settle()
        agent.open('slow')
        await site.left_memory()
        assert (await site.get(begun.id)).status.state == CANCELED


async def test_the_executor_is_given_the_task_to_cancel() -> None:
    seen: list[RequestContext] = []
    agent = ScriptedAgent(WORK, on_cancel=[do(lambda run: seen.append(run.context))])
    async with running(agent) as site:
        begun = await site.begin_task()
        await site.cancel(begun.id)
        (context,) = seen
        assert (context.task_id, context.context_id, context.current_task) == (begun.id, begun.context_id, begun)
        assert context.call_context.user.user_name == 'ada'


@pytest.mark.parametrize('turns', range(14))
@pytest.mark.parametrize('end', [INPUT_REQUIRED, COMPLETED], ids=named)
async def test_a_cancel_at_any_moment_around_the_end_of_a_turn(turns: int, end: TaskState) -> None:
    agent = ScriptedAgent(
        [emit(task(WORKING)), wait('gate'), emit(status(end))], on_cancel=[attempt(status(CANCELED, 'by the agent'))]
    )
    async with running(agent) as site:
        begun = await site.begin_task()
        agent.open('gate')
        for _ in range(turns):
            await asyncio.sleep(0)
        (result,) = await asyncio.gather(site.cancel(begun.id), return_exceptions=True)
        await site.left_memory()
        stored = await site.get(begun.id)
        if isinstance(result, TaskNotCancelableError):
            assert stored.status.state == COMPLETED
        else:
            assert result == stored
            assert stored.status.state == CANCELED


@pytest.mark.parametrize('follow_up', [False, True], ids=['released', 'next turn'])
async def test_a_cancel_while_the_end_of_the_turn_is_being_written(follow_up: bool) -> None:
    """The turn's end is admitted and not durable: what the agent's cancel emits must not slip in behind it."""
    agent = ScriptedAgent(
        [emit(task(WORKING)), wait('gate'), emit(status(INPUT_REQUIRED))],
        [emit(status(WORKING)), wait('second'), emit(status(COMPLETED))],
        on_cancel=[attempt(status(CANCELED, 'by the agent'))],
    )
    async with running(agent) as site:
        begun = await site.begin_task()
        second = site.begin('second', task_id=begun.id) if follow_up else None
        await settle()
        site.journal.hold()
        agent.open('gate')
        await until(lambda: agent.finished)
        await site.journal.wait_until_held()
        canceling = site.begin_cancel(begun.id)
        await settle()
        site.journal.let_go()
        canceled = await canceling
        assert canceled.status.state == CANCELED
        assert canceled == await site.get(begun.id)
        if second is not None:
            await asyncio.wait([second])
            second.exception()
        await site.left_memory()


async def test_a_cancel_while_records_are_being_written() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(artifact()), wait('more')])
    async with running(agent) as site:
        begun = await site.begin_task()
        site.journal.hold()
        agent.open('gate')
        await agent.reached('more')
        await site.journal.wait_until_held()
        canceling = site.begin_cancel(begun.id)
        await settle()
        assert not canceling.done()
        site.journal.let_go()
        assert (await canceling).status.state == CANCELED
        await site.left_memory()


async def test_a_cancel_that_cannot_be_recorded_is_told_and_records_nothing_later() -> None:
    """The journal goes away for good while the agent is being stopped: nothing may be written behind the gap."""
    agent = ScriptedAgent([emit(task(SUBMITTED)), wait('work'), emit(status(WORKING)), wait('gate', stubborn=True)])
    async with running(agent, settings=Settings(journal_patience=1.0, cancel_grace=60.0)) as site:
        begun = await site.begin_task()
        site.journal.fail()
        agent.open('work')
        await agent.reached('gate')
        canceling = site.begin_cancel(begun.id)
        for _ in range(8):
            await site.advance(0.5)
        site.journal.heal()
        agent.open('gate')
        await site.advance(60.0)
        with pytest.raises(InternalError) as caught:
            await canceling
        assert caught.value.data == {'retryable': 'true'}
        await site.begin_task('another, so that the journal is written again')
        await site.advance(5.0)
        check_records(await site.records(begun.id))
        assert (await site.get(begun.id)).status.state == FAILED


class Bare(AgentExecutor):
    """An agent whose `cancel` nobody wrote."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        await event_queue.enqueue_event(task(WORKING))
        await asyncio.get_running_loop().create_future()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


async def test_a_blocking_sender_hears_that_its_task_was_cancelled() -> None:
    async with running(Bare()) as site:
        waiting = site.begin()
        await until(lambda: site.task_ids)
        await settle()
        await site.cancel(site.task_id)
        assert (await waiting).status.state == CANCELED
