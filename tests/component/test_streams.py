"""Streams and subscriptions: the task first, then every event once and in order, to the end."""

import asyncio

import pytest
from a2a.utils.errors import TaskNotFoundError, UnsupportedOperationError

from a2a_scribe import Settings
from a2a_scribe.protocol.states import AUTH_REQUIRED, COMPLETED, INPUT_REQUIRED, SUBMITTED, TERMINAL, WORKING
from a2a_scribe.protocol.states import name_of as named
from a2a_scribe.protocol.types import Event, Message, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent
from a2a_scribe.testing.agents import ScriptedAgent, Step, artifact, emit, message, status, task, wait
from tests.component.kit import (
    history_of,
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


def chunks_of(events: list[Event]) -> list[str]:
    """The texts of all chunks: those in whole tasks, and those of updates."""
    texts = []
    for event in events:
        if isinstance(event, Task):
            texts += [part.text for held in event.artifacts for part in held.parts]
        elif isinstance(event, TaskArtifactUpdateEvent):
            texts += [part.text for part in event.artifact.parts]
    return texts


def stream_of(count: int, *, first: int = 0) -> list[Step]:
    return [emit(artifact(str(number), append=number > 0)) for number in range(first, first + count)]


async def test_a_stream_has_every_event_in_order_and_ends_at_the_terminal_state() -> None:
    agent = ScriptedAgent([emit(task()), emit(status(WORKING)), *stream_of(300), emit(status(COMPLETED))])
    async with running(agent) as site:
        events = await site.stream().end()
        assert isinstance(events[0], Task)
        assert chunks_of(events) == [str(number) for number in range(300)]
        assert [state_of(event) for event in events if state_of(event)] == [SUBMITTED, WORKING, COMPLETED]
        await site.left_memory()


@pytest.mark.parametrize('first', [status(WORKING), artifact()])
async def test_a_stream_begins_with_a_task_whatever_the_agent_emits_first(first: object) -> None:
    async with running(ScriptedAgent([emit(first, status(COMPLETED))])) as site:
        events = await site.stream().end()
        assert isinstance(events[0], Task)
        assert (events[0].status.state, history_of(events[0])) == (SUBMITTED, ['go'])
        assert len(events) == 3


async def test_a_direct_message_is_the_whole_stream() -> None:
    async with running(ScriptedAgent([emit(message('hi')), wait('later')])) as site:
        (only,) = await site.stream().end()
        assert isinstance(only, Message)
        assert text_of(only) == 'hi'


async def test_a_stream_lasts_as_long_as_the_turn() -> None:
    agent = ScriptedAgent([emit(task()), emit(status(AUTH_REQUIRED)), wait('gate'), emit(status(COMPLETED))])
    async with running(agent) as site:
        stream = site.stream()
        await agent.reached('gate')
        await settle()
        assert stream.states == [SUBMITTED, AUTH_REQUIRED]
        agent.open('gate')
        await stream.end()
        assert stream.states == [SUBMITTED, AUTH_REQUIRED, COMPLETED]


async def test_a_stream_ends_when_the_turn_parks_the_task() -> None:
    async with running(ScriptedAgent([emit(status(INPUT_REQUIRED)), emit(artifact())])) as site:
        events = await site.stream().end()
        assert [state_of(event) for event in events] == [SUBMITTED, INPUT_REQUIRED, None]


async def test_a_stream_of_a_silent_agent_begins_after_a_moment() -> None:
    agent = ScriptedAgent([wait('gate'), emit(status(COMPLETED))])
    async with running(agent) as site:
        stream = site.stream()
        await agent.reached('gate')
        await site.advance(0.6)
        assert stream.states == [SUBMITTED]
        agent.open('gate')
        await stream.end()
        assert stream.states == [SUBMITTED, COMPLETED]


async def test_nothing_is_shown_before_it_is_durable() -> None:
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(status(COMPLETED))])
    async with running(agent) as site:
        stream = site.stream()
        await agent.reached('gate')
        await until(lambda: stream.events)
        subscribed = site.subscribe(site.task_id)
        await settle()
        site.journal.hold()
        agent.open('gate')
        await site.journal.wait_until_held()
        await settle()
        assert stream.states == subscribed.states == [SUBMITTED]
        assert (await site.get(site.task_id)).status.state == SUBMITTED
        site.journal.let_go()
        await stream.end()
        assert (await subscribed.end())[-1] == stream.events[-1]


