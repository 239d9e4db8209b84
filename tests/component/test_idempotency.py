"""Messages that are sent again under their key: executed once, whichever node is asked, and answered alike."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types.a2a_pb2 import GetTaskRequest, SendMessageConfiguration
from a2a.utils.errors import InternalError, InvalidParamsError, UnsupportedOperationError
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe import DatabaseTaskStore, DefaultRequestHandler, Settings
from a2a_scribe.journal import foreign
from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.protocol.faults import InvalidFieldError
from a2a_scribe.protocol.states import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, SUBMITTED, WORKING
from a2a_scribe.protocol.types import Task, TaskPushNotificationConfig
from a2a_scribe.testing.agents import ScriptedAgent, artifact, emit, fail, message, status, task, wait
from a2a_scribe.testing.clock import FakeClock
from a2a_scribe.testing.journals import TroubledJournal
from tests.component.kit import (
    Site,
    history_of,
    new_card,
    new_context,
    new_request,
    running,
    settle,
    text_of,
    until,
)
from tests.component.receivers import Receivers
from tests.component.test_same_moment import MessageIdAsTaskId

pytestmark = pytest.mark.anyio

DAY = 86_400.0


class AgentError(Exception):
    """The agent's own error."""


def slow_agent() -> ScriptedAgent:
    return ScriptedAgent([emit(task(WORKING), artifact('one')), wait('gate'), emit(artifact('two'), status(COMPLETED))])


def asking_agent() -> ScriptedAgent:
    """Asks back, then works at the gate, then is done."""
    return ScriptedAgent(
        [emit(status(INPUT_REQUIRED, 'what?'))], [emit(status(WORKING)), wait('gate'), emit(status(COMPLETED))]
    )


@asynccontextmanager
async def nodes(*agents: ScriptedAgent, settings: Settings | None = None, **given: Any) -> AsyncIterator[list[Site]]:
    """Nodes on one journal; at the end, what is to be checked of it is checked once all are closed."""
    memory, clock = MemoryJournal(), FakeClock()
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                running(agent, journal=TroubledJournal(memory), clock=clock, settings=settings, checked=False, **given)
            )
            for agent in agents
        ]


async def answered(site: Site, waiting: 'asyncio.Task[Any]') -> Any:
    """Returns an answer that comes from another node, of which this one hears now and then."""
    while not waiting.done():
        await site.advance(1.0)
    return await waiting


async def test_a_message_that_is_sent_again_is_executed_once() -> None:
    agent = ScriptedAgent([emit(artifact('done'), status(COMPLETED))])
    async with running(agent) as site:
        first = await site.send(key='k')
        await site.left_memory()
        assert await site.send(key='k') == first
        assert await site.send(key='k', immediately=True) == first
        assert len(agent.contexts) == 1
        assert len((await site.find()).tasks) == 1
        assert (await site.send(key='other')).id != first.id


async def test_without_a_key_nothing_is_the_same() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent) as site:
        assert (await site.send()).id != (await site.send()).id
        assert all(append.key is None for group in site.journal.attempts for append in group.appends)


async def test_whoever_sends_again_while_the_agent_works_gets_its_answer() -> None:
    agent = slow_agent()
    async with running(agent) as site:
        first, again = site.begin(key='k'), site.begin(key='k')
        await agent.reached('gate')
        at_once = await site.send(key='k', immediately=True)
        assert at_once.status.state == WORKING
        late = site.begin(key='k')
        await settle()
        agent.open('gate')
        answers = [await each for each in (first, again, late)]
        assert {answer.status.state for answer in answers} == {COMPLETED}
        assert {answer.id for answer in answers} == {at_once.id}
        assert len(agent.contexts) == 1


async def test_a_stream_shows_the_task_as_it_is_and_then_what_follows() -> None:
    agent = slow_agent()
    async with running(agent) as site:
        first = site.stream(key='k')
        await agent.reached('gate')
        await settle()
        again = site.stream(key='k')
        await until(lambda: again.events)
        agent.open('gate')
        events = await again.end()
        assert isinstance(events[0], Task)
        assert [part.text for part in events[0].artifacts[0].parts] == ['one']
        assert events[1:] == (await first.end())[-2:]
        over = await site.stream(key='k').end()
        assert len(over) == 1
        assert isinstance(over[0], Task)
        assert over[0].status.state == COMPLETED
        assert len(agent.contexts) == 1


