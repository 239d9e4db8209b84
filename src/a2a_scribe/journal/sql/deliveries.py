"""The statements of webhook delivery: which configs are due, who holds them, and what came of it.

A config is held by the node whose id stands in its row, as long as that node is not dead. Each change of a config that
is held says whose and which position it means, so that a node that has lost it changes nothing.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Delete,
    Select,
    Update,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    tuple_,
    update,
)

from a2a_scribe.journal.deliveries import (
    Delivery,
    DeliveryKey,
    DeliveryOutcome,
    DeliveryQuery,
    DueDeliveries,
    KeepDeliveries,
    Kept,
    SetState,
)
from a2a_scribe.journal.sql import rows
from a2a_scribe.journal.sql.running import Running
from a2a_scribe.journal.sql.tables import Tables, tables_of
from a2a_scribe.protocol.states import TERMINAL
from a2a_scribe.protocol.types import NodeId, Scope


@dataclass(frozen=True, slots=True)
class _Statements:
    due: Select[Any]
    due_of_tasks: Select[Any]
    held: Select[Any]
    held_of_tasks: Select[Any]
    """With the rows locked, in the order of their keys."""
    read_of_tasks: Select[Any]
    listed: Select[Any]
    read: Select[Any]
    claim: Update
    note: Update
    remove: Delete
    """A config that its ended task needs no more."""
    suspend: Update
    resume: Update


class DeliveryTable:
    """The push configs of one database, seen on one connection."""

    def __init__(self, running: Running, prefix: str) -> None:
        """Works on a connection."""
        self._running = running
        self._statements = _statements_of(prefix)

    async def due(self, due: DueDeliveries) -> list[DeliveryKey]:
        """Returns configs that are due."""
        parameters: dict[str, Any] = {
            'the_agent': due.agent,
            'the_node': due.node,
            'the_time': due.now,
            'the_limit': due.limit,
        }
        if due.task_ids is None:
            found = await self._running.rows(self._statements.due, parameters)
        else:
            parameters['task_ids'] = due.task_ids
            found = await self._running.rows(self._statements.due_of_tasks, parameters)
        return [DeliveryKey(task_id, config_id) for task_id, config_id in found]

    async def held(self, node_id: NodeId) -> set[DeliveryKey]:
        """Returns the configs that a node holds."""
        found = await self._running.rows(self._statements.held, {'the_node': node_id})
        return {DeliveryKey(task_id, config_id) for task_id, config_id in found}

    async def listed(self, query: DeliveryQuery) -> list[Delivery]:
        """Returns a page of configs."""
        parameters = {
            'the_agent': query.agent,
            'the_state': query.state,
            'the_task': query.task_id,
            'after_task': query.after.task_id,
            'after_config': query.after.config_id,
            'the_limit': query.limit,
        }
        found = await self._running.rows(self._statements.listed, parameters)
        return [_delivery(row) for row in found]

    async def read(self, key: DeliveryKey) -> Delivery | None:
        """Returns one config."""
        found = await self._running.rows(self._statements.read, _place(key))
        return _delivery(found[0]) if found else None

    async def keep(self, keep: KeepDeliveries, node: NodeId) -> Kept:
        """Writes what came of attempts, and takes configs. For a transaction that has passed the node's fence."""
        lost = await self._note(keep.outcomes, node)
        claims = sorted(keep.claims)
        await self._running.change_many(self._statements.claim, [_place(key) | {'the_node': node} for key in claims])
        return Kept(lost, await self._claimed(claims, node))

    async def resolve(self, keep: KeepDeliveries, node: NodeId) -> Kept:
        """Returns what became of an earlier `keep`, as far as it can be seen."""
        held = await self.held(node)
        kept = (outcome.key for outcome in keep.outcomes if not outcome.releases)
        return Kept(frozenset(key for key in kept if key not in held), await self._claimed(sorted(keep.claims), node))

    async def _note(self, outcomes: tuple[DeliveryOutcome, ...], node: NodeId) -> frozenset[DeliveryKey]:
        if not outcomes:
            return frozenset()
        tasks = sorted({outcome.key.task_id for outcome in outcomes})
        found = await self._running.rows(self._statements.held_of_tasks, {'the_node': node, 'task_ids': tasks})
        held = {DeliveryKey(task_id, config_id): position for task_id, config_id, position in found}
        written = sorted((each for each in outcomes if held.get(each.key) == each.expected), key=lambda each: each.key)
        done = [each for each in written if each.releases and each.state == 'active']
        await self._running.change_many(
            self._statements.remove, [_place(each.key) | {'the_position': each.position} for each in done]
        )
        await self._running.change_many(self._statements.note, [_outcome_values(each, node) for each in written])
        return frozenset(each.key for each in outcomes) - {each.key for each in written}

    async def _claimed(self, claims: list[DeliveryKey], node: NodeId) -> tuple[Delivery, ...]:
        if not claims:
            return ()
        tasks = sorted({key.task_id for key in claims})
        found = await self._running.rows(self._statements.read_of_tasks, {'the_node': node, 'task_ids': tasks})
        wanted = set(claims)
        return tuple(delivery for delivery in map(_delivery, found) if delivery.key in wanted)

    async def set(self, key: DeliveryKey, state: SetState, position: int | None) -> bool:
        """Suspends or resumes a config."""
        statement = self._statements.resume if state == 'active' else self._statements.suspend
        return await self._running.change(statement, _place(key) | {'new_position': position}) == 1


def _place(key: DeliveryKey) -> dict[str, Any]:
    return {'the_task': key.task_id, 'the_config': key.config_id}


