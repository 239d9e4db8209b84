"""Webhooks on loopback, called by servers in processes of their own: nothing is lost, doubled or out of order.

`SCRIBE_FULL=1` has as many tasks and receivers as the project promises, and judges times, which only a quiet machine
can hold.
"""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from statistics import median, quantiles
from typing import Any

import httpx
import pytest
from a2a.client import Client
from a2a.types.a2a_pb2 import DeleteTaskPushNotificationConfigRequest, ListTaskPushNotificationConfigsRequest
from a2a.utils.errors import A2AError
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe.core.records import SHOWN
from a2a_scribe.journal.deliveries import DeliveryQuery
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.journal.tasks import OPERATOR
from a2a_scribe.protocol.types import ListTasksRequest
from tests.support.hooks import SETTINGS, Hook, Hooks, receiving
from tests.support.proxy import wait_for_seconds
from tests.support.streaming import JSON_RPC, ServerProcess, connected, http_client, request, serving

pytestmark = pytest.mark.anyio

IS_FULL = bool(os.environ.get('SCRIBE_FULL'))
TASKS = 200 if IS_FULL else 20
CHUNKS = 10
DEAF_FOR = 3.0 if IS_FULL else 0.5
"""Seconds for which a receiver takes nothing."""
RECEIVERS = 1_000 if IS_FULL else 40
TOO_LONG = 300
OFTEN: dict[str, Any] = {'webhook_first_pause': 0.2, 'webhook_longest_pause': 1, **SETTINGS}
LEASE: dict[str, Any] = {'heartbeat': 0.5, 'lease': 3.0, 'poll_interval': 0.2}


@asynccontextmanager
async def running(url: str, **settings: Any) -> AsyncIterator[tuple[ServerProcess, Client]]:
    """A server and a client of it."""
    async with (
        http_client() as http,
        serving(url, **OFTEN, **settings) as server,
        connected(JSON_RPC, server.ports[JSON_RPC], http) as client,
    ):
        yield server, client


async def say(client: Client, hook: str, *, chunks: int = CHUNKS, pace: int = 0, end: str = 'complete') -> str:
    """Has a task done with a webhook; returns its id."""
    task_id = ''
    async for response in client.send_message(request(0, chunks, pace=pace, end=end, hook=hook)):
        task_id = task_id or response.task.id
    return task_id


async def have_done(client: Client, hook: str, tasks: int = TASKS, **given: Any) -> list[str]:
    """Has tasks done side by side."""
    return await asyncio.gather(*(say(client, hook, **given) for _ in range(tasks)))


async def expected(url: str) -> dict[str, list[int]]:
    """Returns which events of each task there are to be delivered, by what the database has."""
    engine = create_async_engine(url)
    journal = SqlJournal(engine, create=False)
    await journal.open()
    try:
        assert await journal.list_deliveries(DeliveryQuery()) == [], 'all is delivered, and no config is left'
        events = {}
        token, is_first = '', True
        while token or is_first:
            page = await journal.list_tasks(OPERATOR, ListTasksRequest(page_size=100, page_token=token))
            for task in page.tasks:
                records = await journal.read_records(task.id, 0, 10_000, 100_000_000)
                events[task.id] = [record.seq for record in records if record.kind in SHOWN]
            token, is_first = page.next_token, False
        return events
    finally:
        await engine.dispose()


def by_task(calls: Sequence[Hook]) -> dict[str, list[int]]:
    """Returns the events that came, in their order."""
    events = defaultdict(list)
    for call in calls:
        events[call.task_id].append(call.seq)
    return dict(events)


async def has_no_configs(url: str) -> bool:
    engine = create_async_engine(url)
    journal = SqlJournal(engine, create=False)
    await journal.open()
    try:
        return await journal.list_deliveries(DeliveryQuery(state='active')) == []
    finally:
        await engine.dispose()


async def until_all_is_delivered(url: str) -> None:
    """Waits until no config is left, which is written a moment after the last call."""
    while not await has_no_configs(url):
        await wait_for_seconds(0.1)


