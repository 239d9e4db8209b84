"""${message}"""

from alembic import context, op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Adds what is new; never takes anything away."""
    prefix: str = context.config.attributes['prefix']
    ${upgrades if upgrades else 'op.execute("")'}
