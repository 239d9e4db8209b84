"""The reference adapter: everything in dictionaries, nothing durable beyond the process.

For tests, for agents that need no durability, and as the in-memory half of the adapter for users' own stores. No
method awaits, so each is atomic on its loop.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from a2a_scribe.core.projection import Projection, fold
from a2a_scribe.core.records import CANCEL, Record, TaskReplaced, encode, within
from a2a_scribe.errors import JournalRefusedError, NodeFencedError, TaskConflictError
from a2a_scribe.journal.decisions import (
    decide_accept,
    decide_ask,
    decide_claim,
    decide_take_over,
    hand_over,
    keep_for_cancel,
    refusal_to_replace,
    starting_record,
)
from a2a_scribe.journal.deliveries import (
    Delivery,
    DeliveryKey,
    DeliveryQuery,
    DueDeliveries,
    KeepDeliveries,
    SetState,
)
from a2a_scribe.journal.keys import MemoryKeys
from a2a_scribe.journal.memory_deliveries import MemoryDeliveries
from a2a_scribe.journal.port import LivingNode, NodeRow, WaitingAsk
from a2a_scribe.journal.results import (
    AppendResult,
    CancelDue,
    Claimed,
    Continues,
    Done,
    NextTurn,
    Queued,
    Receipt,
    Released,
    Stale,
    WriteResult,
)
from a2a_scribe.journal.rows import row_of_task, status_micros
from a2a_scribe.journal.tasks import Caller, Ended, StoredTask, TaskPage, TaskRow, without_owner
from a2a_scribe.journal.writes import (
    Accept,
    Append,
    Ask,
    Claim,
    DropConfig,
    Group,
    PutConfig,
    TakeOver,
    Write,
)
from a2a_scribe.protocol.paging import DEFAULT_PAGE_SIZE, PagePosition, decode_token, encode_token
from a2a_scribe.protocol.states import TERMINAL
from a2a_scribe.protocol.types import ListTasksRequest, NodeId, Task, TaskPushNotificationConfig


@dataclass(frozen=True, slots=True)
class _Asked:
    """What waits and is no message; all who use this journal have one clock."""

    ask: Ask
    expires_at: int


_Waiting = Accept | _Asked
"""What waits in an inbox."""


class MemoryJournal:
    """A journal that lives as long as its process."""

    keeps_records = True
    lock_directory = None
    hints = None

    def __init__(self, find_row: Callable[[str], TaskRow | None] | None = None) -> None:
        """Makes an empty journal; `find_row` knows of tasks that have left it, whose push configs are still here."""
        self._rows: dict[str, TaskRow] = {}
        self._records: dict[str, list[Record]] = {}
        self._snapshots: dict[str, tuple[int, bytes]] = {}
        self._inbox: defaultdict[str, list[_Waiting]] = defaultdict(list)
        self._deliveries = MemoryDeliveries(
            lambda task_id: self._rows.get(task_id) or (find_row and find_row(task_id)), self._lives
        )
        self._keys = MemoryKeys()
        self._nodes: dict[NodeId, NodeRow] = {}
        self._dead: set[NodeId] = set()
        self._receipts: dict[NodeId, tuple[int, Receipt | None]] = {}

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def register(self, node: NodeRow) -> None:
        """Makes a node known and alive."""
        self._nodes.setdefault(node.node_id, node)
        self._receipts.setdefault(node.node_id, (0, None))

    async def retire(self, node_id: NodeId) -> None:
        """Forgets a node that owns nothing."""
        if not any(row.node == node_id for row in self._rows.values()):
            self._nodes.pop(node_id, None)
            self._receipts.pop(node_id, None)
            self._dead.discard(node_id)

    async def forget_dead(self, agent: str) -> None:
        """Forgets the dead nodes of an agent that own nothing."""
        for node_id, node in list(self._nodes.items()):
            if node.agent == agent and node_id in self._dead:
                await self.retire(node_id)

    def knows(self, node_id: NodeId) -> bool:
        """Whether a node is known, dead or alive."""
        return node_id in self._nodes

    async def living_nodes(self, agent: str) -> list[LivingNode]:
        """Returns the nodes of an agent that are not dead."""
        return [
            LivingNode(node.node_id, self._receipts[node.node_id][0], self._owns(node.node_id))
            for node in self._nodes.values()
            if node.agent == agent and node.node_id not in self._dead
        ]

    async def declare_dead(self, node_id: NodeId, number: int) -> bool:
        """Fences a node for good if its newest group is still `number`."""
        if node_id not in self._nodes or node_id in self._dead or self._receipts[node_id][0] != number:
            return False
        self.fence(node_id)
        return True

    def fence(self, node_id: NodeId) -> None:
        """Lets a node write no more, whatever it has written last."""
        self._dead.add(node_id)

    async def orphans(self, agent: str, limit: int, after: str = '') -> list[TaskRow]:
        """Returns tasks of an agent whose owner is no living node."""
        found = [row for row in self._rows.values() if row.node is not None and not self._lives(row.node)]
        wanted = [row for row in found if row.scope.agent == agent and row.task_id > after]
        return sorted(wanted, key=lambda row: row.task_id)[:limit]

    def _owns(self, node_id: NodeId) -> bool:
        return any(row.node == node_id for row in self._rows.values()) or bool(self._deliveries.held(node_id))

    def _lives(self, node_id: NodeId) -> bool:
        return node_id in self._nodes and node_id not in self._dead

    async def waiting_asks(self, node_id: NodeId, now: int) -> list[WaitingAsk]:
        """Returns what a node is asked to do."""
        return [
            WaitingAsk(ask.kind, ask.task_id, ask.body)
            for task_id, inbox in self._inbox.items()
            if inbox and self._rows[task_id].node == node_id
            for ask in _asks(inbox, now)
        ]

    async def waited_for(self, node_id: NodeId) -> list[str]:
        """Returns the tasks of a node for which messages wait."""
        return [id_ for id_, inbox in self._inbox.items() if _messages(inbox) and self._rows[id_].node == node_id]

    async def commit(self, group: Group) -> Receipt:
        """Writes a group atomically."""
        receipt = self.admit(group)
        if receipt is not None:
            return receipt
        written = [self._write(write, group) for write in group.writes]
        receipt = Receipt([self._append(append, group) for append in group.appends], written)
        self._receipts[group.node] = (group.number, receipt)
        return receipt

    def admit(self, group: Group) -> Receipt | None:
        """Lets a group pass the fence; returns its receipt if it has been written already.

        Raises:
            NodeFencedError: The node is not alive, or has written later groups.
            JournalRefusedError: The group would write a task or a record over another.
        """
        if group.node in self._dead or group.node not in self._receipts:
            raise NodeFencedError
        number, receipt = self._receipts[group.node]
        if number == group.number and receipt is not None:
            return receipt
        if number >= group.number:
            raise NodeFencedError
        for append in group.appends:
            if append.key is None or self._keys.holder(append, group.now) is None:
                self._refuse_to_overwrite(append)
        return None

    def _refuse_to_overwrite(self, append: Append) -> None:
        task_id = append.row.task_id
        if append.born and task_id in self._rows:
            raise JournalRefusedError(f'there is a task {task_id} already')
        known = self._records.get(task_id)
        if known and append.records and append.records[0].seq <= known[-1].seq:
            raise JournalRefusedError(f'task {task_id} has a record {append.records[0].seq} already')

    def _append(self, append: Append, group: Group) -> AppendResult:
        task_id = append.row.task_id
        if (known := self._keys.take(append, group.now)) is not None:
            return known
        self._records.setdefault(task_id, []).extend(append.records)
        self._rows[task_id] = append.row
        if append.snapshot is not None:
            self._snapshots[task_id] = (append.row.seq, append.snapshot)
        for config in append.configs:
            self._deliveries.put(config, append.row.scope, 0, group.config_state)
        if append.row.state in TERMINAL:
            self._inbox.pop(task_id, None)
        if not append.ends_turn:
            return Continues()
        inbox = self._inbox.pop(task_id, [])
        cancels, messages = _cancels(inbox, group.now), _messages(inbox)
        if cancels:
            self._inbox[task_id] = [each for each in inbox if _waits(each, group.now)]
            self._rows[task_id] = keep_for_cancel(append)
            return CancelDue(cancels[0].body)
        if not messages:
            self._rows[task_id] = without_owner(append.row)
            return Released()
        first, *rest = messages
        self._inbox[task_id] = [*rest]
        started = starting_record(task_id, append.row.seq + 1, first.body, group.now)
        self._records[task_id].append(started)
        self._rows[task_id] = hand_over(append, started)
        return NextTurn(started)

    def _write(self, write: Write, group: Group) -> WriteResult:
        match write:
            case Accept():
                return self._accept(write, group)
            case Claim():
                result = decide_claim(self._rows.get(write.task_id), write, group.node)
                if isinstance(result, Claimed):
                    self._rows[write.task_id] = result.row
                return result
            case Ask():
                result = decide_ask(self._rows.get(write.task_id), write)
                if isinstance(result, Queued):
                    self._inbox[write.task_id].append(_Asked(write, group.now + write.patience))
                return result
            case TakeOver():
                return self._take_over(write, group)
            case PutConfig(caller, config, position):
                self._deliveries.put(config, caller.scope, position, group.config_state)
            case DropConfig(task_id, config_id):
                self._deliveries.drop(DeliveryKey(task_id, config_id))
            case KeepDeliveries():
                return self._deliveries.keep(write, group.node)
        return Done()

    def _accept(self, accept: Accept, group: Group) -> WriteResult:
        if (known := self._keys.take(accept, group.now)) is not None:
            return known
        waiting = len(_messages(self._inbox.get(accept.task_id, [])))
        result = decide_accept(self._rows.get(accept.task_id), accept, group.node, waiting)
        if isinstance(result, Claimed):
            self._rows[accept.task_id] = result.row
            started = starting_record(accept.task_id, result.row.seq, accept.body, group.now)
            self._records[accept.task_id].append(started)
        elif isinstance(result, Queued):
            self._inbox[accept.task_id].append(accept)
        else:
            self._keys.give_back(accept)
        return result

    def _take_over(self, take: TakeOver, group: Group) -> WriteResult:
        if take.owner != group.node and self._lives(take.owner):
            return Stale()
        is_canceled = bool(_cancels(self._inbox.get(take.task_id, []), group.now))
        result = decide_take_over(self._rows.get(take.task_id), take, group.node, is_canceled=is_canceled)
        if isinstance(result, Claimed):
            self._rows[take.task_id] = result.row
            if take.start is not None and not is_canceled:
                started = starting_record(take.task_id, result.row.seq, take.start, group.now)
                self._records[take.task_id].append(started)
        return result

    def row(self, task_id: str) -> TaskRow | None:
        """Returns a task's row, whoever asks."""
        return self._rows.get(task_id)

    def adopt(self, row: TaskRow, records: list[Record], snapshot: bytes) -> None:
        """Takes in a task that was stored elsewhere: its records from `row.first` on, and what they amount to."""
        self._rows[row.task_id] = row
        self._records[row.task_id] = records
        self._snapshots[row.task_id] = (row.seq, snapshot)

    def take_keys(self, group: Group) -> list[Append]:
        """Takes the keys of births before they are written; returns the appends that are to be written."""
        return [append for append in group.appends if self._keys.take(append, group.now) is None]

    def give_keys_back(self, group: Group) -> None:
        """Frees the keys of births that were not written."""
        for append in group.appends:
            self._keys.give_back(append)

    def forget(self, task_id: str) -> list[Record]:
        """Drops a task, and returns its records; its push configs and keys stay."""
        self._rows.pop(task_id, None)
        self._snapshots.pop(task_id, None)
        self._inbox.pop(task_id, None)
        return self._records.pop(task_id, [])

    def forget_belongings(self, task_id: str) -> None:
        """Drops a task's push configs, and frees its keys."""
        self._deliveries.forget(task_id)
        self._keys.forget(task_id)

    async def has_task(self, task_id: str, caller: Caller) -> bool:
        """Whether the task exists for the caller."""
        row = self._rows.get(task_id)
        return row is not None and caller.sees(row.scope)

    async def read_task(self, task_id: str, caller: Caller) -> StoredTask | None:
        """Returns a task that `caller` sees."""
        row = self._rows.get(task_id)
        if row is None or not caller.sees(row.scope):
            return None
        return StoredTask(row, self._fold(task_id))

    async def read_records(self, task_id: str, after: int, limit: int, max_bytes: int) -> list[Record]:
        """Returns the records after `after`, within the bounds."""
        return within(records_after(self._records.get(task_id, []), after, limit), max_bytes)

    async def list_tasks(self, caller: Caller, query: ListTasksRequest) -> TaskPage:
        """Returns the caller's tasks that `query` asks for, whole."""
        position = decode_token(query.page_token)
        wanted = [row for row in self._rows.values() if caller.sees(row.scope) and _matches(row, query)]
        wanted.sort(key=_order, reverse=True)
        rest = [row for row in wanted if position is None or _order(row) < position]
        page = rest[: query.page_size or DEFAULT_PAGE_SIZE]
        token = encode_token(_order(page[-1])) if len(page) < len(rest) else ''
        return TaskPage([self._fold(row.task_id).to_task() for row in page], token, len(wanted))

    async def read_configs(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Returns a task's push configs in the order of their ids."""
        return self._deliveries.configs(task_id)

    async def due_deliveries(self, due: DueDeliveries) -> list[DeliveryKey]:
        """Returns configs that are due and that no living node holds."""
        return self._deliveries.due(due)

    async def held_deliveries(self, node_id: NodeId) -> set[DeliveryKey]:
        """Returns the configs that a node holds."""
        return self._deliveries.held(node_id)

    async def list_deliveries(self, query: DeliveryQuery) -> list[Delivery]:
        """Returns configs in the order of their keys."""
        return self._deliveries.listed(query)

    async def read_delivery(self, key: DeliveryKey) -> Delivery | None:
        """Returns one config."""
        return self._deliveries.read(key)

    async def set_delivery(self, key: DeliveryKey, state: SetState, position: int | None = None) -> bool:
        """Suspends or resumes a config."""
        return self._deliveries.set(key, state, position)

    async def replace_task(self, task: Task, caller: Caller, now: int) -> None:
        """Stores a whole task from outside a turn."""
        row = self._rows.get(task.id)
        if row is not None:
            recorded = self._fold(task.id).to_task()
            refusal = refusal_to_replace(row, recorded, task, caller)
            if refusal:
                raise TaskConflictError(f'task {task.id} cannot be stored: {refusal}')
            if row.state in TERMINAL:
                return
        row = row_of_task(task, caller.scope if row is None else row.scope, row, now)
        kind, body = encode(TaskReplaced(task))
        self._records.setdefault(task.id, []).append(Record(task.id, row.seq, kind, body, now, None))
        self._snapshots[task.id] = (row.seq, body)
        self._rows[task.id] = row

    async def delete_task(self, task_id: str, caller: Caller) -> bool:
        """Deletes a task with all that belongs to it."""
        row = self._rows.get(task_id)
        if row is None or not caller.sees(row.scope):
            return False
        if row.node is not None:
            raise TaskConflictError(f'task {task_id} cannot be deleted: the agent is working on it')
        self.forget(task_id)
        self.forget_belongings(task_id)
        return True

    async def delete_expired_keys(self, now: int) -> int:
        """Deletes some of the keys that have expired."""
        return self._keys.delete_expired(now)

    async def delete_ended(self, ended: Ended) -> list[str]:
        """Deletes all of the tasks that ended long ago."""
        found = [row.task_id for row in self._rows.values() if _has_ended(row, ended)]
        found = [task_id for task_id in found if not self._deliveries.wait(task_id)]
        for task_id in found:
            self.forget(task_id)
            self.forget_belongings(task_id)
        return found

    def _fold(self, task_id: str) -> Projection:
        seq, snapshot = self._snapshots.get(task_id, (0, None))
        projection = fold(snapshot, records_after(self._records[task_id], seq))
        assert projection is not None, f'the journal of task {task_id} does not begin with it'
        return projection


def records_after(records: list[Record], after: int, limit: int | None = None) -> list[Record]:
    """Returns those of a task's records that come after `after`; the first may be any, but there are no gaps."""
    start = max(0, after + 1 - records[0].seq) if records else 0
    return records[start : None if limit is None else start + limit]


def _messages(inbox: Sequence[_Waiting]) -> list[Accept]:
    return [each for each in inbox if isinstance(each, Accept)]


def _cancels(inbox: Sequence[_Waiting], now: int) -> list[Ask]:
    """Returns the cancels whose time has not passed."""
    return [ask for ask in _asks(inbox, now) if ask.kind == CANCEL]


def _waits(each: _Waiting, now: int) -> bool:
    """Whether something is not over with the turn: a wish to run that again is."""
    return isinstance(each, Accept) or (each.ask.kind == CANCEL and each.expires_at > now)


def _asks(inbox: Sequence[_Waiting], now: int) -> list[Ask]:
    return [each.ask for each in inbox if isinstance(each, _Asked) and each.expires_at > now]


def _matches(row: TaskRow, query: ListTasksRequest) -> bool:
    if query.context_id and row.context_id != query.context_id:
        return False
    if query.status and row.state != query.status:
        return False
    return not query.HasField('status_timestamp_after') or row.status_time >= status_micros(
        query.status_timestamp_after
    )


def _has_ended(row: TaskRow, ended: Ended) -> bool:
    is_meant = row.state == ended.state and row.status_time < ended.before
    return is_meant and row.node is None and ended.agent in (None, row.scope.agent)


def _order(row: TaskRow) -> PagePosition:
    return PagePosition(row.status_time, row.task_id)
