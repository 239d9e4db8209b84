"""Decisions that every adapter takes alike, once it has locked a task's row. Pure.

They are the rules of docs/architecture.md, "Claims and releases", which `tests/model` explores exhaustively.
"""

from dataclasses import replace

from a2a_scribe.core.records import TURN_STARTED, Record, decode_turn_started
from a2a_scribe.journal.results import Claimed, Full, Missing, Queued, Refused, Stale, WriteResult
from a2a_scribe.journal.tasks import Caller, TaskRow
from a2a_scribe.journal.writes import Accept, Append, Ask, Claim, TakeOver
from a2a_scribe.protocol.states import TERMINAL
from a2a_scribe.protocol.types import NodeId, Task


def decide_accept(row: TaskRow | None, accept: Accept, node: NodeId, waiting: int) -> WriteResult:
    """Whether a message starts a turn, waits behind `waiting` others, or is refused."""
    if row is None or not accept.caller.sees(row.scope):
        return Missing()
    if row.state in TERMINAL:
        return Refused()
    if row.node is not None:
        return Queued(row.node) if waiting < accept.queue_limit else Full()
    if row.seq != accept.expected_seq:
        return Stale()
    return Claimed(
        replace(
            row,
            node=node,
            epoch=row.epoch + 1,
            seq=row.seq + 1,
            open_turn=accept.turn_id,
            attempt=1,
            size=row.size + len(accept.body),
        )
    )


def decide_claim(row: TaskRow | None, claim: Claim, node: NodeId) -> WriteResult:
    """Whether a parked task can be taken for a cancel."""
    if row is None or not claim.caller.sees(row.scope):
        return Missing()
    if row.state in TERMINAL:
        return Refused()
    if row.node is not None or row.seq != claim.expected_seq:
        return Stale()
    return Claimed(replace(row, node=node, epoch=row.epoch + 1))


def decide_ask(row: TaskRow | None, ask: Ask) -> WriteResult:
    """Whether something can wait for the task's owner that is not a message."""
    if row is None or not ask.caller.sees(row.scope):
        return Missing()
    if row.state in TERMINAL:
        return Refused()
    return Stale() if row.node is None else Queued(row.node)


def decide_take_over(row: TaskRow | None, take: TakeOver, node: NodeId, *, is_canceled: bool) -> WriteResult:
    """Whether the task of a dead node can be taken, and how it stands then; `is_canceled` if a cancel waits for it."""
    if row is None:
        return Missing()
    if row.node != take.owner or row.epoch != take.epoch:
        return Stale()
    taken = replace(row, node=node, epoch=row.epoch + 1)
    if take.start is None or is_canceled:
        return Claimed(taken)
    attempt = decode_turn_started(take.start).attempt
    return Claimed(replace(taken, seq=row.seq + 1, attempt=attempt, size=row.size + len(take.start)))


def starting_record(task_id: str, seq: int, body: bytes, now: int) -> Record:
    """Returns the record with which a waiting message starts."""
    return Record(task_id, seq, TURN_STARTED, body, now, None)


def hand_over(append: Append, started: Record) -> TaskRow:
    """Returns the row of a task whose turn ended and whose next message starts with the record `started`."""
    turn = decode_turn_started(started.body)
    size = append.row.size + len(started.body)
    return replace(append.row, seq=started.seq, open_turn=turn.turn_id, attempt=turn.attempt, size=size)


def keep_for_cancel(append: Append) -> TaskRow:
    """Returns the row of a task whose turn ended and which its owner is to cancel now."""
    return replace(append.row, open_turn=None)


def refusal_to_replace(row: TaskRow, recorded: Task, task: Task, caller: Caller) -> str:
    """Returns why a task may not be stored from outside a turn, or an empty string."""
    if not caller.sees(row.scope):
        return 'the id belongs to a task of another owner'
    if row.node is not None or row.open_turn is not None:
        return 'the agent is working on the task'
    if row.state in TERMINAL and recorded != task:
        return 'the task has ended'
    return ''
