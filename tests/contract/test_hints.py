"""How the processes of one database hear of each other's writes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from a2a_scribe.errors import JournalUnavailableError
from a2a_scribe.journal.port import Hints
from a2a_scribe.journal.sql.hints import PAYLOAD_BYTES
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.testing.contract.scenes import born
from a2a_scribe.testing.journal_driver import ScriptedNode
from tests.support.pools import watched

pytestmark = pytest.mark.anyio

DEADLINE = 10.0


class Ear:
    """What one process has heard."""

    def __init__(self) -> None:
        self.heard: list[set[str] | None] = []
        self.wanted = True
        self._news = asyncio.Event()

    def hear(self, task_ids: Iterable[str] | None) -> None:
        self.heard.append(None if task_ids is None else set(task_ids))
        self._news.set()

    async def until(self, enough: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not enough():
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def listening(hints: Hints | None) -> AsyncIterator[Ear]:
    """Listens, and has heard the hint with which every connection begins."""
    assert hints is not None
    ear = Ear()
    task = asyncio.ensure_future(hints.listen(ear.hear, lambda: ear.wanted))
    try:
        await ear.until(lambda: bool(ear.heard))
        ear.heard.clear()
        yield ear
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, JournalUnavailableError):
            await task


@pytest.fixture
async def engines() -> AsyncIterator[list[AsyncEngine]]:
    """Engines that a test makes, disposed of at its end."""
    made: list[AsyncEngine] = []
    yield made
    for engine in made:
        await engine.dispose()


async def opened(engines: list[AsyncEngine], url: str, prefix: str = 'scribe_') -> SqlJournal:
    engines.append(create_async_engine(url))
    journal = SqlJournal(engines[-1], prefix=prefix)
    await journal.open()
    return journal


async def test_a_change_of_an_sqlite_file_is_seen(engines: list[AsyncEngine], tmp_path: Path) -> None:
    url = f'sqlite+aiosqlite:///{tmp_path}/journal.db'
    here, there = await opened(engines, url), await opened(engines, url)
    node = await ScriptedNode(there, 'node').register()
    async with listening(here.hints) as ear:
        await born(node, 'task')
        await ear.until(lambda: None in ear.heard)


async def test_an_sqlite_file_is_left_alone_while_nobody_wants_to_know(
    engines: list[AsyncEngine], tmp_path: Path
) -> None:
    url = f'sqlite+aiosqlite:///{tmp_path}/journal.db'
    here, there = await opened(engines, url), await opened(engines, url)
    node = await ScriptedNode(there, 'node').register()
    async with listening(here.hints) as ear:
        ear.wanted = False
        await born(node, 'task')
        ear.wanted = True
        await ear.until(lambda: bool(ear.heard))


async def test_an_sqlite_in_memory_has_one_process(engines: list[AsyncEngine]) -> None:
    assert (await opened(engines, 'sqlite+aiosqlite://')).hints is None


async def test_postgresql_tells_the_others_and_nobody_else(
    postgres_database_url: str, engines: list[AsyncEngine]
) -> None:
    here, there = await opened(engines, postgres_database_url), await opened(engines, postgres_database_url)
    elsewhere = await opened(engines, postgres_database_url, 'other_')
    mine, theirs = here.hints, there.hints
    assert mine is not None
    assert theirs is not None
    async with listening(mine) as ear, listening(theirs) as other, listening(elsewhere.hints) as stranger:
        await mine.tell({'one', 'two'})
        await other.until(lambda: bool(other.heard))
        await theirs.tell({'x' * PAYLOAD_BYTES, 'y'})
        await ear.until(lambda: bool(ear.heard))
        await mine.tell({'three'})
        await other.until(lambda: len(other.heard) == 2)
        assert other.heard == [{'one', 'two'}, {'three'}]
        assert ear.heard == [None]
        assert stranger.heard == []


async def test_nobody_is_told_without_a_session(postgres_database_url: str, engines: list[AsyncEngine]) -> None:
    journal = await opened(engines, postgres_database_url)
    hints = journal.hints
    assert hints is not None
    await hints.tell({'task'})


async def test_a_session_that_is_lost_says_so(postgres_database_url: str, engines: list[AsyncEngine]) -> None:
    journal = await opened(engines, postgres_database_url)
    hints = journal.hints
    assert hints is not None
    ear = Ear()
    task = asyncio.ensure_future(hints.listen(ear.hear, lambda: True))
    await ear.until(lambda: bool(ear.heard))
    async with engines[0].connect() as connection:
        await connection.execute(
            text(
                'SELECT pg_terminate_backend(pid) FROM pg_stat_activity'
                ' WHERE datname = current_database() AND pid <> pg_backend_pid()'
            )
        )
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(JournalUnavailableError):
            await task


@pytest.mark.parametrize('kind', ['sqlite', 'postgresql'])
async def test_the_users_pool_is_not_used(
    postgres_database_url: str, engines: list[AsyncEngine], tmp_path: Path, kind: str
) -> None:
    url = postgres_database_url if kind == 'postgresql' else f'sqlite+aiosqlite:///{tmp_path}/journal.db'
    engine = create_async_engine(url, pool_size=1, max_overflow=0, pool_timeout=0.1)
    engines.append(engine)
    journal = SqlJournal(engine)
    await journal.open()
    async with listening(journal.hints), engine.connect() as connection:
        assert (await connection.execute(text('SELECT 1'))).scalar_one() == 1
    async with engine.connect(), listening(journal.hints):
        pass


async def test_a_database_that_is_away_is_an_environments_fault() -> None:
    engine = create_async_engine('postgresql+asyncpg://nobody@127.0.0.1:1/nothing')
    hints = SqlJournal(engine).hints
    assert hints is not None
    with pytest.raises(JournalUnavailableError):
        await hints.listen(lambda _: None, lambda: True)
    await engine.dispose()


@pytest.fixture(params=['sqlite_url', 'postgres_database_url'])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


async def test_who_is_cancelled_at_every_turn_leaves_no_connection(url: str) -> None:
    engine = create_async_engine(url)
    hints, seen, heard = SqlJournal(engine).hints, watched(engine), asyncio.Event()

    def hear(_: Iterable[str] | None) -> None:
        heard.set()

    assert hints is not None
    task = asyncio.ensure_future(hints.listen(hear, lambda: True))
    async with asyncio.timeout(DEADLINE):
        await heard.wait()
        assert seen == {'opened': 1}
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
    assert seen == {'opened': 1, 'closed': 1}
    await engine.dispose()