async def test_a_slow_receiver_costs_its_task_nothing(sqlite_url: str) -> None:
    async def slow(_: str) -> int:
        await wait_for_seconds(2)
        return 200

    async def measure(hook: str) -> tuple[list[float], list[float]]:
        """Returns how long tasks take, and the p99 of the pauses between the events of each stream."""
        times, pauses = [], []
        for _ in range(5 if IS_FULL else 1):
            arrivals = [time.monotonic()]
            async for _ in client.send_message(request(0, 10 * CHUNKS, pace=20, hook=hook)):
                arrivals.append(time.monotonic())  # noqa: PERF401 - as it comes
            times.append(arrivals[-1] - arrivals[0])
            pauses.append(quantiles((after - before for before, after in pairwise(arrivals)), n=100)[98])
        return times, pauses

    async with asyncio.timeout(TOO_LONG), receiving() as hooks, running(sqlite_url) as (_, client):
        hooks.answer = slow
        await say(client, '')
        without, with_it = await measure(''), await measure(f'{hooks.url}/slow')
        await hooks.until(lambda: len(hooks.calls) >= 1)
    for before, after in zip(without, with_it, strict=True):
        if IS_FULL:
            assert median(after) <= 1.5 * median(before) + 0.01
    assert max(with_it[1]) < 2, 'less than the receiver takes for one answer'


async def test_a_receiver_that_is_deaf_for_a_while_gets_all_events_in_order(sqlite_url: str) -> None:
    async with asyncio.timeout(TOO_LONG), receiving() as hooks, running(sqlite_url) as (_, client):
        began = time.monotonic()
        hooks.answer = lambda _: 503 if time.monotonic() < began + DEAF_FOR else 200
        task_ids = await have_done(client, f'{hooks.url}/hook')
        await until_all_is_delivered(sqlite_url)
    assert any(call.status == 503 for call in hooks.calls)
    wanted = await expected(sqlite_url)
    assert set(wanted) == set(task_ids)
    assert by_task(hooks.taken()) == wanted, 'each once: no answer was lost'


@pytest.fixture(params=['sqlite_url', 'postgres_database_url'])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


async def test_a_server_that_is_killed_owes_its_receivers_nothing(url: str) -> None:
    async with asyncio.timeout(TOO_LONG), receiving() as hooks:
        for number in range(3 if IS_FULL else 1):
            async with running(url, **LEASE) as (server, client):
                work = asyncio.gather(
                    *(say(client, f'{hooks.url}/hook', chunks=30, pace=10) for _ in range(TASKS)),
                    return_exceptions=True,
                )
                seen = len(hooks.calls)
                await hooks.until(lambda seen=seen: len(hooks.calls) > seen + TASKS * 10)  # type: ignore[misc]
                await server.kill()
                outcomes = await work
                assert any(isinstance(each, A2AError | httpx.HTTPError) for each in outcomes), number
        async with running(url, **LEASE):
            await until_all_is_delivered(url)
    wanted = await expected(url)
    came = by_task(hooks.taken())
    assert {task_id: list(dict.fromkeys(seqs)) for task_id, seqs in came.items()} == wanted
    doubled = sum(len(seqs) for seqs in came.values()) - sum(len(seqs) for seqs in wanted.values())
    assert doubled <= TASKS * 50 * (3 if IS_FULL else 1), 'only what was not written down when the server died'


async def delays(client: Client, hooks: Hooks, others: Sequence[str] = ()) -> list[float]:
    """Has a task done for each receiver; returns the seconds that calls came later than the statuses they tell of."""
    seen = len(hooks.calls)
    await asyncio.gather(*(say(client, url, end='complete', chunks=3) for url in others))
    receivers = [f'{hooks.url}/{number}' for number in range(RECEIVERS)]
    for first in range(0, RECEIVERS, 20):
        await asyncio.gather(*(say(client, url, chunks=3) for url in receivers[first : first + 20]))
    wanted = {url.removeprefix(hooks.url) for url in receivers}
    await hooks.until(lambda: {call.path for call in hooks.calls[seen:] if call.state == 'COMPLETED'} >= wanted)
    return [call.delay for call in hooks.calls[seen:] if call.path in wanted and call.state == 'COMPLETED']


