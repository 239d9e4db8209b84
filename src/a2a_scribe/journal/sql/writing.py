"""What one group does inside its transaction. The caller begins and commits.

The fence comes first. Then the rows that others may touch are locked, in the order of their ids, and only then looked
at: a statement that locked and looked at once would look with an older snapshot. Messages are judged before turns
end, so that a message of the same transaction is seen by the turn's end.
"""

from dataclasses import dataclass
from operator import itemgetter

from a2a_scribe.core.records import CANCEL, TURN_STARTED, Record
from a2a_scribe.errors import NodeFencedError
from a2a_scribe.journal.decisions import (
    decide_accept,
    decide_ask,
    decide_claim,
    decide_take_over,
    hand_over,
    keep_for_cancel,
    starting_record,
)
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
from a2a_scribe.journal.tasks import TaskRow, without_owner
from a2a_scribe.journal.writes import (
    Accept,
    Append,
    Ask,
    Claim,
    DropConfig,
    Group,
    Judged,
    PutConfig,
    TakeOver,
    Write,
)
from a2a_scribe.protocol.states import TERMINAL
from a2a_scribe.protocol.types import NodeId


class AlreadyWritten(Exception):
    """The group became durable in an earlier attempt."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A row of the inbox."""

    number: int
    body: bytes
    kind: str
    is_expired: bool
    """Nobody waits for it any more."""

    @property
    def is_cancel(self) -> bool:
        return self.kind == CANCEL and not self.is_expired

    @property
    def is_message(self) -> bool:
        return self.kind == TURN_STARTED and not self.is_expired


