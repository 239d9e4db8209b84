"""Connections of SQLite are kept for those who write next and for those who read next, as long as their engine is."""

import asyncio
import gc
import os
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from sqlalchemy import NullPool, QueuePool, event, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from a2a_scribe.errors import JournalUnavailableError
from a2a_scribe.journal.sql.access import Access
from a2a_scribe.journal.sql.connected import Connected
from a2a_scribe.journal.sql.kept import READERS
from a2a_scribe.journal.sql.running import Running
from tests.support.pools import watched


@pytest.fixture
async def engine(sqlite_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(sqlite_url)
    yield engine
    await engine.dispose()


def files_at(file: Path) -> list[str]:
    return [each.name for each in file.parent.iterdir()]


async def do_nothing(_: Running) -> None: ...


async def look(_: Connected) -> None: ...


async def fail(running: Running) -> None:
    await running.rows(text('SELECT * FROM nowhere'), {})


async def test_two_are_kept_until_a_journal_is_closed(engine: AsyncEngine) -> None:
    access, seen = Access(engine, deadline=5), watched(engine)
    for _ in range(3):
        await access.write(do_nothing)
        await access.read(do_nothing)
    assert seen == {'opened': 2}
    await access.close()
    assert seen == {'opened': 2, 'closed': 2}


async def test_they_are_closed_with_their_engine(engine: AsyncEngine) -> None:
    access, seen = Access(engine, deadline=5), watched(engine)
    for opened in (2, 4):
        await access.write(do_nothing)
        await access.read(do_nothing)
        await engine.dispose()
        assert seen == {'opened': opened, 'closed': opened}


async def test_one_that_is_used_while_its_engine_is_disposed_of_is_closed_afterwards(engine: AsyncEngine) -> None:
    access, seen = Access(engine, deadline=5), watched(engine)
    await access.write(do_nothing)
    loop, going = asyncio.get_running_loop(), asyncio.Event()

    async def dispose_in_the_middle(_: Running) -> None:
        """Runs in the thread."""
        asyncio.run_coroutine_threadsafe(engine.dispose(), loop).result()
        loop.call_soon_threadsafe(going.set)

    await access.write(dispose_in_the_middle)
    await going.wait()
    assert seen['opened'] == 1
    await access.write(do_nothing)
    assert seen['opened'] == 2


async def test_one_that_is_used_while_a_journal_is_closed_is_closed_afterwards(engine: AsyncEngine) -> None:
    access, seen = Access(engine, deadline=5), watched(engine)
    begun, go_on = asyncio.Event(), threading.Event()
    tell = asyncio.get_running_loop().call_soon_threadsafe

    async def linger(_: Running) -> None:
        """Runs in the thread."""
        tell(begun.set)
        go_on.wait(5)

    writing = asyncio.create_task(access.write(linger))
    await begun.wait()
    await access.close()
    go_on.set()
    await writing
    await engine.dispose()
    assert seen == {'opened': 1, 'closed': 1}


async def test_none_outlives_its_engine(engine: AsyncEngine, sqlite_url: str) -> None:
    """The file may be another one afterwards."""
    access, file = Access(engine, deadline=5), Path(make_url(sqlite_url).database or '')
    await access.write(do_nothing)
    await access.read(do_nothing)
    await engine.dispose()
    assert files_at(file) == [file.name], 'nobody has it open'
    file.unlink()  # noqa: ASYNC240 - nothing else is to happen meanwhile
    await access.write(do_nothing)
    assert file.name in files_at(file)


@pytest.mark.filterwarnings('ignore::ResourceWarning')
@pytest.mark.parametrize('options', [{}, {'poolclass': NullPool}], ids=['queue', 'null'])
async def test_nothing_is_left_of_an_engine_that_nobody_has_any_more(
    sqlite_url: str, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The thread's last errand does not hold it."""
    access = Access(create_async_engine(sqlite_url, **options), deadline=5)
    before = set(threading.enumerate())

    async def work(used: Access, _: Running) -> None:
        assert used is access_of()

    access_of = ref(access)
    await access.write(partial(work, access))
    (thread,) = set(threading.enumerate()) - before
    del access
    gc.collect()
    assert access_of() is None
    thread.join(5)
    assert not thread.is_alive()
    assert caplog.records == []


@pytest.mark.filterwarnings('ignore::ResourceWarning')
async def test_a_child_uses_no_connection_of_its_parent(engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread is not there."""
    access, seen = Access(engine, deadline=5), watched(engine)
    before = set(threading.enumerate())
    await access.write(do_nothing)
    monkeypatch.setattr(os, 'getpid', lambda: -1)
    await access.write(do_nothing)
    assert seen['opened'] == 2
    await engine.dispose()
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive()


async def test_one_that_somebody_has_closed_is_given_up(engine: AsyncEngine) -> None:
    access, driver = Access(engine, deadline=5), list[Any]()
    event.listen(engine.sync_engine, 'connect', lambda made, _: driver.append(made.driver_connection))
    await access.write(do_nothing)
    await driver[0].close()
    with pytest.raises(ValueError, match=r'[Cc]onnection'):
        await access.write(do_nothing)
    await access.write(do_nothing)


async def test_journals_on_one_engine_share_them(engine: AsyncEngine) -> None:
    seen = watched(engine)
    for _ in range(3):
        await Access(engine, deadline=5).write(do_nothing)
        gc.collect()
    assert seen == {'opened': 1}


async def test_many_who_read_at_once_take_turns_on_a_few(engine: AsyncEngine) -> None:
    access, seen = Access(engine, deadline=5), watched(engine)
    await asyncio.gather(*(access.read(do_nothing) for _ in range(100)))
    assert seen['opened'] <= READERS
    await access.close()


async def test_one_with_which_something_failed_is_not_kept(engine: AsyncEngine) -> None:
    access, seen = Access(engine, deadline=5), watched(engine)
    for attempt in (access.write, access.read):
        await attempt(do_nothing)
        closed = seen['closed']
        with pytest.raises(JournalUnavailableError):
            await attempt(fail)
        assert seen['closed'] == closed + 1
        await attempt(do_nothing)


async def test_they_take_nothing_from_a_small_pool(sqlite_url: str) -> None:
    engine = create_async_engine(sqlite_url, pool_size=1, max_overflow=0, pool_timeout=1)
    access = Access(engine, deadline=5)
    await access.write(do_nothing)
    await access.read(do_nothing)
    await access.look(look)
    pool = engine.sync_engine.pool
    assert isinstance(pool, QueuePool)
    assert pool.checkedout() == 0
    await engine.dispose()


async def test_one_is_kept_where_each_is_made_anew(sqlite_url: str) -> None:
    engine = create_async_engine(sqlite_url, poolclass=NullPool)
    access, seen = Access(engine, deadline=5), watched(engine)
    for _ in range(3):
        await access.write(do_nothing)
    assert seen['opened'] == 1
    await engine.dispose()


async def test_none_is_kept_of_a_server(postgres_database_url: str) -> None:
    engine = create_async_engine(postgres_database_url, pool_size=1, max_overflow=0)
    access, seen = Access(engine, deadline=5), watched(engine)
    for _ in range(3):
        await access.write(do_nothing)
        await access.read(do_nothing)
    assert seen == {'opened': 1}
    await engine.dispose()


async def test_work_that_waits_for_something_else_is_refused(engine: AsyncEngine) -> None:
    access = Access(engine, deadline=5)
    elsewhere = asyncio.get_running_loop().create_future()

    async def wait(_: Running) -> None:
        await elsewhere

    with pytest.raises(RuntimeError, match='waited for something else'):
        await access.write(wait)
    await access.write(do_nothing)
