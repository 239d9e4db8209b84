"""What an operator sees of a database that servers may be working on: rows, nodes, the schema, one task whole.

Called by the command line. It changes nothing, and asks nothing of the servers.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from a2a_scribe.core.records import Record
from a2a_scribe.journal.sql import rows
from a2a_scribe.journal.sql.access import Access
from a2a_scribe.journal.sql.connected import Connected
from a2a_scribe.journal.sql.dialects import stored_bytes
from a2a_scribe.journal.sql.inspection_statements import count_statement, inspection_statements_of, list_statement
from a2a_scribe.journal.sql.migrating import Schema, schema_of
from a2a_scribe.journal.sql.running import Running
from a2a_scribe.journal.sql.statements import statements_of
from a2a_scribe.journal.sql.tables import DEFAULT_PREFIX, tables_of
from a2a_scribe.journal.tasks import TaskRow
from a2a_scribe.protocol.paging import PagePosition
from a2a_scribe.protocol.types import NodeId, TaskState

PATIENCE = 60.0
"""Seconds that one query of an operator may take on a server."""

STRAY_PAGE = 500


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which tasks an operator wants to see; `None` for all."""

    agent: str | None = None
    owner: str | None = None
    tenant: str | None = None
    context_id: str | None = None
    state: TaskState | None = None
    node: str | None = None
    before: int | None = None
    """Whose status is older than this moment, in microseconds since the epoch."""

    @property
    def values(self) -> dict[str, object]:
        """What is asked for, by name."""
        every = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in every.items() if value is not None}


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node, as the journal knows it."""

    node_id: NodeId
    agent: str
    name: str
    started_at: int
    commit_no: int
    state: str
    tasks: int
    """How many tasks it owns."""


@dataclass(frozen=True, slots=True)
class InboxRow:
    """What waits for a task's running turn to end."""

    turn_id: str
    kind: str
    body: bytes
    node: str
    """Who put it there."""
    created_at: int
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class TaskLook:
    """A task as an operator finds it; row and snapshot are of one moment."""

    row: TaskRow
    snapshot: bytes | None
    snapshot_seq: int
    inbox: tuple[InboxRow, ...]
    owner: NodeInfo | None
    """The node that owns it, if somebody does whom the journal knows."""


@dataclass(frozen=True, slots=True)
class Totals:
    """How much a journal holds."""

    states: dict[TaskState, int]
    records: int
    record_bytes: int
    stored_bytes: int | None
    """What all of it takes on disk, where that can be told."""