class GroupWriter:
    """Writes one group."""

    def __init__(self, running: Running, statements: Statements, deliveries: DeliveryTable, group: Group) -> None:
        """Works on a connection inside a writing transaction."""
        self._running = running
        self._statements = statements
        self._deliveries = deliveries
        self._group = group
        self._rows: dict[str, TaskRow] = {}
        self._records: list[Record] = []
        self._inbox: dict[str, list[_Waiting]] = {}
        self._kept: dict[str, TaskRow] = {}
        """Tasks whose turn ends and that stay the node's, as they stand then."""
        self._keys = KeyTable(running, statements.keys)
        self._unborn: dict[str, Known] = {}
        """Tasks whose message came before, under the same key."""

    async def run(self) -> Receipt:
        """Does all of it.

        Raises:
            NodeFencedError: The node is not alive any more.
            AlreadyWritten: An earlier attempt has succeeded.
        """
        await self._pass_fence()
        await self._lock()
        written = await self._write_all()
        await self._look_into_inbox([append.row.task_id for append in self._group.appends if _looks_at_inbox(append)])
        await self._take_keys_of_births()
        appended = [await self._append(append) for append in self._group.appends]
        await self._store()
        return Receipt(appended, written)

    async def _pass_fence(self) -> None:
        group = self._group
        if await self._running.change(self._statements.fence, {'node': group.node, 'number': group.number}):
            return
        found = await self._running.rows(self._statements.node_state, {'node': group.node})
        if list(map(tuple, found)) == [('alive', group.number)]:
            raise AlreadyWritten
        raise NodeFencedError

    async def _lock(self) -> None:
        judged = {write.task_id for write in self._group.writes if isinstance(write, Judged)}
        if not self._running.is_sqlite and (judged or _touches_in_several_steps(self._group)):
            judged |= {append.row.task_id for append in self._group.appends if not append.born}
        if judged:
            found = await self._running.rows(self._statements.lock_tasks, {'task_ids': sorted(judged)})
            self._rows = {row.task_id: row for row in map(rows.task_row, found)}

    async def _write_all(self) -> list[WriteResult]:
        """Writes what is wanted, keys in their order: else two nodes could wait for each other."""
        writes = sorted(enumerate(self._group.writes), key=_by_key)
        written = [(index, await self._write(write)) for index, write in writes]
        return [result for _, result in sorted(written, key=itemgetter(0))]

    async def _take_keys_of_births(self) -> None:
        keyed = [(append.key, append) for append in self._group.appends if append.key is not None]
        for key, append in sorted(keyed, key=lambda each: each[0].name):
            task_id = append.row.task_id
            known = await self._keys.take(append.caller.scope, key, task_id, self._group.now)
            if known is not None:
                self._unborn[task_id] = known

    async def _write(self, write: Write) -> WriteResult:
        match write:
            case Accept():
                return await self._accept(write)
            case Claim():
                result = decide_claim(self._rows.get(write.task_id), write, self._group.node)
                await self._note_claim(result)
                return result
            case Ask():
                return await self._ask(write)
            case TakeOver():
                return await self._take_over(write)
            case PutConfig():
                await self._put_config(write)
            case DropConfig(task_id, config_id):
                await self._drop_config(task_id, config_id)
            case KeepDeliveries():
                return await self._deliveries.keep(write, self._group.node)
        return Done()

    async def _put_config(self, put: PutConfig) -> None:
        statements, position = self._statements, put.position
        if position is None:
            found = await self._running.rows(statements.read_row, {'the_id': put.config.task_id})
            position = rows.task_row(found[0]).seq if found else 0
        values = rows.config_values(put.config, put.caller.scope, position, self._group.config_state)
        one = statements.put_config_in_sqlite if self._running.is_sqlite else statements.put_config_in_postgresql
        await self._running.change(one, values)

    async def _drop_config(self, task_id: str, config_id: str) -> None:
        key = {'the_id': task_id, 'the_config': config_id}
        await self._running.change(self._statements.delete_config, key)

    async def _accept(self, accept: Accept) -> WriteResult:
        key, scope = accept.key, accept.caller.scope
        if key is None:
            return await self._accept_message(accept)
        known = await self._keys.take(scope, key, accept.task_id, self._group.now)
        if known is not None:
            return known
        result = await self._accept_message(accept)
        if not isinstance(result, Claimed | Queued):
            await self._keys.give_back(scope, key)
        return result

    async def _accept_message(self, accept: Accept) -> WriteResult:
        row = self._rows.get(accept.task_id)
        waiting = 0
        if row is not None and row.node is not None:
            ((waiting,),) = await self._running.rows(self._statements.count_waiting, {'the_id': accept.task_id})
        result = decide_accept(row, accept, self._group.node, waiting)
        if isinstance(result, Claimed):
            self._records.append(starting_record(accept.task_id, result.row.seq, accept.body, self._group.now))
        elif isinstance(result, Queued):
            await self._running.change(self._statements.insert_inbox, rows.message_values(accept, self._group))
        await self._note_claim(result)
        return result

    async def _ask(self, ask: Ask) -> WriteResult:
        result = decide_ask(self._rows.get(ask.task_id), ask)
        if isinstance(result, Queued):
            until = await self._running.now(self._group.now) + ask.patience
            await self._running.change(self._statements.insert_inbox, rows.ask_values(ask, self._group, until))
        return result

    async def _take_over(self, take: TakeOver) -> WriteResult:
        if take.owner != self._group.node and await self._lives(take.owner):
            return Stale()
        is_canceled = take.start is not None and await self._is_canceled(take.task_id)
        result = decide_take_over(self._rows.get(take.task_id), take, self._group.node, is_canceled=is_canceled)
        if isinstance(result, Claimed) and take.start is not None and not is_canceled:
            self._records.append(starting_record(take.task_id, result.row.seq, take.start, self._group.now))
        await self._note_claim(result)
        return result

    async def _is_canceled(self, task_id: str) -> bool:
        await self._look_into_inbox([task_id])
        return any(each.is_cancel for each in self._inbox.pop(task_id, ()))

    async def _lives(self, node_id: NodeId) -> bool:
        found = await self._running.rows(self._statements.node_state, {'node': node_id})
        return any(state == 'alive' for state, _ in found)

    async def _note_claim(self, result: WriteResult) -> None:
        if isinstance(result, Claimed):
            self._rows[result.row.task_id] = result.row
            await self._running.change(self._statements.update_tasks, rows.changed_task_values(result.row))

    async def _look_into_inbox(self, task_ids: list[str]) -> None:
        if not task_ids:
            return
        found = await self._running.rows(self._statements.waiting, {'task_ids': sorted(task_ids)})
        expire = any(expires_at is not None for *_, expires_at in found)
        now = await self._running.now(self._group.now) if expire else 0
        for number, task_id, kind, body, expires_at in found:
            is_expired = expires_at is not None and expires_at <= now
            self._inbox.setdefault(task_id, []).append(_Waiting(number, bytes(body), kind, is_expired))

    async def _append(self, append: Append) -> AppendResult:
        known = self._unborn.get(append.row.task_id)
        if known is not None:
            return known
        self._records += append.records
        task_id = append.row.task_id
        inbox = self._inbox.get(task_id, [])
        if inbox and append.row.state in TERMINAL:
            await self._running.change(self._statements.delete_inbox_of, {'task_ids': [task_id]})
            inbox = []
        if not append.ends_turn:
            return Continues()
        waiting = sorted(
            (each for each in inbox if each.is_cancel or each.is_message), key=lambda each: not each.is_cancel
        )
        for each in inbox:
            if each not in waiting:  # its time has passed, or the turn that was to be run again
                await self._running.change(self._statements.delete_inbox_row, {'the_id': each.number})
        if not waiting:
            return Released()
        first = waiting[0]
        if first.is_cancel:
            self._kept[task_id] = keep_for_cancel(append)
            return CancelDue(first.body)
        await self._running.change(self._statements.delete_inbox_row, {'the_id': first.number})
        started = starting_record(task_id, append.row.seq + 1, first.body, self._group.now)
        self._records.append(started)
        self._kept[task_id] = hand_over(append, started)
        return NextTurn(started)

    async def _store(self) -> None:
        born, moved, moved_with_snapshot = [], [], []
        for append in sorted(self._written(), key=lambda append: append.row.task_id):
            row = self._final_row(append)
            snapshot_seq = append.row.seq if append.snapshot is not None else 0
            if append.born:
                born.append(rows.new_task_values(row, append.snapshot, snapshot_seq))
            elif append.snapshot is None:
                moved.append(rows.changed_task_values(row))
            else:
                snapshot = {'new_snapshot': append.snapshot, 'new_snapshot_seq': snapshot_seq}
                moved_with_snapshot.append(rows.changed_task_values(row) | snapshot)
        running, statements = self._running, self._statements
        await running.change_many(statements.insert_tasks, born)
        await running.insert_records(statements.insert_records, self._records)
        await running.change_many(statements.update_tasks, moved)
        await running.change_many(statements.update_tasks_and_snapshots, moved_with_snapshot)
        await running.change_many(statements.insert_configs, self._born_configs())

    def _written(self) -> list[Append]:
        if not self._unborn:
            return self._group.appends
        return [append for append in self._group.appends if append.row.task_id not in self._unborn]

    def _final_row(self, append: Append) -> TaskRow:
        if not append.ends_turn:
            return append.row
        return self._kept.get(append.row.task_id) or without_owner(append.row)

    def _born_configs(self) -> list[dict[str, object]]:
        return [
            rows.config_values(config, append.row.scope, 0, self._group.config_state)
            for append in self._written()
            for config in append.configs
        ]


def _looks_at_inbox(append: Append) -> bool:
    """Whether messages may wait that this append has to start or to refuse."""
    return not append.born and (append.ends_turn or append.row.state in TERMINAL)


def _by_key(entry: tuple[int, Write]) -> str:
    write = entry[1]
    return write.key.name if isinstance(write, Accept) and write.key is not None else ''


def _touches_in_several_steps(group: Group) -> bool:
    """Whether rows are touched by more than one statement, so that their order has to be made sure before."""
    moved = [append for append in group.appends if not append.born]
    if moved and len(moved) < len(group.appends) and any(append.key is not None for append in group.appends):
        return True
    return any(map(_looks_at_inbox, moved)) or len({append.snapshot is None for append in moved}) > 1
