"""One message, one turn: whatever an executor does, its task has one defined outcome."""

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Sequence
from typing import cast

import pytest
from a2a.server.events import Event
from a2a.utils.errors import InternalError, InvalidAgentResponseError, InvalidParamsError, UnsupportedOperationError

from a2a_scribe import Settings
from a2a_scribe.errors import TurnEndedError
from a2a_scribe.protocol.states import (
    AUTH_REQUIRED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    SUBMITTED,
    WORKING,
    name_of,
)
from a2a_scribe.protocol.types import (
    Artifact,
    ListTasksResponse,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
)
from a2a_scribe.testing.agents import (
    Run,
    ScriptedAgent,
    Step,
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
from tests.component.kit import history_of, new_context, new_request, running, settle, state_of, text_of, until

pytestmark = pytest.mark.anyio


class AgentError(Exception):
    """The agent's own error."""


LONG = 'x' * 2_000


class Odd(BaseException):
    """No `Exception`, and nothing that Python knows."""


# Answers


@pytest.mark.parametrize('state', [COMPLETED, FAILED, REJECTED, INPUT_REQUIRED, AUTH_REQUIRED], ids=name_of)
async def test_a_blocking_send_answers_at_a_terminal_or_interrupted_state(state: TaskState) -> None:
    agent = ScriptedAgent([emit(task(), status(WORKING), artifact(), status(state, 'now')), wait('later')])
    async with running(agent) as site:
        answer = await site.send()
        assert answer.status.state == state
        assert text_of(answer.status.message) == 'now'
        assert [each.artifact_id for each in answer.artifacts] == ['answer']
        assert answer == await site.get(answer.id)
        assert not agent.finished, 'the answer does not wait for the end of execute'
        agent.open('later')
        await site.left_memory()


async def test_a_send_that_returns_immediately_answers_with_the_first_task() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('later'), emit(status(COMPLETED))])
    async with running(agent) as site:
        answer = await site.send(immediately=True)
        assert answer.status.state == WORKING
        assert answer == await site.get(answer.id)
        agent.open('later')
        await site.left_memory()
        assert (await site.get(answer.id)).status.state == COMPLETED


async def test_a_silent_agent_is_given_a_task_after_a_moment_if_the_caller_wants_its_id() -> None:
    agent = ScriptedAgent([wait('later'), emit(task(metadata={'own': 1})), emit(status(COMPLETED))])
    async with running(agent) as site:
        waiting = site.begin(immediately=True)
        await agent.reached('later')
        await site.advance(0.4)
        assert not waiting.done()
        await site.advance(0.2)
        answer = await waiting
        assert answer.status.state == SUBMITTED
        assert history_of(answer) == ['go']
        agent.open('later')
        await site.left_memory()
        done = await site.get(answer.id)
        assert (done.status.state, dict(done.metadata), history_of(done)) == (COMPLETED, {'own': 1}, ['go'])
        assert (await site.kinds(answer.id)).count('task') == 1


async def test_a_blocking_send_needs_no_task_before_the_agent_makes_one() -> None:
    agent = ScriptedAgent([wait('later'), emit(message('hi'))])
    async with running(agent) as site:
        waiting = site.begin()
        await agent.reached('later')
        await site.advance(5.0)
        agent.open('later')
        assert text_of(await waiting) == 'hi'
        assert site.task_ids == []


async def test_a_message_completes_the_task_that_was_made_for_a_silent_agent() -> None:
    agent = ScriptedAgent([wait('later'), emit(message('hi'))])
    async with running(agent) as site:
        waiting = site.begin(immediately=True)
        await agent.reached('later')
        await site.advance(0.6)
        answer = await waiting
        agent.open('later')
        await site.left_memory()
        done = await site.get(answer.id)
        assert (done.status.state, text_of(done.status.message)) == (COMPLETED, 'hi')


@pytest.mark.parametrize('immediately', [False, True])
async def test_a_message_is_an_answer_without_a_task(immediately: bool) -> None:
    agent = ScriptedAgent([emit(Message(parts=[Part(text='hi')], task_id='none'))])
    async with running(agent) as site:
        answer = await site.send(immediately=immediately, context_id='talk')
        assert isinstance(answer, Message)
        assert (answer.role, answer.context_id, answer.task_id) == (Role.ROLE_AGENT, 'talk', '')
        assert answer.message_id
        await site.left_memory()
        assert site.task_ids == []
        assert (await site.find()).total_size == 0


