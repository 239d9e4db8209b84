"""From what an operator names as the database to what the commands work with, and from what goes wrong to one line.

A command never makes a database by mistake, and only `db upgrade` changes a schema.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine

from a2a_scribe.cli.loading import check_folder
from a2a_scribe.errors import EnvironmentFault, SchemaError, ScribeError, SettingsError
from a2a_scribe.journal.opening import MEMORY, make_engine
from a2a_scribe.journal.sql.inspecting import Inspector
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.journal.sql.migrating import Schema

DONE, FOUND, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: all is well; something is wrong or was refused; the command could not work; Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which journal: a database, and what the names of its tables begin with."""

    database: str
    prefix: str

    @property
    def url(self) -> str:
        """The database as a URL: a path is one of an SQLite file."""
        return self.database if '://' in self.database else f'sqlite+aiosqlite:///{self.database}'

    @property
    def shown(self) -> str:
        """The database without its password."""
        try:
            return make_url(self.url).render_as_string(hide_password=True)
        except ArgumentError:
            return 'that is given'

    @property
    def file(self) -> Path | None:
        """The file of an SQLite database."""
        try:
            url = make_url(self.url)
        except ArgumentError:
            return None
        if url.get_backend_name() != 'sqlite' or not url.database or url.database.startswith((':', 'file:')):
            return None
        return Path(url.database)


@dataclass(frozen=True, slots=True)
class Site:
    """An open database."""

    engine: AsyncEngine
    inspector: Inspector
    journal: SqlJournal


@asynccontextmanager
async def connected(place: Place, *, may_create: bool = False) -> AsyncIterator[Site]:
    """Opens a database of any schema.

    Raises:
        SettingsError: It cannot be what is meant.
    """
    if place.database == MEMORY:
        raise SettingsError('database: memory is of the process that uses it; no command can look into it')
    file = place.file
    check_folder(place.url)
    if file is not None and not may_create and not file.is_file():
        raise SettingsError(f'there is no file {str(file)!r}')
    engine = make_engine(place.url)
    try:
        inspector = Inspector(engine, prefix=place.prefix)
        yield Site(engine, inspector, SqlJournal(engine, prefix=place.prefix, create=may_create, deadline=60.0))
    finally:
        await engine.dispose()


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[Site]:
    """Opens a database with a schema that this version knows and uses.

    Raises:
        SettingsError: It cannot be what is meant.
        SchemaError: It has no tables of ours, or others than this version uses.
        JournalUnavailableError: It cannot be reached.
    """
    async with connected(place) as site:
        told = trouble_with(await site.inspector.schema())
        if told:
            raise SchemaError(f'The database {place.shown} {told}')
        yield site


def trouble_with(schema: Schema) -> str:
    """Returns why this version cannot use a schema, and what to do; empty if it can."""
    if schema.current is None:
        return 'has no tables of a2a-scribe with this prefix: `a2a-scribe db upgrade` makes them'
    if not schema.is_known:
        return f'is at schema {schema.current}, which is newer than this version of a2a-scribe: upgrade a2a-scribe'
    if schema.current != schema.newest:
        return f'is at schema {schema.current}: `a2a-scribe db upgrade` brings it to {schema.newest}'
    return ''


def carry_out(place: Place, work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Does the work of a command on a loop of its own, and returns its exit code."""
    try:
        return asyncio.run(work())
    except KeyboardInterrupt:
        return INTERRUPTED
    except EnvironmentFault as error:
        return complain(f'the database {place.shown} cannot be used: {error}')
    except ScribeError as error:
        return complain(str(error))


def complain(problem: str, code: int = UNUSABLE) -> int:
    """Says in one line what is wrong; returns the exit code."""
    print(f'a2a-scribe: {" ".join(problem.split())}', file=sys.stderr)
    return code
