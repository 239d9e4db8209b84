"""Our classes in the place of those of a2a-sdk: for exactly these classes, wherever they were imported from."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server import request_handlers as sdk_handlers
from a2a.server import tasks as sdk_tasks
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.cluster import VersionedDatabaseTaskStore
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler as ImportedBefore
from a2a.server.request_handlers.default_request_handler_v2 import DefaultRequestHandlerV2
from a2a.server.tasks.database_task_store import DatabaseTaskStore as StoreImportedBefore
from a2a.types.a2a_pb2 import (
    AgentCard,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
)
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe import DatabaseTaskStore, DefaultRequestHandler, InMemoryTaskStore, patching

pytestmark = pytest.mark.anyio

CARD = AgentCard(name='patched')


class FailingExecutor(AgentExecutor):
    """Enqueues its task and raises."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Fails after the task."""
        assert context.message is not None
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        raise RuntimeError('down')

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Has nothing to cancel."""


@pytest.fixture
def patched() -> Iterator[None]:
    """The classes replaced for the length of one test."""
    with patching.installed():
        yield


def class_of(made: object) -> type:
    """Its class, whatever a type checker believes."""
    return type(made)


def hello() -> SendMessageRequest:
    """A user's message."""
    return SendMessageRequest(message=Message(role=Role.ROLE_USER, message_id='m', parts=[Part(text='hi')]))


@pytest.mark.usefixtures('patched')
def test_a_program_that_names_their_classes_gets_ours() -> None:
    """By any path and any name, with the arguments of theirs."""
    memory = sdk_tasks.InMemoryTaskStore()
    assert class_of(memory) is InMemoryTaskStore
    for theirs in (ImportedBefore, sdk_handlers.DefaultRequestHandler, DefaultRequestHandlerV2):
        handler = theirs(FailingExecutor(), memory, agent_card=CARD)
        assert class_of(handler) is DefaultRequestHandler
        assert handler.task_store is memory


@pytest.mark.usefixtures('patched')
def test_our_objects_pass_for_instances_of_their_classes() -> None:
    """But not for instances of a user's subclasses."""

    class Kept(sdk_tasks.InMemoryTaskStore):
        pass

    store: object = sdk_tasks.InMemoryTaskStore()
    assert isinstance(store, sdk_tasks.InMemoryTaskStore)
    assert isinstance(store, sdk_tasks.TaskStore)
    assert not isinstance(store, Kept)


@pytest.mark.usefixtures('patched')
async def test_a_database_store_of_theirs_is_ours(tmp_path: Path) -> None:
    """The engine stays the caller's own."""
    engine = create_async_engine(f'sqlite+aiosqlite:///{tmp_path / "tasks.db"}')
    for theirs in (StoreImportedBefore, sdk_tasks.DatabaseTaskStore):
        store = theirs(engine, create_table=True)
        assert class_of(store) is DatabaseTaskStore
        assert store.engine is engine
    await engine.dispose()


@pytest.mark.usefixtures('patched')
async def test_a_failing_executor_has_one_outcome(tmp_path: Path) -> None:
    """The reason for it all: the executor's error for the caller, `FAILED` in the store."""
    engine = create_async_engine(f'sqlite+aiosqlite:///{tmp_path / "tasks.db"}')
    store = sdk_tasks.DatabaseTaskStore(engine)
    handler = sdk_handlers.DefaultRequestHandler(FailingExecutor(), store, CARD)
    request, context = hello(), ServerCallContext()
    with pytest.raises(RuntimeError, match='down'):
        await handler.on_message_send(request, context)
    page = await handler.on_list_tasks(ListTasksRequest(), context)
    assert [task.status.state for task in page.tasks] == [TaskState.TASK_STATE_FAILED]
    await handler.aclose()
    await engine.dispose()


@pytest.mark.usefixtures('patched')
async def test_a_users_subclass_is_kept() -> None:
    """It builds its own object, with its own arguments, and works on the parent's inner state."""

    class Counting(sdk_tasks.InMemoryTaskStore):
        def __init__(self, start: int, **options: Any) -> None:
            super().__init__(**options)
            self.saves = start

        async def save(self, task: Task, context: ServerCallContext) -> None:
            self.saves += 1
            await super().save(task, context)

    store, context = Counting(10, use_copying=True), ServerCallContext()
    assert type(store) is Counting
    await store.save(Task(id='t', status=TaskStatus(state=TaskState.TASK_STATE_WORKING)), context)
    assert store.saves == 11
    assert (await store.get('t', context)) is not None


@pytest.mark.usefixtures('patched')
def test_a_users_handler_subclass_is_kept() -> None:
    """Also one that builds itself in `__new__`, on its own or through another parent."""

    class Named:
        def __new__(cls, *args: Any, **kwargs: Any) -> 'Named':
            made = super().__new__(cls)
            made.arguments = len(args) + len(kwargs)
            return made

        arguments: int

    class Mine(sdk_handlers.DefaultRequestHandler, Named):
        pass

    class Early(sdk_handlers.DefaultRequestHandler):
        def __new__(cls, *args: Any, **kwargs: Any) -> 'Early':
            return super().__new__(cls)

    store = sdk_tasks.InMemoryTaskStore()
    mine = Mine(FailingExecutor(), store, agent_card=CARD)
    assert type(mine) is Mine
    assert mine.arguments == 3
    assert mine.agent_executor is not None
    assert type(Early(FailingExecutor(), store, CARD)) is Early


@pytest.mark.usefixtures('patched')
async def test_their_other_classes_are_kept(tmp_path: Path) -> None:
    """The cluster store, which builds on the inner methods of a store of theirs, and the legacy handler."""
    engine = create_async_engine(f'sqlite+aiosqlite:///{tmp_path / "tasks.db"}')
    store, context = VersionedDatabaseTaskStore(engine), ServerCallContext()
    assert type(store) is VersionedDatabaseTaskStore
    await store.initialize()
    assert await store.get('unknown', context) is None
    await engine.dispose()
    legacy = sdk_handlers.LegacyRequestHandler(FailingExecutor(), sdk_tasks.InMemoryTaskStore(), CARD)
    assert type(legacy) is sdk_handlers.LegacyRequestHandler


@pytest.mark.usefixtures('patched')
def test_signatures_stay_readable() -> None:
    """Frameworks that inject arguments read them."""
    assert 'agent_executor' in inspect.signature(sdk_handlers.DefaultRequestHandler).parameters
    assert 'owner_resolver' in inspect.signature(sdk_tasks.InMemoryTaskStore).parameters


def test_their_classes_build_their_own_objects_again() -> None:
    """After the end, and after it was begun twice."""
    with patching.installed():
        patching.install()
    store = sdk_tasks.InMemoryTaskStore(use_copying=False)
    assert type(store) is sdk_tasks.InMemoryTaskStore
    handler = sdk_handlers.DefaultRequestHandler(FailingExecutor(), store, CARD)
    assert type(handler) is DefaultRequestHandlerV2
