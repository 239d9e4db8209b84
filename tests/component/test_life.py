"""The life of an engine: it starts by itself, follows its loop, closes in bounds, and leaves nothing behind."""

import asyncio
import gc
import logging
from collections.abc import Coroutine
from typing import Any

import pytest
from a2a.types.a2a_pb2 import GetTaskRequest, SendMessageConfiguration
from a2a.utils.errors import InternalError

from a2a_scribe import DefaultRequestHandler, InMemoryTaskStore, Settings
from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.tasks import Caller, StoredTask
from a2a_scribe.protocol.states import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, WORKING
from a2a_scribe.protocol.types import Task
from a2a_scribe.testing.agents import Run, ScriptedAgent, artifact, attempt, do, emit, status, task, wait
from a2a_scribe.testing.journals import TroubledJournal
from tests.component.kit import (
    check_records,
    new_card,
    new_context,
    new_request,
    running,
    settle,
    state_of,
    text_of,
    until,
)

pytestmark = pytest.mark.anyio


def new_handler(agent: ScriptedAgent, **options: Any) -> DefaultRequestHandler:
    return DefaultRequestHandler(agent, InMemoryTaskStore(), new_card(), **options)


async def ask(handler: DefaultRequestHandler, task_id: str = '') -> Task:
    answer = await handler.on_message_send(new_request(task_id=task_id), new_context())
    assert isinstance(answer, Task)
    return answer