def _outcome_values(outcome: DeliveryOutcome, node: NodeId) -> dict[str, Any]:
    return _place(outcome.key) | {
        'new_position': outcome.position,
        'new_attempts': outcome.attempts,
        'new_next_attempt_at': outcome.next_attempt_at,
        'new_failing_since': outcome.failing_since,
        'new_state': outcome.state,
        'new_last_error': outcome.last_error,
        'new_node': None if outcome.releases else node,
    }


def _delivery(row: Any) -> Delivery:
    body, agent, owner, tenant, *standing, node, seq, task_state = row
    position, attempts, next_attempt_at, failing_since, state, last_error = standing
    return Delivery(
        config=rows.config_of(body),
        scope=Scope(agent, owner, tenant),
        position=position,
        attempts=attempts,
        next_attempt_at=next_attempt_at,
        failing_since=failing_since,
        state=state,
        last_error=last_error,
        node=None if node is None else NodeId(node),
        seq=seq,
        task_state=task_state,
    )


@lru_cache(maxsize=64)
def _statements_of(prefix: str) -> _Statements:
    tables = tables_of(prefix)
    configs = tables.push_configs
    node: BindParameter[Any] = bindparam('the_node')
    key = configs.c.task_id, configs.c.config_id
    here = configs.c.task_id == bindparam('the_task'), configs.c.config_id == bindparam('the_config')
    of_tasks = configs.c.task_id.in_(bindparam('task_ids', expanding=True))
    whole = _whole(tables)
    due = _due(tables)
    changed = ('position', 'attempts', 'next_attempt_at', 'failing_since', 'state', 'last_error', 'node')
    return _Statements(
        due=due,
        due_of_tasks=due.where(of_tasks),
        held=select(*key).where(configs.c.node == node),
        held_of_tasks=(
            select(*key, configs.c.position).where(of_tasks, configs.c.node == node).order_by(*key).with_for_update()
        ),
        read_of_tasks=whole.where(of_tasks, configs.c.node == node),
        listed=_listed(tables),
        read=whole.where(*here),
        claim=update(configs).where(*here, configs.c.state == 'active', _is_free(tables)).values(node=node),
        note=update(configs).where(*here).values({name: bindparam(f'new_{name}') for name in changed}),
        remove=delete(configs).where(*here, _is_over(tables)),
        suspend=update(configs).where(*here).values(**_fresh(tables), state='suspended'),
        resume=update(configs).where(*here).values(**_fresh(tables), state='active', last_error=None),
    )


def _whole(tables: Tables) -> Select[Any]:
    """Selects the columns of a `Delivery`."""
    configs, tasks = tables.push_configs.c, tables.tasks.c
    standing = ('position', 'attempts', 'next_attempt_at', 'failing_since', 'state', 'last_error', 'node')
    columns = (configs.body, tasks.agent, tasks.owner, tasks.tenant, *(configs[name] for name in standing))
    return select(*columns, tasks.seq, tasks.state).where(tasks.id == configs.task_id)


def _due(tables: Tables) -> Select[Any]:
    configs, tasks = tables.push_configs.c, tables.tasks.c
    has_more = or_(tasks.seq > configs.position, tasks.node == bindparam('the_node'))
    is_time = or_(configs.next_attempt_at.is_(None), configs.next_attempt_at <= bindparam('the_time'))
    return (
        select(configs.task_id, configs.config_id)
        .where(
            configs.state == 'active',
            _is_free(tables),
            is_time,
            tasks.id == configs.task_id,
            tasks.agent == bindparam('the_agent'),
            has_more,
        )
        .order_by(func.coalesce(configs.next_attempt_at, 0), configs.task_id, configs.config_id)
        .limit(bindparam('the_limit'))
    )


def _listed(tables: Tables) -> Select[Any]:
    configs, tasks = tables.push_configs.c, tables.tasks.c
    filters = (('the_agent', tasks.agent), ('the_state', configs.state), ('the_task', configs.task_id))
    key = configs.task_id, configs.config_id
    after: list[BindParameter[Any]] = [bindparam('after_task'), bindparam('after_config')]
    wanted = [column == func.coalesce(bindparam(name, type_=column.type), column) for name, column in filters]
    return _whole(tables).where(*wanted, tuple_(*key) > tuple_(*after)).order_by(*key).limit(bindparam('the_limit'))


def _is_free(tables: Tables) -> ColumnElement[bool]:
    """Whether no living node holds a config."""
    configs, nodes = tables.push_configs.c, tables.nodes.c
    return or_(configs.node.is_(None), configs.node.not_in(select(nodes.id).where(nodes.state == 'alive')))


def _is_over(tables: Tables) -> ColumnElement[bool]:
    """Whether a config's task has ended, and all of it is delivered."""
    configs, tasks = tables.push_configs.c, tables.tasks.c
    has_ended = or_(*(tasks.state == int(state) for state in sorted(TERMINAL))), tasks.node.is_(None)
    is_all = tasks.seq == bindparam('the_position')
    return select(tasks.id).where(and_(tasks.id == configs.task_id, *has_ended, is_all)).exists()


def _fresh(tables: Tables) -> dict[str, Any]:
    """The columns of a config that nobody holds and that has not failed, at another position if one is given."""
    position = tables.push_configs.c.position
    return {
        'position': func.coalesce(bindparam('new_position', type_=position.type), position),
        'attempts': 0,
        'next_attempt_at': None,
        'failing_since': None,
        'node': None,
    }