async def test_another_node_answers_with_the_first_nodes_turn() -> None:
    agent, idle = slow_agent(), slow_agent()
    async with nodes(agent, idle) as (one, two):
        first = one.begin(key='k')
        await agent.reached('gate')
        await settle()
        again, stream = two.begin(key='k'), two.stream(key='k')
        assert (await two.send(key='k', immediately=True)).status.state == WORKING
        await until(lambda: stream.events)
        agent.open('gate')
        answer = await first
        assert await answered(two, again) == answer
        assert stream.task is not None
        await answered(two, stream.task)
        assert [type(event).__name__ for event in stream.events] == [
            'Task',
            'TaskArtifactUpdateEvent',
            'TaskStatusUpdateEvent',
        ]
        assert await two.send(key='k') == answer
        assert (len(agent.contexts), len(idle.contexts)) == (1, 0)


async def test_of_two_nodes_at_the_same_moment_one_executes() -> None:
    agents = [ScriptedAgent([emit(status(COMPLETED, f'by {name}'))]) for name in ('one', 'two')]
    async with nodes(*agents) as sites:
        for site in sites:
            await site.engine.start()
            site.journal.hold()
        waiting = [site.begin(key='k') for site in sites]
        for site in sites:
            await site.journal.wait_until_held()
        assert [len(agent.contexts) for agent in agents] == [0, 0]
        for site in sites:
            site.journal.let_go()
        answers = [await answered(site, each) for site, each in zip(sites, waiting, strict=True)]
        assert answers[0] == answers[1]
        assert sum(len(agent.contexts) for agent in agents) == 1
        assert len((await sites[0].find()).tasks) == 1


async def test_no_agent_begins_before_the_key_is_durable() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent) as site:
        site.journal.hold()
        waiting = site.begin(key='k')
        await site.journal.wait_until_held()
        await site.advance(1.0)
        assert agent.contexts == []
        site.journal.let_go()
        assert (await waiting).status.state == COMPLETED
        assert (await site.kinds(site.task_id))[:2] == ['turn_started', 'task']


async def test_another_message_under_the_same_key_is_refused() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent) as site:
        await site.send('one', key='k')
        with pytest.raises(InvalidFieldError) as caught:
            await site.send('two', key='k')
        assert 'Idempotency-Key was given to another message' in str(caught.value)
        with pytest.raises(InvalidFieldError):
            await site.stream('two', key='k').end()
        assert agent.heard == ['one']
        assert len((await site.find()).tasks) == 1


async def test_how_the_answer_is_given_makes_no_other_message() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent) as site:
        first = await site.send(key='k')
        short = await site.send(key='k', configuration=SendMessageConfiguration(history_length=0))
        assert (short.id, len(short.history)) == (first.id, 0)
        with pytest.raises(InvalidFieldError):
            await site.send(key='k', configuration=SendMessageConfiguration(accepted_output_modes=['text/html']))


@pytest.mark.parametrize('key', ['', 'x' * 256, 'two words', 'a\x00b', 'é', 'a, b'], ids=ascii)
async def test_a_key_that_is_none_is_refused(key: str) -> None:
    async with running(ScriptedAgent([emit(status(COMPLETED))])) as site:
        with pytest.raises(InvalidFieldError) as caught:
            await site.send(key=key)
        assert [violation.field for violation in caught.value.violations] == ['Idempotency-Key']
        assert site.journal.attempts == []


@pytest.mark.parametrize('key', ['x', 'x' * 255, '!~"'])
async def test_keys_that_can_be_used(key: str) -> None:
    async with running(ScriptedAgent([emit(status(COMPLETED))])) as site:
        assert await site.send(key=key) == await site.send(key=key)


async def test_keys_of_others_are_others() -> None:
    async with running(ScriptedAgent([emit(status(COMPLETED))])) as site:
        first = await site.send(key='k')
        assert (await site.send('another', key='k', user='bob')).id != first.id
        with pytest.raises(InvalidParamsError):
            await site.send('another', key='k')


async def test_a_direct_message_completes_the_task() -> None:
    agent = ScriptedAgent([emit(message('hello'))])
    async with running(agent) as site:
        first = await site.send(key='k')
        assert (first.status.state, text_of(first.status.message)) == (COMPLETED, 'hello')
        assert await site.send(key='k') == first
        assert (await site.stream(key='k').end()) == [first]
        assert len(agent.contexts) == 1


