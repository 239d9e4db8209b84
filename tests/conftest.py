"""Fixtures for all tests: the event loop, and an empty database of each kind."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer, running_postgres

pytest.register_assert_rewrite('a2a_scribe.testing')


@pytest.fixture(scope='session')
def anyio_backend() -> str:
    """Runs coroutine tests on asyncio, the only loop that a2a-scribe knows."""
    return 'asyncio'


@pytest.fixture(scope='session')
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL server for the whole run; without one, CI fails and everybody else is told what was skipped."""
    try:
        context = running_postgres()
        server = context.__enter__()
    except (OSError, subprocess.SubprocessError) as error:
        give_up = pytest.fail if os.environ.get('CI') else pytest.skip
        give_up(f'PostgreSQL does not start here: {error!r}')
    yield server
    context.__exit__(None, None, None)


@pytest.fixture(scope='session')
def postgres_url(postgres_server: PostgresServer) -> str:
    """The URL of the server's own database, which all tests share; for a test's data, `postgres_database_url`."""
    return postgres_server.url()


@pytest.fixture
def postgres_database_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty PostgreSQL database of the test's own."""
    with postgres_server.new_database() as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of an SQLite file of the test's own, which does not exist yet."""
    return f'sqlite+aiosqlite:///{tmp_path / "scribe.db"}'
