"""What databases and networks do to a running server: nothing is lost, nothing is doubled, nobody hangs."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Part,
    Role,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import InternalError, TaskNotCancelableError, UnsupportedOperationError
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from a2a_scribe import DatabaseTaskStore, DefaultRequestHandler
from a2a_scribe.settings import Settings
from tests.dropin import kit
from tests.support.proxy import Proxy, proxy_before, wait_for_seconds

pytestmark = pytest.mark.anyio

T = TypeVar('T')
Script = Callable[[RequestContext, TaskUpdater], Awaitable[object]]
LONG_ENOUGH = 30
RETRYABLE = {'retryable': 'true'}


@dataclass
class Does(kit.Echo):
    """An agent that does what the test says, and counts how often it is called for which message."""

    script: Script = field(kw_only=True)
    calls: Counter[str] = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)
    interrupted: int = 0

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        self.calls[context.get_user_input()] += 1
        self.running[updater.task_id] += 1
        assert self.running[updater.task_id] == 1, 'one task runs twice at once'
        try:
            await self.script(context, updater)
        except asyncio.CancelledError:
            self.interrupted += 1
            raise
        finally:
            self.running[updater.task_id] -= 1


@asynccontextmanager
async def serving(agent: Does, url: str, **options: Any) -> AsyncIterator[DefaultRequestHandler]:
    """A started handler for the agent on a database."""
    connect = {'timeout': 0.1} if url.startswith('sqlite') else {}
    engine = create_async_engine(url, connect_args=connect)
    handler = DefaultRequestHandler(agent, DatabaseTaskStore(engine), kit.new_card(), **options)
    try:
        await handler.start()
        async with asyncio.timeout(LONG_ENOUGH):
            yield handler
    finally:
        await handler.aclose()
        await engine.dispose()


@asynccontextmanager
async def through_proxy(agent: Does, url: str) -> AsyncIterator[tuple[DefaultRequestHandler, Proxy]]:
    """A started handler whose database is behind a proxy."""
    async with proxy_before(url) as proxy, serving(agent, proxy.url(url)) as handler:
        yield handler, proxy


@pytest.fixture(params=['sqlite_url', 'postgres_database_url'])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


async def execute(url: str, *statements: str) -> None:
    """Runs statements on a connection of their own."""
    async with connected(url) as engine, engine.begin() as connection:
        for statement in statements:
            await connection.exec_driver_sql(statement)


async def query(url: str, statement: str, **values: object) -> Sequence[Any]:
    """Returns the rows of a statement, read on a connection of its own."""
    async with connected(url) as engine, engine.connect() as connection:
        return (await connection.execute(text(statement), values)).all()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(url)
    try:
        yield engine
    finally:
        await engine.dispose()


async def seqs(url: str, task_id: str) -> list[int]:
    """The numbers of a task's records, as the database has them."""
    rows = await query(url, 'SELECT seq FROM scribe_records WHERE task_id = :id ORDER BY seq', id=task_id)
    return [row.seq for row in rows]


async def check_journal(url: str, task_id: str) -> None:
    """Asserts that the records have no gaps and the task's row knows the last, and that nobody works on it."""
    found = await seqs(url, task_id)
    [row] = await query(url, 'SELECT seq, node, open_turn FROM scribe_tasks WHERE id = :id', id=task_id)
    assert found == list(range(1, len(found) + 1))
    assert (row.seq, row.node, row.open_turn) == (len(found), None, None)


async def get(handler: DefaultRequestHandler, task_id: str) -> Task:
    return await handler.on_get_task(GetTaskRequest(id=task_id), kit.call())


async def chunk(updater: TaskUpdater, words: str) -> None:
    await updater.add_artifact([Part(text=words)], artifact_id='text', append=True)


def said(task: Task) -> list[str]:
    """What the user has said, as the history has it."""
    return [kit.words_of(message) for message in task.history if message.role == Role.ROLE_USER]


async def after_commits(handler: DefaultRequestHandler, look: Callable[[], Awaitable[T | None]]) -> T:
    """Looks now and after each commit, until there is something to see."""
    committed = asyncio.Event()
    disconnect = handler.engine.signals.committed.connect(lambda _: committed.set())
    try:
        while not (seen := await look()):
            await committed.wait()
            committed.clear()
    finally:
        disconnect()
    return seen


