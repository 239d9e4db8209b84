"""Runs turns: the one call of `execute` that answers a message, and how it ends.

A turn is run by exactly one asyncio task, in a copy of the context variables of the request that started it. However
`execute` ends, `conclude` admits the outcome after everything that the executor enqueued: the executor's failure is
the last thing of its turn. What a revoked turn still does is recorded nowhere.
"""

import asyncio
import contextvars
import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from a2a.server.agent_execution import AgentExecutor
from a2a.utils.errors import A2AError, InvalidAgentResponseError

from a2a_scribe.core.admission import create_task
from a2a_scribe.core.records import Outcome, StatusChanged, TurnEnded
from a2a_scribe.core.statuses import change_status
from a2a_scribe.engine.capacity import Capacity, Place
from a2a_scribe.engine.deadlines import Timekeeper
from a2a_scribe.engine.turn import Turn
from a2a_scribe.errors import DeadlineError, ScribeError
from a2a_scribe.protocol.states import FAILED, INTERRUPTED, TERMINAL
from a2a_scribe.protocol.types import TaskState
from a2a_scribe.settings import Settings
from a2a_scribe.signals import Signals, TurnPoint

logger = logging.getLogger(__name__)

FAILED_TEXT = 'The agent failed to process the request.'
NO_OUTCOME_TEXT = 'The agent stopped without an outcome.'
CANCELLED_TEXT = 'The agent was interrupted.'


@dataclass(frozen=True, slots=True)
class TurnRunner:
    """Runs the turns of one engine."""

    executor: AgentExecutor
    settings: Settings
    signals: Signals
    timekeeper: Timekeeper
    capacity: Capacity
    concluded: Callable[[Turn], None]
    """Hears of every turn whose end has been admitted here, and of every turn that needed no record."""
    detached: Callable[[], None]
    """Hears that a turn goes on in the background, which the next message is to end: one may wait already."""

    def start(self, turn: Turn, context: contextvars.Context, place: Place | None = None) -> None:
        """Runs a turn in the background once there is room; the caller going away does not stop it.

        `place` is the one that was taken for its message, if the sender holds it still.
        """
        if place is None or place.is_left:
            place = self.capacity.insist(turn.writer.caller.scope.owner)
        turn.place = place
        place.use(lambda: self._begin(turn, context))

    def _begin(self, turn: Turn, context: contextvars.Context) -> None:
        if self.signals.turn_started:
            self.signals.turn_started.emit(TurnPoint(turn.writer.task_id, turn.turn_id))
        coroutine = self._run(turn)
        name = f'a2a-scribe turn {turn.turn_id}'
        turn.task = asyncio.get_running_loop().create_task(coroutine, name=name, context=context)

    async def _run(self, turn: Turn) -> None:
        error: BaseException | None = None
        try:
            context = await turn.prepare()
            self.timekeeper.watch(turn, context, self.expire)
            await self.executor.execute(context, turn.queue)
        except KeyboardInterrupt as stop:
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
            self.detached()
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

    def expire(self, turn: Turn, error: DeadlineError, note: str) -> None:
        """Ends a turn that took too long as failed; its coroutine is still to be cancelled."""
        turn.revoke()
        logger.error('The agent took too long at task %s: %s', turn.writer.task_id, error)
        if turn.reply is None and turn.writer.state not in TERMINAL:
            turn.failure = error
        self.stop(turn, 'failed', FAILED, str(error), error, note)

    def stop(
        self,
        turn: Turn,
        outcome: Outcome,
        state: TaskState,
        text: str,
        error: BaseException | None = None,
        note: str | None = None,
    ) -> None:
        """Records the end of a turn that has been revoked: `state`, unless the task has ended otherwise first.

        A turn whose answer was a direct Message has no task, and gets none now.
        """
        writer = turn.writer
        if turn.reply is not None and writer.projection is None:
            self._tell(turn)
            return
        if writer.projection is None:
            writer.record(create_task(turn.facts, writer.now()))
        assert writer.projection is not None
        if writer.projection.state not in TERMINAL:
            writer.record(change_status(writer.projection, turn.facts, state, text, writer.now()), note)
            note = None
        if turn.turn_id:
            self._end(turn, outcome, error, note)
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
            return _text_of(error.message)
        if self.settings.expose_errors:
            return f'{type(error).__name__}: {_text_of(error)}'
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


def _text_of(value: object) -> str:
    """Returns what an agent meant as a text, whatever it is."""
    try:
        return printable(str(value))
    except Exception:  # noqa: BLE001 - an agent's own __str__ may raise anything
        return FAILED_TEXT


def printable(text: str) -> str:
    """Returns text that every database takes: no NUL, no lone surrogates."""
    return text.replace('\0', '\\0').encode('utf-8', 'backslashreplace').decode()
