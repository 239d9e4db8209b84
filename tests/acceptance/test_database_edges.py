"""What reaches the edges of a database: odd input, rows of others, secrets, and two nodes that write at once."""

import asyncio
import base64
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor
from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageConfiguration,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import InternalError, InvalidParamsError, TaskNotFoundError
from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import Executable, event, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import QueuePool, StaticPool

from a2a_scribe import DatabaseTaskStore, DefaultRequestHandler
from a2a_scribe.core.records import CallerRecord, TurnStarted, decode, encode
from a2a_scribe.errors import SettingsError
from a2a_scribe.journal.opening import open_store
from a2a_scribe.journal.port import Journal, NodeRow
from a2a_scribe.journal.results import Done, Queued
from a2a_scribe.journal.sql.connected import Connected
from a2a_scribe.journal.sql.in_thread import InThread
from a2a_scribe.journal.sql.running import Running
from a2a_scribe.journal.sql.statements import statements_of
from a2a_scribe.journal.sql.tables import DEFAULT_PREFIX
from a2a_scribe.journal.tasks import Caller
from a2a_scribe.journal.writes import Accept, Group, PutConfig
from a2a_scribe.protocol.states import COMPLETED, INPUT_REQUIRED, WORKING
from a2a_scribe.protocol.types import NodeId, Scope, TurnId
from a2a_scribe.testing.agents import Run, ScriptedAgent, artifact, do, emit, status, task, wait
from tests.component.kit import new_card, new_context, new_request

pytestmark = pytest.mark.anyio

LONG_ENOUGH = 20
AT_ONCE = SendMessageConfiguration(return_immediately=True)
SECRETS = SendMessageConfiguration(
    task_push_notification_config=TaskPushNotificationConfig(
        url='https://example.com/',
        token='TOPSECRET',
        authentication=AuthenticationInfo(scheme='Bearer', credentials='HUSHHUSH'),
    )
)


@pytest.fixture(params=['sqlite_url', 'postgres_database_url'])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@asynccontextmanager
async def connected(url: str, **options: Any) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(url, **options)
    try:
        async with asyncio.timeout(LONG_ENOUGH):
            yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def serving(agent: AgentExecutor, engine: AsyncEngine) -> AsyncIterator[DefaultRequestHandler]:
    handler = DefaultRequestHandler(agent, DatabaseTaskStore(engine), new_card())
    try:
        await handler.start()
        yield handler
    finally:
        if isinstance(agent, ScriptedAgent):
            agent.open_all()
        await handler.aclose()


async def ask(handler: DefaultRequestHandler, words: str = 'go', **given: Any) -> Task:
    answer = await handler.on_message_send(new_request(words, **given), new_context())
    assert isinstance(answer, Task)
    return answer


async def execute(engine: AsyncEngine, statement: str, **values: object) -> None:
    async with engine.begin() as connection:
        await connection.execute(text(statement), values)


# Odd input


