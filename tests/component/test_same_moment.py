"""Two things at the same moment: cancels, closing, claims and ids that meet leave no task owned and nobody waiting."""

import asyncio
import logging
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext, RequestContextBuilder
from a2a.server.context import ServerCallContext
from a2a.server.tasks import PushNotificationEvent, PushNotificationSender
from a2a.utils.errors import InternalError, InvalidParamsError

from a2a_scribe import Settings
from a2a_scribe.journal.tasks import TaskRow
from a2a_scribe.journal.writes import Group
from a2a_scribe.protocol.states import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, WORKING
from a2a_scribe.protocol.types import SendMessageRequest, Task
from a2a_scribe.testing.agents import Run, Script, ScriptedAgent, artifact, do, emit, fail, status, task, wait
from tests.component.kit import DEADLINE, Site, new_context, new_request, running, settle, state_of, until

pytestmark = pytest.mark.anyio

PARK: Script = [emit(task(), status(INPUT_REQUIRED, 'what?'))]


class Sender(PushNotificationSender):
    """Keeps what it should send."""

    def __init__(self) -> None:
        self.sent: list[PushNotificationEvent] = []

    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        self.sent.append(event)


class MessageIdAsTaskId(RequestContextBuilder):
    """Gives a new task the id of its first message, so that clients can make ids collide."""

    async def build(
        self,
        context: ServerCallContext,
        params: SendMessageRequest | None = None,
        task_id: str | None = None,
        context_id: str | None = None,
        task: Task | None = None,
    ) -> RequestContext:
        assert params is not None
        return RequestContext(
            call_context=context,
            request=params,
            task_id=task_id or params.message.message_id,
            context_id=context_id,
            task=task,
        )


async def parked(site: Site) -> str:
    """Sends a message whose agent asks back, and returns the task's id when nobody works on it any more."""
    answer = await site.send()
    await site.left_memory()
    assert isinstance(answer, Task)
    return answer.id


def row_of(site: Site, task_id: str) -> TaskRow:
    row = site.memory.row(task_id)
    assert row is not None
    return row


async def ended(waiting: 'asyncio.Task[object]') -> BaseException | None:
    """Waits until a call is over, and returns what it raised."""
    async with asyncio.timeout(DEADLINE / 2):
        await asyncio.wait([waiting])
    return waiting.exception()


async def pass_time(site: Site, seconds: int) -> None:
    for _ in range(seconds):
        await site.advance(1.0)


# Cancels


async def test_a_client_that_leaves_while_a_parked_task_is_claimed_has_cancelled() -> None:
    async with running(ScriptedAgent(PARK)) as site:
        task_id = await parked(site)
        site.journal.hold()
        canceling = site.begin_cancel(task_id)
        await site.journal.wait_until_held()
        canceling.cancel()
        await settle()
        site.journal.let_go()
        await settle()
        row = row_of(site, task_id)
        assert (row.state, row.node) == (CANCELED, None)


async def test_a_cancel_that_cannot_read_the_task_for_its_agent_cancels_all_the_same() -> None:
    """Something is not durable yet, so the errand of the cancel has to read the task when the journal fails."""
    agent = ScriptedAgent(
        [emit(task()), wait('go'), emit(status(WORKING)), wait('gate'), emit(status(COMPLETED))],
    )
    async with running(agent) as site:
        blocking = site.begin()
        await agent.reached('go')
        await settle()
        site.journal.hold()
        agent.open('go')
        await agent.reached('gate')
        canceling = site.begin_cancel(site.task_id)
        await asyncio.sleep(0)
        site.journal.reads_fail = True
        await settle()
        site.journal.reads_fail = False
        site.journal.let_go()
        assert (await canceling).status.state == CANCELED
        assert (await blocking).status.state == CANCELED
        await site.left_memory()


async def test_a_turn_that_ends_in_the_moment_of_its_cancel_leaves_the_task_owned_by_nobody() -> None:
    agent = ScriptedAgent(
        [emit(task()), wait('gate'), emit(status(INPUT_REQUIRED, 'what?'))], on_cancel=[emit(status(CANCELED))]
    )
    async with running(agent) as site:
        blocking = site.begin()
        await agent.reached('gate')
        await settle()
        canceling = site.begin_cancel(site.task_id)
        agent.open('gate')
        assert (await canceling).status.state == CANCELED
        assert await ended(blocking) is None
        await site.left_memory()
        assert row_of(site, site.task_id).node is None


