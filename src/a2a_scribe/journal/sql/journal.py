"""The SQL adapter: the port's methods, each a few statements on `Access`."""

import logging
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, func, inspect, select, table
from sqlalchemy.ext.asyncio import AsyncEngine

from a2a_scribe.core.records import Record, TaskReplaced, encode
from a2a_scribe.errors import TaskConflictError
from a2a_scribe.journal.decisions import refusal_to_replace
from a2a_scribe.journal.deliveries import Delivery, DeliveryKey, DeliveryQuery, DueDeliveries, SetState
from a2a_scribe.journal.port import Hints, LivingNode, NodeRow, WaitingAsk
from a2a_scribe.journal.results import Receipt
from a2a_scribe.journal.rows import row_of_task
from a2a_scribe.journal.sql import rows
from a2a_scribe.journal.sql.access import Access
from a2a_scribe.journal.sql.connected import Connected
from a2a_scribe.journal.sql.deliveries import DeliveryTable
from a2a_scribe.journal.sql.dialects import lock_directory
from a2a_scribe.journal.sql.hints import hints_of
from a2a_scribe.journal.sql.keys import delete_expired
from a2a_scribe.journal.sql.listing import Listed, listing_of, tails_of
from a2a_scribe.journal.sql.migrating import bring_up_to_date
from a2a_scribe.journal.sql.pruning import delete_ended
from a2a_scribe.journal.sql.reading import reading_of
from a2a_scribe.journal.sql.resolving import GroupResolver
from a2a_scribe.journal.sql.running import Running
from a2a_scribe.journal.sql.statements import statements_of
from a2a_scribe.journal.sql.tables import DEFAULT_PREFIX, tables_of
from a2a_scribe.journal.sql.writing import AlreadyWritten, GroupWriter
from a2a_scribe.journal.tasks import OPERATOR, Caller, Ended, StoredTask, TaskPage, TaskRow
from a2a_scribe.journal.writes import Group
from a2a_scribe.protocol.paging import DEFAULT_PAGE_SIZE, PagePosition, decode_token, encode_token
from a2a_scribe.protocol.states import TERMINAL
from a2a_scribe.protocol.types import ListTasksRequest, NodeId, Scope, Task, TaskPushNotificationConfig

logger = logging.getLogger(__name__)