def token_of(*value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip('=')


ODD_QUERIES: dict[str, dict[str, Any]] = {
    'a page after half a character': {'page_token': token_of(1, '\ud800')},
    'a page after a NUL': {'page_token': token_of(1, 'a\0b')},
    'an unknown state': {'status': 99},
    'a number that is no state anywhere': {'status': 100_000},
    'a context with a NUL': {'context_id': 'a\0b'},
    'a time beyond all dates': {'status_timestamp_after': Timestamp(seconds=2**55)},
}


@pytest.mark.parametrize('odd', ODD_QUERIES.values(), ids=ODD_QUERIES)
async def test_a_list_query_that_no_database_can_take_is_refused(url: str, odd: dict[str, Any]) -> None:
    async with connected(url) as engine, serving(ScriptedAgent(), engine) as handler:
        with pytest.raises(InvalidParamsError):
            await handler.on_list_tasks(ListTasksRequest(**odd), new_context())


async def test_a_task_whose_id_has_a_nul_is_not_found(postgres_database_url: str) -> None:
    async with connected(postgres_database_url) as engine, serving(ScriptedAgent(), engine) as handler:
        with pytest.raises((TaskNotFoundError, InvalidParamsError)):
            await handler.on_get_task(GetTaskRequest(id='a\0b'), new_context())


async def test_a_row_of_an_unknown_kind_in_the_inbox_is_left_alone(url: str) -> None:
    """A later release may keep other things there."""
    agent = ScriptedAgent(
        [emit(task(), status(WORKING)), wait('gate'), emit(status(INPUT_REQUIRED))], [emit(status(COMPLETED))]
    )
    async with connected(url) as engine, serving(agent, engine) as handler:
        begun = await ask(handler, configuration=AT_ONCE)
        asking = asyncio.create_task(ask(handler, 'more', task_id=begun.id))
        await execute(
            engine,
            'INSERT INTO scribe_inbox (task_id, turn_id, kind, body, node, created_at) '
            "VALUES (:id, 'x', 'later', :body, 'n', 0)",
            id=begun.id,
            body=b'\2',
        )
        agent.open('gate')
        assert (await asking).status.state == COMPLETED
        async with engine.connect() as connection:
            assert (await connection.execute(text('SELECT kind FROM scribe_inbox'))).scalars().all() == ['later']


# Secrets


CHECKS = {
    'record': "scribe_records ADD CHECK (kind <> 'status')",
    'config': 'scribe_push_configs ADD CHECK (length(body) < 3)',
}


@pytest.mark.parametrize('check', CHECKS.values(), ids=CHECKS)
async def test_a_refused_transaction_tells_the_log_no_values(
    postgres_database_url: str, check: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = ScriptedAgent([emit(task(), status(COMPLETED))])
    async with connected(postgres_database_url) as engine, serving(agent, engine) as handler:
        await execute(engine, f'ALTER TABLE {check}')
        with pytest.raises(InternalError):
            await ask(handler, 'private words', configuration=SECRETS)
    logged = '\n'.join(map(logging.Formatter().format, caplog.records))
    assert 'violates check constraint' in logged
    for secret in ('TOPSECRET', 'HUSHHUSH', 'private words'):
        assert secret not in logged


async def test_credentials_of_push_configs_are_not_in_the_records(sqlite_url: str) -> None:
    agent = ScriptedAgent([emit(task(), status(COMPLETED))])
    async with connected(sqlite_url) as engine, serving(agent, engine) as handler:
        await ask(handler, configuration=SECRETS)
        async with engine.connect() as connection:
            found = await connection.execute(text('SELECT body FROM scribe_records'))
            bodies: Sequence[bytes] = found.scalars().all()
    assert bodies
    assert not any(secret in body for body in bodies for secret in (b'TOPSECRET', b'HUSHHUSH'))


async def test_the_tenant_of_a_caller_is_recorded(sqlite_url: str) -> None:
    agent = ScriptedAgent([emit(task(), status(COMPLETED))])
    async with connected(sqlite_url) as engine:
        store = DatabaseTaskStore(engine)
        handler = DefaultRequestHandler(agent, store, new_card())
        try:
            done = await ask(handler, tenant='acme')
            records = await store.journal.read_records(done.id, 0, limit=1, max_bytes=1)
        finally:
            await handler.aclose()
    started = decode(records[0])
    assert isinstance(started, TurnStarted)
    assert started.caller.tenant == 'acme'


def test_a_database_url_that_cannot_be_read_is_not_repeated() -> None:
    with pytest.raises(SettingsError) as caught:
        open_store('postgresql+asyncpg:user:HUSHHUSH@h/db')
    assert 'HUSHHUSH' not in str(caught.value)


# Connections


async def test_a_handler_that_is_closed_has_no_connection_any_more(url: str) -> None:
    async with connected(url) as engine:
        kept = Counter[str]()
        for name in ('detach', 'close_detached'):
            event.listen(engine.sync_engine, name, lambda *_, name=name: kept.update([name]))
        async with serving(ScriptedAgent([emit(task(), status(COMPLETED))]), engine) as handler:
            done = await ask(handler)
        pool = engine.sync_engine.pool
        assert isinstance(pool, QueuePool)
        assert pool.checkedout() == 0
        assert kept['detach'] == kept['close_detached']
        assert await handler.on_get_task(GetTaskRequest(id=done.id), new_context()) == done


# Two at once


async def test_a_reader_that_is_cancelled_again_and_again_mixes_no_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the one connection of a database in memory, whoever waits is cancelled at every turn of the loop."""
    users: list[Running] = []
    mixed: list[str] = []

    def watch(kind: type[Running], name: str) -> None:
        real: Callable[..., Awaitable[Any]] = getattr(kind, name)

        async def watched(running: Running, *given: Any) -> Any:
            if any(user is not running for user in users):
                mixed.append(name)
            users.append(running)
            try:
                return await real(running, *given)
            finally:
                users.remove(running)

        monkeypatch.setattr(kind, name, watched)

    for name in ('rows', 'query'):
        watch(Connected, name)
    for name in ('rows', 'change', 'change_many', 'insert_records'):
        watch(InThread, name)
    agent = ScriptedAgent([emit(task(), status(WORKING)), emit(status(COMPLETED))])
    async with (
        connected('sqlite+aiosqlite:///:memory:', poolclass=StaticPool) as engine,
        serving(agent, engine) as handler,
    ):

        async def read_impatiently() -> None:
            for turns in range(60):
                reading = asyncio.ensure_future(handler.on_list_tasks(ListTasksRequest(), new_context()))
                for _ in range(turns):
                    await asyncio.sleep(0)
                while not reading.done():
                    reading.cancel()
                    await asyncio.sleep(0)

        readers = [asyncio.create_task(read_impatiently()) for _ in range(3)]
        done = [await ask(handler) for _ in range(60)]
        await asyncio.gather(*readers)
        stored = [await handler.on_get_task(GetTaskRequest(id=each.id), new_context()) for each in done]
    assert mixed == []
    assert stored == done


async def until_somebody_waits_for_a_lock(engine: AsyncEngine) -> None:
    question = text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    async with asyncio.timeout(LONG_ENOUGH / 4):
        while True:
            async with engine.connect() as connection:
                if (await connection.execute(question)).scalar_one():
                    return


async def registered(engine: AsyncEngine, name: str) -> Journal:
    journal = DatabaseTaskStore(engine).journal
    await journal.open()
    await journal.register(NodeRow(NodeId(name), 'scripted', '', 0))
    return journal


async def test_two_nodes_that_change_the_same_tasks_wait_for_each_other_in_the_same_order(
    postgres_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One saves a big change after a small one, against the order of ids; the other accepts messages in that order."""
    update, update_many = statements_of(DEFAULT_PREFIX).update_tasks, Connected.change_many
    holding, troubles = asyncio.Event(), list[str]()

    async def change_many(running: Connected, statement: Executable, parameters: Sequence[Any]) -> None:
        await update_many(running, statement, parameters)
        if statement is update and parameters:
            holding.set()
            await until_somebody_waits_for_a_lock(engine)

    def accept(task_id: str, turn_id: str) -> Accept:
        request = new_request('more', task_id=task_id)
        _, body = encode(TurnStarted(TurnId(turn_id), CallerRecord('ada', ''), request))
        return Accept(task_id, Caller(Scope('scripted', 'ada', '')), TurnId(turn_id), body, 3, 100)

    async def say_more(run: Run) -> None:
        is_first = run.context.task_id == first
        await emit(artifact('x' * 40_000) if is_first else status(WORKING, 'on'))(run)

    agent = ScriptedAgent([emit(task(), status(WORKING)), wait('gate'), do(say_more), wait('end')])
    async with AsyncExitStack() as stack:
        engine, other = [await stack.enter_async_context(connected(postgres_database_url)) for _ in range(2)]
        handler = await stack.enter_async_context(serving(agent, engine))
        handler.engine.signals.commit_failed.connect(lambda point: troubles.append(str(point.error)))
        first, second = sorted([(await ask(handler, configuration=AT_ONCE)).id for _ in range(2)])
        journal = await registered(other, 'other')
        monkeypatch.setattr(Connected, 'change_many', change_many)
        agent.open('gate')
        await holding.wait()
        receipt = await journal.commit(Group(NodeId('other'), 1, 0, [], [accept(first, 't1'), accept(second, 't2')]))
        monkeypatch.undo()
        assert [type(result) for result in receipt.written] == [Queued, Queued]
        assert troubles == []


async def test_two_nodes_that_put_the_same_config_at_once_both_succeed(
    postgres_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, committing = Connected.commit, list[Connected]()

    async def commit_when_the_other_waits(running: Connected) -> None:
        committing.append(running)
        if len(committing) == 1:
            await until_somebody_waits_for_a_lock(watching)
        await commit(running)

    caller = Caller(Scope('scripted', 'ada', ''))
    put = PutConfig(caller, TaskPushNotificationConfig(task_id='t', id='c', url='https://example.com/'))
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(connected(postgres_database_url)) for _ in range(3)]
        watching = engines.pop()
        journals = {name: await registered(engine, name) for name, engine in zip('AB', engines, strict=True)}
        monkeypatch.setattr(Connected, 'commit', commit_when_the_other_waits)
        receipts = await asyncio.gather(
            *(journal.commit(Group(NodeId(name), 1, 0, [], [put])) for name, journal in journals.items())
        )
        assert [receipt.written for receipt in receipts] == [[Done()], [Done()]]
        assert [config.id for config in await journals['A'].read_configs('t')] == ['c']
