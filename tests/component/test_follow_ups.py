"""Messages for tasks that exist: they run one at a time, in order, and each sender gets the answer to its own."""

import asyncio
import contextvars

import pytest
from a2a.utils.errors import InternalError, InvalidParamsError, TaskNotFoundError, UnsupportedOperationError

from a2a_scribe import Settings
from a2a_scribe.errors import JournalUnavailableError
from a2a_scribe.protocol.states import AUTH_REQUIRED, CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, TERMINAL, WORKING
from a2a_scribe.protocol.states import name_of as named
from a2a_scribe.protocol.types import Task, TaskState
from a2a_scribe.testing.agents import Run, ScriptedAgent, artifact, do, emit, fail, status, task, wait
from tests.component.kit import history_of, running, settle, state_of, text_of, until

pytestmark = pytest.mark.anyio


class AgentError(Exception):
    """The agent's own error."""


def echo(state: TaskState = INPUT_REQUIRED) -> ScriptedAgent:
    """Answers each message with its own text; waits at the gate `gate` before."""
    say = do(lambda run: run.queue.enqueue_event(status(state, f'heard {run.context.get_user_input()}')))
    return ScriptedAgent([emit(status(WORKING)), wait('gate'), say])


@pytest.mark.parametrize('state', [INPUT_REQUIRED, AUTH_REQUIRED], ids=named)
async def test_a_parked_task_is_continued(state: TaskState) -> None:
    agent = ScriptedAgent([emit(status(state, 'well?'))], [emit(status(COMPLETED, 'thanks'))])
    async with running(agent) as site:
        parked = await site.send('question')
        await site.left_memory()
        done = await site.send('answer', task_id=parked.id)
        assert (done.id, done.context_id) == (parked.id, parked.context_id)
        assert (done.status.state, history_of(done)) == (COMPLETED, ['question', 'well?', 'answer'])
        current = agent.contexts[1].current_task
        assert current is not None
        assert history_of(current) == ['question', 'well?', 'answer']
        await site.left_memory()


async def test_follow_ups_wait_for_the_running_turn_and_run_in_their_order() -> None:
    agent = echo()
    async with running(agent) as site:
        first = site.begin('first')
        await agent.reached('gate')
        await settle()
        others = []
        for number in range(5):
            others.append(site.begin(f'{number}', task_id=site.task_id))
            await settle()
        assert agent.heard == ['first']
        agent.open('gate')
        assert text_of((await first).status.message) == 'heard first'
        for number, other in enumerate(others):
            assert text_of((await other).status.message) == f'heard {number}'
        assert agent.heard == ['first', '0', '1', '2', '3', '4']
        await site.left_memory()


@pytest.mark.parametrize('history_bytes', [1_000_000, 1], ids=['in memory', 'in the journal'])
async def test_the_answer_to_a_message_is_the_task_as_its_own_turn_left_it(history_bytes: int) -> None:
    agent = ScriptedAgent(
        [emit(task(WORKING)), wait('one'), emit(status(INPUT_REQUIRED, 'mine'))], [emit(status(WORKING)), wait('two')]
    )
    async with running(agent, settings=Settings(history_bytes=history_bytes)) as site:
        first = site.begin('first')
        await agent.reached('one')
        await settle()
        second = site.begin('second', task_id=site.task_id)
        await settle()
        agent.open('one')
        answer = await first
        assert (answer.status.state, text_of(answer.status.message)) == (INPUT_REQUIRED, 'mine')
        assert history_of(answer) == ['first']
        agent.open('two')
        assert (await second).status.state == FAILED


async def test_an_answer_that_is_read_elsewhere_is_the_task_as_its_own_turn_left_it() -> None:
    agent = ScriptedAgent(
        [emit(task(WORKING)), wait('one'), emit(status(INPUT_REQUIRED, 'mine'))],
        [emit(status(INPUT_REQUIRED, 'yours'))],
        [emit(status(COMPLETED, 'theirs'))],
    )
    async with running(agent) as here:
        begun = await here.begin_task('first')
        async with running(agent, journal=here.journal, clock=here.clock) as there:
            mine = there.begin('second', task_id=begun.id)
            await settle()
            await here.send('third', task_id=begun.id, immediately=True)
            agent.open('one')
            await here.left_memory()
            assert not mine.done(), 'nobody has woken it'
            here.clock.advance(1.0)
            answer = await mine
            assert (answer.status.state, text_of(answer.status.message)) == (INPUT_REQUIRED, 'yours')