async def test_the_context_variables_of_the_request_are_seen_by_the_agent() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar('variable', default='none')
    seen: list[str] = []
    agent = ScriptedAgent([do(lambda _: seen.append(variable.get())), emit(status(INPUT_REQUIRED))])
    async with running(agent) as site:
        variable.set('first')
        parked = await site.send()
        await site.left_memory()
        variable.set('second')
        await site.send(task_id=parked.id)
        assert seen == ['first', 'second']


async def test_the_agent_is_given_copies_and_the_ids_of_the_task() -> None:
    def spoil(run: Run) -> None:
        if run.context.current_task is not None:
            run.context.current_task.status.state = FAILED
        assert run.context.message is not None
        run.context.message.parts[0].text = 'spoilt'

    agent = ScriptedAgent([do(spoil), emit(status(INPUT_REQUIRED))])
    async with running(agent) as site:
        parked = await site.send('one')
        await site.left_memory()
        again = await site.send('two', task_id=parked.id)
        assert agent.contexts[0].current_task is None
        assert history_of(again) == ['one', 'two']
        assert again.status.state == INPUT_REQUIRED
        assert {(context.task_id, context.context_id) for context in agent.contexts} == {(parked.id, parked.context_id)}
        assert {(each.task_id, each.context_id) for each in again.history} == {(parked.id, parked.context_id)}


async def test_a_client_that_goes_away_stops_nothing() -> None:
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(status(COMPLETED))])
    async with running(agent) as site:
        blocking, streaming = site.begin(), site.stream()
        await until(lambda: len(agent.contexts) == 2)
        blocking.cancel()
        await streaming.go_away()
        await settle()
        agent.open('gate')
        await site.left_memory()
        for task_id in site.task_ids:
            assert (await site.get(task_id)).status.state == COMPLETED
        assert len(site.task_ids) == 2


# Failures


RAISED: dict[str, BaseException] = {
    'an end of the process': SystemExit('secret'),
    'an exception': AgentError('secret'),
    'an assertion': AssertionError('secret'),
    'a cancellation': asyncio.CancelledError('secret'),
    'a generator exit': GeneratorExit('secret'),
    'an exception of no known base': Odd('secret'),
    'a group': ExceptionGroup('secret', [AgentError('secret')]),
    'a timeout': TimeoutError('secret'),
    'a stop': StopAsyncIteration('secret'),
}


@pytest.mark.parametrize('error', RAISED.values(), ids=RAISED)
@pytest.mark.parametrize(
    'before',
    [[], [emit(task(metadata={'kept': 1}))], [emit(task(metadata={'kept': 1}), status(WORKING), artifact())]],
    ids=['nothing', 'a task', 'more'],
)
async def test_whatever_an_agent_raises_fails_its_task(error: BaseException, before: Sequence[Step]) -> None:
    async with running(ScriptedAgent([*before, fail(error)])) as site:
        with pytest.raises(type(error) if isinstance(error, Exception) else InternalError) as caught:
            await site.send()
        if isinstance(error, Exception):
            assert caught.value is error
        stored = await site.get(site.task_id)
        assert stored.status.state == FAILED
        assert 'secret' not in str(stored)
        assert 'secret' in await site.notes(site.task_id)
        assert history_of(stored) == ['go']
        assert dict(stored.metadata) == ({'kept': 1} if before else {})
        await site.left_memory()


@pytest.mark.parametrize('immediately', [False, True])
async def test_a_failure_can_be_answered_with_the_task(immediately: bool) -> None:
    agent = ScriptedAgent([emit(task()), fail(AgentError('secret'))])
    async with running(agent, failure_answer='task') as site:
        answer = await site.send(immediately=immediately)
        assert isinstance(answer, Task)
        await site.left_memory()
        assert (await site.get(answer.id)).status.state == FAILED


async def test_a_stream_ends_with_the_failed_status() -> None:
    async with running(ScriptedAgent([emit(task()), emit(artifact()), fail(AgentError('secret'))])) as site:
        events = await site.stream().end()
        assert [state_of(event) for event in events] == [SUBMITTED, None, FAILED]


