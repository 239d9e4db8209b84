"""One engine on one event loop: what lives there, and what happens after each commit.

The engine makes a session at the first call on a loop and another one when it finds itself on a new loop. Everything
that is bound to the loop hangs on the session: registry, hub, commit loop, running turns.
"""

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from a2a.server.agent_execution import RequestContext
from a2a.utils.errors import TaskNotFoundError

from a2a_scribe.clock import Clock
from a2a_scribe.cluster.locks import NodeLocks
from a2a_scribe.cluster.node import Node
from a2a_scribe.cluster.wakeups import Listener, Teller
from a2a_scribe.core.records import Record, TurnStarted, decode_turn_started
from a2a_scribe.core.statuses import TurnFacts, begin_again, begin_turn, recovery_metadata, repeat_status
from a2a_scribe.engine.capacity import Capacity, Place
from a2a_scribe.engine.commits import CommitLoop
from a2a_scribe.engine.contexts import RERUN, Rerun, rebuild_context
from a2a_scribe.engine.crashes import policy_for
from a2a_scribe.engine.cursors import Reading
from a2a_scribe.engine.deadlines import Timekeeper
from a2a_scribe.engine.deliveries import Deliver, Delivering, Desk
from a2a_scribe.engine.hub import Hub
from a2a_scribe.engine.lookout import Lookout
from a2a_scribe.engine.mailbox import Mailbox
from a2a_scribe.engine.observers import Ticket
from a2a_scribe.engine.orders import AfterCrash, Agent, Order
from a2a_scribe.engine.recovery import Recovery
from a2a_scribe.engine.registry import LiveTask, Registry
from a2a_scribe.engine.retention import Retention
from a2a_scribe.engine.turn import Prepare, Turn
from a2a_scribe.engine.turns import TurnRunner
from a2a_scribe.engine.writer import Writer, WriterTools
from a2a_scribe.errors import JournalUnavailableError
from a2a_scribe.ids import IdSource
from a2a_scribe.journal.port import (
    Append,
    AppendResult,
    CancelDue,
    DropConfig,
    Group,
    Journal,
    Judged,
    Key,
    Known,
    NextTurn,
    PutConfig,
    Queued,
    TaskRow,
    WaitingCancel,
    Write,
)
from a2a_scribe.protocol.states import CANCELED, FAILED, TERMINAL
from a2a_scribe.protocol.types import NodeId, Task, TurnId
from a2a_scribe.services import Background, Service, Supervisor
from a2a_scribe.settings import Settings
from a2a_scribe.signals import Signals, TroublePoint

logger = logging.getLogger(__name__)

STOPPED_TEXT = 'The server stopped while the agent was working.'


@dataclass(frozen=True, slots=True)
class Parts:
    """What an engine is made of, whatever loop it runs on."""

    agent: Agent
    journal: Journal
    agent_name: str
    node_name: str
    settings: Settings
    clock: Clock
    ids: IdSource
    signals: Signals
    on_turn: Callable[[str, int], None]
    """Hears of every turn that starts here: task id, and the record before the turn's first."""
    after_crash: AfterCrash | None = None
    """Decides what becomes of a turn whose server died, in place of the setting."""
    deliver: Deliver | None = None
    """Starts the delivery of webhooks from the journal, if there is to be one."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that this process accepted and that waits for the running turn to end."""

    ticket: Ticket
    order: Order
    variables: contextvars.Context


@dataclass(frozen=True, slots=True)
class Duties:
    """What a session does without being asked by a caller of its own. Written upon sessions, so it is handed in."""

    take_over: 'Callable[[Session, Sequence[TaskRow]], Awaitable[int]]'
    """Takes over tasks of nodes that have died; returns how many are ours now."""
    carry_out: 'Callable[[Session, WaitingCancel], None]'
    """Begins a cancel of a task of ours that another process has asked for."""
    cancel_ended: 'Callable[[Session, Writer, bytes], None]'
    """Begins a cancel of a task of ours whose turn has just ended; with the encoded `CancelAsked`."""


