"""What became of a group whose answer was lost: read from what it left behind.

The group is this node's newest, and nobody else moves a task that the node owns; so the rows tell.
"""

from a2a_scribe.core.records import CANCEL, TURN_STARTED, decode_turn_started
from a2a_scribe.journal.deliveries import KeepDeliveries
from a2a_scribe.journal.results import (
    AppendResult,
    CancelDue,
    Claimed,
    Continues,
    Done,
    Known,
    NextTurn,
    Queued,
    Receipt,
    Released,
    Stale,
    WriteResult,
)
from a2a_scribe.journal.sql import rows
from a2a_scribe.journal.sql.deliveries import DeliveryTable
from a2a_scribe.journal.sql.keys import KeyTable
from a2a_scribe.journal.sql.running import Running
from a2a_scribe.journal.sql.statements import Statements
from a2a_scribe.journal.tasks import TaskRow
from a2a_scribe.journal.writes import Accept, Append, Ask, Claim, Group, Key, TakeOver, Write

LOOK_AHEAD = 10_000
"""Records after which a started turn is not looked for any more."""


class GroupResolver:
    """Finds out what became of one group."""

    def __init__(self, running: Running, statements: Statements, deliveries: DeliveryTable, group: Group) -> None:
        """Reads on a connection."""
        self._running = running
        self._statements = statements
        self._deliveries = deliveries
        self._group = group
        self._keys = KeyTable(running, statements.keys)
        self._owned = {append.row.task_id for append in group.appends}
        """Tasks that were the node's before anything was judged: no message can have claimed them."""

    async def run(self) -> Receipt:
        """Returns the receipt that was lost."""
        appended = [await self._appended(append) for append in self._group.appends]
        written = [await self._written(write) for write in self._group.writes]
        return Receipt(appended, written)

    async def _appended(self, append: Append) -> AppendResult:
        if append.key is None and not append.ends_turn:
            return Continues()
        row = await self._row(append.row.task_id)
        if append.key is not None:
            known = await self._unborn(append, append.key, row)
            if known is not None:
                return known
        if not append.ends_turn:
            return Continues()
        if row is None or row.node != self._group.node:
            return Released()
        if row.open_turn is None:
            return CancelDue(await self._cancel_of(row.task_id))
        key = {'the_id': append.row.task_id, 'after': append.row.seq, 'the_limit': 1}
        (started,) = await self._running.rows(self._statements.read_records, key)
        return NextTurn(rows.record(started))

    async def _unborn(self, append: Append, key: Key, row: TaskRow | None) -> Known | None:
        """Returns whose the key of a birth was; `None` if the task was born, and perhaps has been deleted since."""
        known = await self._keys.read(append.caller.scope, key)
        if known is not None and known.turn_id != key.turn_id and (row is None or known.task_id == row.task_id):
            return known
        if row is None and not append.ends_turn:
            return Known(append.row.task_id, key.turn_id, key.digest)
        return None

    async def _cancel_of(self, task_id: str) -> bytes:
        """Returns the oldest cancel that waited, and waits still: who owns the task takes none away."""
        now = await self._running.now(self._group.now)
        for _, _, kind, body, expires_at in await self._running.rows(self._statements.waiting, {'task_ids': [task_id]}):
            if kind == CANCEL and expires_at > now:
                return bytes(body)
        return b''

    async def _written(self, write: Write) -> WriteResult:
        match write:
            case Accept():
                return await self._accepted(write)
            case Claim(task_id, _, expected_seq):
                row = await self._row(task_id)
                if row is None or not self._is_claimed(row) or row.open_turn is not None or row.seq != expected_seq:
                    return Stale()
                self._owned.add(row.task_id)
                return Claimed(row)
            case Ask():
                return await self._asked(write)
            case TakeOver(task_id, epoch=epoch):
                row = await self._row(task_id)
                if row is None or not self._is_claimed(row) or row.epoch != epoch + 1:
                    return Stale()
                self._owned.add(row.task_id)
                return Claimed(row)
            case KeepDeliveries():
                return await self._deliveries.resolve(write, self._group.node)
            case _:
                return Done()

    async def _asked(self, ask: Ask) -> WriteResult:
        """What does not wait has been refused, or its task has ended since: `Stale` has that found out."""
        if not await self._running.rows(self._statements.inbox_row_of_turn, {'the_turn': ask.ask_id}):
            return Stale()
        row = await self._row(ask.task_id)
        return Queued(None if row is None else row.node)

    async def _accepted(self, accept: Accept) -> WriteResult:
        """A message that left no trace is judged anew: `Stale` makes the engine read and ask again."""
        row = await self._row(accept.task_id)
        if row is not None and self._is_claimed(row) and row.open_turn == accept.turn_id:
            return Claimed(row)
        waits = await self._running.rows(self._statements.inbox_row_of_turn, {'the_turn': accept.turn_id})
        if waits or await self._has_started(accept):
            return Queued(None if row is None else row.node)
        known = None if accept.key is None else await self._keys.read(accept.caller.scope, accept.key)
        return known or Stale()

    def _is_claimed(self, row: TaskRow) -> bool:
        return row.node == self._group.node and row.task_id not in self._owned

    async def _has_started(self, accept: Accept) -> bool:
        key = {'the_id': accept.task_id, 'after': accept.expected_seq, 'the_limit': LOOK_AHEAD}
        found = map(rows.record, await self._running.rows(self._statements.read_records, key))
        starts = (decode_turn_started(entry.body) for entry in found if entry.kind == TURN_STARTED)
        return any(start.turn_id == accept.turn_id for start in starts)

    async def _row(self, task_id: str) -> TaskRow | None:
        found = await self._running.rows(self._statements.read_row, {'the_id': task_id})
        return rows.task_row(found[0]) if found else None
