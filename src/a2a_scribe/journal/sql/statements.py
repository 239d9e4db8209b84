"""Every SQL statement of the journal, as SQLAlchemy Core expressions, built once per table prefix.

Bind parameters that could be mistaken for columns begin with `the_`.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Delete,
    Exists,
    Insert,
    Select,
    Update,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from a2a_scribe.core.records import CANCEL, RERUN, TURN_STARTED
from a2a_scribe.journal.sql.keys import KeyStatements, key_statements_of
from a2a_scribe.journal.sql.tables import Tables, tables_of

TASK_COLUMNS = (
    'id',
    'agent',
    'owner',
    'tenant',
    'context_id',
    'state',
    'status_time',
    'created_at',
    'seq',
    'node',
    'epoch',
    'open_turn',
    'attempt',
    'size',
)
"""The columns of a `TaskRow`, in its order."""


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements for the tables of one prefix."""

    fence: Update
    node_state: Select[Any]
    insert_node: Insert
    living_nodes: Select[Any]
    declare_dead: Update
    retire: Delete
    forget_dead: Delete
    orphans: Select[Any]
    insert_tasks: Insert
    insert_records: Insert
    update_tasks: Update
    update_tasks_and_snapshots: Update
    replace_task: Update
    lock_tasks: Select[Any]
    read_row: Select[Any]
    read_task: Select[Any]
    read_records: Select[Any]
    read_portion: Select[Any]
    """Records within bounds of their number and of their bytes."""
    waiting: Select[Any]
    """The messages and cancels that wait for some tasks."""
    waiting_asks: Select[Any]
    """What waits for a node beside messages, of one kind, and until when."""
    waited_for: Select[Any]
    """The tasks of a node for which messages wait."""
    count_waiting: Select[Any]
    insert_inbox: Insert
    delete_inbox_row: Delete
    delete_inbox_of: Delete
    inbox_row_of_turn: Select[Any]
    read_configs: Select[Any]
    put_config_in_sqlite: Insert
    put_config_in_postgresql: Insert
    insert_configs: Insert
    delete_config: Delete
    delete_task: tuple[Delete, ...]
    keys: KeyStatements


@lru_cache(maxsize=64)
def statements_of(prefix: str) -> Statements:
    """Returns the statements for the tables whose names begin with `prefix`."""
    tables = tables_of(prefix)
    tasks, records, inbox, configs = tables.tasks, tables.records, tables.inbox, tables.push_configs
    row = tuple(tasks.c[name] for name in TASK_COLUMNS)
    ids: BindParameter[Any] = bindparam('task_ids', expanding=True)
    return Statements(
        **_of_nodes(tables),
        insert_tasks=insert(tasks),
        insert_records=insert(records),
        update_tasks=_update_tasks(tables, with_snapshot=False),
        update_tasks_and_snapshots=_update_tasks(tables, with_snapshot=True),
        replace_task=_replace_task(tables),
        lock_tasks=select(*row).where(tasks.c.id.in_(ids)).order_by(tasks.c.id).with_for_update(),
        read_row=select(*row).where(tasks.c.id == bindparam('the_id')),
        read_task=select(*row, tasks.c.snapshot, tasks.c.snapshot_seq).where(tasks.c.id == bindparam('the_id')),
        read_records=(
            select(records)
            .where(records.c.task_id == bindparam('the_id'), records.c.seq > bindparam('after'))
            .order_by(records.c.seq)
            .limit(bindparam('the_limit'))
        ),
        read_portion=_read_portion(tables),
        waiting=(
            select(inbox.c.id, inbox.c.task_id, inbox.c.kind, inbox.c.body, inbox.c.expires_at)
            .where(inbox.c.task_id.in_(ids), inbox.c.kind.in_((TURN_STARTED, CANCEL, RERUN)))
            .order_by(inbox.c.id)
        ),
        waiting_asks=_waiting_asks(tables),
        waited_for=_waited_for(tables),
        count_waiting=(
            select(func.count())
            .select_from(inbox)
            .where(inbox.c.task_id == bindparam('the_id'), inbox.c.kind == TURN_STARTED)
        ),
        insert_inbox=insert(inbox).values(
            {column.name: bindparam(column.name) for column in inbox.c if column.name != 'id'}
        ),
        delete_inbox_row=delete(inbox).where(inbox.c.id == bindparam('the_id')),
        delete_inbox_of=delete(inbox).where(inbox.c.task_id.in_(ids)),
        inbox_row_of_turn=select(inbox.c.id).where(inbox.c.turn_id == bindparam('the_turn')),
        read_configs=(
            select(configs.c.body).where(configs.c.task_id == bindparam('the_id')).order_by(configs.c.config_id)
        ),
        put_config_in_sqlite=_put_config(sqlite.insert(configs)),
        put_config_in_postgresql=_put_config(postgresql.insert(configs)),
        insert_configs=insert(configs),
        delete_config=delete(configs).where(
            configs.c.task_id == bindparam('the_id'), configs.c.config_id == bindparam('the_config')
        ),
        delete_task=_delete_task(tables),
        keys=key_statements_of(tables.idempotency),
    )


