"""The journal: tasks, records, inbox, push configs, idempotency keys, nodes."""

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects.postgresql import TEXT, VARCHAR

revision = '0001'
down_revision = None

SCOPE = ('agent', 'owner', 'tenant')


def key() -> sa.types.TypeEngine[str]:
    """Returns the type of a text key."""
    return sa.String(255).with_variant(VARCHAR(255, collation='C'), 'postgresql')


def note() -> sa.types.TypeEngine[str]:
    """Returns the type of a text of any length."""
    return sa.Text().with_variant(TEXT(), 'postgresql')


def upgrade() -> None:
    """Makes the tables."""
    prefix: str = context.config.attributes['prefix']
    _make_tasks(f'{prefix}tasks')
    _make_records(f'{prefix}records')
    _make_inbox(f'{prefix}inbox')
    _make_push_configs(f'{prefix}push_configs')
    _make_idempotency(f'{prefix}idempotency')
    _make_nodes(f'{prefix}nodes')


def _make_tasks(name: str) -> None:
    op.create_table(
        name,
        sa.Column('id', key(), primary_key=True),
        sa.Column('agent', key(), nullable=False),
        sa.Column('owner', key(), nullable=False),
        sa.Column('tenant', key(), nullable=False),
        sa.Column('context_id', key(), nullable=False),
        sa.Column('state', sa.SmallInteger, nullable=False),
        sa.Column('status_time', sa.BigInteger, nullable=False),
        sa.Column('created_at', sa.BigInteger, nullable=False),
        sa.Column('seq', sa.BigInteger, nullable=False),
        sa.Column('snapshot', sa.LargeBinary),
        sa.Column('snapshot_seq', sa.BigInteger, nullable=False),
        sa.Column('node', key()),
        sa.Column('epoch', sa.Integer, nullable=False),
        sa.Column('open_turn', key()),
        sa.Column('attempt', sa.Integer, nullable=False),
        sa.Column('size', sa.BigInteger, nullable=False),
    )
    op.create_index(f'{name}_by_time', name, [*SCOPE, 'status_time', 'id'])
    op.create_index(f'{name}_by_context', name, [*SCOPE, 'context_id', 'status_time', 'id'])
    op.create_index(f'{name}_by_state', name, [*SCOPE, 'state', 'status_time', 'id'])
    owned = sa.text('node IS NOT NULL')
    op.create_index(f'{name}_by_node', name, ['node'], sqlite_where=owned, postgresql_where=owned)


def _make_records(name: str) -> None:
    op.create_table(
        name,
        sa.Column('task_id', key(), primary_key=True),
        sa.Column('seq', sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column('kind', sa.String(16), nullable=False),
        sa.Column('body', sa.LargeBinary, nullable=False),
        sa.Column('recorded_at', sa.BigInteger, nullable=False),
        sa.Column('note', note()),
        sqlite_with_rowid=False,
    )


def _make_inbox(name: str) -> None:
    number = sa.BigInteger().with_variant(sa.Integer, 'sqlite')
    op.create_table(
        name,
        sa.Column('id', number, primary_key=True, autoincrement=True),
        sa.Column('task_id', key(), nullable=False),
        sa.Column('turn_id', key(), nullable=False),
        sa.Column('kind', sa.String(16), nullable=False),
        sa.Column('body', sa.LargeBinary, nullable=False),
        sa.Column('node', key(), nullable=False),
        sa.Column('created_at', sa.BigInteger, nullable=False),
        sa.Column('expires_at', sa.BigInteger),
        sa.UniqueConstraint('turn_id', name=f'{name}_turn'),
    )
    op.create_index(f'{name}_by_task', name, ['task_id', 'id'])


def _make_push_configs(name: str) -> None:
    op.create_table(
        name,
        sa.Column('task_id', key(), primary_key=True),
        sa.Column('config_id', key(), primary_key=True),
        sa.Column('owner', key(), nullable=False),
        sa.Column('tenant', key(), nullable=False),
        sa.Column('body', sa.LargeBinary, nullable=False),
        sa.Column('position', sa.BigInteger, nullable=False),
        sa.Column('attempts', sa.Integer, nullable=False),
        sa.Column('next_attempt_at', sa.BigInteger),
        sa.Column('failing_since', sa.BigInteger),
        sa.Column('state', sa.String(16), nullable=False),
        sa.Column('last_error', note()),
        sa.Column('node', key()),
    )


def _make_idempotency(name: str) -> None:
    op.create_table(
        name,
        sa.Column('agent', key(), primary_key=True),
        sa.Column('owner', key(), primary_key=True),
        sa.Column('tenant', key(), primary_key=True),
        sa.Column('key', key(), primary_key=True),
        sa.Column('digest', sa.LargeBinary, nullable=False),
        sa.Column('task_id', key(), nullable=False),
        sa.Column('turn_id', key(), nullable=False),
        sa.Column('expires_at', sa.BigInteger, nullable=False),
    )
    op.create_index(f'{name}_by_expiry', name, ['expires_at'])
    op.create_index(f'{name}_by_task', name, ['task_id'])


def _make_nodes(name: str) -> None:
    op.create_table(
        name,
        sa.Column('id', key(), primary_key=True),
        sa.Column('agent', key(), nullable=False),
        sa.Column('name', key(), nullable=False),
        sa.Column('started_at', sa.BigInteger, nullable=False),
        sa.Column('commit_no', sa.BigInteger, nullable=False),
        sa.Column('state', sa.String(16), nullable=False),
    )
