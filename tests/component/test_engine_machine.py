"""Random clients, random agents and a journal in trouble, step by step: what must hold, holds after each step."""

import asyncio
import contextvars
import itertools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar, cast

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import Event as AgentEvent
from a2a.server.events import EventQueue
from a2a.utils.errors import A2AError, InternalError, TaskNotFoundError, UnsupportedOperationError
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from a2a_scribe import Settings
from a2a_scribe.core.projection import fold
from a2a_scribe.core.records import TURN_STARTED, Record, TurnStarted, decode, shown_event
from a2a_scribe.protocol.states import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, TERMINAL, WORKING
from a2a_scribe.protocol.types import Event, Message, Task
from a2a_scribe.testing.agents import artifact, message, status, task
from tests.component.kit import Site, Watcher, check_records, new_site, settle, until

T = TypeVar('T')

sent: contextvars.ContextVar[str] = contextvars.ContextVar('sent', default='nothing')
"""The id of the message that a client sends."""


class AgentError(Exception):
    """The agent's own error."""


@dataclass
class Call:
    """One call of `execute`, which waits for orders."""

    context: RequestContext
    queue: EventQueue
    orders: 'asyncio.Queue[str]' = field(default_factory=asyncio.Queue)
    running: bool = True
    is_stubborn: bool = False
    sent: str = field(default_factory=sent.get)

    async def next_order(self) -> str:
        while True:
            try:
                return await self.orders.get()
            except asyncio.CancelledError:
                if not self.is_stubborn:
                    raise


EVENTS: dict[str, Callable[[], object]] = {
    'task': lambda: task(WORKING),
    'working': lambda: status(WORKING, 'on it'),
    'chunk': lambda: artifact(append=True),
    'set': artifact,
    'message': message,
    'park': lambda: status(INPUT_REQUIRED, 'well?'),
    'complete': lambda: status(COMPLETED, 'done'),
    'fail': lambda: status(FAILED, 'no'),
    'metadata': lambda: Task(metadata={'seen': True}),
}
ORDERS = [*EVENTS, 'raise', 'refuse', 'ignore', 'return', 'return', 'return']
ENDS = ['park', 'complete', 'raise', 'return']
ACTIONS = ['cancel', 'subscribe', 'blocking', 'stream', 'immediately']
REPORTS = ['nothing', 'chunk', 'canceled', 'failure', 'silence']


