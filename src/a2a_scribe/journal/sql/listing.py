"""ListTasks in SQL: filters, order and pages are the database's work (A2A 1.0, section 3.1.4)."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select

from a2a_scribe.journal.port import Caller
from a2a_scribe.journal.rows import status_micros
from a2a_scribe.journal.sql.statements import TASK_COLUMNS
from a2a_scribe.journal.sql.tables import Tables
from a2a_scribe.protocol.paging import PagePosition
from a2a_scribe.protocol.types import ListTasksRequest


def count_of(tables: Tables, caller: Caller, query: ListTasksRequest) -> Select[Any]:
    """Returns the statement that counts what `query` asks for, before paging."""
    return select(func.count()).select_from(tables.tasks).where(*_filters(tables, caller, query))


def page_of(
    tables: Tables, caller: Caller, query: ListTasksRequest, position: PagePosition | None, size: int
) -> Select[Any]:
    """Returns the statement for the rows and snapshots after `position`, newest status first."""
    columns = tables.tasks.c
    statement = select(*(columns[name] for name in TASK_COLUMNS), columns.snapshot, columns.snapshot_seq)
    statement = statement.where(*_filters(tables, caller, query))
    if position is not None:
        time, task_id = position
        same_time = and_(columns.status_time == time, columns.id < task_id)
        statement = statement.where(columns.status_time <= time, or_(columns.status_time < time, same_time))
    return statement.order_by(columns.status_time.desc(), columns.id.desc()).limit(size)


def tails_of(tables: Tables, behind: Sequence[tuple[str, int, int]]) -> Select[Any]:
    """Returns the statement for the records of tasks, given as id, snapshot's seq and seq, after their snapshots.

    Later records and snapshots may be there already; records never change, so the page stays as of one moment.
    """
    columns = tables.records.c
    of_tasks = [
        and_(columns.task_id == task_id, columns.seq > snapshot_seq, columns.seq <= seq)
        for task_id, snapshot_seq, seq in behind
    ]
    return select(tables.records).where(or_(*of_tasks)).order_by(columns.task_id, columns.seq)


def _filters(tables: Tables, caller: Caller, query: ListTasksRequest) -> list[ColumnElement[bool]]:
    columns = tables.tasks.c
    filters = [columns.owner == caller.scope.owner, columns.tenant == caller.scope.tenant]
    if not caller.any_agent:
        filters.append(columns.agent == caller.scope.agent)
    if query.context_id:
        filters.append(columns.context_id == query.context_id)
    if query.status:
        filters.append(columns.state == int(query.status))
    if query.HasField('status_timestamp_after'):
        filters.append(columns.status_time >= status_micros(query.status_timestamp_after))
    return filters
