"""No connection is left behind when a database is given back, whatever is under way and whoever is cancelled."""

import asyncio
from collections.abc import Iterable

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe import DatabaseTaskStore, DefaultRequestHandler
from a2a_scribe.journal.sql.access import Access
from a2a_scribe.journal.sql.connected import Connected
from a2a_scribe.journal.sql.hints import hints_of
from tests.dropin import kit
from tests.support.pools import watched

pytestmark = pytest.mark.anyio

DEADLINE = 10.0


@pytest.fixture(params=['sqlite_url', 'postgres_database_url'])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


async def turns(count: int) -> None:
    """Lets the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_who_listens_and_is_cancelled_at_every_turn(url: str) -> None:
    engine = create_async_engine(url)
    hints, seen, heard = hints_of(engine, 'scribe_'), watched(engine), asyncio.Event()

    def hear(_: Iterable[str] | None) -> None:
        heard.set()

    assert hints is not None
    task = asyncio.ensure_future(hints.listen(hear, lambda: True))
    async with asyncio.timeout(DEADLINE):
        await heard.wait()
        assert seen == {'opened': 1}
        while not task.done():
            task.cancel()
            await turns(1)
    assert seen == {'opened': 1, 'closed': 1}
    await engine.dispose()


async def test_who_closes_waits_for_what_is_under_way_and_for_what_it_leads_to(url: str) -> None:
    engine = create_async_engine(url)
    access, seen, going = Access(engine, deadline=DEADLINE), watched(engine), asyncio.Event()

    async def nothing(_: Connected) -> None: ...

    async def look(_: Connected) -> None:
        await going.wait()

    async def looks() -> None:
        await access.look(look)
        await access.look(nothing)

    await access.open_once(nothing)
    looking = asyncio.ensure_future(looks())
    await turns(3)
    closing = asyncio.ensure_future(access.close())
    await turns(100)
    assert not closing.done()
    going.set()
    await closing
    assert looking.done()
    await engine.dispose()
    assert seen['closed'] == seen['opened'] > 0


async def test_who_closes_does_not_wait_for_a_loop_that_is_over(url: str) -> None:
    engine = create_async_engine(url)
    access, over = Access(engine, deadline=DEADLINE), asyncio.Event()

    async def nothing(_: Connected) -> None: ...

    async def look(_: Connected) -> None:
        await over.wait()

    async def use() -> None:
        await access.open_once(nothing)
        looking.append(asyncio.ensure_future(access.look(look)))
        await turns(100)

    looking: list[asyncio.Future[None]] = []
    loop = asyncio.new_event_loop()
    await asyncio.to_thread(loop.run_until_complete, use())
    async with asyncio.timeout(DEADLINE):
        await access.close()
    over.set()
    await asyncio.to_thread(loop.run_until_complete, asyncio.wait(looking))
    await asyncio.to_thread(loop.run_until_complete, engine.dispose())
    loop.close()


async def test_a_server_that_nobody_started_ends_while_the_first_request_comes(url: str) -> None:
    step, came_too_late = 0, False
    while not came_too_late:
        engine = create_async_engine(url)
        seen = watched(engine)
        handler = DefaultRequestHandler(kit.Echo(), DatabaseTaskStore(engine), kit.new_card())
        sending = asyncio.ensure_future(kit.send(handler, 'hello'))
        await turns(step)
        came_too_late = sending.done()
        await handler.aclose()
        await engine.dispose()
        assert seen['closed'] == seen['opened'], f'after {step} turns of the loop'
        await asyncio.gather(sending, return_exceptions=True)
        assert seen['closed'] == seen['opened'], f'after {step} turns of the loop, and the request'
        step = step * 5 // 4 + 1
