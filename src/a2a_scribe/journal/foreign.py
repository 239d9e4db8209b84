"""Any `TaskStore` of a user as a journal: records in memory, the newest state saved through the store.

What such a store cannot promise is logged once. A commit saves each of its tasks once, however many records it has,
and only then shows the records; the commit loop runs one commit at a time, so no task is ever saved twice at once.

The records of a task that is found in the store begin with a number that no earlier record of it can have had, so that
a reader who comes back is known to have missed what is not kept.
"""

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass, replace

from a2a.server.cluster import (
    ConcurrentTaskModificationError,
    LegacyTaskStoreAdapter,
    TaskVersion,
    VersionedDatabaseTaskStore,
    VersionedTaskStore,
)
from a2a.server.context import ServerCallContext
from a2a.server.tasks.task_store import TaskStore
from a2a.utils.errors import A2AError

from a2a_scribe.clock import Clock, SystemClock
from a2a_scribe.core.projection import Projection
from a2a_scribe.core.records import VERSION, Record, TaskReplaced, encode, within
from a2a_scribe.errors import JournalRefusedError, JournalUnavailableError, TaskConflictError
from a2a_scribe.journal.decisions import refusal_to_replace
from a2a_scribe.journal.deliveries import Delivery, DeliveryKey, DeliveryQuery, DueDeliveries, SetState
from a2a_scribe.journal.memory import MemoryJournal, records_after
from a2a_scribe.journal.port import LivingNode, NodeRow, WaitingAsk
from a2a_scribe.journal.results import Claimed, Queued, Receipt, Released
from a2a_scribe.journal.rows import row_of_task
from a2a_scribe.journal.tasks import Caller, Ended, StoredTask, TaskPage, TaskRow, without_owner
from a2a_scribe.journal.writes import Append, Group, Judged
from a2a_scribe.protocol.states import CANCELED, SUBMITTED, TERMINAL
from a2a_scribe.protocol.types import ListTasksRequest, NodeId, Task, TaskPushNotificationConfig, TaskStatus

logger = logging.getLogger(__name__)

PAUSES = (0.05, 0.2, 1.0)
"""Seconds between attempts to save a task; after the last one the task is given up."""