def _of_nodes(tables: Tables) -> dict[str, Any]:
    nodes, tasks, configs = tables.nodes, tables.tasks, tables.push_configs
    number: BindParameter[Any] = bindparam('number')
    alive = nodes.c.state == 'alive'
    owned = select(tasks.c.id).where(tasks.c.node == nodes.c.id)
    held = select(configs.c.task_id).where(configs.c.node == nodes.c.id)
    has_work = or_(owned.exists(), held.exists())
    living = select(nodes.c.id).where(alive)
    silent = living.where(nodes.c.id == bindparam('node'), nodes.c.commit_no == number)
    silent = silent.with_for_update(skip_locked=True)
    return {
        'fence': (
            update(nodes)
            .where(nodes.c.id == bindparam('node'), alive, nodes.c.commit_no < number)
            .values(commit_no=number)
        ),
        'node_state': select(nodes.c.state, nodes.c.commit_no).where(nodes.c.id == bindparam('node')),
        'insert_node': insert(nodes),
        'living_nodes': select(nodes.c.id, nodes.c.commit_no, has_work).where(
            nodes.c.agent == bindparam('the_agent'), alive
        ),
        'declare_dead': update(nodes).where(nodes.c.id.in_(silent)).values(state='dead'),
        'retire': delete(nodes).where(nodes.c.id == bindparam('node'), ~owned.exists()),
        'forget_dead': delete(nodes).where(
            nodes.c.agent == bindparam('the_agent'), nodes.c.state == 'dead', ~owned.exists()
        ),
        'orphans': (
            select(*(tasks.c[name] for name in TASK_COLUMNS))
            .where(tasks.c.node.is_not(None), tasks.c.agent == bindparam('the_agent'), tasks.c.node.not_in(living))
            .where(tasks.c.id > bindparam('after'))
            .order_by(tasks.c.id)
            .limit(bindparam('the_limit'))
        ),
    }


def _update_tasks(tables: Tables, *, with_snapshot: bool) -> Update:
    names = ['state', 'status_time', 'seq', 'node', 'epoch', 'open_turn', 'attempt', 'size']
    if with_snapshot:
        names += ['snapshot', 'snapshot_seq']
    return _update(tables, names)


def _replace_task(tables: Tables) -> Update:
    return _update(tables, ['context_id', 'state', 'status_time', 'seq', 'size', 'snapshot', 'snapshot_seq'])


def _update(tables: Tables, names: list[str]) -> Update:
    return (
        update(tables.tasks)
        .where(tables.tasks.c.id == bindparam('the_id'))
        .values({name: bindparam(f'new_{name}') for name in names})
    )


def _waiting_asks(tables: Tables) -> Select[Any]:
    inbox = tables.inbox
    return (
        select(inbox.c.kind, inbox.c.task_id, inbox.c.body, inbox.c.expires_at)
        .where(inbox.c.kind.in_((CANCEL, RERUN)), _is_of_node(tables))
        .order_by(inbox.c.id)
    )


def _waited_for(tables: Tables) -> Select[Any]:
    inbox = tables.inbox
    return select(inbox.c.task_id).where(inbox.c.kind == TURN_STARTED, _is_of_node(tables)).distinct()


def _is_of_node(tables: Tables) -> Exists:
    """Goes through the inbox, in which hardly anything waits, rather than through the tasks of the node."""
    tasks, inbox = tables.tasks, tables.inbox
    return select(tasks.c.id).where(tasks.c.id == inbox.c.task_id, tasks.c.node == bindparam('the_node')).exists()


def _read_portion(tables: Tables) -> Select[Any]:
    """Reads as far as the record that would be too much, which is found by adding up lengths until it has come.

    The parameter `the_last` bounds the number of records, whose `seq` has no gaps. Sums come in the order of the key
    without being sorted, and each end is the only one that a range has, so no database looks at a record further than
    that: to SQLite it costs as much to pass a body by as to read it.
    """
    records = tables.records
    after = records.c.task_id == bindparam('the_id'), records.c.seq > bindparam('after')
    size = func.length(records.c.body, type_=BigInteger)
    total = func.sum(size).over(order_by=records.c.seq, rows=(None, 0))
    sums = select(records.c.seq, size.label('size'), total.label('total')).order_by(records.c.seq)
    summed = sums.where(*after, records.c.seq <= bindparam('the_last')).subquery('summed')
    is_too_much = summed.c.total > bindparam('max_bytes'), summed.c.total > summed.c.size
    first_left_out = select(summed.c.seq).where(*is_too_much).limit(1).scalar_subquery()
    last = func.coalesce(first_left_out - 1, bindparam('the_last', type_=BigInteger))
    return select(records).where(*after, records.c.seq <= last).order_by(records.c.seq)


def _put_config(statement: sqlite.Insert | postgresql.Insert) -> Insert:
    """Makes or replaces a config; one that is replaced goes on where it was, and whoever holds it loses it."""
    key = {'task_id', 'config_id', 'position'}
    changed = {column.name: column for column in statement.excluded if column.name not in key}
    return statement.on_conflict_do_update(index_elements=['config_id', 'task_id'], set_=changed)


def _delete_task(tables: Tables) -> tuple[Delete, ...]:
    the_id: BindParameter[Any] = bindparam('the_id')
    children = (tables.records, tables.inbox, tables.push_configs, tables.idempotency)
    return (
        *(delete(table).where(table.c.task_id == the_id) for table in children),
        delete(tables.tasks).where(tables.tasks.c.id == the_id),
    )
