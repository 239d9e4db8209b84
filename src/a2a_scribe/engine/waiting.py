"""What this process knows of messages that wait for a running turn to end: who sent them, and with which context.

The journal has the messages themselves; what is here is good only for turns that start in this process.
"""

import contextvars
from collections.abc import Iterator
from dataclasses import dataclass

from a2a_scribe.engine.observers import Ticket
from a2a_scribe.engine.orders import Order
from a2a_scribe.protocol.types import TurnId


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that this process accepted and that waits for the running turn to end."""

    ticket: Ticket
    order: Order
    variables: contextvars.Context


class WaitingMessages:
    """The waiting messages of one session, by task."""

    def __init__(self) -> None:
        """Knows of none."""
        self._by_task: dict[str, list[Waiting]] = {}

    def __iter__(self) -> Iterator[str]:
        """Goes through the tasks for which something waits."""
        return iter(self._by_task)

    def keep(self, task_id: str, waiting: Waiting) -> None:
        """Keeps what is known of a message until its turn starts."""
        self._by_task.setdefault(task_id, []).append(waiting)

    def ticket_of(self, task_id: str, turn_id: TurnId) -> Ticket | None:
        """Returns the ticket of a turn that waits here, `None` if there is no such turn."""
        found = (waiting.ticket for waiting in self._by_task.get(task_id, ()) if waiting.ticket.turn_id == turn_id)
        return next(found, None)

    def take(self, task_id: str, turn_id: TurnId) -> Waiting | None:
        """Hands out what is known of a message, once; `None` if another process has accepted it."""
        for waiting in self._by_task.get(task_id, ()):
            if waiting.ticket.turn_id == turn_id:
                self._by_task[task_id].remove(waiting)
                return waiting
        return None

    def forget(self, task_id: str) -> None:
        """Drops all that is known of a task's messages: none of them will start here."""
        self._by_task.pop(task_id, None)

    def clear(self) -> None:
        """Drops everything."""
        self._by_task.clear()
