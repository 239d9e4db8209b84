"""The adapter for users' stores keeps the contract as far as such stores allow."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.cluster import TaskVersion, VersionedDatabaseTaskStore, VersionedTaskStore
from a2a.server.context import ServerCallContext
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskStore, TaskUpdater
from a2a.types.a2a_pb2 import (
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Part,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import InternalError
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe import DefaultRequestHandler
from a2a_scribe.journal import foreign
from a2a_scribe.journal.foreign import ForeignJournal
from a2a_scribe.journal.tasks import Caller
from a2a_scribe.protocol.states import TERMINAL
from a2a_scribe.protocol.types import Scope
from a2a_scribe.settings import Settings
from a2a_scribe.testing.journal_contract import Connect, JournalContract, Point
from tests.component.kit import until
from tests.dropin import kit

pytestmark = pytest.mark.anyio

Script = Callable[[TaskUpdater], Awaitable[object]]
NOBODY = Caller(Scope('', '', ''), kit.call())


UNVERSIONED: Mapping[Point, str] = {
    Point.AGENTS_AND_TENANTS: 'a store of a2a-sdk knows owners only',
    Point.ATOMIC: 'a store saves one task at a time',
    Point.REFUSES_KNOWN_IDS: 'saving means replacing',
    Point.RETENTION: 'how long a store keeps tasks is its own business',
    Point.REPLACING: 'what is stored from outside goes to the store, which keeps no records',
}
VERSIONED: Mapping[Point, str] = {
    point: reason for point, reason in UNVERSIONED.items() if point is not Point.REFUSES_KNOWN_IDS
}


class TestOverTheirMemory(JournalContract):
    cannot = UNVERSIONED

    @pytest.fixture
    async def connect(self) -> Connect:
        journal = ForeignJournal(InMemoryTaskStore())
        return lambda: journal


class TestOverTheirDatabase(JournalContract):
    cannot = UNVERSIONED

    @pytest.fixture
    async def connect(self, sqlite_url: str) -> AsyncIterator[Connect]:
        engine = create_async_engine(sqlite_url)
        journal = ForeignJournal(DatabaseTaskStore(engine))
        yield lambda: journal
        await engine.dispose()


class TestOverTheirVersionedDatabase(JournalContract):
    cannot = VERSIONED

    @pytest.fixture
    async def connect(self, sqlite_url: str) -> AsyncIterator[Connect]:
        engine = create_async_engine(sqlite_url)
        journal = ForeignJournal(VersionedDatabaseTaskStore(engine))
        yield lambda: journal
        await engine.dispose()


# What only this adapter has to do


@dataclass
class Does(kit.Echo):
    """An agent that opens its task and then does what the test says."""

    script: Script = TaskUpdater.complete

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        await self.script(updater)


@asynccontextmanager
async def serving(
    agent: AgentExecutor, store: TaskStore | VersionedTaskStore, **options: Any
) -> AsyncIterator[DefaultRequestHandler]:
    handler = DefaultRequestHandler(agent, store, kit.new_card(), **options)
    try:
        yield handler
    finally:
        await handler.aclose()


class WatchedStore(InMemoryTaskStore):
    """A store that remembers what is saved, and can be told to be slow or to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: list[Task] = []
        self.errors: list[Exception | None] = []
        """What the next saves raise; `None` lets one pass."""
        self.broken = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.knocked = asyncio.Event()
        """Somebody has begun to save."""
        self.busy: Counter[str] = Counter()
        self.most_at_once = 0

    async def save(self, task: Task, context: ServerCallContext) -> None:
        self.busy[task.id] += 1
        assert self.busy[task.id] == 1, 'two saves of one task at once'
        self.most_at_once = max(self.most_at_once, self.busy.total())
        self.knocked.set()
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
            error = self.errors.pop(0) if self.errors else None
            if error is not None or self.broken:
                raise error or ConnectionError('the store is broken')
            await super().save(task, context)
        finally:
            self.busy[task.id] -= 1
        copy = Task()
        copy.CopyFrom(task)
        self.saved.append(copy)

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        if self.broken:
            raise ConnectionError('the store is broken')
        return await super().get(task_id, context)

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        if self.broken:
            raise ConnectionError('the store is broken')
        return await super().list(params, context)


async def chunks(updater: TaskUpdater, count: int) -> None:
    for number in range(count):
        await updater.add_artifact([Part(text=f'{number} ')], artifact_id='text', append=number > 0)


def expected_text(count: int) -> str:
    return ''.join(f'{number} ' for number in range(count))