async def test_what_a_stream_shows_is_stored_already() -> None:
    agent = ScriptedAgent([emit(task()), emit(*[status(WORKING, str(number)) for number in range(9)])])
    async with running(agent, failure_answer='task') as site:
        async for event in site.handler.on_message_send_stream(new_request(), new_context()):
            assert isinstance(event, Task | TaskStatusUpdateEvent)
            stored = await site.get(site.task_id)
            assert stored.status.timestamp.ToMicroseconds() >= event.status.timestamp.ToMicroseconds()


# Subscriptions


async def test_a_subscription_is_the_task_and_then_its_tail_without_a_gap() -> None:
    agent = ScriptedAgent(
        [emit(task()), *stream_of(5), wait('gate'), *stream_of(5, first=5), emit(status(COMPLETED, 'done'))]
    )
    async with running(agent) as site:
        begun = await site.begin_task()
        await agent.reached('gate')
        await settle()
        stream = site.subscribe(begun.id)
        await until(lambda: stream.events)
        assert stream.events == [await site.get(begun.id)]
        agent.open('gate')
        events = await stream.end()
        assert chunks_of(events) == [str(number) for number in range(10)]
        assert state_of(events[-1]) == COMPLETED
        await site.left_memory()


@pytest.mark.parametrize('turns', range(10))
async def test_a_subscription_at_any_moment_is_complete(turns: int) -> None:
    agent = ScriptedAgent([emit(task()), *stream_of(3), wait('gate'), *stream_of(4, first=3), emit(status(COMPLETED))])
    async with running(agent) as site:
        begun = await site.begin_task()
        await agent.reached('gate')
        agent.open('gate')
        for _ in range(turns):
            await asyncio.sleep(0)
        stream = site.subscribe(begun.id)
        try:
            events = await stream.end()
        except UnsupportedOperationError:
            assert (await site.get(begun.id)).status.state == COMPLETED
        else:
            assert chunks_of(events) == [str(number) for number in range(7)]
            assert state_of(events[-1]) == COMPLETED


@pytest.mark.parametrize('state', [INPUT_REQUIRED, AUTH_REQUIRED], ids=named)
async def test_a_subscription_goes_on_through_interrupted_states_and_turns(state: TaskState) -> None:
    agent = ScriptedAgent(
        [emit(status(WORKING)), wait('one'), emit(status(state, 'well?'))],
        [emit(status(WORKING, 'again')), emit(status(COMPLETED, 'done'))],
    )
    async with running(agent) as site:
        begun = await site.begin_task()
        stream = site.subscribe(begun.id)
        await until(lambda: stream.events)
        agent.open('one')
        await site.left_memory()
        await settle()
        late = site.subscribe(begun.id)
        await until(lambda: late.events)
        await site.send('answer', task_id=begun.id)
        await stream.end()
        await late.end()
        assert stream.states == [WORKING, state, WORKING, COMPLETED]
        assert late.states == [state, WORKING, COMPLETED]


@pytest.mark.parametrize('state', sorted(TERMINAL), ids=named)
async def test_a_subscription_to_a_task_that_has_ended_is_refused(state: TaskState) -> None:
    async with running(ScriptedAgent([emit(status(state))])) as site:
        ended = await site.send()
        with pytest.raises(UnsupportedOperationError):
            await site.subscribe(ended.id).end()


async def test_a_subscription_to_an_unknown_task_is_refused() -> None:
    async with running(ScriptedAgent()) as site:
        with pytest.raises(TaskNotFoundError):
            await site.subscribe('made-up').end()


