"""What operators ask of the database, as SQLAlchemy Core expressions, built once per table prefix.

Nothing here is on a request's way. Texts that could be long are read only where one task is looked at.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, exists, func, or_, select

from a2a_scribe.journal.sql.statements import TASK_COLUMNS
from a2a_scribe.journal.sql.tables import Tables, tables_of

EXACT_FILTERS = ('agent', 'owner', 'tenant', 'context_id', 'state', 'node')
"""Columns by which an operator's list can be filtered."""

Filters = frozenset[str]


@dataclass(frozen=True, slots=True)
class InspectionStatements:
    """The statements for the tables of one prefix."""

    states: Select[Any]
    sums: Select[Any]
    nodes: Select[Any]
    node: Select[Any]
    ids: Select[Any]
    inbox: Select[Any]
    belongings: dict[str, Select[Any]]
    """By table: the ids of tasks to which something belongs, and whether there is such a task."""


@lru_cache(maxsize=64)
def inspection_statements_of(prefix: str) -> InspectionStatements:
    """Returns the statements for the tables whose names begin with `prefix`."""
    tables = tables_of(prefix)
    tasks, nodes, inbox = tables.tasks, tables.nodes, tables.inbox
    children = (tables.records, inbox, tables.push_configs, tables.idempotency)
    node = nodes.c.id == bindparam('the_node')
    return InspectionStatements(
        states=select(tasks.c.state, func.count()).group_by(tasks.c.state).order_by(tasks.c.state),
        sums=select(func.coalesce(func.sum(tasks.c.seq), 0), func.coalesce(func.sum(tasks.c.size), 0)),
        nodes=_nodes(tables).order_by(nodes.c.started_at, nodes.c.id),
        node=_nodes(tables).where(node),
        ids=select(tasks.c.id)
        .where(tasks.c.id > bindparam('after'))
        .order_by(tasks.c.id)
        .limit(bindparam('the_limit')),
        inbox=(
            select(inbox.c.turn_id, inbox.c.kind, inbox.c.body, inbox.c.node, inbox.c.created_at, inbox.c.expires_at)
            .where(inbox.c.task_id == bindparam('the_id'))
            .order_by(inbox.c.id)
        ),
        belongings={table.name.removeprefix(prefix): _belongings(table, tasks) for table in children},
    )


def _nodes(tables: Tables) -> Select[Any]:
    """Nodes with the number of tasks that each owns."""
    nodes, tasks = tables.nodes, tables.tasks
    owned = select(func.count()).where(tasks.c.node == nodes.c.id).scalar_subquery()
    columns = nodes.c
    return select(columns.id, columns.agent, columns.name, columns.started_at, columns.commit_no, columns.state, owned)


def _belongings(table: Table, tasks: Table) -> Select[Any]:
    """The tasks that a table knows, one jump in its index each: it may hold millions of rows for one of them."""
    first = select(func.min(table.c.task_id).label('id')).where(table.c.task_id > bindparam('after'))
    ids = first.cte('ids', recursive=True)
    following = select(func.min(table.c.task_id)).where(table.c.task_id > ids.c.id).correlate(ids).scalar_subquery()
    ids = ids.union_all(select(following).where(ids.c.id.is_not(None)))
    is_there = exists().where(tasks.c.id == ids.c.id)
    return select(ids.c.id, is_there).where(ids.c.id.is_not(None)).limit(bindparam('the_limit'))


@lru_cache(maxsize=256)
def list_statement(prefix: str, filters: Filters, *, continues: bool) -> Select[Any]:
    """Returns the statement for a page of rows, newest status first, filtered by these columns."""
    tasks = tables_of(prefix).tasks
    row = tuple(tasks.c[name] for name in TASK_COLUMNS)
    statement = select(*row).where(*_conditions(tasks, filters))
    if continues:
        time, task_id = tasks.c.status_time, tasks.c.id
        is_behind = and_(time == bindparam('last_time'), task_id < bindparam('last_id'))
        statement = statement.where(or_(time < bindparam('last_time'), is_behind))
    return statement.order_by(tasks.c.status_time.desc(), tasks.c.id.desc()).limit(bindparam('the_limit'))


@lru_cache(maxsize=256)
def count_statement(prefix: str, filters: Filters) -> Select[Any]:
    """Returns the statement for how many rows there are."""
    tasks = tables_of(prefix).tasks
    return select(func.count()).select_from(tasks).where(*_conditions(tasks, filters))


def _conditions(tasks: Table, filters: Filters) -> list[ColumnElement[bool]]:
    conditions = [tasks.c[name] == bindparam(f'the_{name}') for name in EXACT_FILTERS if name in filters]
    if 'before' in filters:
        conditions.append(tasks.c.status_time < bindparam('the_before'))
    return conditions
