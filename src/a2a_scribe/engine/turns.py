"""One user's message and the one call of `execute` that answers it.

A turn is run by exactly one asyncio task, in a copy of the context variables of the request that started it. However
`execute` ends, `conclude` admits the outcome after everything that the executor enqueued: the executor's failure is
the last thing of its turn. Whoever ends a turn for another reason revokes its queue first, so that what an executor
emits while it is being cancelled is recorded nowhere.
"""

import asyncio
import contextvars
import logging
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import Event, EventQueue
from a2a.utils.errors import A2AError, InvalidAgentResponseError

from a2a_scribe.clock import Timer
from a2a_scribe.core.admission import TurnFacts, change_status, create_task
from a2a_scribe.core.records import Outcome, StatusChanged, TurnEnded, TurnStarted
from a2a_scribe.engine.writer import TaskTooLargeError, Writer
from a2a_scribe.errors import ScribeError, TurnEndedError
from a2a_scribe.protocol.states import FAILED, INTERRUPTED, TERMINAL
from a2a_scribe.protocol.types import Message, Task, TaskState, TurnId
from a2a_scribe.settings import Settings
from a2a_scribe.signals import Signals, TurnPoint

logger = logging.getLogger(__name__)

FAILED_TEXT = 'The agent failed to process the request.'
NO_OUTCOME_TEXT = 'The agent stopped without an outcome.'
CANCELLED_TEXT = 'The agent was interrupted.'


Prepare = Callable[[], Awaitable[RequestContext]]
"""Makes what the executor is given, at the moment when the turn starts."""


class Turn:
    """A running turn, as this node sees it."""

    def __init__(self, started: TurnStarted, facts: TurnFacts, writer: Writer, prepare: Prepare) -> None:
        """Makes a turn that does not run yet."""
        self.started = started
        self.facts = facts
        self.writer = writer
        self.prepare = prepare
        self.queue = TurnQueue(self)
        self.reply: Message | None = None
        """The direct message, if that was the answer."""
        self.failure: BaseException | None = None
        """What made the turn fail, for callers in this process."""
        self.unanswered: A2AError | None = None
        """The turn has left a parked task as it was."""
        self.result: Task | None = None
        """The task as the turn left it, where the next turn has changed it since."""
        self.lost: Exception | None = None
        """What the agent emitted could not be recorded, and nothing more will be."""
        self.spoke = False
        """The agent has emitted something."""
        self.detached = False
        """`execute` has returned, and the queue stays open for what the agent does in the background."""
        self.cancelling = False
        """Whoever cancels the turn records its end."""
        self.ended = False
        """The end is admitted, or will be by whoever revoked the turn."""
        self.task: asyncio.Task[None] | None = None
        self.timer: Timer | None = None
        self.on_background_event: Callable[[Turn], None] | None = None
        self.on_reply: Callable[[], None] | None = None
        self.on_revoke: Callable[[], None] | None = None

    @property
    def turn_id(self) -> TurnId:
        """The id of the turn."""
        return self.started.turn_id

    def admit(self, event: object) -> None:
        """Records an event, or keeps it as the reply. Raises what `Writer.admit` raises."""
        reply = self.writer.admit(self.facts, event)
        self.spoke = True
        if reply is not None:
            self.reply = reply.message
            if self.on_reply is not None:
                self.on_reply()

    def make_task(self) -> None:
        """Creates the task from the request: the agent has been silent for too long."""
        if not self.ended:
            self.writer.make_task(self.facts)

    def revoke(self) -> None:
        """Ends the turn for the executor: nothing that it emits is recorded from here on."""
        self.ended = True
        self.on_background_event = None
        self.queue.revoke()
        if self.timer is not None:
            self.timer.cancel()
        if self.on_revoke is not None:
            self.on_revoke()


class TurnQueue(EventQueue):
    """What an executor is given to emit events: admission happens at its own call site."""

    def __init__(self, turn: Turn) -> None:
        """Makes the queue of one turn, open until it is revoked."""
        self._turn = turn
        self._open = True

    async def enqueue_event(self, event: Event) -> None:
        """Admits an event; waits only when too much is not durable yet.

        Raises:
            InvalidAgentResponseError: The event breaks a rule of the lifecycle; nothing of it is recorded.
            TurnEndedError: The turn is over.
            JournalUnavailableError: The journal was away for too long, and the turn is over.
        """
        turn = self._turn
        if not self._open:
            raise TurnEndedError
        try:
            turn.admit(event)
        except TaskTooLargeError as error:
            turn.failure = error
            self._open = False
            raise
        finally:
            if turn.on_background_event is not None:
                turn.on_background_event(turn)
        if turn.writer.has_pressure():
            await turn.writer.wait_for_room()

    def revoke(self) -> None:
        """Closes the queue for good."""
        self._open = False

    async def close(self, immediate: bool = False) -> None:
        """Does nothing: a turn ends with `execute`, not with its queue. Executors may call it all the same."""

    def is_closed(self) -> bool:
        """Whether an event would be refused."""
        return not self._open


