"""The proxy's faults, as a bare client sees them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from tests.support.proxy import CommitSpotter, Message, Proxy, proxy_before

pytestmark = pytest.mark.anyio

CUT = (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(make_url(url).set(drivername='postgresql').render_as_string())
    try:
        yield connection
    finally:
        connection.terminate()


@pytest.fixture
async def database(postgres_database_url: str) -> str:
    async with connected(postgres_database_url) as connection:
        await connection.execute('CREATE TABLE kept (n int)')
    return postgres_database_url


@pytest.fixture
async def proxy(database: str) -> AsyncIterator[Proxy]:
    async with proxy_before(database) as proxy:
        yield proxy


async def insert(url: str, n: int) -> None:
    async with connected(url) as connection, connection.transaction():
        await connection.execute('INSERT INTO kept VALUES ($1)', n)


async def kept(url: str) -> list[int]:
    async with connected(url) as connection:
        return [row['n'] for row in await connection.fetch('SELECT n FROM kept ORDER BY n')]


async def test_passes_everything_on(proxy: Proxy, database: str) -> None:
    await asyncio.gather(*(insert(proxy.url(database), n) for n in range(5)))
    assert await kept(proxy.url(database)) == await kept(database) == [0, 1, 2, 3, 4]


async def test_away_cuts_and_refuses_until_it_is_back(proxy: Proxy, database: str) -> None:
    async with connected(proxy.url(database)) as connection:
        async with proxy.away():
            with pytest.raises(CUT):
                await connection.fetch('SELECT 1')
            with pytest.raises(ConnectionRefusedError):
                await insert(proxy.url(database), 1)
        await insert(proxy.url(database), 2)
    assert await kept(database) == [2]


async def test_a_cut_leaves_the_way_open_for_new_connections(proxy: Proxy, database: str) -> None:
    async with connected(proxy.url(database)) as connection:
        proxy.cut()
        with pytest.raises(CUT):
            await connection.fetch('SELECT 1')
    assert await kept(proxy.url(database)) == []


async def test_a_swallowed_commit_has_happened(proxy: Proxy, database: str) -> None:
    proxy.swallow_next_commit()
    with pytest.raises(CUT):
        await insert(proxy.url(database), 1)
    await proxy.wait_for_loss()
    await insert(proxy.url(database), 2)
    assert await kept(database) == [1, 2]
    assert proxy.commits_lost == 1


async def test_a_lost_commit_has_not_happened(proxy: Proxy, database: str) -> None:
    proxy.lose_next_commit()
    with pytest.raises(CUT):
        await insert(proxy.url(database), 1)
    await proxy.wait_for_loss()
    await insert(proxy.url(database), 2)
    assert await kept(database) == [2]
    assert proxy.commits_lost == 1


@pytest.mark.parametrize('fault', ['lose_next_commit', 'swallow_next_commit'])
async def test_a_prepared_commit_is_one_too(proxy: Proxy, database: str, fault: str) -> None:
    async with connected(proxy.url(database)) as connection:
        commit = await connection.prepare('COMMIT')
        await connection.execute('BEGIN')
        await connection.execute('INSERT INTO kept VALUES (1)')
        getattr(proxy, fault)()
        with pytest.raises(CUT):
            await commit.fetch()
        await proxy.wait_for_loss()
    assert await kept(database) == ([1] if fault == 'swallow_next_commit' else [])


@pytest.mark.parametrize('fault', ['lose_next_commit', 'swallow_next_commit'])
async def test_a_commit_of_sqlalchemy_is_one_too(proxy: Proxy, database: str, fault: str) -> None:
    engine = create_async_engine(proxy.url(database))
    getattr(proxy, fault)()
    with pytest.raises((DBAPIError, *CUT)):
        async with engine.begin() as connection:
            await connection.execute(text('INSERT INTO kept VALUES (:n)'), {'n': 1})
    await proxy.wait_for_loss()
    await engine.dispose()
    assert await kept(database) == ([1] if fault == 'swallow_next_commit' else [])


async def test_delay_holds_answers_back(proxy: Proxy, database: str) -> None:
    loop = asyncio.get_running_loop()
    async with connected(proxy.url(database)) as connection:
        with proxy.delay(0.2):
            started = loop.time()
            await connection.execute('SELECT 1')
            assert loop.time() - started >= 0.19
    assert await kept(proxy.url(database)) == []


def test_a_name_that_means_something_else_now_is_no_commit() -> None:
    spotter = CommitSpotter()
    sent = [
        Message(b'P', b'one\0COMMIT\0\0\0'),
        Message(b'B', b'\0one\0'),
        Message(b'E', b'\0\0\0\0\0'),
        Message(b'P', b'two\0SELECT 1\0\0\0'),
        Message(b'B', b'\0two\0'),
        Message(b'E', b'\0\0\0\0\0'),
        Message(b'Q', b'commit;\0'),
        Message(b'Q', b"SELECT 'COMMIT'\0"),
    ]
    assert [spotter.is_commit(message) for message in sent] == [False, False, True, False, False, False, True, False]
