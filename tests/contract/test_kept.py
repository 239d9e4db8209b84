"""A connection of SQLite is kept for the next transaction, one for the next reading, until the journal is closed."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import NullPool, QueuePool, event, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from a2a_scribe.errors import JournalUnavailableError
from a2a_scribe.journal.sql.access import READERS, Access
from a2a_scribe.journal.sql.running import Running


@pytest.fixture
async def engine(sqlite_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(sqlite_url)
    yield engine
    await engine.dispose()


def in_use(engine: AsyncEngine) -> int:
    pool = engine.sync_engine.pool
    assert isinstance(pool, QueuePool)
    return pool.checkedout()


async def do_nothing(_: Running) -> None: ...


async def fail(running: Running) -> None:
    await running.rows(text('SELECT * FROM nowhere'), {})


async def test_one_connection_each_is_kept_until_the_journal_is_closed(engine: AsyncEngine) -> None:
    access = Access(engine, deadline=5)
    for _ in range(3):
        await access.write(do_nothing)
        assert in_use(engine) == 1
    for _ in range(3):
        await access.read(do_nothing)
        assert in_use(engine) == 2
    await access.close()
    assert in_use(engine) == 0


async def test_many_who_read_at_once_take_turns_on_a_few_connections(engine: AsyncEngine) -> None:
    access, opened = Access(engine, deadline=5), list[object]()
    event.listen(engine.sync_engine, 'connect', lambda *given: opened.append(given[0]))
    await asyncio.gather(*(access.read(do_nothing) for _ in range(100)))
    assert len(opened) <= READERS
    assert in_use(engine) == 1
    await access.close()


async def test_one_with_which_something_failed_goes_back(engine: AsyncEngine) -> None:
    access = Access(engine, deadline=5)
    await access.write(do_nothing)
    for fails in (access.write, access.read):
        with pytest.raises(JournalUnavailableError):
            await fails(fail)
        assert in_use(engine) == (fails == access.read)
        await fails(do_nothing)
    await access.close()


async def test_none_is_kept_where_there_is_no_other(sqlite_url: str) -> None:
    engine = create_async_engine(sqlite_url, pool_size=1, max_overflow=0)
    access = Access(engine, deadline=5)
    await access.write(do_nothing)
    assert in_use(engine) == 0
    await access.read(do_nothing)
    await engine.dispose()


async def test_one_is_kept_where_each_is_made_anew(sqlite_url: str) -> None:
    engine = create_async_engine(sqlite_url, poolclass=NullPool)
    access, seen = Access(engine, deadline=5), set[int]()

    async def look(running: Running) -> None:
        await running.change(text('CREATE TEMP TABLE IF NOT EXISTS marks (mark INTEGER)'), {})
        await running.change(text('INSERT INTO marks VALUES (1)'), {})
        ((count,),) = await running.rows(text('SELECT count(*) FROM marks'), {})
        seen.add(count)

    for _ in range(3):
        await access.write(look)
    assert seen == {1, 2, 3}
    await access.close()


async def test_work_that_waits_for_something_else_is_refused(engine: AsyncEngine) -> None:
    access = Access(engine, deadline=5)

    elsewhere = asyncio.get_running_loop().create_future()

    async def wait(_: Running) -> None:
        await elsewhere

    with pytest.raises(RuntimeError, match='waited for something else'):
        await access.write(wait)
    await access.write(do_nothing)
    await access.close()
