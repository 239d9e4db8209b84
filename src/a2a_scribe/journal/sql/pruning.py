"""Deletes tasks that ended long ago, a few in one transaction.

The transaction is as small as tasks allow: those who write wait for it.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Delete, Select, bindparam, delete, select

from a2a_scribe.journal.sql.running import Running
from a2a_scribe.journal.sql.tables import Tables, tables_of
from a2a_scribe.journal.tasks import Ended

MOST_TASKS, MOST_RECORDS = 100, 1_000
"""What one transaction deletes at most; a longer task is deleted alone."""


@dataclass(frozen=True, slots=True)
class _Statements:
    of_agent: Select[Any]
    of_all: Select[Any]
    deletes: tuple[Delete, ...]


async def delete_ended(running: Running, prefix: str, ended: Ended) -> list[str]:
    """Deletes some of the tasks with all that belongs to them, and returns their ids."""
    statements = _statements_of(prefix)
    parameters: dict[str, Any] = {'the_state': int(ended.state), 'the_time': ended.before, 'the_limit': MOST_TASKS}
    if ended.agent is None:
        found = await running.rows(statements.of_all, parameters)
    else:
        found = await running.rows(statements.of_agent, parameters | {'the_agent': ended.agent})
    task_ids: list[str] = []
    records = 0
    for task_id, seq in found:
        records += seq
        if task_ids and records > MOST_RECORDS:
            break
        task_ids.append(task_id)
    if task_ids:
        for statement in statements.deletes:
            await running.change(statement, {'task_ids': task_ids})
    return task_ids


@lru_cache(maxsize=64)
def _statements_of(prefix: str) -> _Statements:
    tables = tables_of(prefix)
    tasks = tables.tasks.c
    ended = (
        select(tasks.id, tasks.seq)
        .where(
            tasks.state == bindparam('the_state'),
            tasks.status_time < bindparam('the_time'),
            tasks.node.is_(None),
            _has_delivered(tables),
        )
        .limit(bindparam('the_limit'))
        .with_for_update(skip_locked=True)
    )
    ids: BindParameter[Any] = bindparam('task_ids', expanding=True)
    children = (tables.records, tables.inbox, tables.push_configs, tables.idempotency)
    return _Statements(
        of_agent=ended.where(tasks.agent == bindparam('the_agent')),
        of_all=ended,
        deletes=(
            *(delete(table).where(table.c.task_id.in_(ids)) for table in children),
            delete(tables.tasks).where(tasks.id.in_(ids)),
        ),
    )


def _has_delivered(tables: Tables) -> ColumnElement[bool]:
    """Whether no webhook of a task that is delivered from here has anything to deliver still."""
    tasks, configs = tables.tasks.c, tables.push_configs.c
    waits = configs.task_id == tasks.id, configs.state == 'active', configs.position < tasks.seq
    return ~select(configs.task_id).where(*waits).exists()