@dataclass(frozen=True, slots=True)
class TurnRunner:
    """Runs the turns of one engine."""

    executor: AgentExecutor
    settings: Settings
    signals: Signals
    concluded: Callable[[Turn], None]
    """Hears of every turn whose end has been admitted here, and of every turn that needed no record."""

    def start(self, turn: Turn, context: contextvars.Context) -> None:
        """Runs a turn in the background; the caller going away does not stop it."""
        if self.signals.turn_started:
            self.signals.turn_started.emit(TurnPoint(turn.writer.task_id, turn.turn_id))
        coroutine = self._run(turn)
        name = f'a2a-scribe turn {turn.turn_id}'
        turn.task = asyncio.get_running_loop().create_task(coroutine, name=name, context=context)

    async def _run(self, turn: Turn) -> None:
        error: BaseException | None = None
        try:
            await self.executor.execute(await turn.prepare(), turn.queue)
        except (KeyboardInterrupt, SystemExit) as stop:
            error = stop
            raise
        except BaseException as raised:  # noqa: BLE001 - the agent's boundary: whatever it raises is its outcome
            error = raised
        finally:
            self._finish(turn, error)

    def _finish(self, turn: Turn, error: BaseException | None) -> None:
        if turn.cancelling:
            return
        if turn.ended:
            if error is not None and not isinstance(error, asyncio.CancelledError | ScribeError):
                logger.error('The agent raised after its turn had been ended', exc_info=error)
            return
        if error is None and self._goes_on_in_background(turn):
            turn.detached = True
            turn.on_background_event = self._after_background_event
            return
        self.conclude(turn, error)

    def _goes_on_in_background(self, turn: Turn) -> bool:
        state = turn.writer.state
        active = state is None or (state not in TERMINAL and state not in INTERRUPTED)
        return self.settings.unfinished == 'keep' and turn.reply is None and turn.failure is None and active

    def _after_background_event(self, turn: Turn) -> None:
        over = turn.writer.state in TERMINAL | INTERRUPTED or turn.reply is not None or turn.failure is not None
        if over and not turn.cancelling:
            self.conclude(turn, None)

    def conclude(self, turn: Turn, error: BaseException | None) -> None:
        """Admits the end of a turn whose `execute` has returned, or has raised `error`."""
        turn.revoke()
        error = error or turn.failure
        if turn.writer.broken is not None:
            turn.failure = turn.writer.broken
        elif turn.reply is not None and turn.writer.projection is None:
            if error is not None:
                logger.error('The agent raised after its reply', exc_info=error)
        elif error is not None:
            self._conclude_failed(turn, error)
        else:
            self._conclude_returned(turn)
        self._tell(turn)

    def hand_on(self, turn: Turn) -> None:
        """Ends a turn if it goes on in the background, because the next message has come."""
        if not turn.detached or turn.ended or turn.cancelling:
            return
        turn.revoke()
        self._end(turn, 'ok')
        self._tell(turn)

    def stop(self, turn: Turn, outcome: Outcome, state: TaskState, text: str) -> None:
        """Records the end of a turn that has been revoked: `state`, unless the task has ended otherwise first."""
        writer = turn.writer
        if writer.projection is None:
            writer.record(create_task(turn.facts, writer.now()))
        assert writer.projection is not None
        if writer.projection.state not in TERMINAL:
            writer.record(change_status(writer.projection, turn.facts, state, text, writer.now()))
        if turn.turn_id:
            self._end(turn, outcome)
        else:
            writer.release()
        self._tell(turn)

    def _conclude_returned(self, turn: Turn) -> None:
        writer, facts = turn.writer, turn.facts
        if writer.projection is None:
            writer.record(create_task(facts, writer.now()))
        assert writer.projection is not None
        state = writer.projection.state
        if state in TERMINAL or facts.recorded_status in INTERRUPTED:
            self._end(turn, 'ok')
        elif state in INTERRUPTED:
            turn.unanswered = InvalidAgentResponseError('The agent left the message without an answer.')
            self._end(turn, 'failed', turn.unanswered)
        else:
            writer.record(self._failed_status(turn, NO_OUTCOME_TEXT))
            self._end(turn, 'failed')

    def _conclude_failed(self, turn: Turn, error: BaseException) -> None:
        writer = turn.writer
        if isinstance(error, asyncio.CancelledError):
            logger.warning('The agent was interrupted at task %s', writer.task_id)
        else:
            logger.error('The agent failed at task %s', writer.task_id, exc_info=error)
        note = printable(''.join(traceback.format_exception(error)))
        if writer.projection is None:
            writer.record(create_task(turn.facts, writer.now()))
        if writer.state in TERMINAL:
            self._end(turn, 'failed', error, note)
            return
        turn.failure = error
        writer.record(self._failed_status(turn, self._text_for_clients(error)), note)
        self._end(turn, 'failed', error)

    def _text_for_clients(self, error: BaseException) -> str:
        if isinstance(error, A2AError):
            return error.message
        if self.settings.expose_errors:
            return f'{type(error).__name__}: {error}'
        return CANCELLED_TEXT if isinstance(error, asyncio.CancelledError) else FAILED_TEXT

    def _failed_status(self, turn: Turn, text: str) -> StatusChanged:
        assert turn.writer.projection is not None
        return change_status(turn.writer.projection, turn.facts, FAILED, text, turn.writer.now())

    def _end(self, turn: Turn, outcome: Outcome, error: BaseException | None = None, note: str | None = None) -> None:
        ended = TurnEnded(turn.turn_id, outcome, '' if error is None else type(error).__name__)
        turn.writer.end_turn(ended, note)

    def _tell(self, turn: Turn) -> None:
        if self.signals.turn_ended:
            outcome = 'failed' if turn.failure is not None else 'ok'
            self.signals.turn_ended.emit(TurnPoint(turn.writer.task_id, turn.turn_id, outcome))
        self.concluded(turn)


def printable(text: str) -> str:
    """Returns text that every database takes: no NUL, no lone surrogates."""
    return text.replace('\0', '\\0').encode('utf-8', 'backslashreplace').decode()
