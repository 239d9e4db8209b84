"""Any `TaskStore` of a user as a journal: records in memory, the newest state saved through the store.

What such a store cannot promise is logged once. A commit saves each of its tasks once, however many records it has,
and only then shows the records; the commit loop runs one commit at a time, so no task is ever saved twice at once.
"""

import asyncio
import logging
from collections import OrderedDict

from a2a.server.cluster import LegacyTaskStoreAdapter, TaskVersion, VersionedTaskStore
from a2a.server.context import ServerCallContext
from a2a.server.tasks.task_store import TaskStore

from a2a_scribe.core.projection import Projection
from a2a_scribe.core.records import TURN_ENDED, Record
from a2a_scribe.errors import JournalRefusedError, JournalUnavailableError
from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.port import (
    Accept,
    Append,
    Caller,
    Claim,
    Claimed,
    Group,
    NodeRow,
    Queued,
    Receipt,
    Released,
    StoredTask,
    TaskPage,
    TaskRow,
)
from a2a_scribe.journal.rows import row_of_task
from a2a_scribe.protocol.types import ListTasksRequest, Task, TaskPushNotificationConfig

logger = logging.getLogger(__name__)

PAUSES = (0.05, 0.2, 1.0)
"""Seconds between attempts to save a task; after the last one the task is given up."""

KEPT_BYTES = 8_000_000
"""Bytes of records of released tasks that are kept for readers who are behind."""


class ForeignJournal:
    """A journal on top of a user's store."""

    def __init__(self, store: TaskStore | VersionedTaskStore) -> None:
        """Takes the store; it stays the only place where tasks survive the process."""
        self._store = store if isinstance(store, VersionedTaskStore) else LegacyTaskStoreAdapter(store)
        self._name = type(store).__name__
        self._memory = MemoryJournal()
        self._versions: dict[str, TaskVersion] = {}
        self._kept: OrderedDict[str, list[Record]] = OrderedDict()
        self._kept_bytes = 0
        self._warned = False

    async def open(self) -> None:
        """Says once what a store of this kind cannot promise."""
        if not self._warned:
            self._warned = True
            logger.warning(
                '%s keeps the newest state of a task only: events, queued messages and push configs live in memory, '
                'a crash leaves running tasks as they are, and several processes are not coordinated. '
                'a2a_scribe.DatabaseTaskStore keeps all of it.',
                self._name,
            )

    async def close(self) -> None:
        """Leaves the store to its user."""

    async def register(self, node: NodeRow) -> None:
        """Makes a node known to the memory; the store knows no nodes."""
        await self._memory.register(node)

    async def commit(self, group: Group) -> Receipt:
        """Saves the newest state of each task, then shows the records."""
        if self._memory.admit(group) is None:
            for write in group.writes:
                if isinstance(write, Accept | Claim):
                    await self._adopt(write.task_id, write.caller)
            await self._save_all([append for append in group.appends if _changes_task(append)])
        receipt = await self._memory.commit(group)
        for append, result in zip(group.appends, receipt.appended, strict=True):
            if isinstance(result, Released):
                self._release(append.row.task_id)
        for write, outcome in zip(group.writes, receipt.written, strict=True):
            if isinstance(write, Accept | Claim) and not isinstance(outcome, Claimed | Queued):
                self._forget_unless_owned(write.task_id)
        return receipt

    async def _adopt(self, task_id: str, caller: Caller) -> None:
        """Takes a parked task into memory, so that it can be claimed there."""
        if self._memory.row(task_id) is None:
            found = await self._load(task_id, caller)
            if found is not None:
                self._memory.adopt(found.row, found.projection.to_task())

    async def _save_all(self, appends: list[Append]) -> None:
        outcomes = await asyncio.gather(*(self._save(append) for append in appends), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _save(self, append: Append) -> None:
        task_id, context = append.row.task_id, _context(append.caller)
        for pause in (*PAUSES, None):
            try:
                self._versions[task_id] = await self._store.save(
                    append.projection.to_task(),
                    event=None,
                    prev=None,
                    prev_version=self._versions.get(task_id, TaskVersion.MISSING),
                    context=context,
                )
            except Exception as error:
                if pause is None:
                    text = f'{self._name} cannot save task {task_id}: {type(error).__name__}'
                    raise JournalRefusedError(text) from error
                await asyncio.sleep(pause)
            else:
                return

    def _release(self, task_id: str) -> None:
        """Lets a task leave memory; its last records stay for a while, for readers who are behind."""
        records = self._memory.forget(task_id)
        self._versions.pop(task_id, None)
        self._kept[task_id] = records
        self._kept_bytes += _size(records)
        while self._kept_bytes > KEPT_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= _size(oldest)

    def _forget_unless_owned(self, task_id: str) -> None:
        row = self._memory.row(task_id)
        if row is not None and row.node is None:
            self._memory.forget(task_id)
            self._versions.pop(task_id, None)

    async def _load(self, task_id: str, caller: Caller) -> StoredTask | None:
        try:
            found = await self._store.get(task_id, _context(caller))
        except Exception as error:
            raise JournalUnavailableError(f'{self._name} cannot read task {task_id}') from error
        if found is None:
            return None
        self._versions[task_id] = found.version
        return StoredTask(_parked_row(found.task, caller), Projection(found.task))

    async def has_task(self, task_id: str, caller: Caller) -> bool:
        """Whether the task exists for the caller."""
        return await self.read_task(task_id, caller) is not None

    async def read_task(self, task_id: str, caller: Caller) -> StoredTask | None:
        """Returns a live task from memory, any other from the store."""
        if self._memory.row(task_id) is not None:
            return await self._memory.read_task(task_id, caller)
        found = await self._load(task_id, caller)
        if self._memory.row(task_id) is None:
            self._versions.pop(task_id, None)
        return found

    async def read_records(self, task_id: str, after: int, limit: int) -> list[Record]:
        """Returns records of a live task, or of one that was released not long ago."""
        kept = self._kept.get(task_id)
        if kept is not None and self._memory.row(task_id) is None:
            return [record for record in kept if record.seq > after][:limit]
        return await self._memory.read_records(task_id, after, limit)

    async def list_tasks(self, caller: Caller, query: ListTasksRequest) -> TaskPage:
        """Has the store list."""
        page = await self._store.list(query, _context(caller))
        return TaskPage(list(page.tasks), page.next_page_token, page.total_size)

    async def read_configs(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Returns a task's push configs, which live in memory."""
        return await self._memory.read_configs(task_id)

    async def replace_task(self, task: Task, caller: Caller, now: int) -> None:
        """Has the store save."""
        found = await self._store.get(task.id, _context(caller))
        version = TaskVersion.MISSING if found is None else found.version
        await self._store.save(task, event=None, prev=None, prev_version=version, context=_context(caller))

    async def delete_task(self, task_id: str, caller: Caller) -> bool:
        """Has the store delete."""
        existed = await self._store.get(task_id, _context(caller)) is not None
        await self._store.delete(task_id, _context(caller))
        return existed


def _changes_task(append: Append) -> bool:
    return any(record.kind != TURN_ENDED for record in append.records)


def _parked_row(task: Task, caller: Caller) -> TaskRow:
    return row_of_task(task, caller.scope, None, 0)


def _context(caller: Caller) -> ServerCallContext:
    return caller.context if isinstance(caller.context, ServerCallContext) else ServerCallContext()


def _size(records: list[Record]) -> int:
    return sum(len(record.body) for record in records)
