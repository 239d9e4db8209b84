"""Webhooks are delivered: what finds the configs of a node.

Configs that were stored before begin at what their tasks have recorded by now: nobody expects what is long past.
"""

import sqlalchemy as sa
from alembic import context, op

revision = '0002'
down_revision = '0001'


def upgrade() -> None:
    """Makes the index, and moves what is there to the present."""
    prefix: str = context.config.attributes['prefix']
    configs = f'{prefix}push_configs'
    held = sa.text('node IS NOT NULL')
    op.create_index(f'{configs}_by_node', configs, ['node'], sqlite_where=held, postgresql_where=held)
    config, task = (
        sa.table(configs, sa.column('task_id'), sa.column('position')),
        sa.table(f'{prefix}tasks', sa.column('id'), sa.column('seq')),
    )
    seq = sa.select(task.c.seq).where(task.c.id == config.c.task_id).scalar_subquery()
    op.execute(sa.update(config).values(position=sa.func.coalesce(seq, config.c.position)))
