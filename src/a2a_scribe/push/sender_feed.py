"""Feeds a user's own `PushNotificationSender`, in order per task and off the writer's path.

One reader per task follows the durable records and calls the sender for each event, one after another. A slow or
failing sender delays nobody but its own later calls.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from a2a.server.tasks import PushNotificationSender

from a2a_scribe.core.records import Record, shown_event

logger = logging.getLogger(__name__)

ReadRecords = Callable[[], Coroutine[Any, Any, list[Record] | None]]
"""Waits for the next durable records of a task; `None` once it is not live any more."""


class SenderFeed:
    """The readers of one engine's live tasks, for one sender."""

    def __init__(
        self,
        sender: PushNotificationSender,
        open_cursor: Callable[[str, int], ReadRecords],
        spawn: Callable[[Coroutine[Any, Any, None], str], None],
    ) -> None:
        """Makes a feed that follows nothing yet."""
        self._sender = sender
        self._open_cursor = open_cursor
        self._spawn = spawn
        self._followed: set[str] = set()

    def follow(self, task_id: str, position: int) -> None:
        """Calls the sender for what a task records after `position`, unless its reader is at work already."""
        if task_id not in self._followed:
            self._followed.add(task_id)
            self._spawn(self._feed(task_id, self._open_cursor(task_id, position)), f'push of {task_id}')

    async def _feed(self, task_id: str, read: ReadRecords) -> None:
        try:
            while (records := await read()) is not None:
                for record in records:
                    await self._send(task_id, record)
        finally:
            self._followed.discard(task_id)

    async def _send(self, task_id: str, record: Record) -> None:
        event = shown_event(record)
        if event is None:
            return
        try:
            await self._sender.send_notification(task_id, event)
        except Exception:
            logger.exception('The push sender failed at task %s, event %d', task_id, record.seq)