async def test_a_cancel_in_the_moment_between_two_turns_leaves_one_end() -> None:
    async def dawdle(run: Run) -> None:
        await settle(5)

    agent = ScriptedAgent(
        [emit(task()), wait('gate'), emit(status(INPUT_REQUIRED, 'what?'))],
        [emit(status(WORKING)), wait('second'), emit(status(COMPLETED))],
        on_cancel=[do(dawdle), emit(status(CANCELED))],
    )
    async with running(agent) as site:
        blocking = site.begin()
        await agent.reached('gate')
        await settle()
        queued = site.begin('next', task_id=site.task_id)
        await settle()
        canceling = site.begin_cancel(site.task_id)
        agent.open('gate')
        assert (await canceling).status.state == CANCELED
        await ended(blocking)
        await ended(queued)
        await site.left_memory()
        assert row_of(site, site.task_id).state == CANCELED


# Errors of the agent


UNPRINTABLE: dict[str, Any] = {'not a text': ValueError('x'), 'half a character': 'bad \ud800 name'}


@pytest.mark.parametrize('text', UNPRINTABLE.values(), ids=UNPRINTABLE)
async def test_a_protocol_error_that_cannot_be_recorded_as_it_is_ends_the_turn(text: Any) -> None:
    async with running(ScriptedAgent([emit(task()), fail(InvalidParamsError(text))])) as site:
        await ended(site.begin())
        await site.left_memory()
        assert row_of(site, site.task_id).open_turn is None


async def test_an_exposed_error_that_cannot_be_recorded_as_it_is_ends_the_turn() -> None:
    agent = ScriptedAgent([emit(task()), fail(ValueError('file \udcff'))])
    async with running(agent, settings=Settings(expose_errors=True)) as site:
        await ended(site.begin())
        await site.left_memory()
        assert row_of(site, site.task_id).state == FAILED


# Closing


async def test_a_task_that_is_claimed_while_the_server_closes_is_given_back() -> None:
    async with running(ScriptedAgent(PARK, [wait('gate'), emit(status(COMPLETED))])) as site:
        task_id = await parked(site)
        site.journal.hold()
        sending = site.begin('again', task_id=task_id)
        await site.journal.wait_until_held()
        closing = asyncio.create_task(site.handler.aclose())
        await settle()
        site.journal.let_go()
        await pass_time(site, 40)
        await closing
        row = row_of(site, task_id)
        assert (row.node, row.open_turn) == (None, None)
        await ended(sending)


async def test_a_task_that_is_claimed_while_the_server_closes_starts_no_dead_feed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(ScriptedAgent(PARK, [emit(status(COMPLETED))]), push_sender=Sender()) as site:
        task_id = await parked(site)
        await settle()
        site.journal.hold()
        sending = site.begin('again', task_id=task_id)
        await site.journal.wait_until_held()
        closing = asyncio.create_task(site.handler.aclose())
        await settle()
        site.journal.let_go()
        await pass_time(site, 40)
        await closing
        await ended(sending)
        assert [entry for entry in caplog.records if entry.levelno >= logging.CRITICAL] == []


async def test_a_request_that_waits_for_the_journal_is_answered_when_the_server_closes() -> None:
    async with running(ScriptedAgent(PARK)) as site:
        task_id = await parked(site)
        site.journal.fail()
        sending = site.begin('again', task_id=task_id)
        await settle()
        await site.close()
        await settle()
        assert sending.done()
        assert isinstance(sending.exception(), InternalError)


async def test_a_server_that_dies_answers_everybody() -> None:
    def die(group: Group) -> bool:
        raise KeyError(group.number)

    async with running(ScriptedAgent(PARK, [wait('never')]), checked=False) as site:
        task_id = await parked(site)
        subscribed = site.subscribe(task_id)
        await settle()
        site.journal.refuse(die)
        sending = site.begin('again', task_id=task_id)
        await pass_time(site, 10)
        assert sending.done()
        assert isinstance(sending.exception(), InternalError)
        assert subscribed.task is not None
        assert subscribed.task.done()
        subscribed.task.exception()


# Claims and turns


