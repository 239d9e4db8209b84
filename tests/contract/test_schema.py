"""The schema: made once, by migrations that give what the tables say, and never confused with anybody else's."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from a2a.server.context import ServerCallContext
from a2a.server.tasks import DatabaseTaskStore as TheirStore
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Inspector, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from a2a_scribe import DatabaseTaskStore
from a2a_scribe.errors import SchemaError
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.journal.sql.migrating import version_table
from a2a_scribe.journal.sql.tables import DEFAULT_PREFIX, tables_of
from a2a_scribe.protocol.types import Task, TaskState, TaskStatus
from a2a_scribe.testing.journal_contract import born, check
from a2a_scribe.testing.journal_driver import ALICE, ScriptedNode

pytestmark = pytest.mark.anyio

TABLES = {'tasks', 'records', 'inbox', 'push_configs', 'idempotency', 'nodes', 'alembic'}
FRESH = 'fresh_'


@pytest.fixture(params=['sqlite_url', 'postgres_database_url'])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.fixture
async def engine(url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(url)
    yield engine
    await engine.dispose()


async def table_names(engine: AsyncEngine) -> set[str]:
    async with engine.connect() as connection:
        return set(await connection.run_sync(lambda sync: inspect(sync).get_table_names()))


def differences(connection: Connection) -> list[Any]:
    """What alembic would change to make the database what the tables say."""
    ours = tables_of(DEFAULT_PREFIX).metadata
    context = MigrationContext.configure(
        connection,
        opts={
            'compare_type': True,
            'compare_server_default': True,
            'include_name': lambda name, kind, parents: kind != 'table' or name in ours.tables,
        },
    )
    return list(compare_metadata(context, ours))


def description(connection: Connection, prefix: str) -> dict[str, Any]:
    """All that a database knows of our tables, without the prefix."""
    inspector = inspect(connection)

    def bare(value: object) -> str:
        plain = {key: str(entry) for key, entry in value.items()} if isinstance(value, dict) else value
        return repr(plain).replace(prefix, '')

    return {
        name.removeprefix(prefix): {
            'columns': [bare(column) for column in inspector.get_columns(name)],
            'key': bare(inspector.get_pk_constraint(name)['constrained_columns']),
            'indexes': sorted(bare(index) for index in indexes_of(inspector, name)),
            'unique': sorted(bare(unique) for unique in inspector.get_unique_constraints(name)),
            'definition': definition(connection, name).replace(prefix, ''),
        }
        for name in inspector.get_table_names()
        if name.startswith(prefix) and name != version_table(prefix)
    }


def indexes_of(inspector: Inspector, table_name: str) -> list[dict[str, object]]:
    """The indexes of a table, with the conditions of partial ones as text."""
    indexes = inspector.get_indexes(table_name)
    return [{**index, 'dialect_options': str_of(index.get('dialect_options', {}))} for index in indexes]


def str_of(options: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in options.items()}


def definition(connection: Connection, name: str) -> str:
    """The statement that SQLite keeps of a table, with what no inspector shows, or PostgreSQL's collations."""
    if connection.dialect.name == 'sqlite':
        wanted = text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name")
    else:
        wanted = text(
            "SELECT string_agg(column_name || ' ' || coalesce(collation_name, '-'), ', ' ORDER BY ordinal_position) "
            'FROM information_schema.columns WHERE table_name = :name'
        )
    return ' '.join(str(connection.execute(wanted, {'name': name}).scalar_one()).split())


async def test_migrations_give_what_the_tables_say(engine: AsyncEngine) -> None:
    await SqlJournal(engine).open()
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []


async def test_migrated_and_fresh_tables_are_the_same_to_the_last_detail(engine: AsyncEngine) -> None:
    await SqlJournal(engine).open()
    async with engine.begin() as connection:
        await connection.run_sync(tables_of(FRESH).metadata.create_all)
        migrated = await connection.run_sync(description, DEFAULT_PREFIX)
        fresh = await connection.run_sync(description, FRESH)
    assert migrated.keys() | {'alembic'} == TABLES
    assert migrated == fresh


async def test_keys_compare_bytewise(engine: AsyncEngine) -> None:
    await SqlJournal(engine).open()
    async with engine.connect() as connection:
        described = await connection.run_sync(definition, f'{DEFAULT_PREFIX}tasks')
    if engine.dialect.name == 'postgresql':
        assert 'id C,' in described
        assert 'context_id C,' in described


async def test_opening_makes_our_tables_and_no_others(engine: AsyncEngine) -> None:
    journal = SqlJournal(engine)
    await journal.open()
    await journal.open()
    assert await table_names(engine) == {f'{DEFAULT_PREFIX}{name}' for name in TABLES}


async def test_many_may_open_an_empty_database_at_once(url: str) -> None:
    engines = [create_async_engine(url) for _ in range(6)]
    await asyncio.gather(*(SqlJournal(engine).open() for engine in engines))
    assert await table_names(engines[0]) == {f'{DEFAULT_PREFIX}{name}' for name in TABLES}
    for engine in engines:
        await engine.dispose()


