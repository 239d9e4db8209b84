"""A seeded event loop with virtual time: which ready callback runs next, and how time passes, is drawn from a seed.

Nothing here does I/O or sleeps. When nothing is ready, time jumps to the next timer; when there is none either, the
program is deadlocked, and is told so. A callback belongs to the process (`Life`) in whose context it was made, so a
process can be held up, and can die between any two callbacks: what is left of it never runs again.
"""

import asyncio
import contextvars
import heapq
import itertools
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar('T')
A = TypeVarTuple('A')

PATIENCE = 60
"""A callback that has waited for so many others is next: every ready callback runs sooner or later."""
COSTS = (0.0, 0.0, 0.0, 0.0, 0.0001, 0.0001, 0.0005, 0.002, 0.004, 0.012)
"""Seconds that a callback may take."""


class DeadlockError(Exception):
    """Nothing is ready, and nothing will be."""


class EndlessError(Exception):
    """The program takes more steps than it should."""


class Life:
    """A process, as the loop sees it."""

    __slots__ = ('held', 'is_alive', 'is_paused', 'name')

    def __init__(self, name: str) -> None:
        """Starts alive."""
        self.name = name
        self.is_alive = True
        self.is_paused = False
        self.held: list[Call] = []
        """What waits for the end of a pause."""


LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar('life', default=None)


class Call(asyncio.TimerHandle):
    """One callback, now or later."""

    __slots__ = ('arguments', 'callback', 'context', 'since')

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        """Makes a call that is due at `when`."""
        context = contextvars.copy_context() if context is None else context
        super().__init__(when, callback, arguments, loop, context)
        self.callback: Callable[..., object] | None = callback
        self.arguments = arguments
        self.context = context
        self.since = 0

    def cancel(self) -> None:
        """Calls it off."""
        self.callback = None
        self.arguments = ()

    def cancelled(self) -> bool:
        """Whether it was called off."""
        return self.callback is None

    def run(self) -> None:
        """Makes the call."""
        if self.callback is not None:
            self.context.run(self.callback, *self.arguments)


class SimulatedTask(asyncio.Task[T]):
    """A task whose hash is its number, so that sets of tasks have the same order in each run."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], *, number: int, life: Life | None, **given: Any) -> None:
        """Takes the number, and the process that the task belongs to."""
        self.number = number
        self.life = life
        super().__init__(coroutine, **given)

    def __hash__(self) -> int:
        """Returns the number."""
        return self.number

    def __eq__(self, other: object) -> bool:
        """Whether it is the same task."""
        return self is other


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop; `limit` bounds the steps of a program that never ends."""

    def __init__(self, random: Random, *, fifo: bool = False, limit: int = 400_000) -> None:
        """Starts at time 0. A `fifo` loop keeps the order of asyncio's own, and draws only how time passes."""
        self._runs = False
        self._over = False
        super().__init__()
        self.steps = 0
        self.errors: list[dict[str, Any]] = []
        """What callbacks raised."""
        self.tasks: list[SimulatedTask[Any]] = []
        """All tasks that were ever made."""
        self._random = random
        self._fifo = fifo
        self._limit = limit
        self._now = 0.0
        self._waiting: list[Call] = []
        self._timers: list[tuple[float, int, Call]] = []
        self._numbers = itertools.count(1)

    # -- what programs call

    def time(self) -> float:
        """Returns seconds since the loop was made."""
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[A]], object], *args: *A, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Calls back some time after this."""
        call = Call(self._now, callback, args, self, context)
        self._make_ready(call)
        return call

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[A]], object],
        *args: *A,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Calls back after `delay` seconds."""
        return self.call_at(self._now + max(0.0, delay), callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[A]], object],
        *args: *A,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Calls back at `when`."""
        call = Call(when, callback, args, self, context)
        if not self._over:
            heapq.heappush(self._timers, (when, next(self._numbers), call))
        return call

    def create_future(self) -> 'asyncio.Future[Any]':
        """Makes a future."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]  # the stubs know no context before Python 3.11
        self, coro: Coroutine[Any, Any, T], *, name: object = None, context: contextvars.Context | None = None
    ) -> 'asyncio.Task[T]':
        """Makes a task; one that is given an empty context still belongs to the process that makes it."""
        if context is not None and LIFE not in context:
            context.run(LIFE.set, LIFE.get())
        life = LIFE.get() if context is None else context[LIFE]
        given = {'loop': self, 'name': None if name is None else str(name), 'context': context}
        task = SimulatedTask(coro, number=next(self._numbers), life=life, **given)
        self.tasks.append(task)
        return task

    def is_running(self) -> bool:
        """Whether the loop runs."""
        return self._runs

    def is_closed(self) -> bool:
        """Whether it has been closed."""
        return self._over

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keeps what callbacks raised; tasks that died with their process are no error."""
        if 'was destroyed but it is pending' not in str(context.get('message')):
            self.errors.append(context)

    # -- running

    def run_until_complete(self, future: Any) -> Any:
        """Runs a coroutine to its end.

        Raises:
            DeadlockError: It waits for what cannot come.
            EndlessError: It takes too many steps.
        """
        asyncio._set_running_loop(self)  # noqa: SLF001 - the call that asyncio has for those who make loops
        self._runs = True
        try:
            task = asyncio.ensure_future(future, loop=self)
            while not task.done():
                self._step()
            return task.result()
        finally:
            self._runs = False
            asyncio._set_running_loop(None)  # noqa: SLF001

    def close(self) -> None:
        """Drops what has not run; may be called twice."""
        self._over = True
        self._waiting.clear()
        self._timers.clear()
        self.tasks.clear()

    def resume(self, life: Life) -> None:
        """Ends a pause."""
        life.is_paused = False
        held, life.held = life.held, []
        for call in held:
            self._make_ready(call)

    def pending(self, life: Life) -> 'list[SimulatedTask[Any]]':
        """Returns a process's tasks that are not done."""
        return [task for task in self.tasks if not task.done() and task.life is life]

    def _make_ready(self, call: Call) -> None:
        if not self._over:
            call.since = self.steps
            self._waiting.append(call)

    def _step(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self._now:
            self._make_ready(heapq.heappop(timers)[2])
        if not self._waiting:
            if not timers:
                raise DeadlockError
            self._now = timers[0][0]
            return
        self.steps += 1
        if self.steps > self._limit:
            raise EndlessError(f'{self.steps} steps')
        call = self._next()
        life = call.context.get(LIFE)
        if life is not None:
            if not life.is_alive:
                return
            if life.is_paused:
                life.held.append(call)
                return
        if call.callback is not None:
            self._now += COSTS[int(self._random.random() * len(COSTS))]
            self._run(call)

    def _next(self) -> Call:
        ready = self._waiting
        if self._fifo or len(ready) == 1 or self.steps - ready[0].since > PATIENCE:
            return ready.pop(0)
        return ready.pop(int(self._random.random() * len(ready)))

    def _run(self, call: Call) -> None:
        try:
            call.run()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.call_exception_handler({'message': 'a callback failed', 'exception': error})