async def test_the_text_of_an_exception_can_be_exposed() -> None:
    agent = ScriptedAgent([emit(task()), fail(AgentError('what happened'))])
    async with running(agent, settings=Settings(expose_errors=True), failure_answer='task') as site:
        answer = await site.send()
        assert text_of(answer.status.message) == 'AgentError: what happened'


async def test_an_error_of_the_protocol_before_any_event_is_the_answer() -> None:
    refusal = UnsupportedOperationError('not today')
    async with running(ScriptedAgent([fail(refusal)]), failure_answer='task') as site:
        with pytest.raises(UnsupportedOperationError, match='not today'):
            await site.send()
        stored = await site.get(site.task_id)
        assert (stored.status.state, text_of(stored.status.message)) == (FAILED, 'not today')
        with pytest.raises(UnsupportedOperationError, match='not today'):
            await site.stream().end()


async def test_an_error_of_the_protocol_after_an_event_is_the_status_message() -> None:
    agent = ScriptedAgent([emit(task()), fail(UnsupportedOperationError('not today'))])
    async with running(agent, failure_answer='task') as site:
        answer = await site.send()
        assert (answer.status.state, text_of(answer.status.message)) == (FAILED, 'not today')
        events = await site.stream().end()
        assert state_of(events[-1]) == FAILED


@pytest.mark.parametrize('error', [AgentError('late'), Odd('late'), UnsupportedOperationError('late')], ids=repr)
async def test_an_exception_after_the_terminal_state_changes_nothing(error: BaseException) -> None:
    async with running(ScriptedAgent([emit(task()), emit(status(COMPLETED, 'done')), fail(error)])) as site:
        answer = await site.send()
        assert answer.status.state == COMPLETED
        await site.left_memory()
        assert await site.get(answer.id) == answer
        assert 'late' in await site.notes(answer.id)


async def test_an_exception_after_a_direct_message_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with running(ScriptedAgent([emit(message('hi')), fail(AgentError('late'))])) as site:
        assert text_of(await site.send()) == 'hi'
        await site.left_memory()
        assert 'after its reply' in caplog.text
        assert site.task_ids == []


# No outcome


@pytest.mark.parametrize('before', [[], [emit(task())], [emit(status(WORKING))], [emit(artifact())]])
async def test_an_agent_that_returns_without_an_outcome_fails_its_task(before: Sequence[Step]) -> None:
    async with running(ScriptedAgent(before)) as site:
        answer = await site.send()
        assert answer.status.state == FAILED
        assert 'without an outcome' in text_of(answer.status.message)
        assert history_of(answer) == ['go']
        await site.left_memory()


async def test_many_agents_without_an_outcome_leave_nothing_in_memory() -> None:
    async with running(ScriptedAgent([emit(task(WORKING))])) as site:
        await asyncio.gather(*(site.send() for _ in range(100)))
        await site.left_memory()
        assert (await site.find(status=WORKING)).total_size == 0


async def test_a_follow_up_that_records_no_status_leaves_the_task_parked() -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED, 'well?'))], [emit(artifact())])
    async with running(agent) as site:
        parked = await site.send()
        await site.left_memory()
        with pytest.raises(InvalidAgentResponseError):
            await site.send('more', task_id=parked.id)
        stored = await site.get(parked.id)
        assert stored.status.state == INPUT_REQUIRED
        assert history_of(stored) == ['go', 'well?', 'more']
        await site.left_memory()


async def test_a_status_that_is_only_repeated_does_not_answer_a_follow_up() -> None:
    """An agent that emits its whole task with new metadata first has not answered yet."""

    def repeat(run: Run) -> Task:
        assert run.context.current_task is not None
        return Task(metadata={'seen': True}, status=run.context.current_task.status)

    again = do(lambda run: run.queue.enqueue_event(repeat(run)))
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED, 'well?'))], [again, wait('gate'), emit(status(COMPLETED))])
    async with running(agent) as site:
        parked = await site.send()
        await site.left_memory()
        answer = site.begin('more', task_id=parked.id)
        await agent.reached('gate')
        await settle()
        assert not answer.done()
        agent.open('gate')
        assert (await answer).status.state == COMPLETED