async def state_reached(handler: DefaultRequestHandler, task_id: str, state: str) -> Task:
    """Waits until the stored task is in a state, and returns it."""

    async def look() -> Task | None:
        task = await get(handler, task_id)
        return task if kit.state_of(task) == state else None

    return await after_commits(handler, look)


async def working_tasks(handler: DefaultRequestHandler, count: int) -> list[Task]:
    """Waits until so many tasks are stored as working, and returns them."""

    async def look() -> list[Task] | None:
        found = await list_tasks(handler, status=TaskState.TASK_STATE_WORKING)
        return found if len(found) == count else None

    return await after_commits(handler, look)


# A COMMIT gets lost on its way there or back


@pytest.mark.parametrize('fault', ['swallow_next_commit', 'lose_next_commit'])
async def test_a_lost_commit_loses_and_doubles_nothing(postgres_database_url: str, fault: str) -> None:
    async def script(context: RequestContext, updater: TaskUpdater) -> None:
        for number in range(4):
            getattr(proxy, fault)()
            await chunk(updater, f'{context.get_user_input()}.{number} ')
            await proxy.wait_for_loss()
        getattr(proxy, fault)()
        await (updater.complete() if context.get_user_input() == 'last' else updater.requires_input())

    agent = Does(script=script)
    async with proxy_before(postgres_database_url) as proxy:
        async with serving(agent, proxy.url(postgres_database_url)) as handler:
            getattr(proxy, fault)()
            task = await kit.send(handler, 'first')
            for words in ('second', 'last'):
                await proxy.wait_for_loss()
                getattr(proxy, fault)()
                task = await kit.send(handler, words, task=task)
            await proxy.wait_for_loss()
            assert proxy.commits_lost >= 15
            await state_reached(handler, task.id, 'COMPLETED')
        async with serving(agent, postgres_database_url) as handler:
            stored = await get(handler, task.id)
    messages = ['first', 'second', 'last']
    assert agent.calls == Counter(messages)
    assert (kit.state_of(stored), said(stored)) == ('COMPLETED', messages)
    assert kit.artifacts_of(stored)['text'] == ''.join(f'{words}.{n} ' for words in messages for n in range(4))
    await check_journal(postgres_database_url, task.id)


@pytest.mark.parametrize('fault', ['swallow_next_commit', 'lose_next_commit'])
async def test_a_lost_commit_of_queued_messages_runs_each_once(postgres_database_url: str, fault: str) -> None:
    async def script(context: RequestContext, updater: TaskUpdater) -> None:
        await chunk(updater, f'{context.get_user_input()} ')
        if context.get_user_input() == 'first':
            started.set()
            await released.wait()
        getattr(proxy, fault)()
        await updater.requires_input()

    started, released, agent = asyncio.Event(), asyncio.Event(), Does(script=script)
    async with through_proxy(agent, postgres_database_url) as (handler, proxy):
        first = asyncio.ensure_future(kit.send(handler, 'first'))
        await started.wait()
        [task] = await working_tasks(handler, 1)
        rest = []
        for number in range(6):
            getattr(proxy, fault)()
            rest.append(asyncio.ensure_future(kit.send(handler, f'{number}', task=task)))
            await proxy.wait_for_loss()
        released.set()
        answers = await asyncio.gather(first, *rest)
    assert {answer.id for answer in answers} == {task.id}
    assert agent.calls == Counter(['first', *map(str, range(6))])
    async with serving(agent, postgres_database_url) as handler:
        stored = await get(handler, task.id)
    assert sorted(said(stored)) == ['0', '1', '2', '3', '4', '5', 'first']
    await check_journal(postgres_database_url, task.id)