async def test_an_answer_is_not_read_from_a_later_turn_that_runs_in_this_process() -> None:
    agent = ScriptedAgent(
        [emit(task(WORKING)), wait('one'), emit(status(INPUT_REQUIRED, 'mine'))],
        [emit(status(INPUT_REQUIRED, 'yours'))],
        [emit(status(WORKING, 'theirs')), wait('three')],
    )
    async with running(agent) as here:
        begun = await here.begin_task('first')
        async with running(agent, journal=here.journal, clock=here.clock) as there:
            second = there.begin('second', task_id=begun.id)
            await settle()
            agent.open('one')
            await here.left_memory()
            assert not second.done(), 'nobody has woken it'
            await there.begin_task('third', task_id=begun.id)
            await agent.reached('three')
            answer = await second
            assert (answer.status.state, text_of(answer.status.message)) == (INPUT_REQUIRED, 'yours')


async def test_new_metadata_of_a_parked_task_is_no_answer_to_a_sender_elsewhere() -> None:
    agent = ScriptedAgent(
        [emit(task(WORKING)), wait('one'), emit(status(INPUT_REQUIRED))],
        [emit(Task(metadata={'progress': 1})), wait('two'), emit(status(COMPLETED))],
    )
    async with running(agent) as here:
        begun = await here.begin_task('first')
        async with running(agent, journal=here.journal, clock=here.clock) as there:
            mine = there.begin('second', task_id=begun.id)
            await settle()
            agent.open('one')
            await agent.reached('two')
            await here.advance(1.0)
            assert not mine.done()
            agent.open('two')
            await here.left_memory()
            await here.advance(1.0)
            assert (await mine).status.state == COMPLETED


async def test_two_follow_ups_at_once_are_both_worked_on_one_after_the_other() -> None:
    agent = echo()
    agent.open('gate')
    async with running(agent) as site:
        parked = await site.send('first')
        await site.left_memory()
        one, other = await asyncio.gather(site.send('one', task_id=parked.id), site.send('two', task_id=parked.id))
        assert text_of(one.status.message) == 'heard one'
        assert text_of(other.status.message) == 'heard two'
        assert history_of(await site.get(parked.id)) == ['first', 'heard first', 'one', 'heard one', 'two']
        await site.left_memory()


async def test_a_terminal_state_refuses_those_who_wait() -> None:
    agent = echo(COMPLETED)
    async with running(agent) as site:
        first = site.begin('first')
        await agent.reached('gate')
        await settle()
        blocking = site.begin('blocking', task_id=site.task_id)
        streaming = site.stream('streaming', task_id=site.task_id)
        await settle()
        agent.open('gate')
        assert (await first).status.state == COMPLETED
        with pytest.raises(UnsupportedOperationError):
            await blocking
        with pytest.raises(UnsupportedOperationError):
            await streaming.end()
        assert agent.heard == ['first']
        assert streaming.events == []
        assert 'blocking' not in str(await site.get(site.task_id))
        await site.left_memory()


async def test_a_failure_refuses_those_who_wait() -> None:
    agent = ScriptedAgent([emit(task()), wait('gate'), fail(AgentError('own'))])
    async with running(agent) as site:
        first = site.begin('first')
        await agent.reached('gate')
        await settle()
        second = site.begin('second', task_id=site.task_id)
        await settle()
        agent.open('gate')
        with pytest.raises(AgentError, match='own'):
            await first
        with pytest.raises(UnsupportedOperationError):
            await second
        assert agent.heard == ['first']


async def test_each_sender_hears_of_its_own_failure_only() -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED)), wait('gate')], [fail(AgentError('of the second'))])
    async with running(agent) as site:
        first = await site.send('first')
        second = site.begin('second', task_id=first.id)
        await settle()
        agent.open('gate')
        with pytest.raises(AgentError, match='of the second'):
            await second
        assert first.status.state == INPUT_REQUIRED
        assert (await site.get(first.id)).status.state == FAILED
        await site.left_memory()


async def test_a_follow_up_the_instant_input_is_required_waits_for_execute_to_return() -> None:
    agent = ScriptedAgent(
        [emit(task()), emit(status(INPUT_REQUIRED, 'well?')), wait('gate')], [emit(status(COMPLETED, 'thanks'))]
    )
    async with running(agent) as site:
        parked = await site.send('question')
        assert not agent.finished
        answer = site.begin('answer', task_id=parked.id)
        await settle()
        assert agent.heard == ['question']
        assert not answer.done()
        agent.open('gate')
        assert (await answer).status.state == COMPLETED
        assert agent.heard == ['question', 'answer']
        await site.left_memory()


@pytest.mark.parametrize('turns', range(12))
async def test_a_follow_up_at_any_moment_around_the_end_of_a_turn_runs_once_and_as_its_senders(turns: int) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar('variable', default='none')
    seen: list[str] = []
    agent = ScriptedAgent(
        [emit(status(INPUT_REQUIRED, 'well?')), wait('gate')],
        [do(lambda _: seen.append(variable.get())), fail(AgentError('own'))],
    )
    async with running(agent) as site:
        parked = await site.send('question')
        agent.open('gate')
        for _ in range(turns):
            await asyncio.sleep(0)
        variable.set('of the sender')
        with pytest.raises(AgentError, match='own'):
            await site.send('answer', task_id=parked.id)
        assert seen == ['of the sender']
        assert agent.heard == ['question', 'answer']
        await site.left_memory()