async def test_a_message_whose_sender_leaves_before_it_is_accepted_ends_no_turn() -> None:
    """The agent has returned and works on in the background, until a message is there that needs a turn."""
    agent = ScriptedAgent([emit(task(), status(WORKING))])
    async with running(agent, settings=Settings(unfinished='keep')) as site:
        begun = await site.begin_task()
        await settle()
        site.journal.hold()
        await agent.queues[0].enqueue_event(status(WORKING, 'still'))
        await site.journal.wait_until_held()
        sending = site.begin('again', task_id=begun.id)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        sending.cancel()
        await settle()
        site.journal.let_go()
        await settle()
        assert agent.heard == ['go']
        await agent.queues[0].enqueue_event(status(COMPLETED))
        await site.left_memory()
        assert row_of(site, begun.id).state == COMPLETED


async def test_a_blocking_sender_is_asked_although_the_agent_goes_on_at_once() -> None:
    agent = ScriptedAgent(
        [emit(task(), status(INPUT_REQUIRED, 'what?'), status(WORKING)), wait('gate'), emit(status(COMPLETED))]
    )
    async with running(agent) as site:
        blocking = site.begin()
        await agent.reached('gate')
        await settle()
        assert blocking.done(), 'the question is the answer, whatever was admitted behind it'
        agent.open('gate')
        await site.left_memory()


async def test_a_feed_that_cannot_read_for_a_while_sends_all_events() -> None:
    chunks = [artifact(str(number), append=number > 0) for number in range(5)]
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(*chunks), emit(status(COMPLETED))])
    sender = Sender()
    async with running(agent, push_sender=sender, settings=Settings(tail_records=1)) as site:
        blocking = site.begin()
        await agent.reached('gate')
        await settle()
        site.journal.reads_fail = True
        agent.open('gate')
        await settle(20)
        site.journal.reads_fail = False
        await until(lambda: len(sender.sent) == 7, 'all events are sent')
        await ended(blocking)


# Ids


async def test_an_id_that_is_anothers_shows_nothing_of_their_task() -> None:
    agent = ScriptedAgent(
        [emit(task(), artifact('a secret of ada'), status(WORKING)), wait('gate'), emit(status(COMPLETED))],
        [emit(task(), status(COMPLETED))],
    )
    async with running(agent, request_context_builder=MessageIdAsTaskId()) as site:
        blocking = site.begin(message_id='one')
        await agent.reached('gate')
        await settle()
        stream = site.stream(user='eve', message_id='one')
        await settle(100)
        assert 'a secret of ada' not in str(stream.events)
        agent.open('gate')
        assert (await blocking).status.state == COMPLETED
        await stream.go_away()


async def test_an_id_that_is_taken_does_not_disturb_the_task_that_has_it() -> None:
    agent = ScriptedAgent(
        [emit(task(), status(WORKING)), wait('gate'), emit(status(COMPLETED))], [emit(task(), status(COMPLETED))]
    )
    async with running(agent, request_context_builder=MessageIdAsTaskId()) as site:
        first = site.begin(message_id='one')
        await agent.reached('gate')
        await settle()
        second = site.begin(message_id='one')
        await settle(100)
        assert (await site.get('one')).status.state == WORKING
        agent.open('gate')
        assert (await first).status.state == COMPLETED
        assert (await site.get('one')).status.state == COMPLETED
        await ended(second)


# A node that is fenced between the parts of a group that was refused


async def test_readers_who_are_behind_when_their_node_is_fenced_are_told_what_is_durable() -> None:
    """The fence shows itself at one part of a group that is written in parts, and holds for all of them."""
    agent = ScriptedAgent(
        [emit(task()), wait('work'), emit(status(WORKING)), wait('gate'), emit(artifact()), wait('never')]
    )
    attempts: list[Group] = []

    def split_then_fence(group: Group) -> bool:
        attempts.append(group)
        if len(attempts) == 2:
            site.memory.fence(group.node)
        return len(attempts) == 1

    async with running(agent, checked=False) as site:
        streams = [site.handler.on_message_send_stream(new_request(), new_context()) for _ in range(2)]
        for stream in streams:
            assert isinstance(await anext(stream), Task)
        agent.open('work')
        await settle()
        site.journal.refuse(split_then_fence)
        agent.open('gate')
        await settle(200)
        assert len(attempts) == 2
        for stream in streams:
            assert state_of(await anext(stream)) == WORKING
            with pytest.raises(InternalError):
                await anext(stream)