async def test_an_agent_that_fails_fails_once() -> None:
    agent = ScriptedAgent([emit(status(WORKING)), wait('gate'), fail(AgentError())])
    async with running(agent) as site:
        first = site.begin(key='k')
        await agent.reached('gate')
        again = site.begin(key='k')
        await settle()
        agent.open('gate')
        for waiting in (first, again):
            with pytest.raises(AgentError):
                await waiting
        await site.left_memory()
        assert (await site.send(key='k')).status.state == FAILED
        assert len(agent.contexts) == 1


async def test_a_follow_up_that_is_sent_again_is_executed_once() -> None:
    agent = asking_agent()
    async with nodes(agent, asking_agent()) as (one, two):
        begun = await one.send(key='first')
        await one.left_memory()
        waiting = one.begin('answer', key='k', task_id=begun.id)
        await agent.reached('gate')
        await settle()
        again, elsewhere = (
            one.begin('answer', key='k', task_id=begun.id),
            two.begin('answer', key='k', task_id=begun.id),
        )
        stream = two.stream('answer', key='k', task_id=begun.id)
        await until(lambda: stream.events)
        agent.open('gate')
        answer = await waiting
        assert answer.status.state == COMPLETED
        assert await again == await answered(two, elsewhere) == answer
        assert stream.task is not None
        await answered(two, stream.task)
        assert history_of(answer) == ['go', 'what?', 'answer']
        assert await two.send('answer', key='k', task_id=begun.id) == answer
        assert len(await two.stream('answer', key='k', task_id=begun.id).end()) == 1
        assert len(agent.contexts) == 2
        assert (await one.send(key='first')).id == begun.id


async def test_a_queued_message_that_is_sent_again_waits_in_the_same_place() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(status(INPUT_REQUIRED))], [emit(status(COMPLETED))])
    async with nodes(agent, asking_agent()) as (one, two):
        first = await one.begin_task('first')
        waiting = [site.begin('second', key='k', task_id=first.id) for site in (one, one, two)]
        await settle()
        assert (await two.send('second', key='k', task_id=first.id, immediately=True)).status.state == WORKING
        agent.open('gate')
        answers = [await answered(two, each) for each in waiting]
        assert [answer.status.state for answer in answers] == [COMPLETED] * 3
        assert agent.heard == ['first', 'second']


async def test_a_queued_message_that_was_refused_is_refused_again() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(status(COMPLETED))])
    async with running(agent) as site:
        first = await site.begin_task('first')
        waiting = site.begin('second', key='k', task_id=first.id)
        await settle()
        agent.open('gate')
        for _ in range(2):
            with pytest.raises(UnsupportedOperationError):
                await waiting
            await site.left_memory()
            waiting = site.begin('second', key='k', task_id=first.id)
        with pytest.raises(UnsupportedOperationError):
            await waiting
        assert agent.heard == ['first']


async def test_a_message_that_was_not_accepted_leaves_its_key_free() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent) as site:
        over = await site.send()
        await site.left_memory()
        with pytest.raises(UnsupportedOperationError):
            await site.send('more', key='k', task_id=over.id)
        assert (await site.send('anew', key='k')).id != over.id


async def test_a_key_is_free_again_after_its_time_and_is_deleted() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent) as site:
        first = await site.send(key='k')
        await site.send(key='another')
        site.clock.advance(DAY - 1)
        assert (await site.send(key='k')).id == first.id
        site.clock.advance(1)
        second = await site.send('other bytes', key='k')
        assert second.id != first.id
        assert (await site.send('other bytes', key='k')).id == second.id
        await site.advance(60)
        assert await site.memory.delete_expired_keys(site.clock.now()) == 0
        assert await site.memory.delete_expired_keys(site.clock.now() + int(DAY * 1e6)) == 1


async def test_how_long_keys_are_kept_is_a_setting() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent, settings=Settings(idempotency_retention=10.0)) as site:
        first = await site.send(key='k')
        site.clock.advance(10.0)
        assert (await site.send(key='k')).id != first.id


async def test_a_message_whose_task_was_deleted_is_executed_again() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent) as site:
        first = await site.send(key='k')
        await site.left_memory()
        assert await site.memory.delete_task(first.id, site.caller())
        assert (await site.send(key='k')).id != first.id


