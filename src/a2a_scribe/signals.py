"""Named points in the life of an engine, for tests, logs, metrics and traces.

Whoever wants to know connects a plain function; a point that nobody listens to costs one attribute look-up. Payloads
are frozen values. A listener runs on the loop, at the point itself, and must not block.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar('T')

logger = logging.getLogger(__name__)


class Signal(Generic[T]):
    """One named point."""

    __slots__ = ('_listeners',)

    def __init__(self) -> None:
        """Makes a point that nobody listens to."""
        self._listeners: list[Callable[[T], object]] = []

    def connect(self, listener: Callable[[T], object]) -> Callable[[], None]:
        """Calls `listener` with each payload from now on; the returned function ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def __bool__(self) -> bool:
        """Whether somebody listens: callers make the payload only then."""
        return bool(self._listeners)

    def emit(self, payload: T) -> None:
        """Tells everybody who listens; a listener that raises harms nobody else."""
        for listener in tuple(self._listeners):
            try:
                listener(payload)
            except Exception:
                logger.exception('A listener of %s failed', type(payload).__name__)


@dataclass(frozen=True, slots=True)
class TurnPoint:
    """A turn has started or has ended; `outcome` is empty at its start."""

    task_id: str
    turn_id: str
    outcome: str = ''


@dataclass(frozen=True, slots=True)
class CommitPoint:
    """A transaction has become durable."""

    node: str
    number: int
    tasks: int
    records: int


@dataclass(frozen=True, slots=True)
class TroublePoint:
    """A transaction failed, a task was given up, or the node was fenced."""

    node: str
    task_id: str
    error: Exception | None


class Signals:
    """The points of one engine."""

    __slots__ = ('commit_failed', 'committed', 'fenced', 'task_forgotten', 'task_refused', 'turn_ended', 'turn_started')

    def __init__(self) -> None:
        """Makes the points."""
        self.turn_started: Signal[TurnPoint] = Signal()
        """The executor is about to run."""
        self.turn_ended: Signal[TurnPoint] = Signal()
        """The end of a turn was admitted; it is not durable yet."""
        self.committed: Signal[CommitPoint] = Signal()
        """A transaction is durable; readers have not been woken yet."""
        self.commit_failed: Signal[TroublePoint] = Signal()
        """A transaction failed and will be tried again, or given up."""
        self.task_refused: Signal[TroublePoint] = Signal()
        """The journal refused the records of one task."""
        self.task_forgotten: Signal[str] = Signal()
        """A task has left memory; the payload is its id."""
        self.fenced: Signal[TroublePoint] = Signal()
        """The node found itself declared dead."""
