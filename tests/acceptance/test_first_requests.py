"""The first requests to a new database, many at once; several handlers and several event loops on one store."""

import asyncio
import gc
import sys
import threading
import uuid
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import (
    AgentCard,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskState,
)
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe import DatabaseTaskStore, DefaultRequestHandler

PROGRAM = Path(__file__).parent / 'programs' / 'first_requests.py'
PROCESSES = 8
LONG_ENOUGH = 60


class Polite(AgentExecutor):
    """Completes its task at once, unless it is asked for a question: then it asks, and completes with the answer."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        if task is None:
            assert context.message is not None
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if context.get_user_input() == 'ask me':
            await updater.requires_input()
            return
        await updater.add_artifact([Part(text=context.get_user_input())])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def new_handler(store: DatabaseTaskStore) -> DefaultRequestHandler:
    return DefaultRequestHandler(Polite(), store, AgentCard(name='quick'))


def new_request(text: str, task: Task | None = None) -> SendMessageRequest:
    message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text=text)])
    if task is not None:
        message.task_id, message.context_id = task.id, task.context_id
    return SendMessageRequest(message=message)


async def send(handler: DefaultRequestHandler, text: str = 'hi', task: Task | None = None) -> Task:
    answer = await handler.on_message_send(new_request(text, task), ServerCallContext())
    assert isinstance(answer, Task)
    return answer


async def count_tasks(handler: DefaultRequestHandler) -> int:
    listed = await handler.on_list_tasks(ListTasksRequest(), ServerCallContext())
    return listed.total_size


def states_of(tasks: Iterable[Task]) -> Counter[str]:
    return Counter(TaskState.Name(task.status.state) for task in tasks)


@pytest.fixture(params=['sqlite', 'postgres'])
def url(request: pytest.FixtureRequest) -> str:
    """A database of each kind that nobody has used yet."""
    name = 'sqlite_url' if request.param == 'sqlite' else 'postgres_database_url'
    return str(request.getfixturevalue(name))


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[DatabaseTaskStore]:
    engine = create_async_engine(url)
    yield DatabaseTaskStore(engine)
    await engine.dispose()


# Many at once


@pytest.mark.anyio
async def test_64_first_requests_at_once_all_succeed(url: str) -> None:
    async with opened(url) as store:
        handler = new_handler(store)
        answers = await asyncio.gather(*(send(handler) for _ in range(64)))
        assert states_of(answers) == {'TASK_STATE_COMPLETED': 64}
        assert await count_tasks(handler) == 64
        await handler.aclose()


@pytest.mark.anyio
async def test_first_requests_of_handlers_with_a_pool_each_all_succeed(url: str) -> None:
    async with opened(url) as one, opened(url) as two, opened(url) as three, opened(url) as four:
        handlers = [new_handler(store) for store in (one, two, three, four)]
        answers = await asyncio.gather(*(send(handler) for handler in handlers for _ in range(16)))
        assert states_of(answers) == {'TASK_STATE_COMPLETED': 64}
        assert [await count_tasks(handler) for handler in handlers] == [64] * 4
        for handler in handlers:
            await handler.aclose()


async def start_process(url: str, count: int) -> Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), url, str(count), stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b'ready\n'
    return process


async def finish(process: Process) -> tuple[int | None, str, str]:
    output, errors = await process.communicate(b'go\n')
    return process.returncode, output.decode().strip(), errors.decode()


@pytest.mark.anyio
async def test_first_requests_of_eight_processes_at_once_all_succeed(url: str) -> None:
    async with asyncio.timeout(LONG_ENOUGH):
        processes = [await start_process(url, 4) for _ in range(PROCESSES)]
        results = await asyncio.gather(*(finish(process) for process in processes))
    assert [result[:2] for result in results] == [(0, 'completed 4')] * PROCESSES, results
    async with opened(url) as store:
        handler = new_handler(store)
        assert await count_tasks(handler) == PROCESSES * 4
        await handler.aclose()


# Two handlers on one store


@pytest.mark.anyio
async def test_two_handlers_on_one_store_work_at_once(url: str) -> None:
    async with opened(url) as store:
        one, two = new_handler(store), new_handler(store)
        answers = await asyncio.gather(*(send(handler) for handler in (one, two) for _ in range(16)))
        assert states_of(answers) == {'TASK_STATE_COMPLETED': 32}
        assert await count_tasks(one) == await count_tasks(two) == 32
        await one.aclose()
        assert states_of([await send(two)]) == {'TASK_STATE_COMPLETED': 1}
        await two.aclose()


@pytest.mark.anyio
async def test_a_task_that_one_handler_parked_is_continued_by_the_other(url: str) -> None:
    async with opened(url) as store:
        one, two = new_handler(store), new_handler(store)
        question = await send(one, 'ask me')
        assert states_of([question]) == {'TASK_STATE_INPUT_REQUIRED': 1}
        answer = await send(two, 'the answer', question)
        assert (answer.id, answer.artifacts[0].parts[0].text) == (question.id, 'the answer')
        for handler in (one, two):
            read = await handler.on_get_task(GetTaskRequest(id=question.id), ServerCallContext())
            assert read == answer
            await handler.aclose()


# Several event loops: what a closed loop leaves in the pool of the program warns when it is collected

a_pool_outlives_its_loop = pytest.mark.filterwarnings(
    'ignore::ResourceWarning',
    'ignore::pytest.PytestUnraisableExceptionWarning',
    'ignore::pytest.PytestUnhandledThreadExceptionWarning',
)


ROUNDS = 5
"""A connection that was in use when its loop ended fails as it is finalized, and its error keeps it a while longer."""


@pytest.fixture
def collected() -> Iterator[None]:
    """Collects what a test has left, and lets its threads end, before others are blamed for it."""
    before = set(threading.enumerate())
    yield
    for _ in range(ROUNDS):
        gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(LONG_ENOUGH)


Work = Callable[[DatabaseTaskStore], Awaitable[tuple[DefaultRequestHandler, int]]]


def in_loops(url: str, work: Work, loops: int = 3) -> list[int]:
    """Do the work in one event loop after the other, with one store for all of them; the last closes what it used."""
    engine = create_async_engine(url)
    store = DatabaseTaskStore(engine)

    async def once(is_last: bool) -> int:
        handler, count = await work(store)
        if is_last:
            await handler.aclose()
            await engine.dispose()
        return count

    return [asyncio.run(once(number == loops - 1)) for number in range(loops)]


@a_pool_outlives_its_loop
@pytest.mark.usefixtures('collected')
def test_each_event_loop_may_have_a_handler_of_its_own(url: str) -> None:
    async def work(store: DatabaseTaskStore) -> tuple[DefaultRequestHandler, int]:
        handler = new_handler(store)
        assert states_of([await send(handler)]) == {'TASK_STATE_COMPLETED': 1}
        return handler, await count_tasks(handler)

    assert in_loops(url, work) == [1, 2, 3]


@a_pool_outlives_its_loop
@pytest.mark.usefixtures('collected')
def test_one_handler_may_serve_several_event_loops(url: str) -> None:
    made: list[DefaultRequestHandler] = []

    async def work(store: DatabaseTaskStore) -> tuple[DefaultRequestHandler, int]:
        handler = made[0] if made else new_handler(store)
        made[:] = [handler]
        assert states_of([await send(handler)]) == {'TASK_STATE_COMPLETED': 1}
        return handler, await count_tasks(handler)

    assert in_loops(url, work) == [1, 2, 3]


@a_pool_outlives_its_loop
@pytest.mark.usefixtures('collected')
def test_a_question_of_one_event_loop_is_answered_in_the_next(url: str) -> None:
    asked: list[Task] = []

    async def work(store: DatabaseTaskStore) -> tuple[DefaultRequestHandler, int]:
        handler = new_handler(store)
        if not asked:
            asked.append(await send(handler, 'ask me'))
            return handler, 0
        answer = await send(handler, 'the answer', asked[0])
        return handler, len(answer.artifacts)

    assert in_loops(url, work, loops=2) == [0, 1]