async def test_a_key_whose_task_has_vanished_is_free() -> None:
    agent = asking_agent()
    async with running(agent) as site:
        first = await site.send(key='k')
        await site.left_memory()
        site.memory.forget(first.id)
        agent.open('gate')
        second = await site.send(key='k')
        assert second.id != first.id
        assert (await site.send(key='k')).id == second.id
        assert len(agent.contexts) == 2


async def test_message_ids_are_keys_if_a_setting_says_so() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent, settings=Settings(message_id_is_key=True)) as site:
        first = await site.send(message_id='a b')
        assert (await site.send(message_id='a b')).id == first.id
        assert (await site.send(message_id='another')).id != first.id
        assert (await site.send(message_id='a b', key='k')).id != first.id
        with pytest.raises(InvalidFieldError) as caught:
            await site.send('other text', message_id='a b')
        assert [violation.field for violation in caught.value.violations] == ['message.messageId']


async def test_a_commit_whose_answer_is_lost_is_one() -> None:
    agent = asking_agent()
    async with running(agent) as site:
        site.journal.lose_answers(2)
        waiting = site.begin(key='k')
        first = await answered(site, waiting)
        await site.left_memory()
        site.journal.lose_answers(2)
        waiting = site.begin(key='k')
        assert (await answered(site, waiting)).id == first.id
        agent.open('gate')
        site.journal.lose_answers(2)
        more = site.begin('more', key='m', task_id=first.id)
        assert (await answered(site, more)).status.state == COMPLETED
        assert len(agent.contexts) == 2


async def test_a_birth_that_the_journal_refuses_leaves_the_key_free() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent) as site:
        site.journal.refuse(lambda group: any(append.born for append in group.appends))
        with pytest.raises(InternalError):
            await site.send(key='k')
        assert agent.contexts == []
        site.journal.heal()
        assert (await site.send(key='k')).status.state == COMPLETED
        assert site.engine.running_turns == 0


async def test_a_sender_who_goes_away_stops_nothing() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent) as site:
        site.journal.hold()
        waiting = site.begin(key='k')
        await site.journal.wait_until_held()
        waiting.cancel()
        await settle()
        site.journal.let_go()
        await until(lambda: agent.finished)
        await site.left_memory()
        assert (await site.send(key='k')).status.state == COMPLETED
        assert (len(agent.contexts), site.engine.running_turns) == (1, 0)


async def test_a_turn_that_waits_for_room_is_one_too() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(status(COMPLETED))])
    async with running(agent, settings=Settings(max_running_turns=1)) as site:
        await site.begin_task('busy')
        waiting = site.begin(key='k')
        await settle()
        begun = await site.send(key='k', immediately=True)
        assert begun.status.state == SUBMITTED
        assert len(agent.contexts) == 1
        agent.open('gate')
        assert (await waiting).id == begun.id
        assert agent.heard == ['busy', 'go']
        assert (site.engine.running_turns, site.engine.waiting_turns) == (0, 0)


async def test_a_task_that_is_cancelled_before_its_agent_began_stays_cancelled() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(status(COMPLETED))])
    async with running(agent, settings=Settings(max_running_turns=1)) as site:
        await site.begin_task('busy')
        begun = await site.send(key='k', immediately=True)
        assert (await site.cancel(begun.id)).status.state == CANCELED
        agent.open('gate')
        await site.left_memory()
        assert (await site.send(key='k')).status.state == CANCELED
        assert agent.heard == ['busy']


async def test_a_message_that_no_agent_has_seen_is_executed_when_it_is_sent_again() -> None:
    agent = asking_agent()
    async with running(agent) as site:
        agent.open('gate')
        parked = await site.send()
        await site.left_memory()
        site.journal.lose_answers(1_000_000)
        with pytest.raises(InternalError) as caught:
            await answered(site, site.begin('answer', key='k', task_id=parked.id))
        assert caught.value.data == {'retryable': 'true'}
        site.journal.heal()
        await site.advance(5)
        await site.left_memory()
        assert (await site.kinds(parked.id))[-2:] == ['turn_started', 'turn_ended']
        assert agent.heard == ['go']
        assert (await site.send('answer', key='k', task_id=parked.id)).status.state == COMPLETED
        assert (await site.send('answer', key='k', task_id=parked.id)).status.state == COMPLETED
        assert agent.heard == ['go', 'answer']


