"""The tables. Migrations make the same ones; a test compares the two.

Times are microseconds since the epoch, UTC. Text keys compare bytewise. Bodies are bytes, so any text survives.
"""

from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import TEXT, VARCHAR
from sqlalchemy.types import TypeEngine

DEFAULT_PREFIX = 'scribe_'


def key_type() -> TypeEngine[str]:
    """Returns the type of a text key: up to 255 characters, compared bytewise."""
    return String(255).with_variant(VARCHAR(255, collation='C'), 'postgresql')


def note_type() -> TypeEngine[str]:
    """Returns the type of a text of any length."""
    return Text().with_variant(TEXT(), 'postgresql')


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one prefix."""

    metadata: MetaData
    tasks: Table
    records: Table
    inbox: Table
    push_configs: Table
    idempotency: Table
    nodes: Table


@lru_cache(maxsize=64)
def tables_of(prefix: str) -> Tables:
    """Returns the tables whose names begin with `prefix`."""
    metadata = MetaData()
    return Tables(
        metadata,
        _tasks(metadata, prefix),
        _records(metadata, prefix),
        _inbox(metadata, prefix),
        _push_configs(metadata, prefix),
        _idempotency(metadata, prefix),
        _nodes(metadata, prefix),
    )


def _tasks(metadata: MetaData, prefix: str) -> Table:
    name = f'{prefix}tasks'
    scope = ('agent', 'owner', 'tenant')
    return Table(
        name,
        metadata,
        Column('id', key_type(), primary_key=True),
        Column('agent', key_type(), nullable=False),
        Column('owner', key_type(), nullable=False),
        Column('tenant', key_type(), nullable=False),
        Column('context_id', key_type(), nullable=False),
        Column('state', SmallInteger, nullable=False),
        Column('status_time', BigInteger, nullable=False),
        Column('created_at', BigInteger, nullable=False),
        Column('seq', BigInteger, nullable=False),
        Column('snapshot', LargeBinary),
        Column('snapshot_seq', BigInteger, nullable=False),
        Column('node', key_type()),
        Column('epoch', Integer, nullable=False),
        Column('open_turn', key_type()),
        Column('attempt', Integer, nullable=False),
        Column('size', BigInteger, nullable=False),
        Index(f'{name}_by_time', *scope, 'status_time', 'id'),
        Index(f'{name}_by_context', *scope, 'context_id', 'status_time', 'id'),
        Index(f'{name}_by_state', *scope, 'state', 'status_time', 'id'),
        Index(
            f'{name}_by_node',
            'node',
            sqlite_where=text('node IS NOT NULL'),
            postgresql_where=text('node IS NOT NULL'),
        ),
    )


def _records(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f'{prefix}records',
        metadata,
        Column('task_id', key_type(), primary_key=True),
        Column('seq', BigInteger, primary_key=True, autoincrement=False),
        Column('kind', String(16), nullable=False),
        Column('body', LargeBinary, nullable=False),
        Column('recorded_at', BigInteger, nullable=False),
        Column('note', note_type()),
        sqlite_with_rowid=False,
    )


def _inbox(metadata: MetaData, prefix: str) -> Table:
    name = f'{prefix}inbox'
    return Table(
        name,
        metadata,
        Column('id', BigInteger().with_variant(Integer, 'sqlite'), primary_key=True, autoincrement=True),
        Column('task_id', key_type(), nullable=False),
        Column('turn_id', key_type(), nullable=False),
        Column('kind', String(16), nullable=False),
        Column('body', LargeBinary, nullable=False),
        Column('node', key_type(), nullable=False),
        Column('created_at', BigInteger, nullable=False),
        Column('expires_at', BigInteger),
        UniqueConstraint('turn_id', name=f'{name}_turn'),
        Index(f'{name}_by_task', 'task_id', 'id'),
    )


def _push_configs(metadata: MetaData, prefix: str) -> Table:
    name = f'{prefix}push_configs'
    return Table(
        name,
        metadata,
        Column('task_id', key_type(), primary_key=True),
        Column('config_id', key_type(), primary_key=True),
        Column('owner', key_type(), nullable=False),
        Column('tenant', key_type(), nullable=False),
        Column('body', LargeBinary, nullable=False),
        Column('position', BigInteger, nullable=False),
        Column('attempts', Integer, nullable=False),
        Column('next_attempt_at', BigInteger),
        Column('failing_since', BigInteger),
        Column('state', String(16), nullable=False),
        Column('last_error', note_type()),
        Column('node', key_type()),
        Index(
            f'{name}_by_node',
            'node',
            sqlite_where=text('node IS NOT NULL'),
            postgresql_where=text('node IS NOT NULL'),
        ),
    )


def _idempotency(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f'{prefix}idempotency',
        metadata,
        Column('agent', key_type(), primary_key=True),
        Column('owner', key_type(), primary_key=True),
        Column('tenant', key_type(), primary_key=True),
        Column('key', key_type(), primary_key=True),
        Column('digest', LargeBinary, nullable=False),
        Column('task_id', key_type(), nullable=False),
        Column('turn_id', key_type(), nullable=False),
        Column('expires_at', BigInteger, nullable=False),
        Index(f'{prefix}idempotency_by_expiry', 'expires_at'),
        Index(f'{prefix}idempotency_by_task', 'task_id'),
    )


def _nodes(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f'{prefix}nodes',
        metadata,
        Column('id', key_type(), primary_key=True),
        Column('agent', key_type(), nullable=False),
        Column('name', key_type(), nullable=False),
        Column('started_at', BigInteger, nullable=False),
        Column('commit_no', BigInteger, nullable=False),
        Column('state', String(16), nullable=False),
    )