# The turn is kept


KEEP = Settings(unfinished='keep')


@pytest.mark.parametrize('end', [COMPLETED, INPUT_REQUIRED], ids=name_of)
async def test_a_kept_turn_goes_on_in_the_background_of_the_agent(end: TaskState) -> None:
    agent = ScriptedAgent([emit(task(WORKING))])
    async with running(agent, settings=KEEP) as site:
        waiting, stream = site.begin(), site.stream()
        await until(lambda: agent.finished == 2)
        await settle()
        assert not waiting.done()
        assert site.engine.live_tasks == 2
        for queue in agent.queues:
            await queue.enqueue_event(artifact('late'))
            await queue.enqueue_event(status(end))
        assert (await waiting).status.state == end
        assert stream.states == [WORKING, end] or state_of((await stream.end())[-1]) == end
        await site.left_memory()
        with pytest.raises(TurnEndedError):
            await agent.queues[0].enqueue_event(artifact('too late'))


async def test_a_kept_turn_may_still_answer_with_a_message() -> None:
    agent = ScriptedAgent([])
    async with running(agent, settings=KEEP) as site:
        waiting = site.begin()
        await until(lambda: agent.finished)
        await agent.queues[0].enqueue_event(message('hi'))
        assert text_of(await waiting) == 'hi'
        await site.left_memory()


async def test_the_next_message_ends_a_kept_turn() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar('variable', default='none')
    seen: list[str] = []
    agent = ScriptedAgent(
        [emit(task(WORKING))], [do(lambda _: seen.append(variable.get())), emit(status(COMPLETED, 'second'))]
    )
    async with running(agent, settings=KEEP) as site:
        first = site.begin('one')
        await until(lambda: agent.finished)
        await settle()
        variable.set('of the second')
        second = await site.send('two', task_id=site.task_id)
        assert text_of(second.status.message) == 'second'
        assert (await first).status.state in (WORKING, COMPLETED)
        assert seen == ['of the second']
        assert agent.contexts[1].call_context.user.user_name == 'ada'
        with pytest.raises(TurnEndedError):
            await agent.queues[0].enqueue_event(artifact('too late'))
        await site.left_memory()


async def test_the_sender_that_ended_a_kept_turn_hears_of_its_own_failure() -> None:
    agent = ScriptedAgent([emit(task(WORKING))], [fail(AgentError('own'))])
    async with running(agent, settings=KEEP) as site:
        site.begin('one')
        await until(lambda: agent.finished)
        await settle()
        with pytest.raises(AgentError, match='own'):
            await site.send('two', task_id=site.task_id)
        await site.left_memory()


async def test_a_kept_turn_that_passes_a_limit_fails() -> None:
    agent = ScriptedAgent([emit(task(WORKING))])
    async with running(agent, settings=Settings(unfinished='keep', task_records=5)) as site:
        waiting = site.begin()
        await until(lambda: agent.finished)
        chunks = (agent.queues[0].enqueue_event(artifact(append=True)) for _ in range(10))
        results = await asyncio.gather(*chunks, return_exceptions=True)
        assert results[:3] == [None] * 3
        assert isinstance(results[3], InvalidAgentResponseError)
        with pytest.raises(InvalidAgentResponseError):
            await waiting
        assert (await site.get(site.task_id)).status.state == FAILED
        await site.left_memory()


# What an executor emits


async def test_an_agent_that_emits_after_the_end_is_told_so_and_changes_nothing() -> None:
    late = attempt(status(WORKING), status(FAILED), artifact(), task(FAILED), message())
    agent = ScriptedAgent([emit(task()), emit(status(COMPLETED, 'done')), late])
    async with running(agent) as site:
        stream = site.stream()
        events = await stream.end()
        await site.left_memory()
        assert [type(refusal) for refusal in agent.refusals] == [InvalidAgentResponseError] * 5
        assert [state_of(event) for event in events] == [SUBMITTED, COMPLETED]
        assert text_of((await site.get(site.task_id)).status.message) == 'done'