@pytest.fixture
def store() -> WatchedStore:
    return WatchedStore()


@pytest.fixture
def quick_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries a failed save again without a pause."""
    monkeypatch.setattr(foreign, 'PAUSES', (0.0, 0.0, 0.0))


async def test_saves_are_coalesced_while_one_runs(store: WatchedStore) -> None:
    async def script(updater: TaskUpdater) -> None:
        await store.knocked.wait()
        await chunks(updater, 200)
        await updater.complete()
        store.gate.set()

    store.gate.clear()
    settings = Settings(pending_age=60)
    async with serving(Does(script=script), store, settings=settings) as handler:
        task = await kit.send(handler, 'go')
    assert kit.artifacts_of(task) == {'text': expected_text(200)}
    assert [kit.state_of(saved) for saved in store.saved] == ['WORKING', 'COMPLETED']
    assert store.saved[-1] == task


@pytest.mark.parametrize('at_once', [True, False])
@pytest.mark.parametrize('end', ['complete', 'failed', 'reject', 'cancel'])
@pytest.mark.parametrize('kind', ['memory', 'database', 'versioned'])
async def test_the_end_is_always_saved(kind: str, end: str, at_once: bool, sqlite_url: str) -> None:
    async def script(updater: TaskUpdater) -> None:
        if not at_once:
            await updater.requires_input()
            return
        await getattr(updater, end)()

    async def finish(updater: TaskUpdater) -> None:
        await getattr(updater, end)()

    engine = create_async_engine(sqlite_url)
    places: dict[str, Callable[[], TaskStore | VersionedTaskStore]] = {
        'memory': InMemoryTaskStore,
        'database': lambda: DatabaseTaskStore(engine),
        'versioned': lambda: VersionedDatabaseTaskStore(engine),
    }
    place = places[kind]()
    agent = Does(script=script)
    async with serving(agent, place) as handler:
        task = await kit.send(handler, 'go')
        if not at_once:
            agent.script = finish
            task = await kit.send(handler, 'end it', task=task)
    stored = await ForeignJournal(place).read_task(task.id, NOBODY)
    assert stored is not None
    assert stored.projection.to_task() == task
    assert stored.row.state in TERMINAL
    await engine.dispose()


async def test_one_task_is_never_saved_twice_at_once_but_many_are(store: WatchedStore) -> None:
    async def script(updater: TaskUpdater) -> None:
        for number in range(30):
            await updater.add_artifact([Part(text=f'{number} ')], artifact_id='text', append=number > 0)
            await asyncio.sleep(0)
        await updater.complete()

    async with serving(Does(script=script), store) as handler:
        tasks = await asyncio.gather(*(kit.send(handler, 'go') for _ in range(20)))
    assert {kit.artifacts_of(task)['text'] for task in tasks} == {expected_text(30)}
    assert store.most_at_once > 1
    assert len({task.id for task in store.saved}) == 20


async def test_nothing_is_shown_before_it_is_saved(store: WatchedStore) -> None:
    store.gate.clear()
    async with serving(Does(), store) as handler:
        stream = handler.on_message_send_stream(kit.request('go'), kit.call())
        first = asyncio.ensure_future(anext(stream))
        await store.knocked.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not first.done()
        store.gate.set()
        assert isinstance(await first, Task)
        assert [type(event).__name__ async for event in stream][-1] == 'TaskStatusUpdateEvent'


@pytest.mark.usefixtures('quick_attempts')
@pytest.mark.parametrize('failures', [1, 3])
async def test_a_save_that_fails_for_a_while_is_tried_again(store: WatchedStore, failures: int) -> None:
    store.errors = [ConnectionError('not now')] * failures
    async with serving(Does(script=say_and_end), store) as handler:
        task = await kit.send(handler, 'go')
    assert kit.state_of(task) == 'COMPLETED'
    assert store.saved[-1] == task


async def say_and_end(updater: TaskUpdater) -> None:
    await chunks(updater, 3)
    await updater.complete()


@pytest.mark.usefixtures('quick_attempts')
async def test_a_save_that_always_fails_ends_the_task_as_failed(store: WatchedStore) -> None:
    store.errors = [None, *[ValueError('this task does not fit')] * 4]

    async def script(updater: TaskUpdater) -> None:
        await store.knocked.wait()
        await updater.start_work()
        await say_and_end(updater)

    async with serving(Does(script=script), store, failure_answer='task') as handler:
        task = await kit.send(handler, 'go')
        assert kit.state_of(task) == 'FAILED'
        assert store.saved[-1] == task
        assert kit.state_of(await kit.send(handler, 'another')) == 'COMPLETED'


@pytest.mark.usefixtures('quick_attempts')
async def test_a_store_that_is_broken_hangs_nobody(store: WatchedStore) -> None:
    store.broken = True
    async with serving(Does(), store) as handler:
        with pytest.raises(InternalError):
            await kit.send(handler, 'go')
        for call in (
            handler.on_get_task(GetTaskRequest(id='task'), kit.call()),
            handler.on_list_tasks(ListTasksRequest(), kit.call()),
        ):
            with pytest.raises(InternalError) as caught:
                await call
            assert caught.value.data == {'retryable': 'true'}
        store.broken = False
        assert kit.state_of(await kit.send(handler, 'go')) == 'COMPLETED'


async def test_a_lost_answer_of_a_versioned_store_is_found_out(sqlite_url: str) -> None:
    class Forgetful(VersionedDatabaseTaskStore):
        answers_lost = 0

        async def save(self, task: Task, **details: Any) -> TaskVersion:
            version = await super().save(task, **details)
            if task.artifacts and not self.answers_lost:
                self.answers_lost += 1
                raise ConnectionError('the answer got lost')
            return version

    engine = create_async_engine(sqlite_url)
    store = Forgetful(engine)
    async with serving(Does(script=say_and_end), store) as handler:
        task = await kit.send(handler, 'go')
    assert (kit.state_of(task), store.answers_lost) == ('COMPLETED', 1)
    await engine.dispose()


@pytest.mark.parametrize('their_state', ['CANCELED', 'WORKING'])
async def test_what_another_process_ends_stays_ended(sqlite_url: str, their_state: str) -> None:
    engine = create_async_engine(sqlite_url)
    store, released = VersionedDatabaseTaskStore(engine), asyncio.Event()

    async def script(updater: TaskUpdater) -> None:
        await updater.start_work()
        await released.wait()
        await updater.complete()

    async with serving(Does(script=script), store) as handler:
        request = kit.request('go')
        request.configuration.return_immediately = True
        task = await handler.on_message_send(request, kit.call())
        assert isinstance(task, Task)
        stream = handler.on_subscribe_to_task(SubscribeToTaskRequest(id=task.id), kit.call())
        await anext(stream)
        stored = await store.get(task.id, kit.call())
        assert stored is not None
        stored.task.status.state = getattr(TaskState, f'TASK_STATE_{their_state}')
        await store.save(stored.task, event=None, prev=None, prev_version=stored.version, context=kit.call())
        released.set()
        async for _ in stream:
            pass
    kept = await store.get(task.id, kit.call())
    assert kept is not None
    assert kit.state_of(kept.task) == ('CANCELED' if their_state == 'CANCELED' else 'COMPLETED')
    await engine.dispose()


async def test_a_subscriber_stays_through_a_pause(store: WatchedStore) -> None:
    async def ask(updater: TaskUpdater) -> None:
        await chunks(updater, 5)
        await updater.requires_input()

    agent = Does(script=ask)
    async with serving(agent, store) as handler:
        task = await kit.send(handler, 'go')
        stream = handler.on_subscribe_to_task(SubscribeToTaskRequest(id=task.id), kit.call())
        assert (await anext(stream)) == task
        agent.script = say_and_end
        await kit.send(handler, 'more', task=task)
        events = [event async for event in stream]
    names = [type(event).__name__ for event in events]
    assert names == ['TaskStatusUpdateEvent', *['TaskArtifactUpdateEvent'] * 3, 'TaskStatusUpdateEvent']


async def test_a_task_that_others_changed_goes_on_from_there(store: WatchedStore) -> None:
    async def ask(updater: TaskUpdater) -> None:
        await updater.requires_input()

    agent = Does(script=ask)
    async with serving(agent, store) as handler:
        task = await kit.send(handler, 'go')
        await until(lambda: handler.engine.live_tasks == 0, 'the agent has returned, so others may change it')
        task.metadata.update({'by': 'somebody else'})
        await store.save(task, kit.call())
        agent.script = say_and_end
        ended = await kit.send(handler, 'more', task=task)
    assert (kit.state_of(ended), ended.metadata['by']) == ('COMPLETED', 'somebody else')


async def test_what_cannot_be_promised_is_said_once(store: WatchedStore, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Does(), store) as handler:
        for _ in range(3):
            await kit.send(handler, 'go')
    [warning] = [entry for entry in caplog.records if entry.name == foreign.__name__]
    assert warning.levelname == 'WARNING'
    assert 'WatchedStore keeps the newest state of a task only' in warning.getMessage()