async def test_many_readers_see_the_same_and_one_that_goes_away_disturbs_nobody() -> None:
    agent = ScriptedAgent(
        [emit(task()), wait('one'), *stream_of(10), wait('two'), *stream_of(10, first=10), emit(status(COMPLETED))]
    )
    async with running(agent) as site:
        first = site.stream()
        await agent.reached('one')
        await settle()
        readers = [site.subscribe(site.task_id) for _ in range(20)]
        await until(lambda: all(reader.events for reader in readers))
        agent.open('one')
        await agent.reached('two')
        await settle()
        for gone in readers[::2]:
            await gone.go_away()
        agent.open('two')
        whole = await first.end()
        for reader in readers[1::2]:
            assert (await reader.end())[1:] == whole[1:]
        await site.left_memory()


async def test_readers_that_come_and_go_leave_nothing_behind() -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED))])
    async with running(agent) as site:
        parked = await site.send()
        await site.left_memory()
        await settle()
        timers = site.clock.timers
        for _ in range(50):
            reader = site.subscribe(parked.id)
            await settle(5)
            assert reader.events
            await reader.go_away()
        await settle()
        assert site.clock.timers == timers, 'no reader waits any more'


async def test_a_slow_reader_holds_nobody_up_and_misses_nothing() -> None:
    agent = ScriptedAgent([emit(task()), wait('gate'), *stream_of(400), emit(status(COMPLETED))])
    async with running(agent, settings=Settings(tail_records=10, tail_bytes=500)) as site:
        begun = await site.begin_task()
        slow = site.engine.subscribe(begun.id, site.caller())
        seen = await anext(slow)
        agent.open('gate')
        await site.left_memory()
        assert (await site.get(begun.id)).status.state == COMPLETED
        async for batch in slow:
            seen += batch
        assert [item.seq for item in seen] == list(range(2, len(seen) + 2))
        assert chunks_of([item.event for item in seen]) == [str(number) for number in range(400)]


async def test_a_reader_that_was_woken_by_nobody_looks_for_itself() -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED))])
    async with running(agent) as site:
        parked = await site.send()
        await site.left_memory()
        async with running(agent, journal=site.journal) as other:
            stream = other.subscribe(parked.id)
            await until(lambda: stream.events)
            await site.cancel(parked.id)
            await other.advance(0.5)
            assert len(stream.events) == 1
            await other.advance(1.0)
            await stream.end()
            assert len(stream.states) == 2


async def test_a_reader_hears_that_its_task_was_deleted() -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED))])
    async with running(agent) as site:
        parked = await site.send()
        await site.left_memory()
        stream = site.subscribe(parked.id)
        await until(lambda: stream.events)
        await site.journal.delete_task(parked.id, site.caller())
        await site.advance(1.5)
        with pytest.raises(TaskNotFoundError):
            await stream.end()


async def test_events_after_a_record_that_was_seen() -> None:
    agent = ScriptedAgent([emit(task()), *stream_of(3), emit(status(COMPLETED))])
    async with running(agent) as site:
        done = await site.send()
        await site.left_memory()
        for after in range(len(await site.records(done.id))):
            shown = [item async for batch in site.engine.subscribe(done.id, site.caller(), after) for item in batch]
            assert [item.seq for item in shown] == list(range(max(after, 1) + 1, 7))
            assert chunks_of([item.event for item in shown if item.kind == 'artifact_update']) == [
                str(number) for number in range(max(0, after - 2), 3)
            ]


async def test_streams_that_the_card_does_not_declare_are_refused() -> None:
    async with running(ScriptedAgent([emit(status(INPUT_REQUIRED))]), card=new_card(streaming=False)) as site:
        with pytest.raises(UnsupportedOperationError):
            await site.stream().end()
        parked = await site.send()
        with pytest.raises(UnsupportedOperationError):
            await site.subscribe(parked.id).end()
        assert site.task_ids == [parked.id]