async def test_an_agent_that_emits_after_it_has_returned_is_told_so() -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED))])
    async with running(agent) as site:
        parked = await site.send()
        await site.left_memory()
        with pytest.raises(TurnEndedError):
            await agent.queues[0].enqueue_event(status(WORKING))
        await site.send(task_id=parked.id)
        with pytest.raises(TurnEndedError):
            await agent.queues[0].enqueue_event(status(WORKING))
        assert (await site.get(parked.id)).status.state == INPUT_REQUIRED


@pytest.mark.parametrize('foreign', [task(id='other'), status(task_id='other'), status(context_id='other')])
async def test_foreign_ids_fail_the_task_and_touch_no_other(foreign: object) -> None:
    async with running(ScriptedAgent([emit(task()), emit(foreign)])) as site:
        with pytest.raises(InvalidAgentResponseError):
            await site.send()
        assert (await site.get(site.task_id)).status.state == FAILED
        assert site.task_ids == [site.task_id]


@pytest.mark.parametrize('first', [task(id='other'), status(task_id='other')])
async def test_foreign_ids_in_the_first_event_are_refused(first: object) -> None:
    async with running(ScriptedAgent([emit(first)])) as site:
        with pytest.raises(InvalidAgentResponseError):
            await site.send()
        assert 'other' not in site.task_ids
        assert (await site.get(site.task_id)).status.state == FAILED


@pytest.mark.parametrize('thing', [None, 'text', {'state': 'working'}, 7], ids=repr)
@pytest.mark.parametrize('before', [[], [emit(task())]], ids=['first', 'later'])
async def test_what_is_no_event_fails_the_task(thing: object, before: Sequence[Step]) -> None:
    async with running(ScriptedAgent([*before, do(lambda run: run.queue.enqueue_event(cast('Event', thing)))])) as site:
        with pytest.raises(InvalidAgentResponseError):
            await site.send()
        assert (await site.get(site.task_id)).status.state == FAILED


def nested(number: float) -> Part:
    part = Part()
    part.data.list_value.values.add().struct_value.update({'deep': number})
    return part


@pytest.mark.parametrize('number', [float('nan'), float('inf'), float('-inf')])
@pytest.mark.parametrize(
    'make',
    [
        lambda number: task(metadata={'n': number}),
        lambda number: status(WORKING, metadata={'n': number}),
        lambda number: artifact(metadata={'n': number}),
        lambda number: TaskArtifactUpdateEvent(artifact=Artifact(artifact_id='a', parts=[nested(number)])),
        lambda number: Message(message_id='m', parts=[nested(number)]),
    ],
    ids=['task', 'status', 'artifact', 'part', 'message'],
)
async def test_a_number_that_json_cannot_express_is_refused_where_it_is_emitted(
    make: Callable[[float], Event], number: float
) -> None:
    agent = ScriptedAgent([attempt(make(number)), emit(status(COMPLETED, metadata={'n': 1.5e308}))])
    async with running(agent) as site:
        answer = await site.send()
        assert answer.status.state == COMPLETED
        [refusal] = agent.refusals
        assert isinstance(refusal, InvalidAgentResponseError)
        assert 'NaN' in str(refusal)


@pytest.mark.parametrize('depth', [33, 40, 44, 46, 47, 48])
async def test_what_is_nested_too_deeply_is_refused_and_harms_nobody(depth: int) -> None:
    """Whatever is taken can be read again, in lists too; what cannot be ends its own task at most."""
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    for event in (task(metadata={'n': value}), status(WORKING, metadata={'n': value}), artifact(metadata={'n': value})):
        agent = ScriptedAgent([attempt(event), emit(status(COMPLETED))], [emit(status(COMPLETED))])
        async with running(agent) as site:
            await site.send()
            await site.send()
            page = await site.find(include_artifacts=True)
            assert ListTasksResponse.FromString(page.SerializeToString()) == page
            assert [each.status.state for each in page.tasks] == [COMPLETED, COMPLETED]


async def test_a_number_that_json_cannot_express_is_refused_in_a_message() -> None:
    request = new_request()
    request.message.parts.append(nested(float('nan')))
    async with running(ScriptedAgent([])) as site:
        with pytest.raises(InvalidParamsError, match='not finite'):
            await site.handler.on_message_send(request, new_context())
        assert site.task_ids == []