KEPT_BYTES = 8_000_000
"""Bytes of records of released tasks that are kept for readers who are behind."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """What memory knows of a task that nobody works on."""

    row: TaskRow
    records: list[Record]
    size: int
    digest: int
    """Of the task as it was saved last: the store may have been changed by others since."""


class ForeignJournal:
    """A journal on top of a user's store."""

    keeps_records = False
    lock_directory = None
    hints = None

    def __init__(self, store: TaskStore | VersionedTaskStore, clock: Clock | None = None) -> None:
        """Takes the store; it stays the only place where tasks survive the process."""
        self._is_versioned = isinstance(store, VersionedTaskStore)
        self._store = store if isinstance(store, VersionedTaskStore) else LegacyTaskStoreAdapter(store)
        self._name = type(store).__name__
        self._memory = MemoryJournal(self._kept_row)
        self._versions: dict[str, TaskVersion] = {}
        self._digests: dict[str, int] = {}
        """Of each live task as it was saved last."""
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._kept_bytes = 0
        self._first = (clock or SystemClock()).now()
        """The first record of a task that is found. Microseconds: no task has more than one record in each."""
        self._warned = self._initialized = False

    async def open(self) -> None:
        """Says once what a store of this kind cannot promise."""
        if not self._warned:
            self._warned = True
            logger.warning(
                '%s keeps the newest state of a task only: events, queued messages, idempotency keys and push configs '
                'live in memory, a crash leaves running tasks as they are, and several processes are not coordinated. '
                'a2a_scribe.DatabaseTaskStore keeps all of it.',
                self._name,
            )
        if not self._initialized:
            await self._initialize()

    async def _initialize(self) -> None:
        """Makes the tables of a store that would not make them before its first save."""
        if isinstance(self._store, VersionedDatabaseTaskStore):
            try:
                await self._store.initialize()
            except Exception as error:
                raise JournalUnavailableError(f'{self._name} cannot be made ready') from error
        self._initialized = True

    async def close(self) -> None:
        """Leaves the store to its user."""

    async def register(self, node: NodeRow) -> None:
        """Makes a node known to the memory; the store knows no nodes."""
        await self._memory.register(node)

    async def retire(self, node_id: NodeId) -> None:
        """Forgets a node of this process."""
        await self._memory.retire(node_id)

    async def forget_dead(self, agent: str) -> None:
        """Forgets the dead nodes of this process that own nothing."""
        await self._memory.forget_dead(agent)

    async def living_nodes(self, agent: str) -> list[LivingNode]:
        """Returns the nodes of this process: the store knows none."""
        return await self._memory.living_nodes(agent)

    async def declare_dead(self, node_id: NodeId, number: int) -> bool:
        """Fences a node of this process."""
        return await self._memory.declare_dead(node_id, number)

    async def orphans(self, agent: str, limit: int, after: str = '') -> list[TaskRow]:
        """Returns tasks that a dead node of this process has left."""
        return await self._memory.orphans(agent, limit, after)

    async def waiting_asks(self, node_id: NodeId, now: int) -> list[WaitingAsk]:
        """Returns what a node of this process is asked to do by others of it."""
        return await self._memory.waiting_asks(node_id, now)

    async def waited_for(self, node_id: NodeId) -> list[str]:
        """Returns the tasks of a node of this process for which messages wait."""
        return await self._memory.waited_for(node_id)

    # -- writing

    async def commit(self, group: Group) -> Receipt:
        """Saves the newest state of each task, then shows the records."""
        receipt = self._memory.admit(group)
        if receipt is not None:
            return receipt
        tasks = [(append, append.projection.to_task()) for append in self._memory.take_keys(group)]
        try:
            for write in group.writes:
                if isinstance(write, Judged):
                    await self._adopt(write.task_id, write.caller)
            await self._save_all(tasks)
        except BaseException:
            self._memory.give_keys_back(group)
            raise
        receipt = await self._memory.commit(group)
        for append, result in zip(group.appends, receipt.appended, strict=True):
            if isinstance(result, Released):
                self._release(append.row.task_id)
        for write, outcome in zip(group.writes, receipt.written, strict=True):
            if isinstance(write, Judged) and not isinstance(outcome, Claimed | Queued):
                self._release_unless_owned(write.task_id)
        return receipt

    async def _adopt(self, task_id: str, caller: Caller) -> None:
        """Takes a parked task into memory, so that it can be claimed there."""
        if self._memory.row(task_id) is not None:
            return
        found = await self._find(task_id, caller)
        if found is None or self._memory.row(task_id) is not None:
            return
        task, version = found
        row = self._row_of(task, caller)
        kept = self._take_kept(task_id)
        records = [] if kept is None else kept.records
        if kept is None or row.seq > kept.row.seq:
            records = [*records, Record(task_id, row.seq, *encode(TaskReplaced(task)), row.created_at, None)]
        self._memory.adopt(row, records, VERSION + task.SerializeToString())
        self._versions[task_id] = version
        self._digests[task_id] = _digest(task)

    def _row_of(self, task: Task, caller: Caller) -> TaskRow:
        """Returns the row of a parked task: as it was left, or with one record more if others have changed the task."""
        kept = self._kept.get(task.id)
        if kept is None:
            return replace(row_of_task(task, caller.scope, None, 0), seq=self._first, first=self._first)
        if kept.digest == _digest(task):
            return kept.row
        return row_of_task(task, kept.row.scope, kept.row, kept.row.created_at)

    async def _save_all(self, tasks: list[tuple[Append, Task]]) -> None:
        outcomes = await asyncio.gather(*(self._save(*each) for each in tasks), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _save(self, append: Append, task: Task) -> None:
        if self._digests.get(task.id) == _digest(task):
            return
        for pause in (*PAUSES, None):
            try:
                await self._save_once(task, _context(append.caller))
            except Exception as error:
                if pause is None or isinstance(error, ConcurrentTaskModificationError):
                    text = f'{self._name} cannot save task {task.id}: {type(error).__name__}'
                    raise JournalRefusedError(text) from error
                await asyncio.sleep(pause)
            else:
                break
        self._digests[task.id] = _digest(task)

    async def _save_once(self, task: Task, context: ServerCallContext) -> None:
        version = self._versions.get(task.id, TaskVersion.MISSING)
        if self._is_versioned and version.is_missing and task.status.state == CANCELED:
            version = await self._put(_before_it_ended(task), version, context)  # only what exists can be cancelled
        try:
            await self._put(task, version, context)
        except ConcurrentTaskModificationError:
            if not await self._settle_conflict(task, context):
                raise

    async def _settle_conflict(self, task: Task, context: ServerCallContext) -> bool:
        """Returns whether the store holds what it should, although somebody has changed the task since our last save.

        That was our own attempt if its answer got lost. If it was another process, a task that goes on is given up; one
        that ends must end in the store too, unless it has ended there already.
        """
        found = await self._store.get(task.id, context)
        if found is None:
            return False
        self._versions[task.id] = found.version
        if found.task == task:
            return True
        if task.status.state not in TERMINAL:
            return False
        if found.task.status.state in TERMINAL:
            logger.warning('Task %s has been ended by another process; the store keeps that end', task.id)
        else:
            await self._put(task, found.version, context)
        return True

    async def _put(self, task: Task, version: TaskVersion, context: ServerCallContext) -> TaskVersion:
        new = await self._store.save(task, event=None, prev=None, prev_version=version, context=context)
        self._versions[task.id] = new
        return new

    def _release(self, task_id: str) -> None:
        """Lets a task leave memory; its last records stay for a while, for readers who are behind."""
        row = self._memory.row(task_id)
        records = self._memory.forget(task_id)
        self._versions.pop(task_id, None)
        digest = self._digests.pop(task_id, 0)
        if row is None:
            return
        kept = _Kept(without_owner(row), records, sum(len(record.body) for record in records), digest)
        self._kept[task_id] = kept
        self._kept_bytes += kept.size
        while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
            self._forget_kept(next(iter(self._kept)))

    def _forget_kept(self, task_id: str) -> None:
        """Forgets all that memory knows of a task; if it is found again, its records begin with a later number."""
        kept = self._take_kept(task_id)
        if kept is not None:
            self._first = max(self._first, kept.row.seq + 1)

    def _take_kept(self, task_id: str) -> _Kept | None:
        kept = self._kept.pop(task_id, None)
        self._kept_bytes -= 0 if kept is None else kept.size
        return kept

    def _kept_row(self, task_id: str) -> TaskRow | None:
        """Returns the row of a task that has left memory not long ago."""
        kept = self._kept.get(task_id)
        return None if kept is None else kept.row

    def _release_unless_owned(self, task_id: str) -> None:
        row = self._memory.row(task_id)
        if row is not None and row.node is None:
            self._release(task_id)

    # -- reading

    async def _find(self, task_id: str, caller: Caller) -> tuple[Task, TaskVersion] | None:
        try:
            found = await self._store.get(task_id, _context(caller))
        except Exception as error:
            raise JournalUnavailableError(f'{self._name} cannot read task {task_id}') from error
        kept = self._kept.get(task_id)
        if found is None or (kept is not None and not caller.sees(kept.row.scope)):
            return None
        return found.task, found.version

    async def has_task(self, task_id: str, caller: Caller) -> bool:
        """Whether the task exists for the caller."""
        return await self.read_task(task_id, caller) is not None

    async def read_task(self, task_id: str, caller: Caller) -> StoredTask | None:
        """Returns a live task from memory, any other from the store."""
        if self._memory.row(task_id) is not None:
            return await self._memory.read_task(task_id, caller)
        found = await self._find(task_id, caller)
        if found is None:
            return None
        return StoredTask(self._row_of(found[0], caller), Projection(found[0]))

    async def read_records(self, task_id: str, after: int, limit: int, max_bytes: int) -> list[Record]:
        """Returns records of a live task, or of one that was released not long ago."""
        kept = self._kept.get(task_id)
        if kept is not None:
            return within(records_after(kept.records, after, limit), max_bytes)
        return await self._memory.read_records(task_id, after, limit, max_bytes)

    async def list_tasks(self, caller: Caller, query: ListTasksRequest) -> TaskPage:
        """Has the store list."""
        try:
            page = await self._store.list(query, _context(caller))
        except A2AError:
            raise
        except Exception as error:
            raise JournalUnavailableError(f'{self._name} cannot list tasks') from error
        return TaskPage(list(page.tasks), page.next_page_token, page.total_size)

    async def read_configs(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Returns a task's push configs, which live in memory."""
        return await self._memory.read_configs(task_id)

    # -- webhooks, whose configs live in memory: they are delivered while the process lives

    async def due_deliveries(self, due: DueDeliveries) -> list[DeliveryKey]:
        """Returns configs that are due and that no living node holds."""
        return await self._memory.due_deliveries(due)

    async def held_deliveries(self, node_id: NodeId) -> set[DeliveryKey]:
        """Returns the configs that a node holds."""
        return await self._memory.held_deliveries(node_id)

    async def list_deliveries(self, query: DeliveryQuery) -> list[Delivery]:
        """Returns configs in the order of their keys."""
        return await self._memory.list_deliveries(query)

    async def read_delivery(self, key: DeliveryKey) -> Delivery | None:
        """Returns one config."""
        return await self._memory.read_delivery(key)

    async def set_delivery(self, key: DeliveryKey, state: SetState, position: int | None = None) -> bool:
        """Suspends or resumes a config."""
        return await self._memory.set_delivery(key, state, position)

    # -- storing and deleting from outside

    async def replace_task(self, task: Task, caller: Caller, now: int) -> None:
        """Has the store save."""
        version = TaskVersion.MISSING
        self._refuse_if_live(task.id)
        found = await self._find(task.id, caller)
        if found is not None:
            recorded, version = found
            refusal = refusal_to_replace(self._row_of(recorded, caller), recorded, task, caller)
            if refusal:
                raise TaskConflictError(f'task {task.id} cannot be stored: {refusal}')
            if recorded.status.state in TERMINAL:
                return
        context = _context(caller)
        try:
            await self._store.save(task, event=None, prev=None, prev_version=version, context=context)
        except ConcurrentTaskModificationError as error:
            raise TaskConflictError(f'task {task.id} cannot be stored: somebody else has stored it') from error
        except Exception as error:
            raise JournalUnavailableError(f'{self._name} cannot save task {task.id}') from error

    async def delete_task(self, task_id: str, caller: Caller) -> bool:
        """Has the store delete."""
        self._refuse_if_live(task_id)
        if await self._find(task_id, caller) is None:
            return False
        try:
            await self._store.delete(task_id, _context(caller))
        except Exception as error:
            raise JournalUnavailableError(f'{self._name} cannot delete task {task_id}') from error
        self._forget_kept(task_id)
        self._memory.forget_belongings(task_id)
        return True

    async def delete_expired_keys(self, now: int) -> int:
        """Deletes some of the keys that have expired; they live in memory."""
        return await self._memory.delete_expired_keys(now)

    async def delete_ended(self, ended: Ended) -> list[str]:
        """Deletes nothing: how long a user's own store keeps tasks is its own business."""
        return []

    def _refuse_if_live(self, task_id: str) -> None:
        if self._memory.row(task_id) is not None:
            raise TaskConflictError(f'the agent is working on task {task_id}')


def _before_it_ended(task: Task) -> Task:
    before = Task()
    before.CopyFrom(task)
    before.status.CopyFrom(TaskStatus(state=SUBMITTED, timestamp=task.status.timestamp))
    return before


def _digest(task: Task) -> int:
    return hash(task.SerializeToString(deterministic=True))


def _context(caller: Caller) -> ServerCallContext:
    return caller.context if isinstance(caller.context, ServerCallContext) else ServerCallContext()
