"""A journal that is slow, busy, away or refuses: executors wait, tasks end once, and callers hear of it."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext, SimpleRequestContextBuilder
from a2a.utils.errors import InternalError

from a2a_scribe import Settings
from a2a_scribe.core.projection import Projection
from a2a_scribe.engine import starts
from a2a_scribe.errors import JournalRefusedError, JournalUnavailableError
from a2a_scribe.journal.writes import Group
from a2a_scribe.protocol.states import COMPLETED, FAILED, INPUT_REQUIRED, WORKING
from a2a_scribe.signals import CommitPoint
from a2a_scribe.testing.agents import Run, ScriptedAgent, artifact, do, emit, status, task, wait
from tests.component.kit import Site, running, settle, text_of, until

pytestmark = pytest.mark.anyio


def chunk(number: int, size: int = 1) -> object:
    return artifact(f'{number}'.rjust(size), append=number > 0)


async def texts_of(site: Site, task_id: str) -> list[str]:
    return [part.text.strip() for held in (await site.get(task_id)).artifacts for part in held.parts]


class Counter:
    """How many chunks an agent has emitted."""

    def __init__(self, total: int, size: int = 1) -> None:
        self.emitted = 0
        self.total = total
        self.size = size

    async def emit_all(self, run: Run) -> None:
        for number in range(self.total):
            await emit(chunk(number, self.size))(run)
            self.emitted += 1


# Back-pressure and fairness


async def test_an_agent_waits_when_too_many_of_its_records_are_not_durable() -> None:
    counter = Counter(500)
    agent = ScriptedAgent([emit(task()), wait('gate'), do(counter.emit_all), emit(status(COMPLETED))])
    async with running(agent, settings=Settings(pending_records=50)) as site:
        begun = await site.begin_task()
        site.journal.hold()
        agent.open('gate')
        await site.journal.wait_until_held()
        await settle()
        assert 40 <= counter.emitted <= 52
        site.journal.let_go()
        await site.left_memory()
        assert counter.emitted == 500
        assert await texts_of(site, begun.id) == [str(number) for number in range(500)]
        assert max(len(append.records) for group in site.journal.attempts for append in group.appends) <= 60


async def test_an_agent_waits_when_too_many_of_its_bytes_are_not_durable() -> None:
    counter = Counter(100, size=1_000)
    agent = ScriptedAgent([emit(task()), wait('gate'), do(counter.emit_all), emit(status(COMPLETED))])
    async with running(agent, settings=Settings(pending_bytes=10_000)) as site:
        begun = await site.begin_task()
        site.journal.hold()
        agent.open('gate')
        await site.journal.wait_until_held()
        await settle()
        assert counter.emitted <= 11
        site.journal.let_go()
        await site.left_memory()
        assert len(await texts_of(site, begun.id)) == 100


async def test_an_agent_that_keeps_the_loop_busy_lets_commits_through() -> None:
    """Each event takes 50 ms without an await: what was emitted is shown before the next one is."""

    async def work(run: Run) -> None:
        for number in range(20):
            site.clock.skip(0.05)
            await emit(chunk(number))(run)
            seen.append(len(stream.events))

    seen: list[int] = []
    agent = ScriptedAgent([emit(task()), wait('gate'), do(work), emit(status(COMPLETED))])
    async with running(agent) as site:
        stream = site.stream()
        await until(lambda: stream.events)
        agent.open('gate')
        await stream.end()
        assert all(count >= number - 1 for number, count in enumerate(seen)), seen


async def test_an_agent_that_is_quick_does_not_wait_for_each_commit() -> None:
    counter = Counter(1_000)
    agent = ScriptedAgent([emit(task()), do(counter.emit_all), emit(status(COMPLETED))])
    async with running(agent) as site:
        await site.send()
        assert len(site.journal.attempts) < 20


async def test_a_task_that_is_held_up_holds_up_no_other_for_longer_than_a_commit() -> None:
    flood = Counter(3_000)
    agent = ScriptedAgent(
        answers={
            'flood': [do(flood.emit_all), emit(status(COMPLETED))],
            'small': [emit(task(), artifact(), status(COMPLETED))],
        }
    )
    async with running(agent, settings=Settings(pending_records=100)) as site:
        flooding = site.begin('flood')
        await until(lambda: flood.emitted > 200)
        commits = len(site.journal.attempts)
        await site.send('small')
        assert len(site.journal.attempts) - commits <= 4
        await flooding


async def test_one_transaction_serves_many_tasks() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(artifact()), emit(status(COMPLETED))])
    async with running(agent) as site:
        commits: list[CommitPoint] = []
        site.engine.signals.committed.connect(commits.append)
        waiting = [site.begin() for _ in range(64)]
        await until(lambda: len(agent.contexts) == 64)
        agent.open('gate')
        await asyncio.gather(*waiting)
        await site.left_memory()
        assert max(commit.tasks for commit in commits) == 64
        assert sum(commit.records for commit in commits) == 64 * 5


# Away


async def test_a_journal_that_is_away_for_a_while_costs_time_only() -> None:
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(artifact()), emit(status(COMPLETED))])
    async with running(agent) as site:
        waiting, stream = site.begin(), site.stream()
        await until(lambda: stream.events)
        site.journal.fail()
        agent.open('gate')
        for _ in range(6):
            await site.advance(0.5)
        assert not waiting.done()
        site.journal.heal()
        await site.advance(1.0)
        assert (await waiting).status.state == COMPLETED
        await stream.end()
        await site.left_memory()


@pytest.mark.parametrize('losses', [1, 3])
async def test_a_lost_answer_loses_and_doubles_nothing(losses: int) -> None:
    agent = ScriptedAgent(
        [emit(task()), wait('gate'), *[emit(chunk(number)) for number in range(5)], emit(status(COMPLETED))]
    )
    async with running(agent) as site:
        begun = await site.begin_task()
        site.journal.lose_answers(losses)
        agent.open('gate')
        for _ in range(5):
            await site.advance(0.5)
        await site.left_memory()
        assert await texts_of(site, begun.id) == [str(number) for number in range(5)]
        assert (await site.get(begun.id)).status.state == COMPLETED


@pytest.mark.parametrize('lost', [False, True], ids=['failed', 'answer lost'])
async def test_a_journal_that_is_away_for_too_long_fails_the_task_when_it_is_back(lost: bool) -> None:
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(artifact()), wait('never')])
    async with running(agent, settings=Settings(journal_patience=2.0)) as site:
        waiting, stream = site.begin(), site.stream()
        await until(lambda: stream.events and len(site.task_ids) == 2)
        await settle()
        if lost:
            site.journal.lose_answers()
        else:
            site.journal.fail()
        agent.open('gate')
        await agent.reached('never')
        await settle()
        site.journal.fail()
        for _ in range(6):
            await site.advance(1.0)
        with pytest.raises(InternalError) as caught:
            await waiting
        assert caught.value.data == {'retryable': 'true'}
        with pytest.raises(InternalError):
            await stream.end()
        assert agent.finished == 2
        assert site.engine.live_tasks == 0
        site.journal.heal()
        agent.open('never')
        await site.begin_task()
        await site.advance(2.0)
        await site.left_memory()
        for task_id in site.task_ids:
            assert (await site.get(task_id)).status.state == FAILED


async def test_a_first_message_that_cannot_be_recorded_leaves_nothing() -> None:
    agent = ScriptedAgent([emit(task()), emit(status(COMPLETED))])
    async with running(agent, settings=Settings(journal_patience=2.0)) as site:
        site.journal.fail()
        waiting = site.begin()
        for _ in range(6):
            await site.advance(1.0)
        with pytest.raises(InternalError) as caught:
            await waiting
        assert caught.value.data == {'retryable': 'true'}
        site.journal.heal()
        assert site.engine.live_tasks == 0
        assert (await site.send()).status.state == COMPLETED
        assert (await site.find()).total_size == 1


async def test_those_who_wait_in_the_queue_hear_that_the_journal_is_away() -> None:
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(artifact()), wait('never')])
    async with running(agent, settings=Settings(journal_patience=2.0)) as site:
        begun = await site.begin_task()
        queued = site.begin('more', task_id=begun.id)
        await settle()
        site.journal.fail()
        agent.open('gate')
        for _ in range(6):
            await site.advance(1.0)
        site.journal.heal()
        await site.begin_task()
        for _ in range(3):
            await site.advance(1.0)
        assert queued.done()
        assert queued.exception() is not None
        assert 'more' not in agent.heard


# Refused


def is_poisoned(group: Group) -> bool:
    return any(b'poison' in record.body for append in group.appends for record in append.records)


async def test_a_record_that_the_journal_refuses_fails_its_task_and_no_other() -> None:
    async def say(run: Run) -> None:
        text = run.context.get_user_input()
        await emit(artifact('poison' if text == '7' else text))(run)

    agent = ScriptedAgent(
        [emit(task(WORKING)), wait('gate'), do(say), emit(status(COMPLETED))],
    )
    async with running(agent, failure_answer='task') as site:
        refused: list[str] = []
        site.engine.signals.task_refused.connect(lambda point: refused.append(point.task_id))
        tasks = [await site.begin_task(f'{number}') for number in range(16)]
        site.journal.refuse(is_poisoned)
        agent.open('gate')
        await site.left_memory()
        await settle()
        states = [(await site.get(each.id)).status.state for each in tasks]
        assert states == [FAILED if number == 7 else COMPLETED for number in range(16)]
        assert refused == [tasks[7].id]
        assert 'could not record' in text_of((await site.get(tasks[7].id)).status.message)


async def test_callers_hear_of_a_record_that_the_journal_refuses() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(artifact('poison')), wait('never')])
    async with running(agent) as site:
        site.journal.refuse(is_poisoned)
        waiting, stream = site.begin(), site.stream()
        await until(lambda: len(agent.contexts) == 2 and stream.events)
        agent.open('gate')
        with pytest.raises((InternalError, JournalRefusedError)):
            await waiting
        events = await stream.end()
        assert events[-1].status.state == FAILED  # type: ignore[union-attr]
        assert agent.finished == 2, 'the agent is stopped'
        await site.left_memory()


async def test_a_first_record_that_the_journal_refuses_leaves_nothing() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('never')])
    async with running(agent) as site:
        site.journal.refuse(lambda group: bool(group.appends))
        with pytest.raises(InternalError):
            await site.send()
        await site.left_memory()
        assert (await site.find()).total_size == 0


async def test_a_task_whose_end_is_refused_as_well_is_tried_again() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(artifact('poison')), wait('never')])
    async with running(agent) as site:
        begun = await site.begin_task()
        site.journal.refuse(lambda group: bool(group.appends))
        agent.open('gate')
        await settle()
        site.journal.heal()
        for _ in range(3):
            await site.advance(1.0)
        assert (await site.get(begun.id)).status.state == FAILED
        await site.left_memory()


async def test_a_closed_engine_tries_nothing_again() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(artifact('poison')), wait('never')])
    before = asyncio.all_tasks()
    async with running(agent, checked=False) as site:
        await site.begin_task()
        site.journal.refuse(lambda group: bool(group.appends))
        agent.open('gate')
        await settle()
        await site.handler.aclose()
    site.clock.advance(5.0)
    await settle()
    assert asyncio.all_tasks() == before


async def test_a_refused_task_ends_also_if_the_journal_could_not_be_read_at_that_moment() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(artifact('poison')), wait('never')])
    async with running(agent) as site:
        begun = await site.begin_task()
        site.journal.refuse(is_poisoned)
        site.journal.reads_fail = True
        agent.open('gate')
        await settle()
        site.journal.reads_fail = False
        await site.advance(1.0)
        assert (await site.get(begun.id)).status.state == FAILED
        await site.left_memory()


# A fault of ours, at one task


class FaultError(Exception):
    """Something that nobody thought of."""


def fail_at_snapshots(monkeypatch: pytest.MonkeyPatch, wanted: Callable[[Projection, bytes], bool]) -> None:
    """Lets the making of a snapshot fail, where a writer hands its records over."""
    to_bytes = Projection.to_bytes

    def fails(projection: Projection) -> bytes:
        made = to_bytes(projection)
        if wanted(projection, made):
            raise FaultError
        return made

    monkeypatch.setattr(Projection, 'to_bytes', fails)


async def test_a_writer_that_fails_loses_its_own_task_and_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agent = ScriptedAgent(
        [
            emit(task(WORKING)),
            wait('gate'),
            do(lambda run: run.queue.enqueue_event(artifact(run.context.get_user_input()))),
            emit(status(COMPLETED)),
        ],
    )
    fail_at_snapshots(monkeypatch, lambda projection, made: b'poison' in made and projection.state == COMPLETED)
    async with running(agent, failure_answer='task') as site:
        refused: list[str] = []
        site.engine.signals.task_refused.connect(lambda point: refused.append(point.task_id))
        tasks = [await site.begin_task('poison' if number == 7 else f'{number}') for number in range(16)]
        agent.open('gate')
        await site.left_memory()
        await settle()
        states = [(await site.get(each.id)).status.state for each in tasks]
        assert states == [FAILED if number == 7 else COMPLETED for number in range(16)]
        assert refused == [tasks[7].id]
        assert FaultError in [record.exc_info[0] for record in caplog.records if record.exc_info]
        assert (await site.send('later')).status.state == COMPLETED


async def test_callers_hear_of_a_writer_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(status(COMPLETED))])
    fail_at_snapshots(monkeypatch, lambda projection, _: projection.state == COMPLETED)
    async with running(agent) as site:
        waiting, stream = site.begin(), site.stream()
        await until(lambda: len(agent.contexts) == 2 and stream.events)
        agent.open('gate')
        with pytest.raises(InternalError):
            await waiting
        events = await stream.end()
        assert events[-1].status.state == FAILED  # type: ignore[union-attr]
        await site.left_memory()


async def test_a_writer_that_fails_at_the_birth_of_its_task_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = ScriptedAgent([emit(task(WORKING), status(COMPLETED))])
    async with running(agent) as site:
        with monkeypatch.context() as patch:
            fail_at_snapshots(patch, lambda *_: True)
            with pytest.raises(InternalError):
                await site.send()
        await site.left_memory()
        assert (await site.find()).total_size == 0
        assert (await site.send()).status.state == COMPLETED


async def test_a_task_whose_end_fails_as_well_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(status(COMPLETED))])
    async with running(agent) as site:
        begun = await site.begin_task()
        with monkeypatch.context() as patch:
            fail_at_snapshots(patch, lambda *_: True)
            agent.open('gate')
            await settle()
        assert (await site.get(begun.id)).status.state == WORKING
        for _ in range(3):
            await site.advance(1.0)
        assert (await site.get(begun.id)).status.state == FAILED
        await site.left_memory()


async def test_a_next_turn_that_cannot_start_fails_its_task_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(status(INPUT_REQUIRED))])

    def fails(*_: object) -> None:
        raise FaultError

    async with running(agent) as site:
        begun, other = await site.begin_task(), site.begin()
        queued = site.begin('more', task_id=begun.id)
        await settle()
        monkeypatch.setattr(starts, 'begin_turn', fails)
        agent.open('gate')
        assert (await queued).status.state == FAILED
        assert (await other).status.state == INPUT_REQUIRED
        await site.left_memory()
        assert (await site.get(begun.id)).status.state == FAILED
        assert 'more' not in agent.heard


async def test_a_task_that_was_claimed_for_a_turn_that_cannot_start_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED))], [emit(status(COMPLETED))])

    def fails(*_: object) -> None:
        raise FaultError

    async with running(agent) as site:
        parked = await site.send()
        await site.left_memory()
        with monkeypatch.context() as patch:
            patch.setattr(starts, 'begin_turn', fails)
            with pytest.raises(InternalError):
                await site.send('lost', task_id=parked.id)
        await site.left_memory()
        await settle()
        assert (await site.get(parked.id)).status.state == INPUT_REQUIRED
        assert (await site.send('more', task_id=parked.id)).status.state == COMPLETED
        assert agent.heard == ['go', 'more']


# Fenced


async def test_a_node_that_is_declared_dead_gives_up_its_tasks_and_serves_on() -> None:
    agent = ScriptedAgent(
        [emit(task(WORKING)), wait('gate'), emit(artifact()), wait('never')], [emit(status(INPUT_REQUIRED))]
    )
    async with running(agent, checked=False) as site:
        waiting = site.begin()
        await agent.reached('gate')
        await settle()
        task_id = site.task_id
        before = await site.records(task_id)
        site.memory.fence(site.journal.attempts[-1].node)
        agent.open('gate')
        with pytest.raises(InternalError) as caught:
            await waiting
        assert isinstance(caught.value.__cause__, JournalUnavailableError)
        await until(lambda: agent.finished == 1)
        assert await site.records(task_id) == before, 'nothing is written under the old id'
        assert (await site.send()).status.state == INPUT_REQUIRED
        await site.left_memory()


async def test_a_node_that_was_declared_dead_ends_no_task_that_it_had_to_give_up_before() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(artifact()), wait('never')])
    async with running(agent, checked=False, settings=Settings(journal_patience=1.0)) as site:
        begun = await site.begin_task()
        before = await site.records(begun.id)
        site.journal.fail()
        agent.open('gate')
        for _ in range(4):
            await site.advance(1.0)
        site.memory.fence(site.journal.attempts[-1].node)
        site.journal.heal()
        for _ in range(6):
            await site.advance(1.0)
        row, records = site.memory.row(begun.id), await site.records(begun.id)
        assert row is not None
        assert row.epoch == 2, 'it was taken over, by the same node under another id'
        assert records[: len(before)] == before
        assert [record.kind for record in records[len(before) :]] == ['status', 'turn_ended']
        assert 'died' in (records[len(before)].note or '')


async def test_the_sender_of_a_refused_record_hears_of_it_also_if_the_node_is_declared_dead() -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate'), emit(artifact('poison')), wait('never')])
    async with running(agent, checked=False) as site:

        def refuse(group: Group) -> bool:
            if is_poisoned(group):
                site.memory.fence(group.node)
            return is_poisoned(group)

        site.journal.refuse(refuse)
        waiting = site.begin()
        await agent.reached('gate')
        await settle()
        agent.open('gate')
        await settle()
        with pytest.raises(InternalError):
            await waiting


class RememberingBuilder(SimpleRequestContextBuilder):
    """Knows which of the request contexts that it made are still in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.contexts: weakref.WeakSet[RequestContext] = weakref.WeakSet()

    async def build(self, *given: Any, **named: Any) -> RequestContext:
        context = await super().build(*given, **named)
        self.contexts.add(context)
        return context


async def test_a_node_that_is_declared_dead_keeps_no_message_that_waited_for_a_refused_task() -> None:
    agent = ScriptedAgent(
        [emit(task(WORKING)), wait('gate'), emit(artifact('poison')), wait('never')], [emit(task(WORKING))]
    )
    builder = RememberingBuilder()
    async with running(agent, checked=False, request_context_builder=builder) as site:
        begun = await site.begin_task()
        site.journal.refuse(lambda group: bool(group.appends))
        agent.open('gate')
        await settle()
        waiting = site.begin('next', task_id=begun.id)
        await settle()
        site.memory.fence(site.journal.attempts[-1].node)
        site.journal.heal()
        with pytest.raises(InternalError):
            await site.send('another task')
        await site.advance(5.0)
        waiting.cancel()
        agent.contexts.clear()
        await settle()
        gc.collect()
        assert 'next' not in [context.get_user_input() for context in builder.contexts]
