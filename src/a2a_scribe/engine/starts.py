"""How turns start: the first of a new task, one whose message has waited, and another attempt at one.

A turn is made here, entered into the registry with its writer, and given to the runner.
"""

import contextvars
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from a2a.server.agent_execution import RequestContext

from a2a_scribe.core.records import Record, TurnStarted, decode_turn_started
from a2a_scribe.core.statuses import TurnFacts, begin_again, begin_turn, recovery_metadata, repeat_status
from a2a_scribe.engine.capacity import Place
from a2a_scribe.engine.contexts import RERUN, Rerun, rebuild_context
from a2a_scribe.engine.hub import Hub
from a2a_scribe.engine.observers import Ticket
from a2a_scribe.engine.orders import Order
from a2a_scribe.engine.parts import Parts
from a2a_scribe.engine.registry import Registry
from a2a_scribe.engine.turn import Prepare, Turn
from a2a_scribe.engine.turns import TurnRunner
from a2a_scribe.engine.waiting import Waiting
from a2a_scribe.engine.writer import Writer, WriterTools
from a2a_scribe.journal.writes import Key
from a2a_scribe.protocol.types import Struct, Task


@dataclass(frozen=True, slots=True)
class TurnStarts:
    """Starts the turns of one session."""

    _parts: Parts
    _registry: Registry
    _runner: TurnRunner
    _tools: WriterTools
    _hub: Hub
    _note_key: Callable[[], None]
    """Hears that a key has been taken, which has to be forgotten one day."""
    _task_of: Callable[[Writer], Awaitable[Task]]
    """Returns the task of a writer as it is durable."""

    def first(self, order: Order, ticket: Ticket, key: Key | None = None) -> Writer:
        """Starts the first turn of a new task; nothing is recorded before the agent or a deadline asks for it.

        With a key the task is recorded now, and the agent begins when that is durable.
        """
        message = order.request.message
        writer = Writer(message.task_id, order.caller, self._tools)
        started = TurnStarted(ticket.turn_id, order.caller_record, order.request)
        writer.open_turn(started, order.configs, key)
        turn = Turn(started, self._facts(writer.task_id, message.context_id, started), writer, _ready(order))
        ticket.turn = turn
        turn.on_reply = self._ringer(writer.task_id)
        self._registry.add(writer, turn)
        if key is not None:
            self._note_key()
            turn.start = partial(self._begin_first, turn, contextvars.copy_context(), order.place)
            writer.make_task(turn.facts)
            return writer
        if order.configs:
            writer.make_task(turn.facts)
        elif order.wants_id:
            turn.timer = self._parts.clock.call_later(self._parts.settings.create_task_after, turn.make_task)
        self._begin_first(turn, contextvars.copy_context(), order.place)
        return writer

    def _begin_first(self, turn: Turn, variables: contextvars.Context, place: Place | None) -> None:
        self._parts.on_turn(turn.writer.task_id, 0)
        self._runner.start(turn, variables, place)

    def follow_up(self, writer: Writer, started: Record, waiting: Waiting | None) -> None:
        """Starts a turn whose start is durable, on the writer that owns the task."""
        assert writer.projection is not None
        turn_started = decode_turn_started(started.body)
        facts = self._facts(writer.task_id, writer.projection.context_id, turn_started)
        begin_turn(writer.projection, facts)
        writer.follow_turn(started)
        if turn_started.attempt > 1:
            self._show_rerun(writer, facts, recovery_metadata(turn_started.attempt - 1))
        turn = Turn(turn_started, facts, writer, self._prepare(writer, turn_started, waiting))
        if waiting is not None:
            waiting.ticket.turn = turn
            if waiting.order.streams and writer.projection.is_whole:
                waiting.ticket.initial = writer.projection.to_task()
        self._registry.add(writer, turn)
        self._parts.on_turn(writer.task_id, started.seq - 1)
        if waiting is None:
            self._runner.start(turn, contextvars.Context())
        else:
            self._runner.start(turn, waiting.variables, waiting.order.place)

    def again(self, turn: Turn, reason: str) -> None:
        """Has a turn of ours, which is revoked and has stopped, begin once more; its sender waits for that.

        Raises:
            JournalUnavailableError: The journal was away for too long.
        """
        writer = turn.writer
        assert writer.projection is not None
        started = replace(turn.started, attempt=turn.started.attempt + 1)
        facts = self._facts(writer.task_id, writer.projection.context_id, started)
        begin_turn(writer.projection, facts)
        writer.start_again(started)
        self._show_rerun(writer, facts, recovery_metadata(turn.started.attempt, reason))
        turn.again = Turn(started, facts, writer, self._prepare(writer, started, None, reason))
        turn.again.on_reply = turn.on_reply
        self._registry.add(writer, turn.again)
        self._runner.start(turn.again, contextvars.Context())

    def _show_rerun(self, writer: Writer, facts: TurnFacts, metadata: Struct) -> None:
        assert writer.projection is not None
        begin_again(facts)
        writer.record(repeat_status(writer.projection, facts, metadata, writer.now()))

    def _ringer(self, task_id: str) -> Callable[[], None]:
        return lambda: self._hub.ring(task_id)

    def _facts(self, task_id: str, context_id: str, started: TurnStarted) -> TurnFacts:
        return TurnFacts(task_id, context_id, started.request.message, self._parts.ids.new)

    def _prepare(self, writer: Writer, started: TurnStarted, waiting: Waiting | None, reason: str = 'crash') -> Prepare:
        assert writer.projection is not None
        known = writer.projection.to_task() if writer.projection.is_whole else None
        position = writer.seq

        async def prepare() -> RequestContext:
            current = known or await self._task_of(writer)
            if waiting is not None:
                context = waiting.order.context
                context.current_task = current
                return context
            call_context = rebuild_context(started.caller)
            if started.attempt > 1:
                call_context.state[RERUN] = Rerun(started.attempt, position, reason)
            return await self._parts.agent.build_context(started.request, call_context, current)

        return prepare


def _ready(order: Order) -> Prepare:
    async def prepare() -> RequestContext:
        return order.context

    return prepare
