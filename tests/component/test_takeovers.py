"""A node that dies, as another node of the same journal sees it: its tasks end by policy or are executed again."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from a2a.server.events import Event
from a2a.server.tasks import PushNotificationSender
from a2a.utils.errors import InternalError, UnsupportedOperationError
from google.protobuf.json_format import MessageToDict

from a2a_scribe import CrashedTurn, Rerun, Settings, rerun_of
from a2a_scribe.core.statuses import RECOVERY
from a2a_scribe.engine import lookout
from a2a_scribe.errors import JournalUnavailableError
from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.port import NodeRow
from a2a_scribe.journal.tasks import Caller, StoredTask
from a2a_scribe.protocol.states import COMPLETED, FAILED, INPUT_REQUIRED, SUBMITTED, WORKING
from a2a_scribe.protocol.types import NodeId
from a2a_scribe.settings import CrashPolicy
from a2a_scribe.testing.agents import ScriptedAgent, artifact, emit, status, task, wait
from a2a_scribe.testing.clock import FakeClock
from a2a_scribe.testing.journals import TroubledJournal
from tests.component.kit import Site, history_of, running, settle, state_of, text_of, until

pytestmark = pytest.mark.anyio

LONG = Settings(journal_patience=3600.0)
"""Of a node that is stopped: it never gives up by itself."""


def stuck_agent() -> ScriptedAgent:
    return ScriptedAgent([emit(task(WORKING), artifact('one')), wait('gate'), emit(artifact('two'))])


@asynccontextmanager
async def two_nodes(
    first: ScriptedAgent, second: ScriptedAgent, settings: Settings = LONG, **given: Any
) -> AsyncIterator[tuple[Site, Site]]:
    """Two nodes of one agent; the first will be dead."""
    memory, clock = MemoryJournal(), FakeClock()
    async with AsyncExitStack() as stack:
        sites = [
            await stack.enter_async_context(
                running(agent, journal=TroubledJournal(memory), clock=clock, settings=settings, checked=False, **given)
            )
            for agent in (first, second)
        ]
        yield sites[0], sites[1]


async def die(dead: Site, heir: Site) -> None:
    """Stops a node where it is, as SIGSTOP would, until another has taken over what it owned."""
    await heir.engine.start()
    dead.journal.hold()
    await live(heir, 12)


async def live(site: Site, seconds: int) -> None:
    for _ in range(seconds):
        await site.advance(1.0)


def recovery_of(shown: Event) -> dict[str, Any]:
    """What an event or a task says of the take-over."""
    found: dict[str, Any] = MessageToDict(shown.metadata)[RECOVERY]
    return found


async def test_the_task_of_a_dead_node_fails_and_says_why() -> None:
    async with two_nodes(stuck_agent(), stuck_agent()) as (dead, heir):
        begun = await dead.begin_task()
        stream = heir.subscribe(begun.id)
        await until(lambda: stream.events)
        await die(dead, heir)
        events = await stream.end()
        ended = await heir.get(begun.id)
        assert ended.status.state == FAILED
        assert text_of(ended.status.message) == 'The server stopped while the agent was working.'
        assert recovery_of(ended) == {'reason': 'crash', 'attempt': 1}
        assert [part.text for part in ended.artifacts[0].parts] == ['one']
        assert recovery_of(events[-1]) == {'reason': 'crash', 'attempt': 1}
        assert (await heir.kinds(begun.id))[-2:] == ['status', 'turn_ended']
        assert 'died' in await heir.notes(begun.id)
        assert heir.engine.live_tasks == 0


@pytest.mark.parametrize('policy', ['fail', 'rerun'])
async def test_the_push_sender_of_the_heir_is_called_for_what_it_records(policy: CrashPolicy) -> None:
    class Sender(PushNotificationSender):
        async def send_notification(self, task_id: str, event: object) -> None:
            told.append((task_id, state_of(event)))

    told: list[tuple[str, object]] = []
    settings = Settings(after_crash=policy, journal_patience=3600.0)
    again = ScriptedAgent([emit(status(COMPLETED))])
    async with two_nodes(stuck_agent(), again, settings, push_sender=Sender()) as (dead, heir):
        begun = await dead.begin_task()
        await until(lambda: told[-1:] == [(begun.id, None)])
        told.clear()
        await die(dead, heir)
        after = [FAILED] if policy == 'fail' else [WORKING, COMPLETED]
        assert told == [(begun.id, state) for state in after]


async def test_a_zombie_records_nothing_and_serves_on_under_a_new_id() -> None:
    agent = ScriptedAgent(
        [emit(task(WORKING)), wait('gate'), emit(artifact('late')), wait('never')], [emit(task(), status(COMPLETED))]
    )
    async with two_nodes(agent, stuck_agent()) as (dead, heir):
        waiting = dead.begin()
        await agent.reached('gate')
        await settle()
        dead.journal.hold()
        agent.open('gate')
        await dead.journal.wait_until_held()
        task_id = dead.task_id
        await die(dead, heir)
        before = await heir.records(task_id)
        assert (await heir.get(task_id)).status.state == FAILED
        dead.journal.let_go()
        with pytest.raises(InternalError) as caught:
            await waiting
        assert caught.value.data == {'retryable': 'true'}
        await until(lambda: agent.finished == 1)
        assert await heir.records(task_id) == before
        assert (await dead.send()).status.state == COMPLETED


async def test_a_message_is_executed_again_if_the_policy_says_so() -> None:
    again = ScriptedAgent([emit(artifact('more', append=True), status(COMPLETED))])
    settings = Settings(after_crash='rerun', journal_patience=3600.0)
    first = stuck_agent()
    async with two_nodes(first, again, settings) as (dead, heir):
        begun = await dead.begin_task('do it')
        assert rerun_of(first.contexts[0]) is None
        stream = heir.subscribe(begun.id)
        await until(lambda: stream.events)
        await die(dead, heir)
        assert (await stream.end())[-1].status.state == COMPLETED  # type: ignore[union-attr]
        ended = await heir.get(begun.id)
        assert ended.status.state == COMPLETED
        assert history_of(ended) == ['do it']
        assert [part.text for part in ended.artifacts[0].parts] == ['one', 'more']
        (context,) = again.contexts
        assert context.get_user_input() == 'do it'
        assert context.current_task is not None
        assert context.current_task.status.state == WORKING
        assert rerun_of(context) == Rerun(2, 5)
        assert [recovery_of(each)['attempt'] for each in stream.events if RECOVERY in each.metadata] == [1]
        assert context.call_context.user.user_name == 'ada'


async def test_an_agent_that_begins_again_with_its_task_does_not_take_the_state_back() -> None:
    again = ScriptedAgent([emit(task(SUBMITTED)), wait('gate'), emit(status(COMPLETED))])
    settings = Settings(after_crash='rerun', journal_patience=3600.0)
    async with two_nodes(stuck_agent(), again, settings) as (dead, heir):
        begun = await dead.begin_task()
        await die(dead, heir)
        await again.reached('gate')
        assert (await heir.get(begun.id)).status.state == WORKING
        again.open('gate')
        await heir.left_memory()


async def test_attempts_are_bounded() -> None:
    settings = Settings(after_crash='rerun', crash_attempts=1, journal_patience=3600.0)
    again = stuck_agent()
    async with two_nodes(stuck_agent(), again, settings) as (dead, heir):
        begun = await dead.begin_task()
        await die(dead, heir)
        assert (await heir.get(begun.id)).status.state == FAILED
        assert not again.contexts


@pytest.mark.parametrize('answer', ['fail', 'rerun'])
async def test_a_policy_of_the_user_decides_for_each_task(answer: CrashPolicy) -> None:
    def decide(turn: CrashedTurn) -> CrashPolicy:
        asked.append(turn)
        return answer

    asked: list[CrashedTurn] = []
    again = ScriptedAgent([emit(status(COMPLETED))])
    async with two_nodes(stuck_agent(), again, after_crash=decide) as (dead, heir):
        begun = await dead.begin_task('hello')
        await die(dead, heir)
        assert (await heir.get(begun.id)).status.state == (FAILED if answer == 'fail' else COMPLETED)
        ((crashed),) = asked
        assert (crashed.task.id, text_of(crashed.message), crashed.attempt) == (begun.id, 'hello', 1)


async def test_a_policy_that_raises_fails_the_task() -> None:
    def decide(turn: CrashedTurn) -> CrashPolicy:
        raise LookupError(turn)

    async with two_nodes(stuck_agent(), stuck_agent(), after_crash=decide) as (dead, heir):
        begun = await dead.begin_task()
        await die(dead, heir)
        assert (await heir.get(begun.id)).status.state == FAILED


@pytest.mark.parametrize('rerun', [False, True])
async def test_messages_that_waited_are_refused_or_run_after_it(rerun: bool) -> None:
    settings = Settings(after_crash='rerun' if rerun else 'fail', journal_patience=3600.0)
    again = ScriptedAgent([emit(status(INPUT_REQUIRED))], [emit(status(COMPLETED))])
    async with two_nodes(stuck_agent(), again, settings) as (dead, heir):
        begun = await dead.begin_task('first')
        follow_up = heir.begin('second', task_id=begun.id)
        await settle()
        await die(dead, heir)
        await live(heir, 2)
        if rerun:
            assert (await follow_up).status.state == COMPLETED
            assert again.heard == ['first', 'second']
        else:
            with pytest.raises(UnsupportedOperationError):
                await follow_up


async def test_a_task_that_waits_for_input_is_left_as_it_is() -> None:
    agent = ScriptedAgent([emit(task(), status(INPUT_REQUIRED))])
    other = ScriptedAgent([emit(status(COMPLETED))])
    async with two_nodes(agent, other) as (dead, heir):
        parked = await dead.send()
        await die(dead, heir)
        assert (await heir.get(parked.id)).status.state == INPUT_REQUIRED
        assert (await heir.send('yes', task_id=parked.id)).status.state == COMPLETED


async def test_a_turn_that_had_asked_for_input_leaves_its_task_parked() -> None:
    agent = ScriptedAgent([emit(task(), status(INPUT_REQUIRED)), wait('gate')])
    other = ScriptedAgent([emit(status(COMPLETED))])
    async with two_nodes(agent, other) as (dead, heir):
        parked = await dead.send()
        await die(dead, heir)
        assert (await heir.get(parked.id)).status.state == INPUT_REQUIRED
        assert (await heir.kinds(parked.id))[-1] == 'turn_ended'
        assert (await heir.send('yes', task_id=parked.id)).status.state == COMPLETED


@pytest.mark.parametrize('policy', ['fail', 'rerun'])
@pytest.mark.parametrize('attempts', [1, 3])
async def test_a_task_that_had_ended_stays_as_it_is(policy: CrashPolicy, attempts: int) -> None:
    """Whatever its executor was still doing."""
    settings = Settings(after_crash=policy, crash_attempts=attempts, journal_patience=3600.0)
    agent, other = ScriptedAgent([emit(task(), status(COMPLETED)), wait('gate')]), stuck_agent()
    async with two_nodes(agent, other, settings) as (dead, heir):
        ended = await dead.send()
        await die(dead, heir)
        assert (await heir.get(ended.id)).status.state == COMPLETED
        assert (await heir.kinds(ended.id))[-2:] == ['status', 'turn_ended']
        assert heir.engine.live_tasks == 0
        assert not other.contexts


async def test_an_answer_that_was_being_worked_on_does_not_look_like_a_question() -> None:
    agent = ScriptedAgent([emit(task(), status(INPUT_REQUIRED))], [wait('gate')])
    async with two_nodes(agent, stuck_agent()) as (dead, heir):
        parked = await dead.send()
        answering = dead.begin('yes', task_id=parked.id)
        await agent.reached('gate')
        await die(dead, heir)
        assert (await heir.get(parked.id)).status.state == FAILED
        answering.cancel()


async def test_an_answer_that_was_being_worked_on_for_the_second_time_is_no_question_either() -> None:
    settings = Settings(after_crash='rerun', crash_attempts=2, journal_patience=3600.0)
    asking = ScriptedAgent([emit(task(), status(INPUT_REQUIRED, text='which?'))], [wait('gate')])
    async with (
        two_nodes(asking, ScriptedAgent([wait('gate')]), settings) as (dead, second),
        running(
            stuck_agent(), journal=TroubledJournal(second.memory), clock=second.clock, settings=settings, checked=False
        ) as third,
    ):
        parked = await dead.send()
        answering = dead.begin('this one', task_id=parked.id)
        await settle()
        await die(dead, second)
        await die(second, third)
        assert (await third.get(parked.id)).status.state == FAILED
        assert (await third.kinds(parked.id)).count('turn_started') == 3
        answering.cancel()


async def test_a_cancel_that_died_gives_the_task_back() -> None:
    agent = ScriptedAgent([emit(task(), status(INPUT_REQUIRED))], on_cancel=[wait('gate')])
    other = ScriptedAgent([emit(status(COMPLETED))])
    async with two_nodes(agent, other) as (dead, heir):
        parked = await dead.send()
        cancelling = dead.begin_cancel(parked.id)
        await agent.reached('gate')
        await die(dead, heir)
        assert (await heir.send('yes', task_id=parked.id)).status.state == COMPLETED
        cancelling.cancel()


async def test_a_task_that_cannot_be_read_does_not_keep_others_from_being_taken_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with two_nodes(stuck_agent(), stuck_agent()) as (dead, heir):
        poisoned, sound = await dead.begin_task(), await dead.begin_task()
        read = heir.memory.read_task

        async def read_task(task_id: str, caller: Caller) -> StoredTask | None:
            if task_id == poisoned.id:
                raise ValueError('poisoned')
            return await read(task_id, caller)

        with monkeypatch.context() as patch:
            patch.setattr(heir.memory, 'read_task', read_task)
            await die(dead, heir)
            assert (await heir.get(sound.id)).status.state == FAILED
        await live(heir, 3)
        assert (await heir.get(poisoned.id)).status.state == FAILED


@pytest.mark.parametrize('error', [ValueError('poisoned'), JournalUnavailableError('it takes too long')], ids=repr)
async def test_many_tasks_that_cannot_be_read_hide_no_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    monkeypatch.setattr(lookout, 'PORTION', 3)
    async with two_nodes(stuck_agent(), stuck_agent()) as (dead, heir):
        begun = sorted([(await dead.begin_task()).id for _ in range(10)])
        sound, read = {begun[4], begun[9]}, heir.memory.read_task

        async def read_task(task_id: str, caller: Caller) -> StoredTask | None:
            if task_id not in sound:
                raise error
            return await read(task_id, caller)

        with monkeypatch.context() as patch:
            patch.setattr(heir.memory, 'read_task', read_task)
            await die(dead, heir)
            await live(heir, 12)
            for task_id in sound:
                assert (await heir.get(task_id)).status.state == FAILED
        told = [record for record in caplog.records if 'cannot be taken over' in record.message]
        assert len(told) == (16 if isinstance(error, ValueError) else 0), 'each node tells of each once'
        await live(heir, 12)
        assert {(await heir.get(task_id)).status.state for task_id in begun} == {FAILED}


async def test_a_dead_node_is_forgotten_once_nothing_is_left_of_it() -> None:
    async with two_nodes(stuck_agent(), stuck_agent()) as (dead, heir):
        await dead.begin_task()
        (node,) = await heir.memory.living_nodes('scripted')
        await die(dead, heir)
        assert not await heir.memory.declare_dead(node.node_id, node.number), 'there is no such node'
        assert not heir.memory.knows(node.node_id)


async def test_an_outage_of_the_journal_kills_nobody() -> None:
    async with two_nodes(stuck_agent(), stuck_agent()) as (one, other):
        mine, theirs = await one.begin_task(), await other.begin_task()
        await live(one, 4)
        for site in (one, other):
            site.journal.fail()
        await live(one, 60)
        for site in (one, other):
            site.journal.heal()
        await live(one, 10)
        for begun in (mine, theirs):
            assert (await one.get(begun.id)).status.state == WORKING
            assert RECOVERY not in (await one.get(begun.id)).metadata


async def test_a_pause_of_the_observer_kills_nobody() -> None:
    async with two_nodes(stuck_agent(), stuck_agent()) as (one, other):
        begun = await one.begin_task()
        await other.engine.start()
        await live(one, 4)
        await one.advance(3600.0)
        await live(one, 4)
        assert (await one.get(begun.id)).status.state == WORKING


async def known(site: Site) -> int:
    """How many nodes are known to be alive."""
    return len(await site.memory.living_nodes('scripted'))


async def test_a_node_that_died_without_tasks_is_forgotten_in_the_end() -> None:
    async with two_nodes(ScriptedAgent(), ScriptedAgent()) as (one, other):
        for site in (one, other):
            await site.engine.start()
        await live(one, 1500)
        assert await known(one) == 2, 'both are alive, and say so now and then'
        one.journal.hold()
        await live(other, 660)
        assert await known(other) == 1
        one.journal.let_go()
        await live(one, 70)
        assert (await one.send()).status.state == FAILED, 'a node that was away for so long serves on under a new id'
        assert await known(other) == 2


@pytest.mark.parametrize('trouble', ['outage', 'pause'])
async def test_idle_nodes_survive_what_nobody_can_help(trouble: str) -> None:
    async with two_nodes(ScriptedAgent(), ScriptedAgent()) as (one, other):
        for site in (one, other):
            await site.engine.start()
        await live(one, 100)
        before = {node.node_id for node in await one.memory.living_nodes('scripted')}
        if trouble == 'outage':
            for site in (one, other):
                site.journal.fail()
            await live(one, 900)
            for site in (one, other):
                site.journal.heal()
        else:
            await one.advance(5000.0)
        await live(one, 500)
        assert {node.node_id for node in await one.memory.living_nodes('scripted')} == before


async def test_what_is_left_of_dead_nodes_is_forgotten_when_a_server_starts() -> None:
    async with two_nodes(ScriptedAgent(), ScriptedAgent()) as (_, other):
        await other.memory.register(NodeRow(NodeId('dead'), 'scripted', 'host', 0))
        assert await other.memory.declare_dead(NodeId('dead'), 0)
        await other.engine.start()
        await live(other, 3)
        assert not other.memory.knows(NodeId('dead'))


async def test_nodes_that_own_nothing_are_silent() -> None:
    async with two_nodes(stuck_agent(), stuck_agent()) as (one, other):
        for site in (one, other):
            await site.engine.start()
        await live(one, 30)
        for site in (one, other):
            assert len(site.journal.attempts) == 1, 'for the other, and not again before a minute has passed'
        await live(one, 25)
        for site in (one, other):
            assert len(site.journal.attempts) == 1


async def test_a_node_that_is_alone_and_owns_nothing_is_silent() -> None:
    async with running(ScriptedAgent()) as site:
        await site.engine.start()
        await live(site, 200)
        assert not site.journal.attempts


async def test_a_node_that_closes_is_forgotten() -> None:
    async with two_nodes(ScriptedAgent([emit(task(), status(COMPLETED))]), stuck_agent()) as (one, other):
        await one.send()
        assert len(await other.memory.living_nodes('scripted')) == 1
        await one.close()
        assert await other.memory.living_nodes('scripted') == []


async def test_a_node_that_closes_hands_over_what_is_to_be_executed_again() -> None:
    again = ScriptedAgent([emit(artifact('more', append=True), status(COMPLETED))])
    settings = Settings(after_crash='rerun')
    async with two_nodes(stuck_agent(), again, settings) as (closing, heir):
        begun = await closing.begin_task('do it')
        await heir.engine.start()
        stream = heir.subscribe(begun.id)
        await until(lambda: stream.events)
        await closing.close()
        await live(heir, 4)
        assert (await stream.end())[-1].status.state == COMPLETED  # type: ignore[union-attr]
        kinds = await heir.kinds(begun.id)
        assert kinds.count('turn_started') == 2
        assert kinds.count('turn_ended') == 1
        assert again.heard == ['do it']


async def test_a_node_that_closes_ends_what_is_not_to_be_executed_again() -> None:
    async with two_nodes(stuck_agent(), stuck_agent(), Settings()) as (closing, heir):
        begun = await closing.begin_task()
        await closing.close()
        ended = await heir.get(begun.id)
        assert ended.status.state == FAILED
        assert RECOVERY not in ended.metadata, 'it was no crash'
