"""One engine on one event loop: what lives there, and what happens after each commit.

The engine makes a session at the first call on a loop and another one when it finds itself on a new loop. Everything
that is bound to the loop hangs on the session: registry, hub, commit loop, running turns.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from a2a.utils.errors import TaskNotFoundError

from a2a_scribe.cluster.locks import NodeLocks
from a2a_scribe.cluster.node import Node
from a2a_scribe.cluster.wakeups import Listener, Teller
from a2a_scribe.core.records import CANCEL, AskKind, decode_turn_started
from a2a_scribe.engine.capacity import Capacity
from a2a_scribe.engine.commits import CommitLoop
from a2a_scribe.engine.cursors import Reading
from a2a_scribe.engine.deadlines import Timekeeper
from a2a_scribe.engine.deliveries import Delivering, Desk
from a2a_scribe.engine.hub import Hub
from a2a_scribe.engine.lookout import Lookout
from a2a_scribe.engine.mailbox import Mailbox
from a2a_scribe.engine.observers import Ticket
from a2a_scribe.engine.parts import Parts
from a2a_scribe.engine.recovery import Recovery
from a2a_scribe.engine.registry import Registry
from a2a_scribe.engine.retention import Retention
from a2a_scribe.engine.starts import TurnStarts
from a2a_scribe.engine.stops import TurnStops
from a2a_scribe.engine.turn import Turn
from a2a_scribe.engine.turns import TurnRunner
from a2a_scribe.engine.waiting import Waiting, WaitingMessages
from a2a_scribe.engine.writer import Writer, WriterTools
from a2a_scribe.errors import JournalUnavailableError
from a2a_scribe.journal.port import WaitingAsk
from a2a_scribe.journal.results import AppendResult, CancelDue, Known, NextTurn, Queued
from a2a_scribe.journal.tasks import TaskRow
from a2a_scribe.journal.writes import Append, DropConfig, Group, Judged, PutConfig, Write
from a2a_scribe.protocol.states import TERMINAL
from a2a_scribe.protocol.types import NodeId, Task, TurnId
from a2a_scribe.services import Background, Service, Supervisor
from a2a_scribe.signals import TroublePoint

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Duties:
    """What a session does without being asked by a caller of its own. Written upon sessions, so it is handed in."""

    take_over: 'Callable[[Session, Sequence[TaskRow]], Awaitable[None]]'
    """Takes over tasks of nodes that have died, those that can be."""
    carry_out: 'Mapping[AskKind, Callable[[Session, WaitingAsk], None]]'
    """Begins what another process has asked for of a task of ours."""
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
        self.mailbox = Mailbox(self._look_into_inbox, parts.clock, parts.settings.poll_interval)
        self.runner = TurnRunner(
            parts.agent.executor,
            parts.settings,
            parts.signals,
            timekeeper,
            self.capacity,
            self._concluded,
            self.mailbox.hint,
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
            partial(duties.take_over, self),
        )
        self.accepting = True
        self.died: BaseException | None = None
        self.told_of: set[str] = set()
        """Tasks of dead nodes that cannot be taken over, tried in every round and logged in the first."""
        self.waiting = WaitingMessages()
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
        self.starts = TurnStarts(
            parts, self.registry, self.runner, self.tools, self.hub, self.retention.note_key, self.task_of
        )
        self.stops = TurnStops(parts, self.runner, self.hub, self._concluded)
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

    async def _look_into_inbox(self, *, hinted: bool) -> None:
        """Begins what others ask for of tasks of ours, and ends turns that wait for a message only."""
        if len(self.registry) == 0 or not (hinted or self.lookout.has_others):
            return
        journal, node_id, now = self.parts.journal, self._own_id(), self.parts.clock.now()
        asks = await journal.waiting_asks(node_id, now)
        for ask in sorted(asks, key=lambda ask: ask.kind != CANCEL):  # a task that is cancelled need not run again
            self.duties.carry_out[ask.kind](self, ask)
        detached = [live.turn for live in self.registry if live.turn is not None and live.turn.detached]
        waited_for = set(await journal.waited_for(node_id) if detached else ())
        for turn in detached:
            if turn.writer.task_id in waited_for:
                self.runner.hand_on(turn)

    def _new_node(self) -> Node:
        """Makes a new identity, whose lock is held before anybody can know it."""
        node = Node(self.parts.agent_name, self.parts.node_name, self.parts.ids, self.parts.clock)
        self.locks.take(node.row.node_id)
        return node

    def _own_id(self) -> NodeId:
        return self.commits.node.row.node_id

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
            self.waiting.keep(task_id, waiting)

    def ticket_of(self, task_id: str, turn_id: TurnId) -> Ticket | None:
        """Returns a ticket for a turn that runs or waits in this process, `None` if there is no such turn."""
        live = self.registry.get(task_id)
        if live is not None and live.turn is not None and live.turn.turn_id == turn_id:
            return Ticket(turn_id, live.turn)
        return self.waiting.ticket_of(task_id, turn_id)

    async def _end_with_loop(self) -> None:
        """The program is over and did not close us: records that its turns are, in the little time that is left."""
        self.accepting = False
        for live in self.registry:
            self.stops.stop(live)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.parts.settings.cancel_grace):
                await self.commits.finish()

    def _concluded(self, turn: Turn) -> None:
        if turn.writer.projection is None or turn.writer.broken is not None:
            self._forget(turn.writer)
        self.hub.ring(turn.writer.task_id)

    def _forget(self, writer: Writer) -> None:
        self.registry.forget(writer)
        if self.registry.get(writer.task_id) is None:
            self.waiting.forget(writer.task_id)
            if self.delivery is not None:
                self.delivery.left(writer.task_id)

    # -- what the commit loop reports

    def on_committed(self, writer: Writer, append: Append, result: AppendResult) -> None:
        """Goes on with the next message, or lets the task leave memory."""
        if append.key is not None:
            self._settle_key(writer, result)
        if append.row.state in TERMINAL:
            self.waiting.forget(writer.task_id)
        if isinstance(result, NextTurn):
            self._keep_result(writer)
            turn_id = decode_turn_started(result.started.body).turn_id
            self.starts.follow_up(writer, result.started, self.waiting.take(writer.task_id, turn_id))
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
        self.waiting.clear()
        self.hub.ring_all()

    def is_owner(self) -> bool:
        """Whether this node owns or follows tasks, or delivers webhooks."""
        delivers = self.delivery is not None and self.delivery.holds
        return len(self.registry) > 0 or self.hub.observers > 0 or delivers

    def is_watching(self) -> bool:
        """Whether another node owns tasks."""
        return self.lookout.is_watching

    def has_company(self) -> bool:
        """Whether another node lives, or has not been found dead yet."""
        return self.lookout.has_others

    def _die(self, error: BaseException) -> None:
        self.died = error
        unavailable = JournalUnavailableError('the server has stopped working and must be restarted')
        self.commits.abandon(unavailable)
        self.break_all(unavailable)
        self.hub.close()
