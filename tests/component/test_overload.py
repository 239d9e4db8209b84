"""Overload: turns wait for room, in turn by owner, or are refused before anything is done for them."""

import asyncio
import gc
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryPushNotificationConfigStore
from a2a.types.a2a_pb2 import (
    ListTasksRequest,
    ListTasksResponse,
    SendMessageConfiguration,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import InternalError, UnsupportedOperationError

from a2a_scribe import Deadlines, DefaultRequestHandler, InMemoryTaskStore, Settings
from a2a_scribe.engine.turn import Turn
from a2a_scribe.errors import CallerGoneError, TurnEndedError
from a2a_scribe.protocol.faults import BusyError, TemporaryError
from a2a_scribe.protocol.states import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, SUBMITTED, WORKING
from a2a_scribe.testing.agents import Script, ScriptedAgent, emit, status, task, wait
from tests.component.kit import Site, new_card, new_context, new_request, running, settle, state_of, until

pytestmark = pytest.mark.anyio

ONE = Settings(max_running_turns=1, max_waiting_turns=4)
WORK: Script = [emit(task(WORKING)), wait('gate'), emit(status(COMPLETED))]
BUSY: Script = [emit(task(WORKING)), wait('busy'), emit(status(COMPLETED))]
PARK: Script = [emit(status(INPUT_REQUIRED))]
DONE: Script = [emit(status(COMPLETED))]


def new_agent(**answers: Script) -> ScriptedAgent:
    return ScriptedAgent(DONE, answers={'busy': BUSY, 'work': WORK, 'park': PARK, **answers})


async def make_busy(site: Site, agent: ScriptedAgent, user: str = 'ada') -> str:
    """Takes all room, and returns the id of the task that has it."""
    busy = await site.begin_task('busy', user=user)
    await agent.reached('busy')
    return busy.id


# Waiting for room


async def test_a_blocking_send_waits_for_room_and_leaves_no_record_until_then() -> None:
    agent = new_agent()
    async with running(agent, settings=ONE) as site:
        busy = await make_busy(site, agent)
        blocking = site.begin()
        await site.advance(10.0)
        assert (agent.heard, site.task_ids) == (['busy'], [busy])
        assert (site.engine.running_turns, site.engine.waiting_turns) == (1, 1)
        agent.open('busy')
        assert (await blocking).status.state == COMPLETED
        await site.left_memory()
        assert (site.engine.running_turns, site.engine.waiting_turns) == (0, 0)


async def test_those_who_wait_for_an_id_have_it_before_there_is_room() -> None:
    agent = new_agent()
    async with running(agent, settings=ONE) as site:
        await make_busy(site, agent)
        immediate, stream = site.begin(immediately=True), site.stream()
        await site.advance(site.engine.settings.create_task_after)
        made = await immediate
        assert (made.status.state, [state_of(event) for event in stream.events]) == (SUBMITTED, [SUBMITTED])
        assert agent.heard == ['busy']
        agent.open('busy')
        assert [state_of(event) for event in await stream.end()] == [SUBMITTED, COMPLETED]
        await site.left_memory()
        assert (await site.get(made.id)).status.state == COMPLETED


async def test_a_reply_can_come_from_a_turn_that_has_waited() -> None:
    agent = new_agent()
    async with running(agent, settings=ONE) as site:
        await make_busy(site, agent)
        answers = [site.begin() for _ in range(3)]
        await settle()
        agent.open('busy')
        assert [answer.status.state for answer in await asyncio.gather(*answers)] == [COMPLETED] * 3


@pytest.mark.parametrize('ends', [DONE, PARK, (), [wait('never')]], ids=['done', 'parked', 'failed', 'timed out'])
async def test_room_is_given_back_however_a_turn_ends(ends: Script) -> None:
    agent = new_agent(ends=ends)
    settings = Settings(max_running_turns=1, turn_timeout=5.0)
    async with running(agent, settings=settings, failure_answer='task') as site:
        answers = [site.begin('ends') for _ in range(4)]
        for _ in range(4):
            await site.advance(5.0)
        await asyncio.gather(*answers)
        await until(lambda: site.engine.running_turns == 0)


async def test_a_background_turn_keeps_its_room_until_it_ends() -> None:
    agent = new_agent(starts=[emit(task(WORKING))])
    async with running(agent, settings=ONE, unfinished='keep') as site:
        begun = await site.begin_task('starts')
        waiting = site.begin()
        await settle()
        assert (agent.finished, agent.heard) == (1, ['starts'])
        await agent.queues[0].enqueue_event(status(COMPLETED))
        assert (await waiting).status.state == COMPLETED
        assert (await site.get(begun.id)).status.state == COMPLETED


async def test_the_time_in_the_queue_is_not_the_agents() -> None:
    agent = new_agent()
    async with running(agent, settings=ONE, deadlines=by_text) as site:
        await make_busy(site, agent)
        waiting = await begin_recorded(site, 'work')
        await site.advance(100.0)
        agent.open('busy')
        await agent.reached('gate')
        await site.advance(4.0)
        agent.open('gate')
        await site.left_memory()
        assert (await site.get(waiting)).status.state == COMPLETED


def by_text(context: RequestContext) -> Deadlines:
    return Deadlines() if context.get_user_input() == 'busy' else Deadlines(turn_timeout=5.0, inactivity_timeout=5.0)


async def begin_recorded(site: Site, text: str, **given: Any) -> str:
    """Sends a message that has to wait for room, and returns the id of its task, which is recorded."""
    sending = site.begin(text, immediately=True, **given)
    await site.advance(site.engine.settings.create_task_after)
    made = await sending
    assert made.status.state == SUBMITTED
    return str(made.id)


# Who is next


async def test_another_owner_does_not_wait_behind_all_messages_of_the_first() -> None:
    agent = new_agent()
    async with running(agent, settings=Settings(max_running_turns=1, max_waiting_turns=1_000)) as site:
        await make_busy(site, agent)
        many = [site.begin(f'ada {number}') for number in range(100)]
        await settle()
        one = site.begin('bob', user='bob')
        await settle()
        agent.open('busy')
        await asyncio.gather(one, *many)
        assert agent.heard[:4] == ['busy', 'ada 0', 'bob', 'ada 1']


async def test_an_owner_runs_no_more_than_its_share() -> None:
    agent = new_agent()
    settings = Settings(max_running_turns=10, max_running_turns_per_owner=2)
    async with running(agent, settings=settings) as site:
        tasks = [site.begin('work') for _ in range(5)]
        other = site.begin('bob', user='bob')
        assert (await other).status.state == COMPLETED
        assert agent.heard == ['work', 'work', 'bob']
        agent.open('gate')
        await asyncio.gather(*tasks)


# Refusals


async def test_beyond_the_queue_messages_are_refused_before_anything_is_done_for_them() -> None:
    agent = new_agent()
    async with running(agent, settings=ONE) as site:
        parked = await site.send('park')
        await site.left_memory()
        busy = await make_busy(site, agent)
        waiting = [site.begin() for _ in range(3)]
        await settle()
        attempts = site.journal.attempts
        records = await site.records(parked.id), await site.records(busy)
        before = len(attempts)
        for given in ({}, {'task_id': parked.id}, {'task_id': busy}, {'immediately': True}):
            with pytest.raises(BusyError) as caught:
                await site.send('more', **given)
            assert isinstance(caught.value, TemporaryError)
        stream = site.stream()
        with pytest.raises(BusyError):
            await stream.end()
        assert records == (await site.records(parked.id), await site.records(busy))
        assert all(not group.writes for group in attempts[before:])
        agent.open('busy')
        assert [answer.status.state for answer in await asyncio.gather(*waiting)] == [COMPLETED] * 3
        await site.left_memory()
        assert (await site.send('answer', task_id=parked.id)).status.state == COMPLETED


class Configs(InMemoryPushNotificationConfigStore):
    """Notes what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[TaskPushNotificationConfig] = []

    async def set_info(
        self, task_id: str, notification_config: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        self.given.append(notification_config)
        return notification_config


async def test_a_refused_message_leaves_no_config_in_a_store_of_the_users() -> None:
    agent, store = new_agent(), Configs()
    async with running(agent, settings=ONE, push_config_store=store) as site:
        await make_busy(site, agent)
        waiting = [site.begin() for _ in range(3)]
        await settle()
        config = TaskPushNotificationConfig(url='https://example.com/hook')
        with pytest.raises(BusyError):
            await site.send(configuration=SendMessageConfiguration(task_push_notification_config=config))
        assert store.given == []
        agent.open('busy')
        await asyncio.gather(*waiting)


async def test_another_owner_is_let_in_while_the_first_is_refused() -> None:
    agent = new_agent()
    async with running(agent, settings=ONE) as site:
        await make_busy(site, agent)
        waiting = [site.begin() for _ in range(3)]
        await settle()
        with pytest.raises(BusyError):
            await site.send()
        other = site.begin(user='bob')
        await settle()
        agent.open('busy')
        assert (await other).status.state == COMPLETED
        await asyncio.gather(*waiting)


# Follow-ups


async def test_an_accepted_follow_up_waits_with_its_claim_and_is_never_refused() -> None:
    agent = new_agent()
    async with running(agent, settings=Settings(max_running_turns=1, max_waiting_turns=1)) as site:
        parked = await site.send('park')
        await site.left_memory()
        await make_busy(site, agent)
        answer = site.begin('answer', task_id=parked.id)
        await site.advance(1.0)
        row = site.memory.row(parked.id)
        assert row is not None
        assert row.node is not None
        assert agent.heard == ['park', 'busy']
        with pytest.raises(BusyError):
            await site.send('another')
        agent.open('busy')
        assert (await answer).status.state == COMPLETED


async def test_messages_in_the_inbox_take_no_room_while_they_wait_for_their_turn() -> None:
    agent = new_agent(asks=[emit(task(WORKING)), wait('gate'), emit(status(INPUT_REQUIRED))])
    settings = Settings(max_running_turns=1, max_waiting_turns=1)
    async with running(agent, settings=settings) as site:
        begun = await site.begin_task('asks')
        await agent.reached('gate')
        answers = []
        for text in ('park', 'last'):
            answers.append(site.begin(text, task_id=begun.id))
            await settle()
            assert site.engine.waiting_turns == 0
        agent.open('gate')
        assert [answer.status.state for answer in await asyncio.gather(*answers)] == [INPUT_REQUIRED, COMPLETED]
        assert agent.heard == ['asks', 'park', 'last']


async def test_the_next_message_of_a_task_lines_up_behind_others() -> None:
    agent = new_agent(asks=[emit(task(WORKING)), wait('gate'), emit(status(INPUT_REQUIRED))])
    async with running(agent, settings=ONE) as site:
        begun = await site.begin_task('asks')
        await agent.reached('gate')
        answer = site.begin('answer', task_id=begun.id)
        await settle()
        other = site.begin('bob', user='bob')
        await settle()
        agent.open('gate')
        await asyncio.gather(answer, other)
        assert agent.heard == ['asks', 'bob', 'answer']


async def test_the_next_message_of_a_task_counts_for_its_owner() -> None:
    agent = new_agent(asks=[emit(task(WORKING)), wait('gate'), emit(status(INPUT_REQUIRED))])
    async with running(agent, settings=Settings(max_running_turns_per_owner=1)) as site:
        begun = await site.begin_task('asks')
        await agent.reached('gate')
        answer, busy = site.begin('answer', task_id=begun.id), site.begin('busy')
        await settle()
        agent.open('gate')
        await agent.reached('busy')
        await settle()
        assert agent.heard == ['asks', 'busy']
        agent.open('busy')
        assert [(await sent).status.state for sent in (answer, busy)] == [COMPLETED, COMPLETED]


async def test_a_sender_who_leaves_while_its_claim_is_written_leaves_a_turn_that_runs() -> None:
    agent = new_agent()
    async with running(agent, settings=ONE) as site:
        parked = await site.send('park')
        await site.left_memory()
        site.journal.hold()
        sending = site.begin('answer', task_id=parked.id)
        await site.journal.wait_until_held()
        sending.cancel()
        await settle()
        assert site.engine.running_turns == 0
        site.journal.let_go()
        await until(lambda: agent.heard == ['park', 'answer'])
        await site.left_memory()
        assert (await site.get(parked.id)).status.state == COMPLETED


# Those who leave the queue


async def test_a_client_that_goes_away_gives_its_place_back_while_nothing_is_recorded() -> None:
    agent = new_agent()
    async with running(agent, settings=ONE) as site:
        busy = await make_busy(site, agent)
        stream, blocking, immediate = site.stream(), site.begin(), site.begin(immediately=True)
        await settle()
        assert site.engine.waiting_turns == 3
        await stream.go_away()
        for sending in (blocking, immediate):
            sending.cancel()
        await until(lambda: site.engine.waiting_turns == 0)
        await site.advance(1.0)
        agent.open('busy')
        await site.left_memory()
        assert (agent.heard, site.task_ids) == (['busy'], [busy])


async def test_a_client_whose_connection_has_gone_gives_its_place_back() -> None:
    agent = new_agent()

    async def is_present() -> bool:
        return False

    async with running(agent, settings=ONE) as site:
        await make_busy(site, agent)
        sending = asyncio.ensure_future(site.handler.answer_message(new_request(), new_context(), is_present))
        await site.advance(site.engine.settings.poll_interval)
        with pytest.raises(CallerGoneError):
            await sending
        assert (site.engine.waiting_turns, site.engine.live_tasks) == (0, 1)
        agent.open('busy')


async def test_a_client_that_goes_away_after_its_task_is_recorded_stops_nothing() -> None:
    agent = new_agent()
    async with running(agent, settings=ONE) as site:
        await make_busy(site, agent)
        stream = site.stream()
        await site.advance(site.engine.settings.create_task_after)
        await until(lambda: stream.events)
        await stream.go_away()
        agent.open('busy')
        await site.left_memory()
        assert agent.heard == ['busy', 'go']
        assert (await site.get(site.task_ids[1])).status.state == COMPLETED


async def cancel_while_waiting(site: Site, agent: ScriptedAgent, task_id: str) -> None:
    """Cancels a task whose turn waits, and makes room for the turn while the agent is asked."""
    agent.on_cancel = [wait('cancelling')]
    canceling = site.begin_cancel(task_id)
    await agent.reached('cancelling')
    agent.open('busy')
    await settle()
    agent.open('cancelling')
    assert (await canceling).status.state == CANCELED
    await site.left_memory()
    assert 'waiting' not in agent.heard
    assert (site.engine.running_turns, site.engine.waiting_turns) == (0, 0)


async def test_a_first_turn_that_waits_for_room_is_cancelled() -> None:
    agent = new_agent()
    async with running(agent, settings=ONE) as site:
        await make_busy(site, agent)
        stream = site.stream('waiting')
        await site.advance(site.engine.settings.create_task_after)
        await cancel_while_waiting(site, agent, site.task_ids[1])
        assert [state_of(event) for event in await stream.end()] == [SUBMITTED, CANCELED]


async def test_a_follow_up_that_waits_for_room_is_cancelled() -> None:
    agent = new_agent()
    async with running(agent, settings=ONE) as site:
        parked = await site.send('park')
        await site.left_memory()
        await make_busy(site, agent)
        answer = site.begin('waiting', task_id=parked.id)
        await settle()
        await cancel_while_waiting(site, agent, parked.id)
        assert (await answer).status.state == CANCELED


# Trouble, and the end


async def test_closing_sends_those_away_who_were_promised_nothing_and_starts_the_others() -> None:
    agent = new_agent()
    async with running(agent, settings=ONE) as site:
        busy = await make_busy(site, agent)
        recorded = await begin_recorded(site, 'recorded')
        blocking = site.begin()
        await settle()
        closing = asyncio.ensure_future(site.handler.aclose())
        with pytest.raises(TemporaryError):
            await blocking
        agent.open('busy')
        await settle()
        await closing
        assert agent.heard == ['busy', 'recorded']
        for task_id in (busy, recorded):
            assert (await site.get(task_id)).status.state == COMPLETED


async def test_what_waits_until_the_drain_ends_is_recorded_without_having_begun() -> None:
    agent = new_agent(busy=[emit(task(WORKING)), wait('busy', stubborn=True)])
    async with running(agent, settings=ONE) as site:
        busy = await make_busy(site, agent)
        recorded = await begin_recorded(site, 'recorded')
        parked_answer = site.begin('more', task_id=busy)
        await settle()
        await site.close()
        assert agent.heard == ['busy']
        for task_id in (busy, recorded):
            assert (await site.get(task_id)).status.state == FAILED
        with pytest.raises((UnsupportedOperationError, InternalError)):
            await parked_answer
        agent.open('busy')


def test_a_program_that_ends_without_closing_records_nothing_of_what_waited_unrecorded() -> None:
    agent, store = new_agent(), InMemoryTaskStore()
    handler = DefaultRequestHandler(agent, store, new_card(), settings=ONE)

    async def begin_and_leave() -> 'list[asyncio.Task[Any]]':
        immediately = SendMessageConfiguration(return_immediately=True)
        await handler.on_message_send(new_request('busy', configuration=immediately), new_context())
        waiting = [
            asyncio.create_task(handler.on_message_send(new_request(), new_context()), name=f'{number}')
            for number in range(3)
        ]
        await until(lambda: handler.engine.waiting_turns == 3)
        return waiting

    async def look() -> ListTasksResponse:
        return await DefaultRequestHandler(agent, store, new_card()).on_list_tasks(ListTasksRequest(), new_context())

    asyncio.run(begin_and_leave())
    assert [found.status.state for found in asyncio.run(look()).tasks] == [FAILED]


async def test_a_journal_that_refuses_a_waiting_task_gives_its_room_back() -> None:
    agent = new_agent()
    async with running(agent, settings=ONE) as site:
        await make_busy(site, agent)
        stream = site.stream()
        await settle()
        site.journal.refuse(lambda group: any(append.born for append in group.appends))
        await site.advance(site.engine.settings.create_task_after)
        await until(lambda: site.engine.waiting_turns == 0)
        with pytest.raises(InternalError):
            await stream.end()
        site.journal.heal()
        agent.open('busy')
        await site.left_memory()
        assert agent.heard == ['busy']


async def test_an_agent_that_was_left_behind_holds_no_room() -> None:
    agent = new_agent(stubborn=[emit(task(WORKING)), wait('stubborn', stubborn=True), emit(status(COMPLETED))])
    async with running(agent, settings=Settings(max_running_turns=1, turn_timeout=5.0)) as site:
        await site.begin_task('stubborn')
        waiting = site.begin()
        await site.advance(5.0)
        assert (await waiting).status.state == COMPLETED
        with pytest.raises(TurnEndedError):
            await agent.queues[0].enqueue_event(status(COMPLETED))


async def test_a_turn_that_has_waited_and_had_deadlines_is_freed_at_once() -> None:
    """Without the collector: turns hold whole requests."""
    agent = new_agent()
    settings = Settings(max_running_turns=1, turn_timeout=100.0, inactivity_timeout=50.0)
    others = [each for each in gc.get_objects() if isinstance(each, Turn)]
    async with running(agent, settings=settings) as site:
        await make_busy(site, agent)
        sent = [site.begin() for _ in range(3)]
        await settle()
        gc.collect()
        gc.disable()
        try:
            agent.open('busy')
            await asyncio.gather(*sent)
            await site.left_memory()
            sent.clear()
            await settle()
            assert [each for each in gc.get_objects() if isinstance(each, Turn) and each not in others] == []
        finally:
            gc.enable()


def test_room_is_a_setting_that_is_checked() -> None:
    assert Settings(max_running_turns_per_owner=None) == Settings()
    environment = {'A2A_SCRIBE_MAX_RUNNING_TURNS_PER_OWNER': '7'}
    assert Settings.from_environment(environment).max_running_turns_per_owner == 7
