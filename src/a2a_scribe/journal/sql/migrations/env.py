"""Alembic's entry: runs the migrations on the connection and inside the transaction that it is given."""

from alembic import context

from a2a_scribe.journal.sql.migrating import version_table
from a2a_scribe.journal.sql.tables import tables_of

prefix: str = context.config.attributes['prefix']
context.configure(
    connection=context.config.attributes['connection'],
    target_metadata=tables_of(prefix).metadata,
    version_table=version_table(prefix),
    transactional_ddl=False,
)
context.run_migrations()
