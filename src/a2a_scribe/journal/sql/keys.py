"""The table of keys: which message a client has given which key.

A key is inserted, never looked up first: of two that are inserted at the same time, the database makes one wait for the
other. The insert of whoever loses locks the other's row, so whose it is can be read with a statement of its own.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import BindParameter, Delete, Insert, Select, Table, bindparam, delete, or_, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from a2a_scribe.journal.results import Known
from a2a_scribe.journal.sql.running import Running
from a2a_scribe.journal.writes import Key
from a2a_scribe.protocol.types import Scope, TurnId

MOST_KEYS = 1_000
"""Keys that one transaction deletes at most."""

PLACE = ('agent', 'owner', 'tenant', 'key')


@dataclass(frozen=True, slots=True)
class KeyStatements:
    """The statements for one table of keys."""

    take_in_sqlite: Insert
    take_in_postgresql: Insert
    read: Select[Any]
    give_back: Delete
    delete_expired: Delete


def key_statements_of(keys: Table) -> KeyStatements:
    """Returns the statements for a table."""
    here = [keys.c[name] == bindparam(f'the_{name}') for name in PLACE]
    place = tuple_(*(keys.c[name] for name in PLACE))
    now: BindParameter[Any] = bindparam('now')
    expired = select(*(keys.c[name] for name in PLACE)).where(keys.c.expires_at <= now)
    expired = expired.order_by(keys.c.expires_at).limit(bindparam('the_limit')).with_for_update(skip_locked=True)
    return KeyStatements(
        take_in_sqlite=_take(sqlite.insert(keys), keys),
        take_in_postgresql=_take(postgresql.insert(keys), keys),
        read=select(keys.c.task_id, keys.c.turn_id, keys.c.digest).where(*here),
        give_back=delete(keys).where(*here),
        delete_expired=delete(keys).where(place.in_(expired)),
    )


def _take(statement: sqlite.Insert | postgresql.Insert, keys: Table) -> Insert:
    """Inserts a key, or takes one that is free again, because it has expired or its task was deleted."""
    changed = {column.name: column for column in statement.excluded if column.name not in PLACE}
    is_free = or_(keys.c.expires_at <= bindparam('now'), keys.c.turn_id == bindparam('replaces'))
    values: dict[str, BindParameter[Any]] = {column.name: bindparam(f'the_{column.name}') for column in keys.c}
    return statement.values(values).on_conflict_do_update(index_elements=PLACE, set_=changed, where=is_free)


class KeyTable:
    """The table, inside of one transaction."""

    def __init__(self, running: Running, statements: KeyStatements) -> None:
        """Works on a connection."""
        self._running = running
        self._statements = statements

    async def take(self, scope: Scope, key: Key, task_id: str, now: int) -> Known | None:
        """Takes a key for a message; returns whose it is if it is another's."""
        statements = self._statements
        take = statements.take_in_sqlite if self._running.is_sqlite else statements.take_in_postgresql
        values = _place(scope, key) | {
            'the_digest': key.digest,
            'the_task_id': task_id,
            'the_turn_id': key.turn_id,
            'the_expires_at': key.expires_at,
            'now': now,
            'replaces': key.replaces or key.turn_id,
        }
        return None if await self._running.change(take, values) else await self.read(scope, key)

    async def read(self, scope: Scope, key: Key) -> Known | None:
        """Returns whose a key is."""
        for task_id, turn_id, digest in await self._running.rows(self._statements.read, _place(scope, key)):
            return Known(task_id, TurnId(turn_id), bytes(digest))
        return None

    async def give_back(self, scope: Scope, key: Key) -> None:
        """Frees a key that this transaction has taken: nothing came of its message."""
        await self._running.change(self._statements.give_back, _place(scope, key))


async def delete_expired(running: Running, statements: KeyStatements, now: int) -> int:
    """Deletes some of the keys that have expired; returns how many."""
    return await running.change(statements.delete_expired, {'now': now, 'the_limit': MOST_KEYS})


def _place(scope: Scope, key: Key) -> dict[str, Any]:
    return {'the_agent': scope.agent, 'the_owner': scope.owner, 'the_tenant': scope.tenant, 'the_key': key.name}