def run_alone(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine on a loop of its own, and fails if something is left on it."""
    problems: list[dict[str, Any]] = []

    async def watched() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
        return await work

    result = asyncio.run(watched())
    gc.collect()
    assert problems == []
    return result


# Start and loops


def test_a_handler_starts_at_its_first_call_and_ends_with_its_loop() -> None:
    handler = new_handler(ScriptedAgent([emit(status(COMPLETED))]))
    assert run_alone(ask(handler)).status.state == COMPLETED


def test_a_handler_serves_several_loops_one_after_another() -> None:
    handler = new_handler(ScriptedAgent([emit(status(INPUT_REQUIRED))]))
    parked = run_alone(ask(handler))
    for _ in range(3):
        assert run_alone(ask(handler, parked.id)).id == parked.id
    run_alone(handler.aclose())


def test_a_program_that_ends_without_closing_leaves_no_turn_open() -> None:
    """`asyncio.run` cancels what is left: its turns are recorded as over, and the tasks can be looked at later."""
    store = InMemoryTaskStore()
    agent = ScriptedAgent([emit(task(WORKING)), wait('never')])
    handler = DefaultRequestHandler(agent, store, new_card())

    async def begin_and_leave() -> str:
        answer = await handler.on_message_send(
            new_request(configuration=SendMessageConfiguration(return_immediately=True)), new_context()
        )
        assert isinstance(answer, Task)
        return answer.id

    left = asyncio.run(begin_and_leave())

    async def look() -> Task:
        found = await DefaultRequestHandler(agent, store, new_card()).on_get_task(
            GetTaskRequest(id=left), new_context()
        )
        row = store.journal.row(left)  # type: ignore[attr-defined]
        assert (row.node, row.open_turn) == (None, None)
        return found

    assert asyncio.run(look()).status.state == FAILED


def test_a_loop_that_ends_while_a_turn_runs_ends_silently() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('never')])
    handler = new_handler(agent)

    async def begin_and_leave() -> None:
        asking = asyncio.create_task(ask(handler))
        await agent.reached('never')
        await settle()
        assert not asking.done()

    run_alone(begin_and_leave())


def test_a_closed_loop_is_not_waited_for() -> None:
    handler = new_handler(ScriptedAgent([emit(status(COMPLETED))]))
    run_alone(ask(handler))
    run_alone(handler.aclose())


async def test_many_first_calls_at_once_start_one_session() -> None:
    async with running(ScriptedAgent([emit(status(COMPLETED))])) as site:
        await asyncio.gather(*(site.send() for _ in range(64)))
        assert len({group.node for group in site.journal.attempts}) == 1
        assert len(site.task_ids) == 64


async def test_two_handlers_share_a_journal() -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED, 'well?'))], [emit(status(COMPLETED))])
    async with running(agent) as site:
        parked = await site.send()
        await site.left_memory()
        async with running(agent, journal=site.journal) as other:
            assert (await other.send(task_id=parked.id)).status.state == COMPLETED


async def test_starting_is_optional_and_may_be_repeated() -> None:
    async with running(ScriptedAgent([emit(status(COMPLETED))])) as site:
        await site.handler.start()
        await site.handler.start()
        assert (await site.send()).status.state == COMPLETED


async def test_a_silent_node_writes_nothing() -> None:
    async with running(ScriptedAgent([emit(status(COMPLETED))])) as site:
        await site.handler.start()
        await site.advance(10.0)
        assert site.journal.attempts == []
        await site.send()
        await site.left_memory()
        count = len(site.journal.attempts)
        await site.advance(10.0)
        assert len(site.journal.attempts) == count


async def test_a_node_that_owns_a_task_shows_that_it_lives() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate')])
    async with running(agent) as site:
        await site.begin_task()
        count = len(site.journal.attempts)
        for _ in range(5):
            await site.advance(2.0)
        assert len(site.journal.attempts) == count + 5


# Memory


async def test_tasks_that_have_ended_or_parked_leave_memory() -> None:
    agent = ScriptedAgent(answers={'end': [emit(status(COMPLETED))], 'park': [emit(status(INPUT_REQUIRED))]})
    async with running(agent) as site:
        forgotten: list[str] = []
        site.engine.signals.task_forgotten.connect(forgotten.append)
        await asyncio.gather(*(site.send(text) for text in ('end', 'park') for _ in range(20)))
        await site.left_memory()
        assert sorted(forgotten) == sorted(site.task_ids)
        assert len(forgotten) == 40


async def test_a_task_that_nobody_waits_for_is_not_garbage() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), do(lambda _: asyncio.sleep(0)), wait('gate'), emit(status(COMPLETED))])
    async with running(agent) as site:
        begun = await site.begin_task()
        gc.collect()
        agent.open('gate')
        await site.left_memory()
        assert (await site.get(begun.id)).status.state == COMPLETED


# The end


async def test_closing_twice_is_harmless() -> None:
    async with running(ScriptedAgent([emit(status(COMPLETED))])) as site:
        await site.send()
        await asyncio.gather(site.close(), site.close())
        await site.close()


async def test_closing_before_anything_happened_is_harmless() -> None:
    handler = new_handler(ScriptedAgent())
    await handler.aclose()
    await handler.aclose()


async def test_a_closed_handler_takes_no_messages_and_still_reads() -> None:
    async with running(ScriptedAgent([emit(status(COMPLETED))])) as site:
        done = await site.send()
        await site.close()
        with pytest.raises(InternalError) as caught:
            await site.send()
        assert caught.value.data == {'retryable': 'true'}
        assert await site.get(done.id) == done


async def test_closing_lets_turns_finish() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(status(COMPLETED))])
    async with running(agent) as site:
        waiting = site.begin()
        await agent.reached('gate')
        closing = asyncio.create_task(site.handler.aclose())
        await settle()
        with pytest.raises(InternalError):
            await site.send()
        assert not closing.done()
        agent.open('gate')
        await closing
        assert (await waiting).status.state == COMPLETED


async def test_what_does_not_finish_until_the_deadline_is_recorded_as_failed() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('never')])
    async with running(agent, settings=Settings(drain_deadline=5.0), failure_answer='task') as site:
        blocking, streaming = site.begin(), site.stream()
        await until(lambda: len(agent.contexts) == 2)
        await settle()
        queued = site.begin('more', task_id=site.task_ids[0])
        await settle()
        closing = asyncio.create_task(site.handler.aclose())
        await site.advance(4.9)
        assert not closing.done()
        await site.advance(0.2)
        await until(closing.done)
        answer = await blocking
        assert (answer.status.state, 'server stopped' in text_of(answer.status.message)) == (FAILED, True)
        assert state_of((await streaming.end())[-1]) == FAILED
        await asyncio.wait([queued])
        assert queued.exception() is not None
        assert agent.finished == 2
        assert site.engine.live_tasks == 0


async def test_an_agent_cleans_up_before_closing_is_over() -> None:
    async def clean_up(run: Run) -> None:
        try:
            await wait('never')(run)
        finally:
            for _ in range(20):
                await asyncio.sleep(0)

    agent = ScriptedAgent([emit(task(WORKING)), do(clean_up)])
    async with running(agent, settings=Settings(drain_deadline=5.0)) as site:
        begun = await site.begin_task()
        closing = asyncio.create_task(site.handler.aclose())
        await settle()
        site.clock.advance(6.0)
        await closing
        assert agent.finished == 1
        assert (await site.get(begun.id)).status.state == FAILED


async def test_an_agent_that_ignores_its_end_does_not_hold_closing_up() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('never', stubborn=True), attempt(artifact())])
    async with running(agent, settings=Settings(drain_deadline=5.0)) as site:
        begun = await site.begin_task()
        await site.close()
        assert (await site.get(begun.id)).status.state == FAILED
        agent.open('never')
        await until(lambda: agent.finished)
        assert agent.refusals


@pytest.mark.parametrize('stubborn', [False, True])
async def test_a_cancel_that_is_under_way_is_ended_with_the_server(stubborn: bool) -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('never')], on_cancel=[wait('slow', stubborn=stubborn)])
    async with running(agent, settings=Settings(drain_deadline=5.0, cancel_deadline=300.0)) as site:
        begun = await site.begin_task()
        canceling = site.begin_cancel(begun.id)
        await agent.reached('slow')
        await site.close()
        check_records(await site.records(begun.id))
        row = site.memory.row(begun.id)
        assert row is not None
        assert row.node is None, 'nobody works on the task any more'
        agent.open('slow')
        await asyncio.wait([canceling])


class SlowReading(TroubledJournal):
    """A journal whose tasks are read only when the test lets them."""

    def __init__(self) -> None:
        super().__init__(MemoryJournal())
        self.reading = asyncio.Event()
        self.passes = asyncio.Event()

    async def read_task(self, task_id: str, caller: Caller) -> StoredTask | None:
        self.reading.set()
        await self.passes.wait()
        return await super().read_task(task_id, caller)


async def test_a_cancel_that_still_reads_when_the_server_has_closed_is_told() -> None:
    journal = SlowReading()
    async with running(ScriptedAgent([emit(status(INPUT_REQUIRED))]), journal=journal) as site:
        parked = await site.send()
        cancel = site.begin_cancel(parked.id)
        await journal.reading.wait()
        await site.close()
        journal.passes.set()
        with pytest.raises(InternalError):
            await cancel


async def test_a_recovery_that_begins_while_the_server_closes_ends_with_it() -> None:
    journal = SlowReading()
    journal.passes.set()
    agent = ScriptedAgent(
        [emit(task(WORKING)), wait('gate'), emit(artifact('poison')), wait('never')],
        on_cancel=[wait('stubborn', stubborn=True)],
    )
    limits = Settings(drain_deadline=0.05, cancel_grace=0.6)
    before = asyncio.all_tasks()
    async with running(agent, checked=False, journal=journal, settings=limits) as site:
        refused, cancelled = await site.begin_task(), await site.begin_task()
        journal.refuse(lambda group: any(append.row.task_id == refused.id for append in group.appends))
        cancel = site.begin_cancel(cancelled.id)
        await agent.reached('stubborn')
        agent.open('gate')
        await settle()
        journal.passes.clear()
        closing = asyncio.create_task(site.handler.aclose())
        while not closing.done():
            await site.advance(0.05)
        journal.passes.set()
        assert (await cancel).status.state == CANCELED
    agent.open_all()
    await settle()
    assert asyncio.all_tasks() == before


async def test_closing_while_the_journal_is_away_is_bounded() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(artifact())])
    async with running(agent, settings=Settings(drain_deadline=2.0), checked=False) as site:
        await site.begin_task()
        site.journal.fail()
        agent.open('gate')
        await site.close()


async def test_a_subscription_ends_with_the_server() -> None:
    async with running(ScriptedAgent([emit(status(INPUT_REQUIRED))])) as site:
        parked = await site.send()
        await site.left_memory()
        stream = site.subscribe(parked.id)
        await until(lambda: stream.events)
        await site.close()
        await site.advance(2.0)
        assert stream.task is not None
        assert stream.task.done()
        stream.task.exception()


async def test_nothing_is_logged_when_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with running(ScriptedAgent([emit(status(COMPLETED))]), card=new_card(push_notifications=False)) as site:
        await site.send()
    assert caplog.records == []
