"""Which tasks are live on this node, and how new turns of theirs start.

The only owner of the map from task id to writer. A task is in it from the acceptance of its first message, or from its
claim, until the commit that releases it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from a2a_scribe.engine.latch import Latch
from a2a_scribe.engine.turn import Turn
from a2a_scribe.engine.writer import Writer
from a2a_scribe.protocol.types import Task, TaskState
from a2a_scribe.signals import Signals


class LiveTask:
    """A writer and the turn that it works for, if any."""

    __slots__ = ('cancelling', 'turn', 'writer')

    def __init__(self, writer: Writer, turn: Turn | None = None) -> None:
        """Makes the entry of a task."""
        self.writer = writer
        self.turn = turn
        self.cancelling: asyncio.Task[tuple[TaskState, Task]] | None = None
        """The cancel under way, which later ones join."""


class Watch:
    """Whether a task has been live at any time since somebody began to look at it."""

    __slots__ = ('was_live',)

    def __init__(self, *, was_live: bool) -> None:
        """Begins."""
        self.was_live = was_live


class Registry:
    """The live tasks of one engine."""

    def __init__(self, signals: Signals) -> None:
        """Makes a registry without tasks."""
        self._live: dict[str, LiveTask] = {}
        self._watches: dict[str, list[Watch]] = {}
        self._signals = signals
        self.emptied: Latch | None = None
        """Opened when the last task is forgotten, for whoever waits for that."""

    def __len__(self) -> int:
        """How many tasks are live."""
        return len(self._live)

    def __iter__(self) -> Iterator[LiveTask]:
        """Goes through the live tasks as they are now."""
        return iter(tuple(self._live.values()))

    def get(self, task_id: str) -> LiveTask | None:
        """Returns a live task."""
        return self._live.get(task_id)

    def writer(self, task_id: str) -> Writer | None:
        """Returns the writer of a live task."""
        live = self._live.get(task_id)
        return None if live is None else live.writer

    def add(self, writer: Writer, turn: Turn | None = None) -> LiveTask:
        """Makes a task live."""
        live = LiveTask(writer, turn)
        self._live[writer.task_id] = live
        for watch in self._watches.get(writer.task_id, ()):
            watch.was_live = True
        return live

    @contextmanager
    def watched(self, task_id: str) -> Iterator[Watch]:
        """Watches a task while the block lasts: what is read of one that is live may be old when it comes."""
        watch = Watch(was_live=task_id in self._live)
        watches = self._watches.setdefault(task_id, [])
        watches.append(watch)
        try:
            yield watch
        finally:
            watches.remove(watch)
            if not watches:
                del self._watches[task_id]

    def forget(self, writer: Writer) -> None:
        """Drops a task, unless another writer has taken its place meanwhile."""
        live = self._live.get(writer.task_id)
        if live is not None and live.writer is writer:
            del self._live[writer.task_id]
            if self._signals.task_forgotten:
                self._signals.task_forgotten.emit(writer.task_id)
            if self.emptied is not None and not self._live:
                self.emptied.open()