@pytest.mark.parametrize('fault', ['swallow_next_commit', 'lose_next_commit'])
async def test_a_lost_commit_of_many_cancels_ends_the_task_once(postgres_database_url: str, fault: str) -> None:
    async def script(context: RequestContext, updater: TaskUpdater) -> None:
        await updater.requires_input()

    async with through_proxy(Does(script=script), postgres_database_url) as (handler, proxy):
        tasks = [await kit.send(handler, 'first') for _ in range(10)]
        for task in tasks:
            getattr(proxy, fault)()
            first = handler.on_cancel_task(CancelTaskRequest(id=task.id), kit.call())
            rest = [late_cancel(handler, proxy, fault, task.id, turns) for turns in range(1, 40, 8)]
            answers = await asyncio.gather(first, *rest, return_exceptions=True)
            canceled = [answer for answer in answers if isinstance(answer, Task)]
            assert canceled
            assert all(isinstance(answer, Task | TaskNotCancelableError) for answer in answers), answers
    for task in tasks:
        await check_journal(postgres_database_url, task.id)
        statuses = await query(
            postgres_database_url, "SELECT 1 FROM scribe_records WHERE kind = 'status' AND task_id = :id", id=task.id
        )
        assert len(statuses) == 3  # working, input required, canceled


async def late_cancel(handler: DefaultRequestHandler, proxy: Proxy, fault: str, task_id: str, turns: int) -> Task:
    for _ in range(turns):
        await asyncio.sleep(0)
    if turns > 20:
        getattr(proxy, fault)()
    return await handler.on_cancel_task(CancelTaskRequest(id=task_id), kit.call())


# What databases do not like


async def test_text_with_nul_comes_back(url: str) -> None:
    words = 'before\0after \0\0 and \u2028 🜁'

    async def script(context: RequestContext, updater: TaskUpdater) -> None:
        await chunk(updater, context.get_user_input())
        if context.get_user_input() == 'fail':
            raise ValueError(f'it {words} failed')
        await updater.update_status(
            TaskState.TASK_STATE_INPUT_REQUIRED,
            updater.new_agent_message([Part(text=words)]),
            metadata={words: words},
        )

    agent = Does(script=script)
    async with serving(agent, url, failure_answer='task') as handler:
        task = await kit.send(handler, words)
    async with serving(agent, url, failure_answer='task') as handler:
        stored = await get(handler, task.id)
        assert stored == task
        assert kit.words_of(stored.status.message) == words
        assert (kit.artifacts_of(stored)['text'], said(stored)) == (words, [words])
        assert stored.metadata[words] == words
        assert kit.state_of(await kit.send(handler, 'fail', task=task)) == 'FAILED'
    [row] = await query(url, 'SELECT note FROM scribe_records WHERE note IS NOT NULL')
    assert 'it before' in row.note


POISON = {
    'sqlite': [
        """CREATE TRIGGER poison BEFORE INSERT ON scribe_records WHEN instr(NEW.body, CAST('poison' AS BLOB))
        BEGIN SELECT RAISE(ABORT, 'poisoned'); END""",
    ],
    'postgresql': [
        """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF position('poison'::bytea in NEW.body) > 0 THEN RAISE EXCEPTION 'poisoned'; END IF; RETURN NEW; END $$""",
        'CREATE TRIGGER poison BEFORE INSERT ON scribe_records FOR EACH ROW EXECUTE FUNCTION refuse()',
    ],
}
"""A database that refuses records in which a certain word occurs."""


async def test_one_poisoned_record_fails_one_task_of_64(url: str) -> None:
    tasks = 64
    barrier = asyncio.Barrier(tasks)

    async def script(context: RequestContext, updater: TaskUpdater) -> None:
        words = context.get_user_input()
        for number in range(5):
            await barrier.wait()
            await chunk(updater, f'{words}.{number} ')
        await barrier.wait()
        if words == '17':
            await chunk(updater, 'poison')
        for number in range(5, 10):
            await chunk(updater, f'{words}.{number} ')
        await updater.complete()

    agent = Does(script=script)
    async with serving(agent, url, failure_answer='task') as handler:
        await execute(url, *POISON[make_url(url).get_backend_name()])
        answers = await asyncio.gather(*(kit.send(handler, f'{number}') for number in range(tasks)))
        states = Counter(map(kit.state_of, answers))
        assert states == Counter(COMPLETED=63, FAILED=1)
        assert kit.state_of(answers[17]) == 'FAILED'
        for number, answer in enumerate(answers):
            assert await get(handler, answer.id) == answer
            said_by_agent = kit.artifacts_of(answer).get('text', '')
            expected = ''.join(f'{number}.{n} ' for n in range(10))
            assert expected.startswith(said_by_agent) if number == 17 else said_by_agent == expected
            await check_journal(url, answer.id)
        with pytest.raises(InternalError):
            await kit.send(handler, 'poison')
        assert len(await list_tasks(handler, page_size=100)) == tasks