async def test_a_birth_of_which_nobody_hears_ends_as_failed_for_all_who_ask() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent) as site:
        site.journal.lose_answers(1_000_000)
        with pytest.raises(InternalError):
            await answered(site, site.begin(key='k'))
        site.journal.heal()
        await site.advance(5)
        await site.left_memory()
        assert (await site.send(key='k')).status.state == FAILED
        assert (agent.heard, site.engine.running_turns) == ([], 0)


async def test_a_turn_that_is_ended_before_its_key_is_durable_never_begins() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate', stubborn=True)], [emit(status(COMPLETED))])
    async with running(agent) as site:
        await site.begin_task('busy')
        site.journal.fail(1)
        waiting = site.begin(key='k')
        await settle()
        site.journal.hold()
        await site.advance(1)
        closing = asyncio.create_task(site.handler.aclose())
        await site.advance(10)
        site.journal.let_go()
        await settle()
        answer = await waiting
        assert (answer.status.state, agent.heard) == (FAILED, ['busy'])
        agent.open_all()
        await closing


async def test_a_turn_that_is_cancelled_before_its_key_is_known_to_be_durable_never_begins() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))], on_cancel=[wait('cancelling')])
    async with running(agent) as site:
        site.journal.lose_answers()
        waiting = site.begin(key='k')
        await settle()
        cancel = site.begin_cancel(site.task_id)
        await agent.reached('cancelling')
        await site.advance(1)
        agent.open('cancelling')
        assert (await cancel).status.state == CANCELED
        assert (await waiting).status.state == CANCELED
        assert (agent.contexts, site.engine.running_turns) == ([], 0)


async def test_a_server_that_closes_while_a_task_is_born_lets_it_end() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent) as site:
        site.journal.hold()
        waiting = site.begin(key='k')
        await site.journal.wait_until_held()
        closing = asyncio.create_task(site.handler.aclose())
        await settle()
        site.journal.let_go()
        await closing
        assert (await waiting).status.state == COMPLETED


async def test_a_server_that_closes_while_the_journal_is_away_begins_nothing() -> None:
    memory, clock, agent = MemoryJournal(), FakeClock(), ScriptedAgent([emit(status(COMPLETED))])
    async with running(agent, journal=TroubledJournal(memory), clock=clock, checked=False) as site:
        site.journal.fail()
        waiting = site.begin(key='k')
        await settle()
        await site.close()
        with pytest.raises(InternalError):
            await waiting
    async with running(agent, journal=TroubledJournal(memory), clock=clock) as site:
        assert (await site.send(key='k')).status.state == COMPLETED
        assert len(agent.contexts) == 1


async def test_after_a_restart_the_answer_is_the_same() -> None:
    memory, clock = MemoryJournal(), FakeClock()
    agent = ScriptedAgent([emit(status(COMPLETED, 'done'))])
    async with running(agent, journal=TroubledJournal(memory), clock=clock, checked=False) as site:
        first = await site.send(key='k')
    async with running(agent, journal=TroubledJournal(memory), clock=clock) as site:
        assert await site.send(key='k') == first
        assert len(agent.contexts) == 1


@pytest.mark.parametrize(('after_crash', 'state'), [('fail', FAILED), ('rerun', COMPLETED)])
async def test_a_node_that_dies_between_key_and_agent(after_crash: Any, state: Any) -> None:
    agents = ScriptedAgent([wait('never')]), ScriptedAgent([emit(status(COMPLETED))])
    settings = Settings(after_crash=after_crash, journal_patience=3600.0)
    async with nodes(*agents, settings=settings) as (dead, heir):
        begun = await dead.send(key='k', immediately=True)
        await heir.engine.start()
        dead.journal.hold()
        waiting = heir.begin(key='k')
        answer = await answered(heir, waiting)
        assert (answer.id, answer.status.state) == (begun.id, state)
        assert (await heir.send(key='k')).status.state == state
        assert len(agents[1].contexts) == (after_crash == 'rerun')


