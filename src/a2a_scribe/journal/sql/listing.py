"""ListTasks in SQL: filters, order and pages are the database's work (A2A 1.0, section 3.1.4).

Each combination of filters is a statement of its own, made once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, FromClause, Select, and_, bindparam, func, or_, select

from a2a_scribe.journal.rows import status_micros
from a2a_scribe.journal.sql.running import Parameters
from a2a_scribe.journal.sql.tables import Tables, tables_of
from a2a_scribe.journal.tasks import Caller
from a2a_scribe.protocol.paging import PagePosition
from a2a_scribe.protocol.types import ListTasksRequest


class Listed(NamedTuple):
    """A row of a page."""

    task_id: str
    status_time: int
    seq: int
    snapshot: bytes | None
    snapshot_seq: int
    total: int
    """How many tasks the query asks for, before paging: the same in every row."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A query as its statements, and the values to run them with."""

    page: Select[Any]
    """Gives `Listed`, newest status first, after the position that was asked for."""
    count: Select[Any]
    """How many there are, for a page without rows."""
    parameters: Parameters


Filters = frozenset[str]
"""The columns that a query filters by."""


def listing_of(
    prefix: str, caller: Caller, query: ListTasksRequest, position: PagePosition | None, limit: int
) -> Listing:
    """Returns how to read the page of `limit` rows that `query` asks for, after `position`."""
    values = scope_values(caller)
    if query.context_id:
        values['context_id'] = query.context_id
    if query.status:
        values['state'] = int(query.status)
    if query.HasField('status_timestamp_after'):
        values['status_time'] = status_micros(query.status_timestamp_after)
    filters = frozenset(values)
    parameters = {f'the_{name}': value for name, value in values.items()} | {'the_limit': limit}
    if position is not None:
        parameters |= {'last_time': position.status_time, 'last_id': position.task_id}
    page = _page(prefix, filters, continues=position is not None)
    return Listing(page, _count(prefix, filters), parameters)


def scope_values(caller: Caller) -> dict[str, Any]:
    """Returns what the columns of a task must be for the caller to see it."""
    if caller.is_operator:
        return {}
    values = {'owner': caller.scope.owner, 'tenant': caller.scope.tenant}
    return values if caller.any_agent else values | {'agent': caller.scope.agent}


@lru_cache(maxsize=256)
def _page(prefix: str, filters: Filters, *, continues: bool) -> Select[Any]:
    tasks = tables_of(prefix).tasks
    columns = tasks.c
    row = (columns.id, columns.status_time, columns.seq, columns.snapshot, columns.snapshot_seq)
    statement = select(*row, _count(prefix, filters).scalar_subquery()).where(*conditions(tasks, filters))
    if continues:
        time, task_id = columns.status_time, columns.id
        is_behind = and_(time == bindparam('last_time'), task_id < bindparam('last_id'))
        statement = statement.where(time <= bindparam('last_time'), or_(time < bindparam('last_time'), is_behind))
    return statement.order_by(columns.status_time.desc(), columns.id.desc()).limit(bindparam('the_limit'))


@lru_cache(maxsize=256)
def _count(prefix: str, filters: Filters) -> Select[Any]:
    tasks = tables_of(prefix).tasks.alias()
    return select(func.count()).select_from(tasks).where(*conditions(tasks, filters))


def conditions(tasks: FromClause, filters: Filters) -> list[ColumnElement[bool]]:
    """Returns the conditions on columns, whose values are bound by their names after `the_`."""
    at_least = tasks.c.status_time >= bindparam('the_status_time')
    return [
        at_least if name == 'status_time' else tasks.c[name] == bindparam(f'the_{name}') for name in sorted(filters)
    ]


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