async def test_receivers_that_are_dead_or_slow_delay_no_other(sqlite_url: str) -> None:
    async def slow(_: str) -> int:
        await wait_for_seconds(2)
        return 200

    async with asyncio.timeout(TOO_LONG), receiving() as hooks, running(sqlite_url) as (_, client):
        hooks.answer = lambda path: slow(path) if path == '/slow' else 200
        await delays(client, hooks)
        without = await delays(client, hooks)
        with_them = await delays(client, hooks, ['http://127.0.0.1:9/dead', f'{hooks.url}/slow'])
    if IS_FULL:
        before, after = (quantiles(found, n=100)[98] for found in (without, with_them))
        assert after <= 1.5 * before + 0.01


async def test_a_receiver_that_is_fast_gets_a_thousand_events_a_second(sqlite_url: str) -> None:
    patient = running(sqlite_url, webhook_timeout=TOO_LONG)
    async with asyncio.timeout(TOO_LONG), receiving() as hooks, patient as (_, client):
        is_open = asyncio.Event()

        async def gated(_: str) -> int:
            await is_open.wait()
            return 200

        hooks.answer = gated
        await have_done(client, f'{hooks.url}/hook', chunks=50)
        began = time.monotonic()
        hooks.answer = lambda _: 200
        is_open.set()
        await hooks.until(lambda: len(hooks.calls) >= TASKS * 52)
        seconds = time.monotonic() - began
        await until_all_is_delivered(sqlite_url)
    assert by_task(hooks.taken()) == await expected(sqlite_url)
    if IS_FULL:
        assert TASKS * 52 / seconds >= 1_000


async def test_deletion_between_attempts_ends_them(sqlite_url: str) -> None:
    async with asyncio.timeout(TOO_LONG), receiving() as hooks, running(sqlite_url) as (_, client):
        hooks.answer = lambda _: 503
        task_id = await say(client, f'{hooks.url}/hook')
        await hooks.until(lambda: len(hooks.calls) >= 2)
        ((config,),) = [(await client.list_task_push_notification_configs(_of(task_id))).configs]
        await client.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config.id)
        )
        await wait_for_seconds(0.5)  # for the bytes of an attempt that was under way
        calls = len(hooks.calls)
        await wait_for_seconds(1.5)
        assert len(hooks.calls) == calls


async def test_deletion_by_another_process_abandons_the_attempt_under_way(url: str) -> None:
    async def never(_: str) -> int:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            abandoned.set()
        return 200

    abandoned = asyncio.Event()
    seldom = {**LEASE, 'poll_interval': 60}
    async with (
        asyncio.timeout(TOO_LONG),
        receiving() as hooks,
        running(url, **seldom) as (_, client),
        running(url, **seldom) as (_, other),
    ):
        hooks.answer = never
        task_id = await say(client, f'{hooks.url}/hook')
        await hooks.until(lambda: bool(hooks.connections))
        (config,) = (await other.list_task_push_notification_configs(_of(task_id))).configs
        await other.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config.id)
        )
        async with asyncio.timeout(30):
            await abandoned.wait()


def _of(task_id: str) -> ListTaskPushNotificationConfigsRequest:
    return ListTaskPushNotificationConfigsRequest(task_id=task_id)


async def test_a_server_that_stops_and_starts_goes_on_where_it_was(sqlite_url: str) -> None:
    async with asyncio.timeout(TOO_LONG), receiving() as hooks:
        hooks.answer = lambda _: 503
        async with running(sqlite_url) as (server, client):
            await have_done(client, f'{hooks.url}/hook')
            await hooks.until(lambda: len(hooks.calls) >= TASKS)
            server.process.terminate()
            assert await server.process.wait() == 0
        hooks.answer = lambda _: 200
        async with running(sqlite_url):
            await until_all_is_delivered(sqlite_url)
    assert by_task(hooks.taken()) == await expected(sqlite_url)