async def test_a_newer_schema_is_refused(engine: AsyncEngine) -> None:
    await SqlJournal(engine).open()
    async with engine.begin() as connection:
        await connection.execute(text(f"UPDATE {version_table(DEFAULT_PREFIX)} SET version_num = '9999'"))
    for create in (True, False):
        with pytest.raises(SchemaError, match='9999 is newer'):
            await SqlJournal(engine, create=create).open()
    async with engine.connect() as connection:
        version = await connection.scalar(text(f'SELECT version_num FROM {version_table(DEFAULT_PREFIX)}'))
    assert version == '9999'


async def test_without_create_table_nothing_is_made(engine: AsyncEngine) -> None:
    store = DatabaseTaskStore(engine, create_table=False)
    with pytest.raises(SchemaError, match='has no tables of a2a-scribe'):
        await store.initialize()
    assert await table_names(engine) == set()
    await DatabaseTaskStore(engine).initialize()
    await store.initialize()


async def test_prefixes_keep_journals_apart(engine: AsyncEngine) -> None:
    journals = [SqlJournal(engine, prefix=prefix) for prefix in ('one_', 'two_')]
    tasks = []
    for journal in journals:
        await journal.open()
        node = await ScriptedNode(journal, 'node').register()
        tasks.append(await born(node, 'task'))
        await node.commit(tasks[-1].append(*[tasks[-1].chunk('text')] * len(tasks)))
    for journal, task in zip(journals, tasks, strict=True):
        await check(journal, task)
    assert await table_names(engine) == {f'{prefix}{name}' for prefix in ('one_', 'two_') for name in TABLES}


async def test_table_names_keep_stores_apart(engine: AsyncEngine) -> None:
    stores = [DatabaseTaskStore(engine), DatabaseTaskStore(engine, table_name='other')]
    context = ServerCallContext()
    await stores[0].save(Task(id='task', status=TaskStatus(state=TaskState.TASK_STATE_WORKING)), context)
    assert await stores[1].get('task', context) is None
    assert await stores[0].get('task', context) is not None
    names = await table_names(engine)
    assert {'scribe_tasks', 'scribe_other_tasks', 'scribe_alembic', 'scribe_other_alembic'} <= names


@pytest.mark.parametrize('prefix', ["it's ", 'with "quotes"', 'Größe_', '%s_'])
async def test_any_prefix_will_do(engine: AsyncEngine, prefix: str) -> None:
    journal = SqlJournal(engine, prefix=prefix)
    await journal.open()
    await journal.open()
    await SqlJournal(engine, prefix=prefix).open()
    await check(journal, await born(await ScriptedNode(journal, 'node').register(), 'task'))


async def test_sqlite_is_durable_on_every_connection(sqlite_url: str) -> None:
    engine = create_async_engine(sqlite_url, pool_size=3)
    journal = SqlJournal(engine)
    await journal.open()
    node = await ScriptedNode(journal, 'node').register()
    await asyncio.gather(*(journal.read_task('task', ALICE) for _ in range(3)))
    await born(node, 'task')
    held = [await engine.connect() for _ in range(engine.pool.checkedin())]  # type: ignore[attr-defined]
    assert held
    for connection in held:
        assert await connection.scalar(text('PRAGMA journal_mode')) == 'wal'
        assert await connection.scalar(text('PRAGMA synchronous')) == 2
        await connection.close()
    await engine.dispose()


async def test_the_writing_connection_is_durable_while_it_writes(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = create_async_engine(sqlite_url, pool_size=1, max_overflow=0)
    journal = SqlJournal(engine)
    await journal.open()
    await born(await ScriptedNode(journal, 'node').register(), 'task')
    async with engine.connect() as connection:
        assert await connection.scalar(text('PRAGMA journal_mode')) == 'wal'
        assert await connection.scalar(text('PRAGMA synchronous')) == 2
    await engine.dispose()


async def test_tasks_in_the_table_of_a2a_sdk_are_counted(engine: AsyncEngine, caplog: pytest.LogCaptureFixture) -> None:
    theirs, context = TheirStore(engine), ServerCallContext()
    for number in range(3):
        await theirs.save(Task(id=f'{number}', status=TaskStatus(state=TaskState.TASK_STATE_WORKING)), context)
    store = DatabaseTaskStore(engine)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            await store.initialize()
    [warning] = [entry.getMessage() for entry in caplog.records if entry.name.startswith('a2a_scribe')]
    assert "table 'tasks' of a2a-sdk holds 3 tasks" in warning


async def test_an_empty_table_of_a2a_sdk_is_passed_over(engine: AsyncEngine, caplog: pytest.LogCaptureFixture) -> None:
    await TheirStore(engine).initialize()
    await DatabaseTaskStore(engine).initialize()
    assert not [entry for entry in caplog.records if entry.name.startswith('a2a_scribe')]