async def test_what_an_agent_changes_after_it_was_enqueued_changes_nothing() -> None:
    whole, update, chunk = task(WORKING, metadata={'a': 1}), status(WORKING, 'said'), artifact('said')

    def spoil(_: Run) -> None:
        whole.status.state = FAILED
        whole.metadata.update({'a': 2})
        update.status.message.parts[0].text = 'spoilt'
        chunk.artifact.parts[0].text = 'spoilt'

    agent = ScriptedAgent([emit(whole, update, chunk), do(spoil), emit(status(COMPLETED))])
    async with running(agent) as site:
        events = await site.stream().end()
        assert 'spoilt' not in str(events)
        stored = await site.get(site.task_id)
        assert 'spoilt' not in str(stored)
        assert dict(stored.metadata) == {'a': 1}
        assert [state_of(event) for event in events] == [WORKING, WORKING, None, COMPLETED]


async def test_whole_tasks_again_and_again_are_recorded_as_what_they_add() -> None:
    def whole(count: int) -> Task:
        made = task(WORKING)
        made.artifacts.add(artifact_id='answer').parts.extend(Part(text=str(number)) for number in range(count))
        return made

    agent = ScriptedAgent([emit(*(whole(count) for count in (1, 1, 2, 3, 3, 5))), emit(task(COMPLETED))])
    async with running(agent) as site:
        events = await site.stream().end()
        (held,) = (await site.get(site.task_id)).artifacts
        assert [part.text for part in held.parts] == ['0', '1', '2', '3', '4']
        assert len(events) == 5
        assert await site.kinds(site.task_id) == [
            'turn_started', 'task', 'artifact', 'artifact', 'artifact', 'status', 'turn_ended'
        ]  # fmt: skip


@pytest.mark.parametrize('second', [task(), message('again'), status(WORKING), artifact()])
async def test_nothing_may_follow_a_direct_message(second: object) -> None:
    agent = ScriptedAgent([emit(message('hi')), attempt(second)])
    async with running(agent) as site:
        assert text_of(await site.send()) == 'hi'
        await site.left_memory()
        assert [type(refusal) for refusal in agent.refusals] == [InvalidAgentResponseError]
        assert site.task_ids == []


async def test_a_message_after_the_task_fails_it() -> None:
    async with running(ScriptedAgent([emit(task()), emit(message('hi'))])) as site:
        with pytest.raises(InvalidAgentResponseError):
            await site.send()
        assert (await site.get(site.task_id)).status.state == FAILED


async def test_of_two_terminal_states_at_once_the_first_wins() -> None:
    async def both(run: Run) -> None:
        ends = (status(COMPLETED, 'one'), status(FAILED, 'two'), status(COMPLETED, 'three'))
        results = await asyncio.gather(*(run.queue.enqueue_event(end) for end in ends), return_exceptions=True)
        run.agent.refusals.extend(result for result in results if isinstance(result, BaseException))

    agent = ScriptedAgent([emit(task()), do(both)])
    async with running(agent) as site:
        events = await site.stream().end()
        await site.left_memory()
        assert [state_of(event) for event in events] == [SUBMITTED, COMPLETED]
        assert len(agent.refusals) == 2
        assert text_of((await site.get(site.task_id)).status.message) == 'one'


async def test_a_queue_that_is_closed_by_the_agent_stays_open() -> None:
    agent = ScriptedAgent([emit(task()), do(lambda run: run.queue.close()), emit(status(COMPLETED))])  # type: ignore[attr-defined]
    async with running(agent) as site:
        assert (await site.send()).status.state == COMPLETED


# History


async def test_the_users_message_is_in_the_history_once_per_turn_whatever_its_id() -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED, 'well?'))])
    async with running(agent) as site:
        answer = await site.send('one', message_id='same')
        for text in ('two', 'two', 'three'):
            await site.left_memory()
            answer = await site.send(text, message_id='same', task_id=answer.id)
        assert history_of(answer) == ['one', 'well?', 'two', 'well?', 'two', 'well?', 'three']
        assert text_of(answer.status.message) == 'well?'


