"""Asking the process that works on a task to cancel it: a row in the inbox, and a cursor until the task has ended."""

from typing import Final

from a2a_scribe.core.records import CANCEL
from a2a_scribe.engine.cursors import Cursor
from a2a_scribe.engine.observers import state_of
from a2a_scribe.engine.orders import CancelOrder
from a2a_scribe.engine.session import Session
from a2a_scribe.errors import JournalUnavailableError
from a2a_scribe.journal.results import Queued
from a2a_scribe.journal.tasks import StoredTask
from a2a_scribe.journal.writes import Ask
from a2a_scribe.protocol.states import TERMINAL

MARGIN: Final = 5.0
"""Seconds beyond those that a cancel itself may take: for the owner to notice, and to record the end."""


async def ask_owner(session: Session, stored: StoredTask, order: CancelOrder) -> None:
    """Has the owner of a task cancel it, and waits until the task has ended, or is nobody's any more.

    Raises:
        TaskNotFoundError: The task was deleted.
        JournalUnavailableError: It could not be asked, or nothing came of it in time.
    """
    settings, clock = session.parts.settings, session.parts.clock
    patience = settings.cancel_deadline + settings.cancel_grace + MARGIN
    ask_id, micros = session.parts.ids.new(), int(patience * 1_000_000)
    ask = Ask(CANCEL, stored.row.task_id, order.caller, ask_id, order.encode(), micros)
    until = clock.monotonic() + patience
    if isinstance(await session.commits.write(ask), Queued):
        await _wait_for_end(session, stored, order, until)


async def _wait_for_end(session: Session, stored: StoredTask, order: CancelOrder, until: float) -> None:
    reading, task_id = session.reading, stored.row.task_id
    cursor = Cursor(reading, task_id, stored.row.seq)
    with reading.hub.bell(task_id) as bell:
        while True:
            records = await cursor.read()
            if any(state_of(record) in TERMINAL for record in records):
                return
            left = until - session.parts.clock.monotonic()
            if left <= 0:
                raise JournalUnavailableError('the process that works on the task has not cancelled it; try again')
            if reading.expects_nothing(task_id):
                raise JournalUnavailableError('the server is closing; try again')
            if not records and not await bell.wait(min(reading.poll_interval, left)):
                await reading.check_existence(task_id, order.caller)