class SqlJournal:
    """A journal in an SQL database."""

    keeps_records = True

    def __init__(
        self,
        engine: AsyncEngine,
        *,
        prefix: str = DEFAULT_PREFIX,
        create: bool = True,
        deadline: float = 5.0,
        their_table: str = '',
    ) -> None:
        """Takes a user's engine; tables are made at `open` if `create` is true.

        `their_table` is where `a2a-sdk` would keep its tasks: they are counted, because they are not seen here.

        Raises:
            SettingsError: The database is of an unsupported kind.
        """
        self._access = Access(engine, deadline=deadline)
        self._prefix = prefix
        self._create = create
        self._tables = tables_of(prefix)
        self._statements = statements_of(prefix)
        self._their_table = their_table

    @property
    def lock_directory(self) -> Path | None:
        """A directory beside the file of an SQLite database."""
        return lock_directory(self._access.engine)

    @property
    def hints(self) -> Hints | None:
        """What the database tells the processes that use it; of an in-memory SQLite there is only one."""
        return hints_of(self._access.engine, self._prefix)

    async def open(self) -> None:
        """Brings the schema up to date, once per loop."""
        await self._access.open_once(self._migrate)

    async def _migrate(self, connected: Connected) -> None:
        await bring_up_to_date(connected.connection, self._prefix, create=self._create)
        if self._their_table:
            await self._warn_of_their_tasks(connected)

    async def close(self) -> None:
        """Gives the database back; the engine stays its user's."""
        await self._access.close()

    async def _warn_of_their_tasks(self, connected: Connected) -> None:
        name, self._their_table = self._their_table, ''
        if await connected.connection.run_sync(_has_table, name):
            ((count,),) = await connected.query(select(func.count()).select_from(table(name)))
            if count:
                logger.warning(
                    'The table %r of a2a-sdk holds %d tasks; a2a-scribe keeps its own tables and does not show them',
                    name,
                    count,
                )

    async def register(self, node: NodeRow) -> None:
        """Makes a node known and alive; again is harmless."""
        values = {
            'id': node.node_id,
            'agent': node.agent,
            'name': node.name,
            'started_at': node.started_at,
            'commit_no': 0,
            'state': 'alive',
        }

        async def work(running: Running) -> None:
            if not await running.rows(self._statements.node_state, {'node': node.node_id}):
                await running.change(self._statements.insert_node, values)

        await self._access.write(work)

    async def retire(self, node_id: NodeId) -> None:
        """Forgets a node that owns nothing."""

        async def work(running: Running) -> None:
            await running.change(self._statements.retire, {'node': node_id})

        await self._access.write(work)

    async def forget_dead(self, agent: str) -> None:
        """Forgets the dead nodes of an agent that own nothing."""

        async def work(running: Running) -> None:
            await running.change(self._statements.forget_dead, {'the_agent': agent})

        await self._access.write(work)

    async def living_nodes(self, agent: str) -> list[LivingNode]:
        """Returns the nodes of an agent that are not dead."""

        async def work(running: Running) -> list[LivingNode]:
            found = await running.rows(self._statements.living_nodes, {'the_agent': agent})
            return [LivingNode(NodeId(node), number, bool(owns)) for node, number, owns in found]

        return await self._access.read(work)

    async def declare_dead(self, node_id: NodeId, number: int) -> bool:
        """Fences a node for good if its newest group is still `number`."""

        async def work(running: Running) -> bool:
            return await running.change(self._statements.declare_dead, {'node': node_id, 'number': number}) == 1

        return await self._access.write(work)

    async def orphans(self, agent: str, limit: int, after: str = '') -> list[TaskRow]:
        """Returns tasks of an agent whose owner is no living node."""

        async def work(running: Running) -> list[TaskRow]:
            key = {'the_agent': agent, 'the_limit': limit, 'after': after}
            found = await running.rows(self._statements.orphans, key)
            return [rows.task_row(row) for row in found]

        return await self._access.read(work)

    async def waiting_asks(self, node_id: NodeId, now: int) -> list[WaitingAsk]:
        """Returns what a node is asked to do."""

        async def work(running: Running) -> list[WaitingAsk]:
            found = await running.rows(self._statements.waiting_asks, {'the_node': node_id})
            time = await running.now(now) if found else now
            return [WaitingAsk(kind, task_id, bytes(body)) for kind, task_id, body, until in found if until > time]

        return await self._access.read(work)

    async def waited_for(self, node_id: NodeId) -> list[str]:
        """Returns the tasks of a node for which messages wait."""

        async def work(running: Running) -> list[str]:
            found = await running.rows(self._statements.waited_for, {'the_node': node_id})
            return [task_id for (task_id,) in found]

        return await self._access.read(work)

    async def commit(self, group: Group) -> Receipt:
        """Writes a group in one transaction."""

        async def work(running: Running) -> Receipt:
            return await GroupWriter(running, self._statements, self._deliveries(running), group).run()

        async def resolve(running: Running) -> Receipt:
            return await GroupResolver(running, self._statements, self._deliveries(running), group).run()

        try:
            return await self._access.write(work)
        except AlreadyWritten:
            return await self._access.read(resolve)

    async def has_task(self, task_id: str, caller: Caller) -> bool:
        """Whether the task exists for the caller."""

        async def work(running: Running) -> bool:
            found = await running.rows(self._statements.read_row, {'the_id': task_id})
            return any(caller.sees(rows.task_row(row).scope) for row in found)

        return await self._access.read(work)

    async def read_task(self, task_id: str, caller: Caller) -> StoredTask | None:
        """Returns a task that `caller` sees."""

        return await self._access.read(lambda running: self._stored(running, task_id, caller))

    async def _stored(self, running: Running, task_id: str, caller: Caller = OPERATOR) -> StoredTask | None:
        """Reads the row, then the records up to its seq: they never change, so no snapshot transaction is needed."""
        found = await running.rows(*reading_of(self._prefix, task_id, caller))
        if not found:
            return None
        *columns, snapshot, snapshot_seq = found[0]
        row = rows.task_row(columns)
        tail: list[Record] = []
        if row.seq > snapshot_seq:
            key = {'the_id': task_id, 'after': snapshot_seq, 'the_limit': row.seq - snapshot_seq}
            tail = [rows.record(entry) for entry in await running.rows(self._statements.read_records, key)]
        return rows.stored_task(row, None if snapshot is None else bytes(snapshot), tail)

    async def read_records(self, task_id: str, after: int, limit: int, max_bytes: int) -> list[Record]:
        """Returns the records after `after`, within the bounds."""
        key = {'the_id': task_id, 'after': after, 'the_last': after + limit, 'max_bytes': max_bytes}

        async def work(running: Running) -> list[Record]:
            return [rows.record(entry) for entry in await running.rows(self._statements.read_portion, key)]

        return await self._access.read(work)

    async def list_tasks(self, caller: Caller, query: ListTasksRequest) -> TaskPage:
        """Returns the caller's tasks that `query` asks for, whole."""
        position = decode_token(query.page_token)
        size = query.page_size or DEFAULT_PAGE_SIZE
        listing = listing_of(self._prefix, caller, query, position, size + 1)

        async def work(running: Running) -> TaskPage:
            found = [Listed(*row) for row in await running.rows(listing.page, listing.parameters)]
            if found:
                total = found[0].total
            else:
                ((total,),) = await running.rows(listing.count, listing.parameters)
            last = found[size - 1] if len(found) > size else None
            token = '' if last is None else encode_token(PagePosition(last.status_time, last.task_id))
            return TaskPage(await self._tasks_of(running, found[:size]), token, total)

        return await self._access.read(work)

    async def _tasks_of(self, running: Running, found: Sequence[Listed]) -> list[Task]:
        """Folds the tasks of a page, with one more query for what came after their snapshots."""
        behind = [(each.task_id, each.snapshot_seq, each.seq) for each in found if each.seq > each.snapshot_seq]
        tails = await running.query(tails_of(self._tables, behind)) if behind else ()
        tail_of = rows.by_task([rows.record(entry) for entry in tails])
        folded = (rows.whole_task(each.snapshot, tail_of.get(each.task_id, ())) for each in found)
        return [task for task in folded if task is not None]

    async def read_configs(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Returns a task's push configs in the order of their ids."""

        async def work(running: Running) -> list[TaskPushNotificationConfig]:
            found = await running.rows(self._statements.read_configs, {'the_id': task_id})
            return [rows.config_of(body) for (body,) in found]

        return await self._access.read(work)

    def _deliveries(self, running: Running) -> DeliveryTable:
        return DeliveryTable(running, self._prefix)

    async def due_deliveries(self, due: DueDeliveries) -> list[DeliveryKey]:
        """Returns configs that are due and that no living node holds."""
        return await self._access.read(lambda running: self._deliveries(running).due(due))

    async def held_deliveries(self, node_id: NodeId) -> set[DeliveryKey]:
        """Returns the configs that a node holds."""
        return await self._access.read(lambda running: self._deliveries(running).held(node_id))

    async def list_deliveries(self, query: DeliveryQuery) -> list[Delivery]:
        """Returns configs in the order of their keys."""
        return await self._access.read(lambda running: self._deliveries(running).listed(query))

    async def read_delivery(self, key: DeliveryKey) -> Delivery | None:
        """Returns one config."""
        return await self._access.read(lambda running: self._deliveries(running).read(key))

    async def set_delivery(self, key: DeliveryKey, state: SetState, position: int | None = None) -> bool:
        """Suspends or resumes a config."""
        return await self._access.write(lambda running: self._deliveries(running).set(key, state, position))

    async def replace_task(self, task: Task, caller: Caller, now: int) -> None:
        """Stores a whole task from outside a turn: claim, one record, release, in one transaction."""

        async def work(running: Running) -> None:
            await running.rows(self._statements.lock_tasks, {'task_ids': [task.id]})
            stored = await self._stored(running, task.id)
            if stored is not None:
                refusal = refusal_to_replace(stored.row, stored.projection.to_task(), task, caller)
                if refusal:
                    raise TaskConflictError(f'task {task.id} cannot be stored: {refusal}')
                if stored.row.state in TERMINAL:
                    return
            await self._replace(running, task, caller.scope, None if stored is None else stored.row, now)

        await self._access.write(work)

    async def _replace(self, running: Running, task: Task, scope: Scope, before: TaskRow | None, now: int) -> None:
        row = row_of_task(task, scope if before is None else before.scope, before, now)
        kind, body = encode(TaskReplaced(task))
        await running.insert_records(self._statements.insert_records, [Record(task.id, row.seq, kind, body, now, None)])
        if before is None:
            await running.change(self._statements.insert_tasks, rows.new_task_values(row, None, 0))
        else:
            await running.change(self._statements.replace_task, rows.replaced_task_values(row))

    async def delete_task(self, task_id: str, caller: Caller) -> bool:
        """Deletes a task with all that belongs to it."""

        async def work(running: Running) -> bool:
            locked = await running.rows(self._statements.lock_tasks, {'task_ids': [task_id]})
            row = next(iter(map(rows.task_row, locked)), None)
            if row is None or not caller.sees(row.scope):
                return False
            if row.node is not None:
                raise TaskConflictError(f'task {task_id} cannot be deleted: the agent is working on it')
            for statement in self._statements.delete_task:
                await running.change(statement, {'the_id': task_id})
            return True

        return await self._access.write(work)

    async def delete_expired_keys(self, now: int) -> int:
        """Deletes some of the keys that have expired."""

        async def work(running: Running) -> int:
            return await delete_expired(running, self._statements.keys, now)

        return await self._access.write(work)

    async def delete_ended(self, ended: Ended) -> list[str]:
        """Deletes some of the tasks that ended long ago."""

        async def work(running: Running) -> list[str]:
            return await delete_ended(running, self._prefix, ended)

        return await self._access.write(work)


def _has_table(connection: Connection, name: str) -> bool:
    return inspect(connection).has_table(name)
