"""Wake-ups by task id. Hints only: whoever is woken looks into the journal, and nobody relies on being woken.

Observers wait here and never on a writer, because writers come and go while a task is observed.
"""

from collections import defaultdict
from types import TracebackType
from typing import Self

from a2a_scribe.clock import Clock
from a2a_scribe.engine.latch import Latch


class Bell:
    """One observer's place to wait. Rung while nobody waits, it rings at the next wait."""

    __slots__ = ('_clock', '_hub', '_latch', '_rung', '_task_id')

    def __init__(self, hub: 'Hub', task_id: str, clock: Clock) -> None:
        """Makes a bell that is not hung up yet: use it in a `with` statement."""
        self._hub = hub
        self._task_id = task_id
        self._clock = clock
        self._rung = False
        self._latch: Latch | None = None

    def __enter__(self) -> Self:
        """Hangs the bell up."""
        self._hub.hang(self._task_id, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Takes the bell down."""
        self._hub.take_down(self._task_id, self)

    def ring(self) -> None:
        """Wakes the observer."""
        self._rung = True
        if self._latch is not None:
            self._latch.open()

    async def wait(self, seconds: float) -> bool:
        """Waits until the bell is rung, `seconds` at most; returns whether it was rung."""
        if not self._rung:
            self._latch = Latch()
            try:
                await self._latch.wait(self._clock, seconds)
            finally:
                self._latch = None
        rung, self._rung = self._rung, False
        return rung


class Hub:
    """The bells of one engine."""

    def __init__(self, clock: Clock) -> None:
        """Makes a hub without bells."""
        self._clock = clock
        self._bells: defaultdict[str, list[Bell]] = defaultdict(list)
        self.is_closing = False
        """Those who observe tasks that nobody works on go now: nothing will come."""
        self.is_closed = False
        """Everybody goes."""

    def close_idle(self) -> None:
        """Sends those away who observe tasks that nobody works on here."""
        self.is_closing = True
        self.ring_all()

    def close(self) -> None:
        """Sends everybody away."""
        self.is_closed = True
        self.ring_all()

    def bell(self, task_id: str) -> Bell:
        """Returns a bell for one observer of a task."""
        return Bell(self, task_id, self._clock)

    def hang(self, task_id: str, bell: Bell) -> None:
        """Rings `bell` from now on."""
        self._bells[task_id].append(bell)

    def take_down(self, task_id: str, bell: Bell) -> None:
        """Rings `bell` no more."""
        bells = self._bells[task_id]
        bells.remove(bell)
        if not bells:
            del self._bells[task_id]

    def ring(self, task_id: str) -> None:
        """Wakes all who observe a task."""
        for bell in self._bells.get(task_id, ()):
            bell.ring()

    def ring_all(self) -> None:
        """Wakes everybody."""
        for task_id in tuple(self._bells):
            self.ring(task_id)

    @property
    def observed(self) -> tuple[str, ...]:
        """The tasks for which bells hang."""
        return tuple(self._bells)

    @property
    def observers(self) -> int:
        """How many bells hang."""
        return sum(len(bells) for bells in self._bells.values())