async def test_a_follow_up_in_the_transaction_that_ends_the_turn_runs_as_its_senders() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar('variable', default='none')
    seen: list[str] = []
    agent = ScriptedAgent(
        [emit(status(INPUT_REQUIRED, 'well?')), wait('gate'), emit(artifact()), wait('end')],
        [do(lambda _: seen.append(variable.get())), fail(AgentError('own'))],
    )
    async with running(agent) as site:
        parked = await site.send('question')
        site.journal.hold()
        agent.open('gate')
        await agent.reached('end')
        await site.journal.wait_until_held()
        agent.open('end')
        await settle()
        variable.set('of the sender')
        answer = site.begin('answer', task_id=parked.id)
        await settle()
        site.journal.let_go()
        with pytest.raises(AgentError, match='own'):
            await answer
        assert seen == ['of the sender']
        await site.left_memory()


async def test_a_follow_up_that_returns_immediately_answers_with_the_task_as_it_is() -> None:
    agent = echo()
    async with running(agent) as site:
        first = await site.begin_task('first')
        answer = await site.send('second', task_id=first.id, immediately=True)
        assert answer.status.state == WORKING
        agent.open('gate')
        await site.left_memory()
        assert agent.heard == ['first', 'second']


async def test_a_follow_up_runs_although_its_sender_has_gone_away() -> None:
    agent = echo()
    async with running(agent) as site:
        first = await site.begin_task('first')
        second, third = site.begin('second', task_id=first.id), site.stream('third', task_id=first.id)
        await settle()
        second.cancel()
        await third.go_away()
        agent.open('gate')
        await site.left_memory()
        assert agent.heard == ['first', 'second', 'third']


async def test_a_stream_of_a_follow_up_begins_with_the_task_and_has_the_events_of_its_own_turn() -> None:
    agent = echo()
    async with running(agent) as site:
        first = await site.begin_task('first')
        stream = site.stream('second', task_id=first.id)
        await settle()
        assert stream.events == [], 'nothing of the turn before'
        agent.open('gate')
        initial, *events = await stream.end()
        assert isinstance(initial, Task)
        assert (initial.status.state, history_of(initial)) == (INPUT_REQUIRED, ['first', 'heard first', 'second'])
        assert [state_of(event) for event in events] == [WORKING, INPUT_REQUIRED]
        assert text_of(events[-1].status.message) == 'heard second'  # type: ignore[union-attr]


async def test_the_context_of_a_task_is_inferred() -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED))])
    async with running(agent) as site:
        parked = await site.send(context_id='talk')
        assert parked.context_id == 'talk'
        await site.left_memory()
        await site.send(task_id=parked.id)
        await site.left_memory()
        again = await site.send(task_id=parked.id)
        assert again.context_id == 'talk'
        assert {context.context_id for context in agent.contexts} == {'talk'}
        assert {each.context_id for each in again.history} == {'talk'}


async def test_a_context_that_is_not_the_tasks_is_refused_and_leaves_nothing() -> None:
    agent = echo()
    agent.open('gate')
    async with running(agent) as site:
        parked = await site.send('first')
        await site.left_memory()
        before = await site.records(parked.id)
        with pytest.raises(InvalidParamsError, match='contextId'):
            await site.send('second', task_id=parked.id, context_id='other')
        with pytest.raises(InvalidParamsError, match='contextId'):
            await site.stream('second', task_id=parked.id, context_id='other').end()
        assert await site.records(parked.id) == before
        assert agent.heard == ['first']
        assert (await site.send('third', task_id=parked.id, context_id=parked.context_id)).id == parked.id


async def test_a_message_for_an_unknown_task_is_refused() -> None:
    async with running(echo()) as site:
        with pytest.raises(TaskNotFoundError):
            await site.send(task_id='made-up')
        assert site.task_ids == []


@pytest.mark.parametrize('state', sorted(TERMINAL), ids=named)
async def test_a_message_for_a_task_that_has_ended_is_refused_and_leaves_nothing(state: TaskState) -> None:
    agent = ScriptedAgent([emit(status(state, 'end'))])
    async with running(agent) as site:
        ended = await site.send()
        await site.left_memory()
        before = await site.records(ended.id)
        results = await asyncio.gather(
            *(site.send('more', task_id=ended.id) for _ in range(20)), return_exceptions=True
        )
        assert {type(result) for result in results} == {UnsupportedOperationError}
        assert await site.records(ended.id) == before
        assert agent.heard == ['go']
        assert site.engine.live_tasks == 0


