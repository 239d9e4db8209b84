"""Deadlines of turns: how long one may take, and for how long it may emit nothing.

A turn that is watched has one timer, armed for whichever limit can pass first. An event only leaves its time behind;
the timer compares when it fires, and is armed again for what is left. What the turn waits for because of us (room for
its records) is not held against it.
"""

import asyncio
import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import CoroutineType

from a2a.server.agent_execution import RequestContext

from a2a_scribe.clock import Clock, Timer
from a2a_scribe.engine.latch import Latch
from a2a_scribe.engine.turn import Turn
from a2a_scribe.errors import DeadlineError, InactivityTimeoutError, SettingsError, TurnTimeoutError
from a2a_scribe.services import Background
from a2a_scribe.settings import Settings, is_positive

logger = logging.getLogger(__name__)

EARLY = 0.001
"""Seconds by which a timer may fire too early: clocks are rounded."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long one turn may take; `None` stands for no limit."""

    turn_timeout: float | None = None
    """Seconds from the call of `execute` to the end of the turn."""
    inactivity_timeout: float | None = None
    """Seconds without an event."""

    def __post_init__(self) -> None:
        """Refuses what cannot be a limit. Raises: SettingsError."""
        for name, seconds in (('turn_timeout', self.turn_timeout), ('inactivity_timeout', self.inactivity_timeout)):
            if seconds is not None and not is_positive(seconds):
                raise SettingsError(f'{name} must be a number greater than 0 or None, not {seconds!r}')


DeadlinePolicy = Callable[[RequestContext], Deadlines | None]
"""Chooses the deadlines of one turn before its `execute` is called; `None` stands for those of the settings."""

Expire = Callable[[Turn, DeadlineError, str], None]
"""Ends a turn: with which error, and what operators are told."""


class Timekeeper:
    """Watches the turns of one engine."""

    def __init__(self, clock: Clock, settings: Settings, policy: DeadlinePolicy | None, background: Background) -> None:
        """Takes whose deadlines hold: those of `policy`, else those of `settings`."""
        self._clock = clock
        self._usual = Deadlines(settings.turn_timeout, settings.inactivity_timeout)
        self._grace = settings.cancel_grace
        self._policy = policy
        self._background = background

    def watch(self, turn: Turn, context: RequestContext, expire: Expire) -> None:
        """Watches a turn that is about to run; what the policy raises is its failure."""
        deadlines = (None if self._policy is None else self._policy(context)) or self._usual
        if deadlines.turn_timeout is not None or deadlines.inactivity_timeout is not None:
            turn.watch = Watch(turn, deadlines, self._clock, self._expired, expire)

    def _expired(self, turn: Turn, error: DeadlineError, expire: Expire) -> None:
        task = turn.task
        expire(turn, error, _note(error, task))
        if task is not None and not task.done():
            task.cancel()
            self._background.spawn(self._leave_behind(task, turn.writer.task_id), f'end of {task.get_name()}')

    async def _leave_behind(self, task: 'asyncio.Task[None]', task_id: str) -> None:
        over = Latch()
        task.add_done_callback(over.open)
        await over.wait(self._clock, self._grace)
        if not task.done():
            logger.warning('The agent ignores that its time at task %s is over; it is left behind', task_id)


class Watch:
    """The deadlines of one running turn."""

    __slots__ = ('_clock', '_deadlines', '_end', '_expire', '_expired', '_seen', '_timer', '_turn')

    def __init__(
        self,
        turn: Turn,
        deadlines: Deadlines,
        clock: Clock,
        expired: Callable[[Turn, DeadlineError, Expire], None],
        expire: Expire,
    ) -> None:
        """Starts to watch, as of now."""
        now = clock.monotonic()
        self._turn = turn
        self._deadlines = deadlines
        self._clock = clock
        self._expired = expired
        self._expire = expire
        self._end = None if deadlines.turn_timeout is None else now + deadlines.turn_timeout
        self._seen = now
        self._timer: Timer = self._arm(now)

    def touch(self) -> None:
        """Notes that the agent has emitted something, or could not because of us."""
        self._seen = self._clock.monotonic()

    def cancel(self) -> None:
        """Watches no more."""
        self._timer.cancel()

    def _arm(self, now: float) -> Timer:
        return self._clock.call_later(self._next() - now, self._fire)

    def _next(self) -> float:
        """Returns when the next limit passes if nothing is emitted until then."""
        silent = self._deadlines.inactivity_timeout
        times = [self._end, None if silent is None else self._seen + silent]
        return min(time for time in times if time is not None)

    def _fire(self) -> None:
        turn, now = self._turn, self._clock.monotonic()
        if turn.ended or turn.cancelling:
            return  # a cancel has deadlines of its own
        if turn.held:
            self._seen = now
        if self._end is not None and now >= self._end - EARLY:
            text = f'The agent did not finish within {self._deadlines.turn_timeout:g} seconds.'
            self._expired(turn, TurnTimeoutError(text), self._expire)
        elif now >= self._next() - EARLY:
            text = f'The agent was silent for {self._deadlines.inactivity_timeout:g} seconds.'
            self._expired(turn, InactivityTimeoutError(text), self._expire)
        else:
            self._timer = self._arm(now)


def _note(error: DeadlineError, task: 'asyncio.Task[None] | None') -> str:
    """Returns what operators are told: the limit that passed, and where the agent was."""
    place = 'it had returned' if task is None or task.done() else f'it was here:\n{"".join(_where(task))}'
    return f'{type(error).__name__}: {error}\nexecute: {place}'


def _where(task: 'asyncio.Task[None]') -> list[str]:
    """Returns the stack of the agent's suspended coroutine, down to what it awaits."""
    lines: list[str] = []
    ours = task.get_coro()
    awaited: object = ours.cr_await if isinstance(ours, CoroutineType) else None
    while isinstance(awaited, CoroutineType):
        if awaited.cr_frame is not None:
            lines += traceback.format_stack(awaited.cr_frame, limit=1)
        awaited = awaited.cr_await
    return lines