# The database goes away


@dataclass
class Outage:
    """A database that can be taken away."""

    url: str
    away: Callable[[], AbstractAsyncContextManager[None]]
    readable: bool
    """Whether it can be read while it is away."""


@pytest.fixture
async def outage(url: str) -> AsyncIterator[Outage]:
    if url.startswith('sqlite'):
        yield Outage(url, lambda: locked(str(make_url(url).database)), readable=True)
        return
    async with proxy_before(url) as proxy:
        yield Outage(proxy.url(url), proxy.away, readable=False)


@asynccontextmanager
async def locked(path: str) -> AsyncIterator[None]:
    """Holds an SQLite file's lock until the block ends."""

    def lock() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=LONG_ENOUGH, isolation_level=None, check_same_thread=False)
        connection.execute('BEGIN EXCLUSIVE')
        return connection

    connection = await asyncio.to_thread(lock)
    try:
        yield
    finally:
        await asyncio.to_thread(connection.close)


async def test_tasks_go_on_when_the_database_was_away_for_three_seconds(outage: Outage) -> None:
    async def script(context: RequestContext, updater: TaskUpdater) -> None:
        for number in range(60):
            await chunk(updater, f'{number} ')
            if number == 20:
                reached.release()
                await going.wait()
        await updater.complete()

    reached, going, agent = asyncio.Semaphore(0), asyncio.Event(), Does(script=script)
    async with serving(agent, outage.url) as handler:
        sends = [asyncio.ensure_future(kit.send(handler, f'{number}')) for number in range(10)]
        for _ in sends:
            await reached.acquire()
        async with outage.away():
            going.set()
            sends += [asyncio.ensure_future(kit.send(handler, f'{number}')) for number in range(10, 13)]
            await wait_for_seconds(3)
            assert not any(send.done() for send in sends)
        answers = await asyncio.gather(*sends)
        assert [kit.state_of(answer) for answer in answers] == ['COMPLETED'] * 13
        assert {kit.artifacts_of(answer)['text'] for answer in answers} == {''.join(f'{n} ' for n in range(60))}
        for answer in answers:
            await check_journal(outage.url, answer.id)
    assert agent.calls == Counter(f'{number}' for number in range(13))


async def test_an_outage_beyond_all_patience_hangs_nobody_and_is_got_over(outage: Outage) -> None:
    async def script(context: RequestContext, updater: TaskUpdater) -> None:
        if context.get_user_input() == 'ask':
            await updater.requires_input()
            return
        if context.get_user_input() == 'wait':
            reached.release()
            await going.wait()
        await chunk(updater, 'text')
        await updater.complete()

    reached, going, agent = asyncio.Semaphore(0), asyncio.Event(), Does(script=script)
    settings = Settings(journal_patience=0.5, poll_interval=0.1, heartbeat=0.2)
    async with serving(agent, outage.url, settings=settings) as handler:
        parked = await kit.send(handler, 'ask')
        sends = [asyncio.ensure_future(kit.send(handler, 'wait')) for _ in range(5)]
        for _ in sends:
            await reached.acquire()
        open_tasks = [task.id for task in await working_tasks(handler, 5)]
        async with outage.away():
            going.set()
            calls: list[Awaitable[object]] = [
                *sends,
                kit.send(handler, 'new'),
                kit.send(handler, 'more', task=parked),
                handler.on_cancel_task(CancelTaskRequest(id=parked.id), kit.call()),
                collect(handler.on_message_send_stream(kit.request('new'), kit.call())),
            ]
            if not outage.readable:
                calls += [get(handler, parked.id), list_tasks(handler)]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            for outcome in outcomes:
                assert isinstance(outcome, InternalError), outcomes
                assert outcome.data == RETRYABLE
        assert agent.interrupted + agent.calls.total() >= 6
        for task_id in open_tasks:
            task = await state_reached(handler, task_id, 'FAILED')
            assert 'text' not in kit.artifacts_of(task)
            await check_journal(outage.url, task_id)
            with pytest.raises(UnsupportedOperationError):
                await kit.send(handler, 'more', task=task)
        assert kit.state_of(await kit.send(handler, 'more', task=parked)) == 'COMPLETED'
        assert kit.state_of(await kit.send(handler, 'new')) == 'COMPLETED'