async def test_an_agent_that_puts_the_message_into_its_task_does_not_double_it() -> None:
    def own_task(run: Run) -> Task:
        assert run.context.message is not None
        made = task(WORKING)
        made.history.append(run.context.message)
        return made

    step = do(lambda run: run.queue.enqueue_event(own_task(run)))
    agent = ScriptedAgent([step, step, emit(status(COMPLETED, 'done'))])
    async with running(agent) as site:
        answer = await site.send('one')
        assert history_of(answer) == ['one']


async def test_the_history_that_a_client_wants() -> None:
    agent = ScriptedAgent([emit(status(WORKING, 'a'), status(WORKING, 'b'), status(INPUT_REQUIRED, 'c'))])
    async with running(agent) as site:
        answer = await site.send('go')
        assert history_of(answer) == ['go', 'a', 'b']
        assert history_of(await site.get(answer.id, history_length=2)) == ['a', 'b']
        assert history_of(await site.get(answer.id, history_length=0)) == []
        assert history_of((await site.find(history_length=1)).tasks[0]) == ['b']
        await site.left_memory()
        request = new_request('more', task_id=answer.id)
        request.configuration.history_length = 1
        limited = await site.handler.on_message_send(request, new_context())
        assert isinstance(limited, Task)
        assert history_of(limited) == ['b']


# Bounds


async def test_too_many_records_fail_the_turn_with_a_reason() -> None:
    agent = ScriptedAgent([emit(*[status(WORKING)] * 50)])
    async with running(agent, settings=Settings(task_records=10), failure_answer='task') as site:
        answer = await site.send()
        assert answer.status.state == FAILED
        assert 'task_records' in text_of(answer.status.message)
        assert len(await site.records(answer.id)) <= 13


async def test_too_many_bytes_fail_the_turn_with_a_reason() -> None:
    agent = ScriptedAgent([emit(*[artifact('x' * 100, append=True)] * 50)])
    async with running(agent, settings=Settings(task_bytes=1_000), failure_answer='task') as site:
        answer = await site.send()
        assert answer.status.state == FAILED
        assert 'task_bytes' in text_of(answer.status.message)


async def test_the_bytes_of_all_turns_count() -> None:
    agent = ScriptedAgent([emit(artifact('x' * 400, append=True), status(INPUT_REQUIRED))])
    async with running(agent, settings=Settings(task_bytes=2_000), failure_answer='task') as site:
        parked = await site.send()
        for _ in range(8):
            await site.left_memory()
            if (await site.get(parked.id)).status.state == FAILED:
                break
            with contextlib.suppress(InvalidAgentResponseError):
                await site.send(task_id=parked.id)
        failed = await site.get(parked.id)
        assert failed.status.state == FAILED
        assert 'task_bytes' in text_of(failed.status.message)


@pytest.mark.parametrize(
    'event', [artifact('x' * 2_000), status(WORKING, 'x' * 2_000), task(metadata={'x': 'x' * 2_000})]
)
async def test_an_event_that_is_too_large_fails_the_turn_with_a_reason(event: object) -> None:
    async with running(
        ScriptedAgent([emit(task(), event)]), settings=Settings(event_bytes=1_000), failure_answer='task'
    ) as site:
        answer = await site.send()
        assert answer.status.state == FAILED
        assert 'event_bytes' in text_of(answer.status.message)


@pytest.mark.parametrize('whole', [False, True])
async def test_too_many_artifacts_fail_the_turn_with_a_reason(whole: bool) -> None:
    chunks = [artifact('x', str(number)) for number in range(9)]
    many = task(WORKING, artifacts=[chunk.artifact for chunk in chunks])
    agent = ScriptedAgent([emit(task()), emit(many) if whole else emit(*chunks), emit(status(COMPLETED))])
    async with running(agent, settings=Settings(task_artifacts=5), failure_answer='task') as site:
        answer = await site.send()
        assert answer.status.state == FAILED
        assert 'task_artifacts' in text_of(answer.status.message)
        assert len(answer.artifacts) <= 5


async def test_an_agent_that_ignores_a_limit_fails_all_the_same() -> None:
    agent = ScriptedAgent([attempt(*[status(WORKING)] * 20), attempt(status(COMPLETED))])
    async with running(agent, settings=Settings(task_records=10), failure_answer='task') as site:
        answer = await site.send()
        assert answer.status.state == FAILED
        await site.left_memory()