class ObedientAgent(AgentExecutor):
    """Does what it is ordered to do; an event that is refused is its failure."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.report = 'nothing'
        self.silence = asyncio.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        call = Call(context, event_queue)
        self.calls.append(call)
        try:
            while await obey(call, await call.next_order()):
                pass
        finally:
            call.running = False

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        match self.report:
            case 'chunk':
                await event_queue.enqueue_event(artifact('last words'))
            case 'canceled':
                await event_queue.enqueue_event(status(CANCELED, 'as you wish'))
            case 'failure':
                raise AgentError('in cancel')
            case 'silence':
                await self.silence.wait()

    @property
    def running(self) -> list[Call]:
        return [call for call in self.calls if call.running]


async def obey(call: Call, order: str) -> bool:
    match order:
        case 'return':
            return False
        case 'ignore':
            call.is_stubborn = True
            return True
        case 'raise':
            raise AgentError('ordered')
        case 'refuse':
            raise UnsupportedOperationError('ordered')
    await call.queue.enqueue_event(cast('AgentEvent', EVENTS[order]()))
    return True


picks = st.integers(0, 99)


def chosen(items: Sequence[T], pick: int) -> T:
    return items[pick % len(items)]


@dataclass
class Sender:
    """A client that sent a message and waits for the answer."""

    message_id: str
    task: 'asyncio.Task[Any]'
    is_follow_up: bool


class EngineMachine(RuleBasedStateMachine):
    """Drives one engine on a loop of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.agent = ObedientAgent()
        self.numbers = itertools.count(1)
        self.senders: list[Sender] = []
        self.watchers: list[Watcher] = []
        self.cancels: list[asyncio.Task[Task]] = []
        self.given_up = False
        self.site = self.run(self.make())

    async def make(self) -> Site:
        limits = Settings(journal_patience=2.0, cancel_deadline=1.0, cancel_grace=1.0, tail_records=5, tail_bytes=200)
        return new_site(self.agent, settings=limits)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def records(self) -> dict[str, list[Record]]:
        return {task_id: await self.site.records(task_id) for task_id in self.site.task_ids}

    # -- clients

    @rule(kind=st.sampled_from(['blocking', 'immediately', 'stream']))
    def send(self, kind: str) -> None:
        self.run(self.begin(kind, ''))

    @precondition(lambda self: self.site.task_ids)
    @rule(kind=st.sampled_from(['blocking', 'immediately', 'stream']), pick=picks)
    def follow_up(self, kind: str, pick: int) -> None:
        self.run(self.begin(kind, chosen(self.site.task_ids, pick)))

    async def begin(self, kind: str, task_id: str) -> None:
        message_id = f'message {next(self.numbers)}'
        given = {'task_id': task_id, 'message_id': message_id}
        sent.set(message_id)
        if kind == 'stream':
            watcher = self.site.stream(message_id, **given)
            self.watchers.append(watcher)
            assert watcher.task is not None
            self.senders.append(Sender(message_id, watcher.task, bool(task_id)))
        else:
            sending = self.site.begin(message_id, immediately=kind == 'immediately', **given)
            self.senders.append(Sender(message_id, sending, bool(task_id)))
        await settle(30)

    @precondition(lambda self: self.site.task_ids)
    @rule(pick=picks)
    def subscribe(self, pick: int) -> None:
        async def begin() -> None:
            self.watchers.append(self.site.subscribe(chosen(self.site.task_ids, pick)))
            await settle(30)

        self.run(begin())

    @precondition(lambda self: any(not sender.task.done() for sender in self.senders))
    @rule(pick=picks)
    def a_client_goes_away(self, pick: int) -> None:
        waiting = [sender for sender in self.senders if not sender.task.done()]
        chosen(waiting, pick).task.cancel()
        self.run(settle(30))

    @precondition(lambda self: self.site.task_ids)
    @rule(pick=picks, report=st.sampled_from(REPORTS))
    def cancel(self, pick: int, report: str) -> None:
        self.run(self.begin_cancel(chosen(self.site.task_ids, pick), report))

    async def begin_cancel(self, task_id: str, report: str) -> None:
        self.agent.report = report
        self.cancels.append(self.site.begin_cancel(task_id))
        await settle(30)

    @precondition(lambda self: self.agent.running)
    @rule(pick=picks, orders=st.sampled_from(ENDS), action=st.sampled_from(ACTIONS), turns=st.integers(0, 12))
    def something_happens_at_the_end_of_a_turn(self, pick: int, orders: str, action: str, turns: int) -> None:
        async def happen() -> None:
            call = chosen(self.agent.running, pick)
            slow = pick % 2 == 1
            if slow:
                self.site.journal.hold()
            for each in (orders, 'return'):
                call.orders.put_nowait(each)
            await settle(turns)
            await self.act(action, call.context.task_id or '', pick)
            self.site.journal.let_go()
            await settle(30)

        self.run(happen())

    async def act(self, action: str, task_id: str, pick: int) -> None:
        if action == 'cancel':
            await self.begin_cancel(task_id, chosen(REPORTS, pick))
        elif action == 'subscribe':
            self.watchers.append(self.site.subscribe(task_id))
            await settle(30)
        else:
            await self.begin(action, task_id)

    @precondition(lambda self: self.site.task_ids)
    @rule(pick=picks, action=st.sampled_from(ACTIONS))
    def an_answer_is_lost_for_good(self, pick: int, action: str) -> None:
        async def lose() -> None:
            self.given_up = True
            self.site.journal.let_go()
            self.site.journal.lose_answers(1)
            await self.act(action, chosen(self.site.task_ids, pick), pick)
            await self.stay_away()

        self.run(lose())

    # -- the agent

    @precondition(lambda self: self.agent.running)
    @rule(pick=picks, orders=st.lists(st.sampled_from(ORDERS), min_size=1, max_size=4))
    def order(self, pick: int, orders: list[str]) -> None:
        async def give() -> None:
            call = chosen(self.agent.running, pick)
            for each in orders:
                call.orders.put_nowait(each)
            await settle(30)

        self.run(give())

    # -- trouble

    @rule(seconds=st.sampled_from([0.05, 0.5, 1.0]))
    def time_passes(self, seconds: float) -> None:
        self.run(self.site.advance(seconds))

    @rule()
    def hold(self) -> None:
        self.site.journal.hold()

    @rule()
    def let_go(self) -> None:
        async def go() -> None:
            self.site.journal.let_go()
            await settle(30)

        self.run(go())

    @rule(times=st.integers(1, 3))
    def fail(self, times: int) -> None:
        self.site.journal.fail(times)

    @rule(times=st.integers(1, 3))
    def lose_answers(self, times: int) -> None:
        self.site.journal.lose_answers(times)

    @rule()
    def stay_away_too_long(self) -> None:
        self.run(self.stay_away())

    async def stay_away(self) -> None:
        self.given_up = True
        self.site.journal.let_go()
        self.site.journal.fail()
        for _ in range(6):
            await self.site.advance(1.0)
        self.site.journal.heal()
        await self.site.advance(1.0)

    # -- what must hold

    @invariant()
    def journals_are_in_order(self) -> None:
        for records in self.run(self.records()).values():
            check_records(records)

    @invariant()
    def each_message_starts_once_and_not_if_it_was_refused(self) -> None:
        heard = [call.context.get_user_input() for call in self.agent.calls]
        assert len(heard) == len(set(heard))
        started = started_in(self.run(self.records()))
        assert len(started) == len(set(started))
        for sender in self.senders:
            if sender.is_follow_up and was_refused(sender.task):
                assert sender.message_id not in {*started, *heard}, f'{sender.message_id} was refused and started'

    @invariant()
    def a_turn_runs_in_the_context_of_its_request(self) -> None:
        failed = {sender.message_id for sender in self.senders if is_uncertain(sender.task)}
        for call in self.agent.calls:
            heard = call.context.get_user_input()
            assert call.sent == heard or heard in failed, f'{heard} runs in the context of {call.sent}'

    @invariant()
    def what_clients_were_told_is_in_the_journal(self) -> None:
        journals = self.run(self.records())
        for sender in self.senders:
            if sender.task.done() and not sender.task.cancelled() and sender.task.exception() is None:
                told = sender.task.result()
                if isinstance(told, Task):
                    assert is_run_of(journals.get(told.id, []), [told]), told

    @invariant()
    def readers_see_a_run_of_the_journal(self) -> None:
        journals = self.run(self.records())
        for watcher in self.watchers:
            if watcher.events and isinstance(watcher.events[0], Task):
                assert is_run_of(journals.get(watcher.events[0].id, []), watcher.events), watcher.events

    def teardown(self) -> None:
        try:
            self.run(self.let_everything_go())
        finally:
            self.run(self.end())
            self.loop.close()

    async def end(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for each in left:
            each.cancel()
        watching = [watcher.task for watcher in self.watchers if watcher.task is not None]
        sending = [sender.task for sender in self.senders]
        await asyncio.gather(*left, *watching, *sending, *self.cancels, return_exceptions=True)

    async def let_everything_go(self) -> None:
        self.site.journal.heal()
        self.agent.silence.set()
        for _ in range(8):
            for call in self.agent.running:
                call.orders.put_nowait('return')
            await self.site.advance(1.0)
        if self.given_up:
            final = self.site.begin('once more')
            await until(lambda: self.agent.running, 'the last message is worked on')
            self.agent.running[-1].orders.put_nowait('return')
            await self.site.advance(1.0)
            await until(final.done, 'the last message is answered')
            final.exception()
        await until(lambda: not self.agent.running, 'no agent runs')
        assert [sender.message_id for sender in self.senders if not sender.task.done()] == [], 'nobody waits for ever'
        assert all(cancel.done() for cancel in self.cancels), 'no cancel waits for ever'
        await self.site.left_memory()
        await self.everything_is_told()

    async def everything_is_told(self) -> None:
        for sender in self.senders:
            if not sender.task.cancelled():
                assert isinstance(sender.task.exception(), A2AError | AgentError | None), sender.task.exception()
        for cancel in self.cancels:
            assert cancel.cancelled() or isinstance(cancel.exception(), A2AError | None), cancel.exception()
        for task_id, records in (await self.records()).items():
            row = self.site.memory.row(task_id)
            assert row is None or (row.node, row.open_turn) == (None, None), f'{task_id} is still owned'
            check_records(records)
        self.readers_have_ended()
        await self.site.close()

    def readers_have_ended(self) -> None:
        for watcher in self.watchers:
            assert watcher.task is not None
            if not watcher.task.done():
                first = watcher.events[0]
                assert isinstance(first, Task)
                row = self.site.memory.row(first.id)
                assert row is not None
                assert row.state not in TERMINAL, 'a reader waits at a task that has ended'
            elif not watcher.task.cancelled():
                assert isinstance(watcher.task.exception(), A2AError | AgentError | None), watcher.task.exception()


def was_refused(sending: 'asyncio.Task[Any]') -> bool:
    """Whether a message was refused for good, as opposed to an answer that could not be had."""
    if not sending.done() or sending.cancelled():
        return False
    error = sending.exception()
    if isinstance(error, UnsupportedOperationError) and 'ordered' in str(error):
        return False
    return isinstance(error, UnsupportedOperationError | TaskNotFoundError) and not isinstance(error, InternalError)


def is_uncertain(sending: 'asyncio.Task[Any]') -> bool:
    """Whether the sender was told that the journal is away: its message may have been recorded all the same."""
    return sending.done() and not sending.cancelled() and isinstance(sending.exception(), InternalError)


def started_in(journals: dict[str, list[Record]]) -> list[str]:
    started = []
    for record in itertools.chain.from_iterable(journals.values()):
        if record.kind == TURN_STARTED:
            change = decode(record)
            assert isinstance(change, TurnStarted)
            started.append(change.request.message.message_id)
    return started


def is_run_of(records: list[Record], events: list[Event]) -> bool:
    """Whether events are the task after some record, and then what follows that record without a gap."""
    first, rest = events[0], events[1:]
    assert not isinstance(first, Message)
    for cut in range(1, len(records) + 1):
        projection = fold(None, records[:cut])
        if projection is not None and projection.to_task() == first:
            following = [event for record in records[cut:] if (event := shown_event(record)) is not None]
            if following[: len(rest)] == rest:
                return True
    return False


TestEngine = EngineMachine.TestCase
TestEngine.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def step(machine: EngineMachine, random: Random) -> None:
    """Takes one random step that can be taken now."""
    pick, kind = random.randrange(100), random.choice(['blocking', 'immediately', 'stream'])
    some, running = machine.site.task_ids, machine.agent.running
    steps: list[Callable[[], None]] = [lambda: machine.send(kind=kind)]
    if some:
        steps += [lambda: machine.follow_up(kind=kind, pick=pick)] * 3
        steps += [lambda: machine.subscribe(pick=pick)] * 2
        steps += [lambda: machine.cancel(pick=pick, report=random.choice(REPORTS))]
    if running:
        orders = random.choices(ORDERS, k=random.randint(1, 4))
        steps += [lambda: machine.order(pick=pick, orders=orders)] * 4
        end, action, turns = random.choice(ENDS), random.choice(ACTIONS), random.randint(0, 12)
        steps += [
            lambda: machine.something_happens_at_the_end_of_a_turn(pick=pick, orders=end, action=action, turns=turns)
        ] * 4
    if any(not sender.task.done() for sender in machine.senders):
        steps += [lambda: machine.a_client_goes_away(pick=pick)]
    steps += [
        lambda: machine.time_passes(seconds=random.choice([0.05, 0.5, 1.0])),
        random.choice([machine.hold, machine.let_go, machine.let_go]),
        lambda: random.choice([machine.fail, machine.lose_answers])(times=random.randint(1, 3)),
    ]
    if random.random() < 0.03:
        machine.stay_away_too_long()
    elif some and random.random() < 0.03:
        machine.an_answer_is_lost_for_good(pick=pick, action=random.choice(ACTIONS))
    else:
        random.choice(steps)()


def check(machine: EngineMachine) -> None:
    machine.journals_are_in_order()
    machine.each_message_starts_once_and_not_if_it_was_refused()
    machine.a_turn_runs_in_the_context_of_its_request()
    machine.what_clients_were_told_is_in_the_journal()
    machine.readers_see_a_run_of_the_journal()


@pytest.mark.parametrize('seed', range(40))
def test_a_long_life(seed: int) -> None:
    random, machine = Random(seed), EngineMachine()
    try:
        for number in range(60):
            step(machine, random)
            if number % 10 == 9:
                check(machine)
    finally:
        machine.teardown()