class Session:
    """Everything of an engine that is bound to one loop."""

    def __init__(self, parts: Parts, duties: Duties, *, joins: bool) -> None:
        """Starts the services on the running loop.

        One that `joins` holds a connection of its own for as long as it lives, over which it hears of other processes.
        """
        self.parts = parts
        self.duties = duties
        self.locks = NodeLocks(parts.journal.lock_directory)
        self.loop = asyncio.get_running_loop()
        self.hub = Hub(parts.clock)
        self.registry = Registry(parts.signals)
        self.commits = CommitLoop(
            parts.journal,
            self._new_node,
            self.hub,
            parts.clock,
            parts.settings,
            parts.signals,
            delivers=parts.deliver is not None,
        )
        self.reading = Reading(parts.journal, self.registry, self.hub, parts.settings.poll_interval)
        self.background = Background()
        timekeeper = Timekeeper(parts.clock, parts.settings, parts.agent.deadlines, self.background)
        self.capacity = Capacity(parts.settings)
        self.runner = TurnRunner(
            parts.agent.executor, parts.settings, parts.signals, timekeeper, self.capacity, self._concluded
        )
        self.tools = WriterTools(
            parts.clock, parts.settings, parts.ids.new, parts.journal.keeps_records, self.commits.notice
        )
        self.recovery = Recovery(
            parts.journal,
            self.registry,
            self.tools,
            self.hub,
            self.background,
            self._own_id,
            self.commits.is_deciding,
        )
        self.accepting = True
        self.died: BaseException | None = None
        self._waiting: dict[str, list[Waiting]] = {}
        self.commits.watch(self)
        self.lookout = Lookout(
            parts.journal,
            parts.agent_name,
            self.commits,
            self.locks,
            parts.clock,
            parts.settings,
            partial(duties.take_over, self),
        )
        self.retention = Retention(parts.journal, parts.settings, parts.clock, parts.agent_name)
        self.delivery = self._start_delivery()
        self.mailbox = Mailbox(self._find_asked_cancels, parts.clock, parts.settings.poll_interval)
        self._hints = parts.journal.hints if joins else None
        self._teller = Teller(self._hints) if self._hints is not None and self._hints.needs_telling else None
        if joins:
            self.commits.introduce()
        self.supervisor = Supervisor(self._services(), self._die, self._end_with_loop)

    def _services(self) -> list[Service]:
        services: list[Service] = [self.commits, self.lookout, self.mailbox, self.retention]
        if self._hints is not None:
            services.append(Listener(self._hints, self._heard, self._wants_hints))
        if self._teller is not None:
            services.append(self._teller)
        if self.delivery is not None:
            services.append(self.delivery)
        return services

    def _start_delivery(self) -> Delivering | None:
        parts = self.parts
        if parts.deliver is None:
            return None
        desk = Desk(
            parts.agent_name,
            self.commits,
            self.reading,
            parts.clock,
            parts.settings,
            self.background,
        )
        return parts.deliver(desk)

    def _wants_hints(self) -> bool:
        return self.lookout.has_others and self.is_owner()

    def _heard(self, task_ids: Iterable[str] | None) -> None:
        """Others may have written to some tasks: wakes those who follow them, and looks for cancels of ours."""
        task_ids = None if task_ids is None else tuple(task_ids)
        if self.delivery is not None:
            self.delivery.heard(task_ids)
        is_ours = task_ids is None
        for task_id in self.hub.observed if task_ids is None else task_ids:
            if self.registry.get(task_id) is None:
                self.hub.ring(task_id)
            else:
                is_ours = True
        if is_ours:
            self.mailbox.hint()

    async def _find_asked_cancels(self, *, hinted: bool) -> None:
        """Begins the cancels that other processes have asked for."""
        if len(self.registry) == 0 or not (hinted or self.lookout.has_others):
            return
        node_id = self.commits.node.row.node_id
        for waiting in await self.parts.journal.waiting_cancels(node_id, self.parts.clock.now()):
            self.duties.carry_out(self, waiting)

    def _new_node(self) -> Node:
        """Makes a new identity, whose lock is held before anybody can know it."""
        node = Node(self.parts.agent_name, self.parts.node_name, self.parts.ids, self.parts.clock)
        self.locks.take(node.row.node_id)
        return node

    def _own_id(self) -> NodeId:
        return self.commits.node.row.node_id

    async def _end_with_loop(self) -> None:
        """The program is over and did not close us: records that its turns are, in the little time that is left."""
        self.accepting = False
        for live in self.registry:
            self.stop_turn(live)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.parts.settings.cancel_grace):
                await self.commits.finish()

    def stop_turn(self, live: LiveTask) -> 'asyncio.Task[None] | None':
        """Ends a turn, as canceled if it was being cancelled; returns what has to stop still.

        A turn that is to be executed again elsewhere just stops, and keeps its task until the node is gone.
        """
        turn = live.turn
        if turn is None or turn.ended:
            return None
        turn.revoke()
        if turn.cancelling:
            self.runner.stop(turn, 'canceled', CANCELED, '')
        elif self._hands_over(turn):
            turn.lost = JournalUnavailableError('the server is closing; try again')
            self.hub.ring(turn.writer.task_id)
        else:
            self.runner.stop(turn, 'interrupted', FAILED, STOPPED_TEXT)
        if turn.task is None or turn.task.done():
            return None
        turn.task.cancel()
        return turn.task

    def _hands_over(self, turn: Turn) -> bool:
        """Whether another node is to execute a turn again: there is a task, and the journal has what led to it."""
        writer, parts = turn.writer, self.parts
        if not parts.journal.keeps_records or writer.projection is None or not writer.projection.is_whole:
            return False
        if writer.projection.state in TERMINAL:
            return False
        task, message = writer.projection.to_task(), turn.started.request.message
        return policy_for(parts.settings, parts.after_crash, task, message, turn.started.attempt) == 'rerun'

    def withdraw(self, turn: Turn) -> bool:
        """Drops a turn that waits for room, if nothing of it is recorded; returns whether it did.

        Whoever still waits for its answer is told to try elsewhere.
        """
        waits = turn.place is not None and not turn.place.is_granted and not turn.ended
        if not waits or turn.writer.projection is not None:
            return False
        turn.lost = JournalUnavailableError('the server is closing; try again')
        turn.revoke()
        self._concluded(turn)
        return True

    # -- turns

    def start_first(self, order: Order, ticket: Ticket, key: Key | None = None) -> Writer:
        """Starts the first turn of a new task; nothing is recorded before the agent or a deadline asks for it.

        With a key the task is recorded now, and the agent begins when that is durable.
        """
        message = order.request.message
        writer = Writer(message.task_id, order.caller, self.tools)
        started = TurnStarted(ticket.turn_id, order.caller_record, order.request)
        writer.open_turn(started, order.configs, key)
        turn = Turn(started, self._facts(writer.task_id, message.context_id, started), writer, _ready(order))
        ticket.turn = turn
        turn.on_reply = self._ringer(writer.task_id)
        self.registry.add(writer, turn)
        if key is not None:
            self.retention.note_key()
            turn.start = partial(self._begin_first, turn, contextvars.copy_context(), order.place)
            writer.make_task(turn.facts)
            return writer
        if order.configs:
            writer.make_task(turn.facts)
        elif order.wants_id:
            turn.timer = self.parts.clock.call_later(self.parts.settings.create_task_after, turn.make_task)
        self._begin_first(turn, contextvars.copy_context(), order.place)
        return writer

    def _begin_first(self, turn: Turn, variables: contextvars.Context, place: Place | None) -> None:
        self.parts.on_turn(turn.writer.task_id, 0)
        self.runner.start(turn, variables, place)

    def start_follow_up(self, writer: Writer, started: Record, waiting: Waiting | None) -> None:
        """Starts a turn whose start is durable, on the writer that owns the task."""
        assert writer.projection is not None
        turn_started = decode_turn_started(started.body)
        facts = self._facts(writer.task_id, writer.projection.context_id, turn_started)
        begin_turn(writer.projection, facts)
        writer.follow_turn(started)
        if turn_started.attempt > 1:
            begin_again(facts)
            writer.record(
                repeat_status(writer.projection, facts, recovery_metadata(turn_started.attempt - 1), writer.now())
            )
        turn = Turn(turn_started, facts, writer, self._prepare(writer, turn_started, waiting))
        if waiting is not None:
            waiting.ticket.turn = turn
            if waiting.order.streams and writer.projection.is_whole:
                waiting.ticket.initial = writer.projection.to_task()
        self.registry.add(writer, turn)
        self.parts.on_turn(writer.task_id, started.seq - 1)
        if waiting is None:
            self.runner.start(turn, contextvars.Context())
        else:
            self.runner.start(turn, waiting.variables, waiting.order.place)

    def _ringer(self, task_id: str) -> Callable[[], None]:
        return lambda: self.hub.ring(task_id)

    def _facts(self, task_id: str, context_id: str, started: TurnStarted) -> TurnFacts:
        return TurnFacts(task_id, context_id, started.request.message, self.parts.ids.new)

    def _prepare(self, writer: Writer, started: TurnStarted, waiting: Waiting | None) -> Prepare:
        assert writer.projection is not None
        known = writer.projection.to_task() if writer.projection.is_whole else None
        position = writer.seq

        async def prepare() -> RequestContext:
            current = known or await self.task_of(writer)
            if waiting is not None:
                context = waiting.order.context
                context.current_task = current
                return context
            call_context = rebuild_context(started.caller)
            if started.attempt > 1:
                call_context.state[RERUN] = Rerun(started.attempt, position)
            return await self.parts.agent.build_context(started.request, call_context, current)

        return prepare

    async def task_of(self, writer: Writer) -> Task:
        """Returns the task of a writer as it is durable, from the journal where memory does not hold all of it."""
        if writer.is_settled and writer.projection is not None and writer.projection.is_whole:
            return writer.projection.to_task()
        stored = await self.parts.journal.read_task(writer.task_id, writer.caller)
        if stored is None:
            raise TaskNotFoundError
        return stored.projection.to_task()

    def wait_for_turn(self, task_id: str, queued: Queued, waiting: Waiting) -> None:
        """Keeps what this process knows of a queued message until its turn starts, if that will be here."""
        if self.registry.get(task_id) is not None or queued.owner == self._own_id():
            self._waiting.setdefault(task_id, []).append(waiting)

    def ticket_of(self, task_id: str, turn_id: TurnId) -> Ticket | None:
        """Returns a ticket for a turn that runs or waits in this process, `None` if there is no such turn."""
        live = self.registry.get(task_id)
        if live is not None and live.turn is not None and live.turn.turn_id == turn_id:
            return Ticket(turn_id, live.turn)
        found = (waiting.ticket for waiting in self._waiting.get(task_id, ()) if waiting.ticket.turn_id == turn_id)
        return next(found, None)

    def _take_waiting(self, task_id: str, turn_id: str) -> Waiting | None:
        for waiting in self._waiting.get(task_id, ()):
            if waiting.ticket.turn_id == turn_id:
                self._waiting[task_id].remove(waiting)
                return waiting
        return None

    def _concluded(self, turn: Turn) -> None:
        if turn.writer.projection is None or turn.writer.broken is not None:
            self._forget(turn.writer)
        self.hub.ring(turn.writer.task_id)

    def _forget(self, writer: Writer) -> None:
        self.registry.forget(writer)
        if self.registry.get(writer.task_id) is None:
            self._waiting.pop(writer.task_id, None)
            if self.delivery is not None:
                self.delivery.left(writer.task_id)

    # -- what the commit loop reports

    def on_committed(self, writer: Writer, append: Append, result: AppendResult) -> None:
        """Goes on with the next message, or lets the task leave memory."""
        if append.key is not None:
            self._settle_key(writer, result)
        if append.row.state in TERMINAL:
            self._waiting.pop(writer.task_id, None)
        if isinstance(result, NextTurn):
            self._keep_result(writer)
            turn_id = decode_turn_started(result.started.body).turn_id
            self.start_follow_up(writer, result.started, self._take_waiting(writer.task_id, turn_id))
        elif isinstance(result, CancelDue):
            self._keep_result(writer)
            self.duties.cancel_ended(self, writer, result.body)
        elif writer.released:
            self._forget(writer)

    def _settle_key(self, writer: Writer, result: AppendResult) -> None:
        """Has the agent begin, unless the message came before, or its turn has been ended already."""
        live = self.registry.get(writer.task_id)
        turn = None if live is None or live.writer is not writer else live.turn
        if turn is None or turn.start is None or isinstance(result, Known):
            return
        start, turn.start = turn.start, None
        if not turn.ended and not turn.cancelling:
            start()

    def _keep_result(self, writer: Writer) -> None:
        """Keeps the task as the ended turn leaves it, for its sender: the next turn changes it at once."""
        live = self.registry.get(writer.task_id)
        if live is not None and live.turn is not None and writer.projection is not None and writer.projection.is_whole:
            live.turn.result = writer.projection.to_task()

    def on_unclear(self, write: Write, node: NodeId) -> None:
        """Finds out later whether a task was claimed for nobody."""
        self.recovery.note_unclear(write, node, JournalUnavailableError())

    def on_lost(self, writer: Writer, error: Exception, *, refused: bool, ours: bool) -> None:
        """Stops the turn whose records are lost, and has it closed from what is durable if the task is still ours."""
        if self.parts.signals.task_refused and refused:
            self.parts.signals.task_refused.emit(TroublePoint('', writer.task_id, error))
        live = self.registry.get(writer.task_id)
        turn = live.turn if live is not None and live.writer is writer else None
        self._break(writer, turn, error)
        if ours:
            self.recovery.note(writer, turn, error, at_once=refused)
        elif turn is not None:
            turn.lost = error

    def _break(self, writer: Writer, turn: Turn | None, error: Exception) -> None:
        writer.give_up(error)
        self._forget(writer)
        if turn is not None:
            turn.failure = error
            turn.revoke()
            if turn.task is not None:
                turn.task.cancel()

    def on_durable(self, group: Group) -> None:
        """Tells who delivers webhooks, and other processes, if there are any."""
        if self.delivery is not None:
            self.delivery.note(group)
        if self._teller is not None and self.lookout.has_others:
            self._teller.tell(append.row.task_id for append in group.appends)
            self._teller.tell(write.task_id for write in group.writes if isinstance(write, Judged | DropConfig))
            self._teller.tell(write.config.task_id for write in group.writes if isinstance(write, PutConfig))

    def on_journal_back(self) -> None:
        """Closes the turns that were given up while the journal was away."""
        self.recovery.resume()

    def on_fenced(self) -> None:
        """Gives up all tasks: they are others' now."""
        self.break_all(JournalUnavailableError('this node lost its tasks; try again'))

    def break_all(self, error: Exception) -> None:
        """Gives up all tasks, also those that are to be recovered, and tells all who wait for them."""
        self.recovery.give_up(error)
        if self.delivery is not None:
            self.delivery.give_up()
        for live in self.registry:
            self._break(live.writer, live.turn, error)
            if live.turn is not None:
                live.turn.lost = error
        self._waiting.clear()
        self.hub.ring_all()

    def is_owner(self) -> bool:
        """Whether this node owns or follows tasks, or delivers webhooks."""
        delivers = self.delivery is not None and self.delivery.holds
        return len(self.registry) > 0 or self.hub.observers > 0 or delivers

    def is_watching(self) -> bool:
        """Whether another node owns tasks."""
        return self.lookout.is_watching

    def _die(self, error: BaseException) -> None:
        self.died = error
        unavailable = JournalUnavailableError('the server has stopped working and must be restarted')
        self.commits.abandon(unavailable)
        self.break_all(unavailable)
        self.hub.close()


def _ready(order: Order) -> Prepare:
    async def prepare() -> RequestContext:
        return order.context

    return prepare