async def test_too_many_waiting_messages_are_refused() -> None:
    agent = echo()
    async with running(agent, settings=Settings(queued_messages=2)) as site:
        first = await site.begin_task('first')
        waiting = [site.begin(text, task_id=first.id) for text in ('a', 'b')]
        await settle()
        with pytest.raises(UnsupportedOperationError, match='Too many'):
            await site.send('c', task_id=first.id)
        agent.open('gate')
        await asyncio.gather(*waiting)
        assert agent.heard == ['first', 'a', 'b']
        assert 'c' not in history_of(await site.get(first.id))


async def test_a_cancel_refuses_those_who_wait() -> None:
    agent = echo()
    async with running(agent) as site:
        first = await site.begin_task('first')
        second = site.begin('second', task_id=first.id)
        await settle()
        assert (await site.cancel(first.id)).status.state == CANCELED
        with pytest.raises(UnsupportedOperationError):
            await second
        assert agent.heard == ['first']
        await site.left_memory()


async def test_messages_of_one_context_make_tasks_of_their_own() -> None:
    agent = echo()
    agent.open('gate')
    async with running(agent) as site:
        one, other = await asyncio.gather(site.send('a', context_id='talk'), site.send('b', context_id='talk'))
        assert one.id != other.id
        assert (await site.find(context_id='talk')).total_size == 2


async def test_a_failed_claim_is_told_and_the_task_stays_parked() -> None:
    agent = echo()
    agent.open('gate')
    async with running(agent, settings=Settings(journal_patience=0.5)) as site:
        parked = await site.send('first')
        await site.left_memory()
        site.journal.fail()
        answer = site.begin('second', task_id=parked.id)
        for _ in range(4):
            await site.advance(0.5)
        with pytest.raises(InternalError) as caught:
            await answer
        assert caught.value.data == {'retryable': 'true'}
        assert isinstance(caught.value.__cause__, JournalUnavailableError)
        site.journal.heal()
        assert site.engine.live_tasks == 0
        assert text_of((await site.send('third', task_id=parked.id)).status.message) == 'heard third'
        assert agent.heard == ['first', 'third']


async def test_a_claim_whose_answer_is_lost_for_good_does_not_hold_the_task_for_ever() -> None:
    """The claim is in the journal, and nobody here knows: the task must not stay owned by nobody's turn."""
    agent = echo()
    agent.open('gate')
    async with running(agent, settings=Settings(journal_patience=0.5)) as site:
        parked = await site.send('first')
        await site.left_memory()
        site.journal.lose_answers(1)
        answer = site.begin('second', task_id=parked.id)
        await settle()
        site.journal.is_away = True
        for _ in range(4):
            await site.advance(0.5)
        with pytest.raises(InternalError):
            await answer
        site.journal.is_away = False
        await site.begin_task('another task')
        await site.advance(5.0)
        row = site.memory.row(parked.id)
        assert row is not None
        assert row.node is None
        assert row.open_turn is None


async def test_an_answer_that_is_lost_once_starts_the_turn_once() -> None:
    agent = echo()
    agent.open('gate')
    async with running(agent) as site:
        parked = await site.send('first')
        await site.left_memory()
        site.journal.lose_answers(2)
        answer = site.begin('second', task_id=parked.id)
        for _ in range(3):
            await site.advance(0.5)
        assert text_of((await answer).status.message) == 'heard second'
        assert agent.heard == ['first', 'second']


async def test_contexts_are_kept_apart() -> None:
    seen: list[tuple[str, str]] = []

    def note(run: Run) -> None:
        seen.append((run.context.call_context.user.user_name, run.context.get_user_input()))
        run.context.call_context.state['mine'] = run.context.get_user_input()

    agent = ScriptedAgent([do(note), emit(status(COMPLETED))])
    async with running(agent) as site:
        await asyncio.gather(site.send('a', user='ada'), site.send('b', user='bob'))
        assert sorted(seen) == [('ada', 'a'), ('bob', 'b')]
        assert [context.call_context.state for context in agent.contexts] == [{'mine': 'a'}, {'mine': 'b'}]


async def test_turns_do_not_clean_up_after_each_other() -> None:
    agent = ScriptedAgent(
        [emit(status(INPUT_REQUIRED)), wait('one')],
        [emit(status(WORKING)), wait('two'), emit(status(COMPLETED))],
    )
    async with running(agent) as site:
        parked = await site.send()
        second = site.begin(task_id=parked.id)
        await settle()
        agent.open('one')
        await agent.reached('two')
        await until(lambda: agent.finished == 1)
        await settle()
        assert (await site.get(parked.id)).status.state == WORKING
        agent.open('two')
        assert (await second).status.state == COMPLETED
