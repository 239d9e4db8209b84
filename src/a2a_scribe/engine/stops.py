"""How turns stop when their server does: they are ended, handed over to another node, or withdrawn."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from a2a_scribe.engine.crashes import policy_for
from a2a_scribe.engine.hub import Hub
from a2a_scribe.engine.parts import Parts
from a2a_scribe.engine.registry import LiveTask
from a2a_scribe.engine.turn import Turn
from a2a_scribe.engine.turns import TurnRunner
from a2a_scribe.errors import JournalUnavailableError
from a2a_scribe.protocol.states import CANCELED, FAILED, TERMINAL

STOPPED_TEXT = 'The server stopped while the agent was working.'


@dataclass(frozen=True, slots=True)
class TurnStops:
    """Stops the turns of one session."""

    _parts: Parts
    _runner: TurnRunner
    _hub: Hub
    _concluded: Callable[[Turn], None]
    """Hears of a turn that is over although nothing of it is recorded."""

    def stop(self, live: LiveTask) -> 'asyncio.Task[None] | None':
        """Ends a turn, as canceled if it was being cancelled; returns what has to stop still.

        A turn that is to be executed again elsewhere just stops, and keeps its task until the node is gone.
        """
        turn = live.turn
        if turn is None or turn.ended:
            return None
        turn.revoke()
        if turn.cancelling:
            self._runner.stop(turn, 'canceled', CANCELED, '')
        elif self._hands_over(turn):
            turn.lost = JournalUnavailableError('the server is closing; try again')
            self._hub.ring(turn.writer.task_id)
        else:
            self._runner.stop(turn, 'interrupted', FAILED, STOPPED_TEXT)
        if turn.task is None or turn.task.done():
            return None
        turn.task.cancel()
        return turn.task

    def _hands_over(self, turn: Turn) -> bool:
        """Whether another node is to execute a turn again: there is a task, and the journal has what led to it."""
        writer, parts = turn.writer, self._parts
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
