"""Brings the schema up to date, under a lock, so that any number of processes may start at once."""

from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, column, inspect, select, table
from sqlalchemy.ext.asyncio import AsyncConnection

from a2a_scribe.errors import SchemaError
from a2a_scribe.journal.sql.dialects import lock_schema

MIGRATIONS = Path(__file__).parent / 'migrations'


def version_table(prefix: str) -> str:
    """Returns the name of the table in which alembic keeps the schema's version."""
    return f'{prefix}alembic'


@dataclass(frozen=True, slots=True)
class Schema:
    """Where the schema of a database stands."""

    current: str | None
    """Its version, `None` without tables of ours."""
    newest: str
    """The version that this package makes."""
    is_known: bool
    """Whether this package knows the version; it does not know those of newer packages."""


async def schema_of(connection: AsyncConnection, prefix: str) -> Schema:
    """Reads the version of the schema, and changes nothing."""
    scripts = ScriptDirectory.from_config(_config(prefix))
    current = await connection.run_sync(_current_version, prefix)
    known = {script.revision for script in scripts.walk_revisions()}
    return Schema(current, scripts.get_current_head() or '', current is None or current in known)


async def bring_up_to_date(connection: AsyncConnection, prefix: str, *, create: bool) -> None:
    """Migrates to the newest version that this package knows, and commits.

    Raises:
        SchemaError: The schema is newer than this package; or it is missing or old and `create` is false.
    """
    config = _config(prefix)
    newest = ScriptDirectory.from_config(config).get_current_head()
    if await connection.run_sync(_current_version, prefix) == newest:
        await connection.rollback()
        return
    await connection.rollback()
    await lock_schema(connection)
    current = await connection.run_sync(_current_version, prefix)
    if current != newest:
        _refuse_what_is_not_ours(config, current, create=create)
        await connection.run_sync(_upgrade, config)
    await connection.commit()


def _config(prefix: str) -> Config:
    config = Config()
    config.set_main_option('script_location', str(MIGRATIONS))
    config.set_main_option('path_separator', 'os')
    config.attributes['prefix'] = prefix
    return config


def _current_version(connection: Connection, prefix: str) -> str | None:
    name = version_table(prefix)
    if not inspect(connection).has_table(name):
        return None
    version: str | None = connection.execute(select(column('version_num')).select_from(table(name))).scalar()
    return version


def _refuse_what_is_not_ours(config: Config, current: str | None, *, create: bool) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        raise SchemaError(f'The database schema {current} is newer than this version of a2a-scribe; upgrade a2a-scribe')
    if not create:
        state = 'has no tables of a2a-scribe' if current is None else f'is at schema {current}, which is too old'
        raise SchemaError(f'The database {state}, and create_table is off')


def _upgrade(connection: Connection, config: Config) -> None:
    config.attributes['connection'] = connection
    command.upgrade(config, 'head')