async def test_a_config_of_a_message_that_is_sent_again_is_kept_once() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    config = TaskPushNotificationConfig(id='c', url='https://hook.test')
    configuration = SendMessageConfiguration(task_push_notification_config=config)
    theirs, away = InMemoryPushNotificationConfigStore(), Receivers()
    away.answer = lambda _: 503
    async with running(agent, webhooks=away.options) as site:
        first = await site.send(key='k', configuration=configuration)
        assert (await site.send(key='k', configuration=configuration)).id == first.id
        assert [each.id for each in await site.memory.read_configs(first.id)] == ['c']
    async with running(agent, push_config_store=theirs) as site:
        first = await site.send(key='k', configuration=configuration)
        assert (await site.send(key='k', configuration=configuration)).id == first.id
        with pytest.raises(InvalidParamsError):
            await site.send('another', key='k', configuration=configuration)
        stored = [await theirs.get_info(task_id, new_context()) for task_id in site.task_ids]
        assert [len(configs) for configs in stored] == [1, 0, 0]


async def test_a_builder_may_give_both_messages_the_same_task_id() -> None:
    agent = slow_agent()
    async with running(agent, request_context_builder=MessageIdAsTaskId()) as site:
        site.journal.hold()
        first, again = site.begin(key='k'), site.begin(key='k')
        await site.journal.wait_until_held()
        await settle()
        site.journal.let_go()
        await agent.reached('gate')
        assert (await site.send(key='k', immediately=True)).status.state == WORKING
        for key, user in ((None, 'ada'), ('other', 'ada'), ('k', 'bob')):
            with pytest.raises(InvalidParamsError):
                await site.send(key=key, user=user)
        agent.open('gate')
        assert await first == await again
        await site.left_memory()
        assert (await site.send(key='k')).status.state == COMPLETED
        assert len(agent.contexts) == 1


async def test_a_store_of_a_users_remembers_keys_as_long_as_the_process_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, 'KEPT_BYTES', 0)
    agent = asking_agent()
    handler = DefaultRequestHandler(agent, InMemoryTaskStore(), new_card())

    async def send(text: str, key: str, **given: Any) -> Task:
        answer = await handler.on_message_send(new_request(text, **given), new_context(key=key))
        assert isinstance(answer, Task)
        return answer

    try:
        first = await send('go', 'k')
        assert (await send('go', 'k')).id == first.id
        waiting = asyncio.create_task(send('answer', 'm', task_id=first.id))
        await agent.reached('gate')
        queued = [asyncio.create_task(send('late', 'l', task_id=first.id)) for _ in range(2)]
        again = asyncio.create_task(send('answer', 'm', task_id=first.id))
        await settle(500)
        assert not any(each.done() for each in (again, *queued))
        agent.open('gate')
        ended = await waiting
        assert ended.status.state == COMPLETED
        assert await again == ended
        for each in queued:
            with pytest.raises(UnsupportedOperationError):
                await each
        assert (await send('another', 'other')).status.state == COMPLETED
        assert await send('answer', 'm', task_id=first.id) == ended
        assert (await send('go', 'k')).status.state == COMPLETED
        stream = handler.on_message_send_stream(new_request('answer', task_id=first.id), new_context(key='m'))
        assert [event async for event in stream] == [ended]
        with pytest.raises(InvalidParamsError):
            await send('another', 'k')
        assert len(agent.contexts) == 3
    finally:
        await handler.aclose()


@pytest.fixture(params=['sqlite_url', 'postgres_database_url'])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


async def test_on_one_database_each_of_many_keys_is_executed_once(url: str) -> None:
    agents = [ScriptedAgent([emit(artifact('done'), status(COMPLETED))]) for _ in range(3)]
    engines = [create_async_engine(url) for _ in agents]
    handlers = [
        DefaultRequestHandler(agent, DatabaseTaskStore(engine), new_card(), settings=Settings(poll_interval=0.05))
        for agent, engine in zip(agents, engines, strict=True)
    ]
    try:
        requests = [
            handler.on_message_send(new_request(f'{number}'), new_context(key=f'{number}'))
            for number in range(20)
            for handler in handlers
        ]
        answers = [each for each in await asyncio.gather(*requests) if isinstance(each, Task)]
        assert len(answers) == len(requests)
        assert len({answer.id for answer in answers}) == 20
        assert {answer.status.state for answer in answers} == {COMPLETED}
        heard = [text for agent in agents for text in agent.heard]
        assert sorted(heard) == sorted({f'{number}' for number in range(20)})
        (answer,) = {answer.id for answer in answers[:3]}
        assert await handlers[0].on_get_task(GetTaskRequest(id=answer), new_context()) == answers[0]
    finally:
        for handler, engine in zip(handlers, engines, strict=True):
            await handler.aclose()
            await engine.dispose()
