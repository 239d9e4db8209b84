"""Messages that are sent again under the key that they had the first time: whoever sends one waits for the first turn.

Nothing looks a key up to find out whether a message is new: it is taken in the transaction that makes the message's
turn durable, and whoever finds it taken is told there whose it is.
"""

from collections.abc import AsyncGenerator

from a2a_scribe.core.records import TURN_STARTED, Shown, TurnEnded, decode, decode_turn_started
from a2a_scribe.engine.cursors import BATCH_BYTES, MOST_RECORDS
from a2a_scribe.engine.observers import Presence, Ticket, TurnObserver, always
from a2a_scribe.engine.orders import MessageKey, Order
from a2a_scribe.engine.session import Session
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import Known
from a2a_scribe.journal.tasks import StoredTask
from a2a_scribe.journal.writes import Key
from a2a_scribe.protocol.faults import InvalidFieldError
from a2a_scribe.protocol.states import TERMINAL
from a2a_scribe.protocol.types import Message, Task, TurnId


def key_of(session: Session, key: MessageKey, turn_id: TurnId, replaces: TurnId | None) -> Key:
    """Returns a message's key as it is stored."""
    kept = int(session.parts.settings.idempotency_retention * 1_000_000)
    return Key(key.name, key.digest, turn_id, session.parts.clock.now() + kept, replaces)


async def observe(session: Session, order: Order, key: MessageKey, known: Known) -> TurnObserver | None:
    """Returns the observer of the turn that the message had the first time.

    `None` if its task was deleted since, or if no agent has ever seen the message: its key is free.

    Raises:
        InvalidParamsError: The message is another one.
        JournalUnavailableError: Not now.
    """
    if known.digest != key.digest:
        raise InvalidFieldError(
            key.field, 'was given to another message: a message that is sent again must be the same'
        )
    journal = session.parts.journal
    stored = await journal.read_task(known.task_id, order.caller)
    if stored is None or await _was_given_back(journal, stored, known.turn_id):
        return None
    ticket = session.ticket_of(known.task_id, known.turn_id)
    kind = TurnObserver if ticket is not None or journal.keeps_records else _LateObserver
    ticket = ticket or Ticket(known.turn_id)
    return kind(session.reading, ticket, known.task_id, order.caller, 0, is_repeat=True)


async def _was_given_back(journal: Journal, stored: StoredTask, turn_id: TurnId) -> bool:
    """Whether a turn ended as soon as it had started, because the journal was away when its agent was to begin."""
    row = stored.row
    if row.node is not None or row.state in TERMINAL or not journal.keeps_records:
        return False
    after, has_started = 0, False
    while after < row.seq:
        records = await journal.read_records(row.task_id, after, MOST_RECORDS, BATCH_BYTES)
        for record in records:
            if has_started:
                change = decode(record)
                return isinstance(change, TurnEnded) and change.outcome == 'interrupted'
            has_started = record.kind == TURN_STARTED and decode_turn_started(record.body).turn_id == turn_id
        after = records[-1].seq if records else row.seq
    return False


class _LateObserver(TurnObserver):
    """Shows the task as it is: its turn is over, and how it ended is not kept."""

    async def answer(self, is_present: Presence = always) -> Task | Message:
        """Returns the task."""
        return await self.first(is_present)

    async def batches(self) -> AsyncGenerator[list[Shown], None]:
        """Yields the task."""
        task = await self.first()
        yield [Shown(self._shown, 'task', task.SerializeToString())]
