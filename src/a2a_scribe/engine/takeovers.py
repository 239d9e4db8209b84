"""Taking over the tasks of dead nodes: the open turn ends by policy, or its message is executed again.

What happens then is decided before the task is claimed, from what is durable, which nobody can change any more; the
claim and the start of another attempt are one transaction, so an attempt that is not counted is not made.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from a2a_scribe.core.records import TURN_STARTED, TurnEnded, TurnStarted, decode_turn_started, encode, shown_event
from a2a_scribe.core.statuses import TurnFacts, change_status, recovery_metadata
from a2a_scribe.engine.orders import CrashedTurn
from a2a_scribe.engine.session import STOPPED_TEXT, Session
from a2a_scribe.engine.writer import Writer
from a2a_scribe.errors import JournalRefusedError, JournalUnavailableError
from a2a_scribe.journal.decisions import starting_record
from a2a_scribe.journal.port import Caller, Claimed, StoredTask, TakeOver, TaskRow, WriteResult
from a2a_scribe.protocol.states import FAILED, INTERRUPTED
from a2a_scribe.protocol.types import Message, TaskStatusUpdateEvent

logger = logging.getLogger(__name__)

PORTION_RECORDS, PORTION_BYTES = 500, 1_000_000


class _Plan(Enum):
    """What becomes of a task."""

    RELEASE = 'given back'
    """No turn was open."""
    PARK = 'parked'
    """Its turn had asked for input already, and the client can answer."""
    FAIL = 'failed'
    RERUN = 'run again'


@dataclass(frozen=True, slots=True)
class _OpenTurn:
    """What the records say of the turn that was open."""

    started: TurnStarted
    asked: bool
    """The newest status of the turn asks for input."""


async def take_over(session: Session, rows: Sequence[TaskRow]) -> int:
    """Takes tasks of dead nodes over, side by side; returns how many are ours now.

    Raises:
        JournalUnavailableError: The journal is away.
    """
    taken = await asyncio.gather(*(_take_over(session, row) for row in rows))
    return sum(taken)


async def _take_over(session: Session, row: TaskRow) -> bool:
    caller = Caller(row.scope)
    stored = await session.parts.journal.read_task(row.task_id, caller)
    if stored is None or stored.row != row or session.registry.get(row.task_id) is not None or row.node is None:
        return False
    turn = await _open_turn(session, row)
    plan = _plan(session, stored, turn)
    start = None
    if plan is _Plan.RERUN and turn is not None:
        _, start = encode(TurnStarted(turn.started.turn_id, turn.started.caller, turn.started.request, row.attempt + 1))
    settle = _Settling(session, stored, caller, plan, start)
    try:
        result = await session.commits.write(TakeOver(row.task_id, caller, row.node, row.epoch, start), settle)
    except JournalRefusedError as error:
        logger.error('Task %s of a dead node cannot be taken over: %s', row.task_id, error)  # noqa: TRY400
        return False
    return isinstance(result, Claimed)


def _plan(session: Session, stored: StoredTask, turn: _OpenTurn | None) -> _Plan:
    row, parts = stored.row, session.parts
    if turn is None:
        return _Plan.RELEASE if row.open_turn is None else _Plan.FAIL
    if turn.asked:
        return _Plan.PARK
    if row.attempt >= parts.settings.crash_attempts:
        return _Plan.FAIL
    policy = parts.settings.after_crash
    if parts.after_crash is not None:
        crashed = CrashedTurn(stored.projection.to_task(), turn.started.request.message, row.attempt)
        try:
            policy = parts.after_crash(crashed)
        except Exception:
            logger.exception('after_crash raised for task %s: the task fails', row.task_id)
            policy = 'fail'
    return _Plan.RERUN if policy == 'rerun' else _Plan.FAIL


async def _open_turn(session: Session, row: TaskRow) -> _OpenTurn | None:
    """Finds the newest start of the turn that is open, and whether it has asked for input since."""
    if row.open_turn is None:
        return None
    found: TurnStarted | None = None
    asked = False
    after = row.first - 1
    while after < row.seq:
        records = await session.parts.journal.read_records(row.task_id, after, PORTION_RECORDS, PORTION_BYTES)
        for record in records:
            if record.kind == TURN_STARTED:
                started = decode_turn_started(record.body)
                found, asked = (started if started.turn_id == row.open_turn else None), False
            elif isinstance(event := shown_event(record), TaskStatusUpdateEvent):
                asked = event.status.state in INTERRUPTED
        if not records:
            break
        after = records[-1].seq
    return None if found is None else _OpenTurn(found, asked)


class _Settling:
    """Goes on with a task as soon as it is ours."""

    def __init__(self, session: Session, stored: StoredTask, caller: Caller, plan: _Plan, start: bytes | None) -> None:
        self._session = session
        self._stored = stored
        self._caller = caller
        self._plan = plan
        self._start = start

    def __call__(self, result: WriteResult) -> None:
        if not isinstance(result, Claimed):
            return
        session, row = self._session, self._stored.row
        # A turn that was to run again has not been started if a cancel waits: it ends, and then the cancel is due.
        logger.warning('Task %s of a dead node is %s', row.task_id, self._plan.value)
        writer = Writer(row.task_id, self._caller, session.tools, self._stored, result.row)
        if self._start is not None and row.seq < result.row.seq:
            started = starting_record(row.task_id, result.row.seq, self._start, session.parts.clock.now())
            session.start_follow_up(writer, started, None)
        else:
            session.registry.add(writer)
            self._end(writer)

    def _end(self, writer: Writer) -> None:
        row, projection = self._stored.row, self._stored.projection
        try:
            if self._plan is _Plan.FAIL:
                facts = TurnFacts(row.task_id, row.context_id, Message(), self._session.parts.ids.new)
                metadata = recovery_metadata(row.attempt)
                failed = change_status(projection, facts, FAILED, STOPPED_TEXT, writer.now(), metadata=metadata)
                writer.record(failed, f'node {row.node} died')
            if row.open_turn is None:
                writer.release()
            else:
                writer.end_turn(TurnEnded(row.open_turn, 'interrupted'))
        except JournalUnavailableError:
            return  # the loss has been reported already