class Inspector:
    """Looks into one database."""

    def __init__(self, engine: AsyncEngine, *, prefix: str = DEFAULT_PREFIX) -> None:
        """Takes an engine, which stays its user's. Raises: SettingsError."""
        self.engine = engine
        self.prefix = prefix
        self._access = Access(engine, deadline=PATIENCE)
        self._statements = inspection_statements_of(prefix)
        self._of_journal = statements_of(prefix)

    async def schema(self) -> Schema:
        """Returns where the schema stands. Raises: JournalUnavailableError."""

        async def work(connected: Connected) -> Schema:
            return await schema_of(connected.connection, self.prefix)

        return await self._access.look(work)

    async def totals(self) -> Totals:
        """Counts what is there; the sums are those of the rows. Raises: JournalUnavailableError."""

        async def work(connected: Connected) -> Totals:
            states = dict(map(tuple, await connected.rows(self._statements.states, {})))
            ((records, record_bytes),) = await connected.rows(self._statements.sums, {})
            stored = await stored_bytes(connected.connection, list(tables_of(self.prefix).metadata.tables))
            return Totals(states, int(records), int(record_bytes), stored)

        return await self._access.look(work)

    async def nodes(self) -> list[NodeInfo]:
        """Returns all nodes, oldest first. Raises: JournalUnavailableError."""

        async def work(running: Running) -> list[NodeInfo]:
            return [NodeInfo(*row) for row in await running.rows(self._statements.nodes, {})]

        return await self._access.read(work)

    async def node(self, node_id: str) -> NodeInfo | None:
        """Returns a node. Raises: JournalUnavailableError."""

        async def work(running: Running) -> NodeInfo | None:
            return await self._node(running, node_id)

        return await self._access.read(work)

    async def _node(self, running: Running, node_id: str) -> NodeInfo | None:
        found = await running.rows(self._statements.node, {'the_node': node_id})
        return NodeInfo(*found[0]) if found else None

    async def list_rows(self, wanted: TaskFilter, position: PagePosition | None, limit: int) -> list[TaskRow]:
        """Returns rows after `position`, newest status first. Raises: JournalUnavailableError."""
        statement = list_statement(self.prefix, frozenset(wanted.values), continues=position is not None)
        parameters = {f'the_{name}': value for name, value in wanted.values.items()} | {'the_limit': limit}
        if position is not None:
            parameters |= {'last_time': position.status_time, 'last_id': position.task_id}

        async def work(running: Running) -> list[TaskRow]:
            return [rows.task_row(row) for row in await running.rows(statement, parameters)]

        return await self._access.read(work)

    async def count(self, wanted: TaskFilter) -> int:
        """Returns how many tasks there are. Raises: JournalUnavailableError."""
        statement = count_statement(self.prefix, frozenset(wanted.values))
        parameters = {f'the_{name}': value for name, value in wanted.values.items()}

        async def work(running: Running) -> int:
            ((number,),) = await running.rows(statement, parameters)
            return int(number)

        return await self._access.read(work)

    async def ids_after(self, after: str, limit: int) -> list[str]:
        """Returns ids of tasks, in the order of ids. Raises: JournalUnavailableError."""

        async def work(running: Running) -> list[str]:
            parameters = {'after': after, 'the_limit': limit}
            return [task_id for (task_id,) in await running.rows(self._statements.ids, parameters)]

        return await self._access.read(work)

    async def look_at(self, task_id: str) -> TaskLook | None:
        """Returns a task. Raises: JournalUnavailableError."""

        async def work(running: Running) -> TaskLook | None:
            found = await running.rows(self._of_journal.read_task, {'the_id': task_id})
            if not found:
                return None
            *columns, snapshot, snapshot_seq = found[0]
            row = rows.task_row(columns)
            waiting = await running.rows(self._statements.inbox, {'the_id': task_id})
            inbox = tuple(_inbox_row(*each) for each in waiting)
            owner = None if row.node is None else await self._node(running, row.node)
            return TaskLook(row, None if snapshot is None else bytes(snapshot), snapshot_seq, inbox, owner)

        return await self._access.read(work)

    async def records(self, task_id: str, after: int, limit: int) -> list[Record]:
        """Returns records of a task, in order. Raises: JournalUnavailableError."""

        async def work(running: Running) -> list[Record]:
            key = {'the_id': task_id, 'after': after, 'the_limit': limit}
            return [rows.record(entry) for entry in await running.rows(self._of_journal.read_records, key)]

        return await self._access.read(work)

    async def strays(self) -> AsyncIterator[tuple[str, str]]:
        """Yields table and task id of what belongs to a task that is not there. Raises: JournalUnavailableError."""
        for table in self._statements.belongings:
            after = ''
            while page := await self._belongings(table, after):
                for task_id, is_there in page:
                    if not is_there:
                        yield table, task_id
                after = page[-1][0]

    async def _belongings(self, table: str, after: str) -> list[tuple[str, bool]]:
        async def work(running: Running) -> list[tuple[str, bool]]:
            parameters = {'after': after, 'the_limit': STRAY_PAGE}
            found = await running.rows(self._statements.belongings[table], parameters)
            return [(task_id, bool(is_there)) for task_id, is_there in found]

        return await self._access.read(work)


def _inbox_row(turn_id: str, kind: str, body: bytes, node: str, created_at: int, expires_at: int | None) -> InboxRow:
    return InboxRow(turn_id, kind, bytes(body), node, created_at, expires_at)
