"""Taking over the tasks of dead nodes: the open turn ends by policy, or its message is executed again.

What happens then is decided before the task is claimed, from what is durable, which nobody can change any more; the
claim and the start of another attempt are one transaction, so an attempt that is not counted is not made.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from a2a_scribe.core.records import (
    RERUN,
    TURN_STARTED,
    RerunAsked,
    TurnEnded,
    TurnStarted,
    decode_rerun,
    decode_turn_started,
    encode,
    shown_event,
)
from a2a_scribe.core.statuses import TurnFacts, change_status, recovery_metadata
from a2a_scribe.engine.crashes import policy_for
from a2a_scribe.engine.session import Session
from a2a_scribe.engine.stops import STOPPED_TEXT
from a2a_scribe.engine.writer import Writer
from a2a_scribe.errors import JournalUnavailableError
from a2a_scribe.journal.decisions import starting_record
from a2a_scribe.journal.results import Claimed, WriteResult
from a2a_scribe.journal.tasks import Caller, StoredTask, TaskRow
from a2a_scribe.journal.writes import TakeOver
from a2a_scribe.protocol.states import FAILED, INTERRUPTED, TERMINAL
from a2a_scribe.protocol.types import Message, NodeId, Task, TaskStatus, TaskStatusUpdateEvent

logger = logging.getLogger(__name__)

PORTION_RECORDS, PORTION_BYTES = 500, 1_000_000


class _Plan(Enum):
    """What becomes of a task."""

    RELEASE = 'given back'
    """No turn was open."""
    PARK = 'parked'
    """Its turn had asked for input already, and the client can answer."""
    LEAVE = 'left as it had ended'
    """Its turn had not ended yet, but whatever it did is over."""
    FAIL = 'failed'
    RERUN = 'run again'


@dataclass(frozen=True, slots=True)
class _OpenTurn:
    """What the records say of the turn that was open."""

    started: TurnStarted
    asked: bool
    """The newest status of the turn asks for input."""


async def take_over(session: Session, rows: Sequence[TaskRow]) -> None:
    """Takes tasks of dead nodes over, side by side, those that can be.

    Raises:
        JournalUnavailableError: The journal is away.
    """
    asked = await _asked_reruns(session, {row.node for row in rows if row.node is not None})
    await asyncio.gather(*(_take_over(session, row, _is_asked(asked, row)) for row in rows))


async def _asked_reruns(session: Session, nodes: set[NodeId]) -> dict[str, list[RerunAsked | None]]:
    """Returns what operators want to run again of the tasks that nodes have left."""
    asked: dict[str, list[RerunAsked | None]] = {}
    for node in nodes:
        for waiting in await session.parts.journal.waiting_asks(node, session.parts.clock.now()):
            if waiting.kind == RERUN:
                asked.setdefault(waiting.task_id, []).append(decode_rerun(waiting.body))
    return asked


def _is_asked(asked: dict[str, list[RerunAsked | None]], row: TaskRow) -> bool:
    return row.open_turn is not None and RerunAsked(row.open_turn, row.attempt) in asked.get(row.task_id, ())


async def _take_over(session: Session, row: TaskRow, is_asked: bool) -> None:
    try:
        await _claim(session, row, is_asked)
    except JournalUnavailableError:
        raise
    except Exception:  # one task that cannot be read must not keep the server from all others
        if row.task_id not in session.told_of:
            logger.exception('Task %s of a dead node cannot be taken over', row.task_id)
        session.told_of.add(row.task_id)


async def _claim(session: Session, row: TaskRow, is_asked: bool) -> None:
    caller = Caller(row.scope)
    stored = await session.parts.journal.read_task(row.task_id, caller)
    if stored is None or stored.row != row or session.registry.get(row.task_id) is not None or row.node is None:
        return
    turn = await _open_turn(session, row) if is_asked or _depends_on_turn(session, row) else None
    plan = _plan(session, stored, turn, is_asked)
    start = None
    if plan is _Plan.RERUN and turn is not None:
        _, start = encode(TurnStarted(turn.started.turn_id, turn.started.caller, turn.started.request, row.attempt + 1))
    settle = _Settling(session, stored, caller, plan, start)
    await session.commits.write(TakeOver(row.task_id, caller, row.node, row.epoch, start), settle)


def _depends_on_turn(session: Session, row: TaskRow) -> bool:
    """Whether the records of a task have to be read to know what becomes of it."""
    may_run_again = session.parts.after_crash is not None or session.parts.settings.after_crash == 'rerun'
    is_open = row.open_turn is not None and row.state not in TERMINAL
    return is_open and (may_run_again or row.state in INTERRUPTED)


def _plan(session: Session, stored: StoredTask, turn: _OpenTurn | None, is_asked: bool) -> _Plan:
    row, parts = stored.row, session.parts
    if row.open_turn is None:
        return _Plan.RELEASE
    if row.state in TERMINAL:
        return _Plan.LEAVE
    if turn is None:
        return _Plan.FAIL
    if is_asked:
        return _Plan.RERUN
    if turn.asked:
        return _Plan.PARK
    task, message = stored.projection.to_task(), turn.started.request.message
    policy = policy_for(parts.settings, parts.after_crash, task, message, row.attempt)
    return _Plan.RERUN if policy == 'rerun' else _Plan.FAIL


async def _open_turn(session: Session, row: TaskRow) -> _OpenTurn | None:
    """Finds the newest start of the turn that is open, and whether it has asked for input since.

    A status that says what the one before it said is no question: it came to carry metadata.
    """
    found: TurnStarted | None = None
    status: TaskStatus | None = None
    asked = False
    after = row.first - 1
    while after < row.seq:
        records = await session.parts.journal.read_records(row.task_id, after, PORTION_RECORDS, PORTION_BYTES)
        for record in records:
            if record.kind == TURN_STARTED:
                started = decode_turn_started(record.body)
                found, asked = (started if started.turn_id == row.open_turn else None), False
                status = None if status is None else TaskStatus(state=status.state)  # its message is history now
            elif isinstance(event := shown_event(record), TaskStatusUpdateEvent | Task):
                asked = event.status.state in INTERRUPTED and (asked or not _says_the_same(status, event.status))
                status = event.status
        if not records:
            break
        after = records[-1].seq
    return None if found is None else _OpenTurn(found, asked)


def _says_the_same(before: TaskStatus | None, status: TaskStatus) -> bool:
    return before is not None and (before.state, before.message) == (status.state, status.message)


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
            session.starts.follow_up(writer, started, None)
        else:
            session.registry.add(writer)
            session.parts.on_turn(row.task_id, row.seq)
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