async def test_who_subscribes_through_an_outage_sees_the_end(outage: Outage) -> None:
    async def script(context: RequestContext, updater: TaskUpdater) -> None:
        started.set()
        await going.wait()
        await chunk(updater, 'text')
        await updater.complete()

    started, going, agent = asyncio.Event(), asyncio.Event(), Does(script=script)
    async with serving(agent, outage.url, settings=Settings(poll_interval=60)) as handler:
        sending = asyncio.ensure_future(kit.send(handler, 'go'))
        await started.wait()
        [task] = await working_tasks(handler, 1)
        stream = handler.on_subscribe_to_task(SubscribeToTaskRequest(id=task.id), kit.call())
        await anext(stream)
        async with outage.away():
            going.set()
            await wait_for_seconds(1)
        events = await collect(stream)
        assert [type(event).__name__ for event in events][-2:] == ['TaskArtifactUpdateEvent', 'TaskStatusUpdateEvent']
        assert kit.state_of(await sending) == 'COMPLETED'


async def collect(stream: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in stream]


async def list_tasks(handler: DefaultRequestHandler, **query: Any) -> list[Task]:
    return list((await handler.on_list_tasks(ListTasksRequest(**query), kit.call())).tasks)


# Others on the same database


async def test_a_fenced_node_gives_up_its_turns_and_serves_on(url: str) -> None:
    async def script(context: RequestContext, updater: TaskUpdater) -> None:
        if context.get_user_input() == 'ask':
            await updater.requires_input()
            return
        if context.get_user_input() == 'wait':
            reached.release()
            await going.wait()
            for _ in range(1000):
                await chunk(updater, 'text')
        await updater.complete()

    reached, going, agent = asyncio.Semaphore(0), asyncio.Event(), Does(script=script)
    async with serving(agent, url) as handler:
        parked = await kit.send(handler, 'ask')
        sends = [asyncio.ensure_future(kit.send(handler, 'wait')) for _ in range(5)]
        for _ in sends:
            await reached.acquire()
        await execute(url, "UPDATE scribe_nodes SET state = 'dead'")
        going.set()
        for outcome in await asyncio.gather(*sends, return_exceptions=True):
            assert isinstance(outcome, InternalError)
            assert outcome.data == RETRYABLE
        assert not agent.running.total()
        assert kit.state_of(await kit.send(handler, 'new')) == 'COMPLETED'
        assert kit.state_of(await kit.send(handler, 'more', task=parked)) == 'COMPLETED'
        while (states := Counter(row.state for row in await query(url, 'SELECT state FROM scribe_nodes')))['dead']:
            assert states == {'dead': 1, 'alive': 1}, 'until it owns nothing and is forgotten'
        assert states == {'alive': 1}
        written = await query(url, "SELECT 1 FROM scribe_records WHERE kind = 'artifact'")
        assert list(written) == []


async def test_two_nodes_never_run_one_task_twice(url: str) -> None:
    async def script(context: RequestContext, updater: TaskUpdater) -> None:
        await chunk(updater, f'<{context.get_user_input()}')
        for _ in range(3):
            await asyncio.sleep(0)
        await chunk(updater, '>')
        await updater.requires_input()

    agent = Does(script=script)
    settings = Settings(poll_interval=0.05)
    async with serving(agent, url, settings=settings) as one, serving(agent, url, settings=settings) as two:
        tasks = [await kit.send(one, f'{number}: first') for number in range(3)]
        for round_number in range(4):
            messages = [(f'{n}: {round_number}.{k}', task) for n, task in enumerate(tasks) for k in range(4)]
            answers = await asyncio.gather(
                *(kit.send((one, two)[number % 2], words, task=task) for number, (words, task) in enumerate(messages))
            )
            assert [answer.id for answer in answers] == [task.id for _, task in messages]
        assert set(agent.calls.values()) == {1}
        assert agent.calls.total() == 3 + 4 * 12
        for number, task in enumerate(tasks):
            stored = await get(two, task.id)
            words = [f'{number}: first', *(f'{number}: {r}.{k}' for r in range(4) for k in range(4))]
            assert sorted(said(stored)) == sorted(words)
            text = kit.artifacts_of(stored)['text']
            assert text == ''.join(f'<{spoken}>' for spoken in said(stored))
            await check_journal(url, task.id)
