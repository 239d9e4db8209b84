"""Accepting messages: where a message becomes a turn, a place in the inbox, or a refusal.

There is one path for a follow-up, wherever it arrives: a transaction that locks the task's row decides. What follows
from its decision happens when the transaction is durable, whether or not the sender still waits.
"""

import contextvars

from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError

from a2a_scribe.core.records import TurnStarted, encode
from a2a_scribe.engine import repeats
from a2a_scribe.engine.observers import Ticket, TurnObserver
from a2a_scribe.engine.orders import MessageKey, Order
from a2a_scribe.engine.session import Session
from a2a_scribe.engine.waiting import Waiting
from a2a_scribe.engine.writer import KeyTakenError, Writer
from a2a_scribe.errors import EnvironmentFault, JournalUnavailableError
from a2a_scribe.journal.decisions import starting_record
from a2a_scribe.journal.results import Claimed, Full, Known, Missing, Queued, Refused, Stale, WriteResult
from a2a_scribe.journal.tasks import StoredTask
from a2a_scribe.journal.writes import Accept
from a2a_scribe.protocol.types import TurnId

ATTEMPTS = 20
"""How often a message is tried again because its task has moved on meanwhile."""


async def accept(session: Session, order: Order) -> TurnObserver:
    """Accepts a message and returns the observer of its turn.

    Raises:
        TaskNotFoundError: The task does not exist for this caller.
        InvalidParamsError: A new task has the id of a live one.
        UnsupportedOperationError: The task has ended, or too many messages wait for it.
        JournalUnavailableError: The message could not be recorded; nothing was accepted.
    """
    ticket = Ticket(TurnId(session.parts.ids.new()))
    if order.stored is not None:
        return await _accept_follow_up(session, order, order.stored, ticket)
    live = session.registry.get(order.request.message.task_id)
    if live is not None:
        return await _find_live(session, order, live.writer)
    if order.key is not None:
        return await _accept_first_with_key(session, order, order.key, ticket)
    session.starts.first(order, ticket)
    return TurnObserver(session.reading, ticket, order.request.message.task_id, order.caller, 0)


async def _accept_first_with_key(session: Session, order: Order, key: MessageKey, ticket: Ticket) -> TurnObserver:
    replaces = None
    for _ in range(ATTEMPTS):
        writer = session.starts.first(order, ticket, repeats.key_of(session, key, ticket.turn_id, replaces))
        known = await _until_born(writer)
        if known is None:
            return TurnObserver(session.reading, ticket, writer.task_id, order.caller, 0)
        observer = await repeats.observe(session, order, key, known)
        if observer is not None:
            return observer
        replaces = known.turn_id
    raise JournalUnavailableError('the task of the message is deleted again and again; try again')


async def _find_live(session: Session, order: Order, writer: Writer) -> TurnObserver:
    """Returns the observer of a message whose task is live under the id that its request context names too."""
    key, taken = order.key, writer.key
    if key is not None and taken is not None and (key.name, order.caller.scope) == (taken.name, writer.caller.scope):
        known = await _until_born(writer) or Known(writer.task_id, taken.turn_id, taken.digest)
        observer = await repeats.observe(session, order, key, known)
        if observer is not None:
            return observer
    raise InvalidParamsError('the request context names a task that exists already')


async def _until_born(writer: Writer) -> Known | None:
    """Waits until a task is durable; returns whose its key is, if it is another's."""
    try:
        await writer.wait_for_room()
    except KeyTakenError as taken:
        return taken.known
    except EnvironmentFault:
        return None  # the turn is lost, which its observer tells
    return None


async def _accept_follow_up(session: Session, order: Order, stored: StoredTask, ticket: Ticket) -> TurnObserver:
    task_id = stored.row.task_id
    _, body = encode(TurnStarted(ticket.turn_id, order.caller_record, order.request))
    waiting = Waiting(ticket, order, contextvars.copy_context())
    key, replaces = order.key, None
    if key is not None:
        session.retention.note_key()
    for _ in range(ATTEMPTS):
        limit = session.parts.settings.queued_messages
        taken = None if key is None else repeats.key_of(session, key, ticket.turn_id, replaces)
        request = Accept(task_id, order.caller, ticket.turn_id, body, stored.row.seq, limit, taken)
        settle = _Settling(session, stored, waiting, body)
        result = await session.commits.write(request, settle)
        match result:
            case Claimed() | Queued():
                return TurnObserver(session.reading, ticket, task_id, order.caller, stored.row.seq)
            case Stale():
                stored = await _read_again(session, order, task_id)
            case Known() if key is not None:
                observer = await repeats.observe(session, order, key, result)
                if observer is not None:
                    return observer
                replaces = result.turn_id
            case Refused():
                raise UnsupportedOperationError(f'Task {task_id} has ended')
            case Full():
                raise UnsupportedOperationError(f'Too many messages wait for task {task_id} already')
            case Missing():
                raise TaskNotFoundError
    raise JournalUnavailableError('the task changes too fast; try again')


class _Settling:
    """Starts or keeps a message when the journal has decided, also when its sender has gone away."""

    def __init__(self, session: Session, stored: StoredTask, waiting: Waiting, body: bytes) -> None:
        self._session = session
        self._stored = stored
        self._waiting = waiting
        self._body = body

    def __call__(self, result: WriteResult) -> None:
        session, stored = self._session, self._stored
        task_id = stored.row.task_id
        if isinstance(result, Claimed):
            writer = Writer(stored.row.task_id, self._waiting.order.caller, session.tools, stored, result.row)
            started = starting_record(task_id, result.row.seq, self._body, session.parts.clock.now())
            session.starts.follow_up(writer, started, self._waiting)
        elif isinstance(result, Queued):
            session.wait_for_turn(task_id, result, self._waiting)
            live = session.registry.get(task_id)
            if live is not None and live.turn is not None:
                session.runner.hand_on(live.turn)


async def _read_again(session: Session, order: Order, task_id: str) -> StoredTask:
    stored = await session.parts.journal.read_task(task_id, order.caller)
    if stored is None:
        raise TaskNotFoundError
    return stored
