"""What differs between databases: how a writing transaction begins, how errors are read, how the schema is locked."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, DisconnectionError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from a2a_scribe.errors import (
    EnvironmentFault,
    JournalBusyError,
    JournalRefusedError,
    JournalUnavailableError,
    SettingsError,
)

SUPPORTED = ('sqlite', 'postgresql')

SCHEMA_LOCK = 0x5C71BE
"""The key of the advisory lock under which PostgreSQL's schema is brought up to date."""

REFUSED_CLASSES = ('0A', '21', '22', '23', '42', '44', '54', 'P0')
"""Classes of SQLSTATE that say that the same statement would fail again."""

REFUSED_SQLITE = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE)
"""Primary result codes of SQLite that say the same."""

BUSY_SQLITE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
"""Primary result codes of SQLite for a lock that somebody else holds."""


def check_dialect(engine: AsyncEngine) -> None:
    """Refuses databases that the journal does not know.

    Raises:
        SettingsError: The dialect is not supported.
    """
    if engine.dialect.name not in SUPPORTED:
        raise SettingsError(f'database: {engine.dialect.name} is not supported, only {" and ".join(SUPPORTED)}')


def is_sqlite(engine: AsyncEngine) -> bool:
    """Whether the database is SQLite."""
    return engine.dialect.name == 'sqlite'


def lock_directory(engine: AsyncEngine) -> Path | None:
    """Returns a directory for lock files beside an SQLite file, `None` for any other database."""
    file = engine.url.database
    if not is_sqlite(engine) or not file or file == ':memory:' or file.startswith('file:'):
        return None
    return Path(f'{file}-nodes').absolute()


def shares_one_connection(engine: AsyncEngine) -> bool:
    """Whether all that use the engine use the same connection, as an in-memory SQLite does."""
    return isinstance(engine.sync_engine.pool, StaticPool | SingletonThreadPool)


async def lock_schema(connection: AsyncConnection) -> None:
    """Begins a transaction in which nobody else changes the schema."""
    if connection.dialect.name == 'sqlite':
        await connection.exec_driver_sql('BEGIN EXCLUSIVE')
    else:
        await connection.execute(text('SELECT pg_advisory_xact_lock(:key)'), {'key': SCHEMA_LOCK})


async def stored_bytes(connection: AsyncConnection, names: Sequence[str]) -> int | None:
    """Returns what is on disk: the file of SQLite, `None` without one; of a server, the tables of these names."""
    if connection.dialect.name == 'sqlite':
        files = [Path(f'{connection.engine.url.database}{ending}') for ending in ('', '-wal')]
        return sum(file.stat().st_size for file in files if file.is_file()) or None
    size = text('SELECT coalesce(pg_total_relation_size(to_regclass(:name)), 0)')
    return sum([int((await connection.execute(size, {'name': name})).scalar_one()) for name in names])


def translate(error: Exception) -> EnvironmentFault:
    """Returns a driver's error as ours: whether it makes sense to try again."""
    code = _sqlite_code(error)
    if code in BUSY_SQLITE:
        return JournalBusyError(_first_line(error))
    if code is not None:
        kind = JournalRefusedError if code in REFUSED_SQLITE else JournalUnavailableError
        return kind(_first_line(error))
    refused = isinstance(error, DBAPIError) and not error.connection_invalidated and _is_refused(error)
    refused = refused or not isinstance(
        error, DBAPIError | DisconnectionError | PoolTimeoutError | OSError | TimeoutError
    )
    fault = JournalRefusedError if refused else JournalUnavailableError
    return fault(f'{type(error).__name__}: {_first_line(error)}')


def cause_of(error: Exception) -> BaseException | None:
    """Returns the driver's own error: SQLAlchemy's also tells the values of the statement, which may be secret."""
    return error.orig if isinstance(error, DBAPIError) else error


def _is_refused(error: DBAPIError) -> bool:
    original: object = error.orig
    while original is not None:
        sqlstate = getattr(original, 'sqlstate', None)
        if isinstance(sqlstate, str):
            return sqlstate[:2] in REFUSED_CLASSES
        original = getattr(original, '__cause__', None)
    return isinstance(error, IntegrityError)


def _sqlite_code(error: Exception) -> int | None:
    """Returns the primary result code of SQLite, `None` if the error is not SQLite's."""
    code = getattr(error.orig if isinstance(error, DBAPIError) else error, 'sqlite_errorcode', None)
    return code & 0xFF if isinstance(code, int) else None


def _first_line(error: Exception) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return 'a transaction took longer than transaction_deadline'
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return str(cause).partition('\n')[0]


DATABASE_ERRORS = (SQLAlchemyError, sqlite3.Error, OSError, TimeoutError, OverflowError, UnicodeError)
"""What drivers and pools raise."""
