"""An executor that fails: one right outcome, 50 runs of 50, wherever its task is stored and however it is asked.

Runs against a2a-scribe; with ``SCRIBE_REGRESSION_TARGET=peer`` the same cases run against the classes of the
installed a2a-sdk (nothing of ours is imported then), which shows that they can fail:

    SCRIBE_REGRESSION_TARGET=peer python -m pytest --noconftest -c /dev/null --rootdir . THIS_FILE
"""

import asyncio
import importlib
import os
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server import tasks as sdk_tasks
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import RequestHandler
from a2a.server.tasks import TaskStore
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    Artifact,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import TaskNotFoundError, UnsupportedOperationError
from sqlalchemy.ext.asyncio import create_async_engine

pytestmark = pytest.mark.anyio

PEER = os.environ.get('SCRIBE_REGRESSION_TARGET') == 'peer'
RUNS = 50
TOO_LONG = 10.0
SOON = 5.0
NEWLINE = '\n'
STORES = ('sqlite',) if PEER else ('sqlite', 'postgres', 'memory', 'foreign-memory', 'foreign-sqlite')

handlers: Any = importlib.import_module('a2a.server.request_handlers' if PEER else 'a2a_scribe')
stores: Any = sdk_tasks if PEER else handlers

if PEER:

    @pytest.fixture
    def anyio_backend() -> str:
        """Stands in for the project's conftest, which the peer's environment does not load."""
        return 'asyncio'


class ModelDownError(RuntimeError):
    """What the agent of these tests fails with."""


# What the agent does before it fails


Emit = Callable[[RequestContext, EventQueue], Awaitable[None]]


async def emit_nothing(context: RequestContext, queue: EventQueue) -> None:
    """Fail at once."""


async def emit_task(context: RequestContext, queue: EventQueue) -> None:
    assert context.message is not None
    task = new_task_from_user_message(context.message)
    task.metadata.update({'agent_key': 'kept'})
    await queue.enqueue_event(task)


async def emit_status(
    context: RequestContext, queue: EventQueue, state: TaskState = TaskState.TASK_STATE_WORKING
) -> None:
    event = TaskStatusUpdateEvent(
        task_id=context.task_id, context_id=context.context_id, status=TaskStatus(state=state)
    )
    await queue.enqueue_event(event)


async def emit_task_and_status(context: RequestContext, queue: EventQueue) -> None:
    await emit_task(context, queue)
    await emit_status(context, queue)


async def emit_artifacts(context: RequestContext, queue: EventQueue) -> None:
    await emit_task_and_status(context, queue)
    for index, text in enumerate('abc'):
        event = TaskArtifactUpdateEvent(
            task_id=context.task_id,
            context_id=context.context_id,
            artifact=Artifact(artifact_id='answer', parts=[Part(text=text)]),
            append=index > 0,
        )
        await queue.enqueue_event(event)


async def emit_message(context: RequestContext, queue: EventQueue) -> None:
    await queue.enqueue_event(Message(role=Role.ROLE_AGENT, message_id=str(uuid.uuid4()), parts=[Part(text='hello')]))


async def emit_terminal_status(context: RequestContext, queue: EventQueue) -> None:
    await emit_task(context, queue)
    await emit_status(context, queue, TaskState.TASK_STATE_COMPLETED)


# What is right


@dataclass(frozen=True, slots=True)
class Stored:
    """The part of a stored task that an outcome is judged by."""

    state: str
    agent_key: str
    user_messages: int
    artifact: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the client of one run heard, and what is stored afterwards: read from the store and by GetTask."""

    heard: str
    stored: Stored | None
    got: Stored | None


@dataclass(frozen=True, slots=True)
class Case:
    """A point of failure with what has to be stored and heard then."""

    name: str
    emit: Emit
    stored: Stored | None
    blocking: str = 'raised ModelDownError: the model is down'
    streaming: str = 'Task .. TASK_STATE_FAILED'
    immediate: str = 'Task'

    def expected(self, style: str) -> Outcome:
        return Outcome(getattr(self, style), self.stored, self.stored)


FAILED = 'TASK_STATE_FAILED'
COMPLETED = 'TASK_STATE_COMPLETED'
CASES = [
    Case('before any event', emit_nothing, Stored(FAILED, '', 1, '')),
    Case('after the task', emit_task, Stored(FAILED, 'kept', 1, '')),
    Case('after a status alone', emit_status, Stored(FAILED, '', 1, '')),
    Case('after a status', emit_task_and_status, Stored(FAILED, 'kept', 1, '')),
    Case('after artifacts', emit_artifacts, Stored(FAILED, 'kept', 1, 'abc')),
    Case('after a message', emit_message, None, blocking='Message', streaming='Message', immediate='Message'),
    Case(
        'after the terminal status',
        emit_terminal_status,
        Stored(COMPLETED, 'kept', 1, ''),
        blocking='Task TASK_STATE_COMPLETED',
        streaming='Task .. TASK_STATE_COMPLETED',
    ),
]


# The agent and its three kinds of callers


@dataclass
class FailingAgent(AgentExecutor):
    """Emits what the case asks for, then raises; remembers which task each message was about."""

    emit: Emit
    tasks: dict[str, str] = field(default_factory=dict)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        assert context.task_id is not None
        self.tasks[context.message.message_id] = context.task_id
        await self.emit(context, event_queue)
        raise ModelDownError('the model is down')

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def state_name(event: object) -> str:
    match event:
        case Task() | TaskStatusUpdateEvent():
            return TaskState.Name(event.status.state)
        case _:
            return type(event).__name__


async def hear_blocking(handler: RequestHandler, request: SendMessageRequest, context: ServerCallContext) -> str:
    answer = await handler.on_message_send(request, context)
    return f'Task {state_name(answer)}' if isinstance(answer, Task) else type(answer).__name__


async def hear_streaming(handler: RequestHandler, request: SendMessageRequest, context: ServerCallContext) -> str:
    events = [event async for event in handler.on_message_send_stream(request, context)]
    first = type(events[0]).__name__ if events else 'nothing'
    return first if len(events) < 2 else f'{first} .. {state_name(events[-1])}'


async def hear_immediate(handler: RequestHandler, request: SendMessageRequest, context: ServerCallContext) -> str:
    request.configuration.return_immediately = True
    answer = await handler.on_message_send(request, context)
    if isinstance(answer, Task):
        await follow(handler, answer.id, context)
    return type(answer).__name__


async def follow(handler: RequestHandler, task_id: str, context: ServerCallContext) -> None:
    """Wait until the task has ended."""
    try:
        async with aclosing(handler.on_subscribe_to_task(SubscribeToTaskRequest(id=task_id), context)) as events:
            async for _ in events:
                pass
    except UnsupportedOperationError:
        pass  # it had ended before we asked


STYLES = {'blocking': hear_blocking, 'streaming': hear_streaming, 'immediate': hear_immediate}

if PEER:  # what a2a-sdk promises too: an error for whoever waits, and the task as the agent left it, FAILED
    STYLES = {'blocking': hear_blocking}
    CASES = [case for case in CASES if case.emit not in (emit_message, emit_status)]


# One run


def new_request() -> SendMessageRequest:
    message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text='hi')])
    return SendMessageRequest(message=message, configuration=SendMessageConfiguration())


def describe(task: Task | None, message_id: str) -> Stored | None:
    if task is None:
        return None
    return Stored(
        state=TaskState.Name(task.status.state),
        agent_key=str(task.metadata['agent_key']) if 'agent_key' in task.metadata else '',
        user_messages=sum(message.message_id == message_id for message in task.history),
        artifact=''.join(part.text for artifact in task.artifacts for part in artifact.parts),
    )


async def get_task(handler: RequestHandler, task_id: str, context: ServerCallContext) -> Task | None:
    try:
        return await handler.on_get_task(GetTaskRequest(id=task_id), context)
    except TaskNotFoundError:
        return None


async def run_once(handler: RequestHandler, store: TaskStore, agent: FailingAgent, style: str) -> Outcome:
    request, context = new_request(), ServerCallContext()
    message_id = request.message.message_id
    try:
        async with asyncio.timeout(TOO_LONG):
            heard = await STYLES[style](handler, request, context)
    except Exception as error:
        heard = f'raised {type(error).__name__}: {str(error).partition(NEWLINE)[0]}'
    task_id = agent.tasks.get(message_id, 'the agent was not called')
    stored = await store.get(task_id, context)
    got = await get_task(handler, task_id, context)
    return Outcome(heard, describe(stored, message_id), describe(got, message_id))


def table(outcomes: Counter[Outcome]) -> str:
    return NEWLINE.join(['', *(f'{count:3} {outcome}' for outcome, count in outcomes.most_common())])


def new_store(kind: str, engine: Any) -> TaskStore:
    place: Any = sdk_tasks if kind.startswith('foreign') else stores
    store: TaskStore = place.InMemoryTaskStore() if engine is None else place.DatabaseTaskStore(engine)
    return store


@asynccontextmanager
async def serving(kind: str, url: str | None, agent: FailingAgent) -> AsyncIterator[tuple[RequestHandler, TaskStore]]:
    engine = None if url is None else create_async_engine(url)
    store = new_store(kind, engine)
    card = AgentCard(name='failing', capabilities=AgentCapabilities(streaming=True))
    handler = handlers.DefaultRequestHandler(agent, store, card)
    try:
        yield handler, store
    finally:
        async with asyncio.timeout(SOON):  # nothing is left to do
            await handler.aclose()
        if engine is not None:
            await engine.dispose()


# The tests


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> str | None:
    if kind.endswith('memory'):
        return None
    if kind == 'postgres':
        return str(request.getfixturevalue('postgres_database_url'))
    return f'sqlite+aiosqlite:///{tmp_path}/tasks.db'


@pytest.mark.parametrize('style', STYLES)
@pytest.mark.parametrize('case', CASES, ids=lambda case: case.name.replace(' ', '-'))
async def test_every_run_ends_in_the_one_right_outcome(kind: str, url: str | None, case: Case, style: str) -> None:
    agent = FailingAgent(case.emit)
    outcomes: Counter[Outcome] = Counter()
    async with serving(kind, url, agent) as (handler, store):
        for _ in range(RUNS):
            outcome = await run_once(handler, store, agent, style)
            outcomes[outcome] += 1
            if outcome.heard.startswith('raised TimeoutError'):
                break
    assert outcomes == {case.expected(style): RUNS}, table(outcomes)


@pytest.mark.parametrize('style', STYLES)
async def test_runs_at_the_same_time_do_not_disturb_each_other(kind: str, url: str | None, style: str) -> None:
    case = next(case for case in CASES if case.emit is emit_artifacts)
    agent = FailingAgent(case.emit)
    async with serving(kind, url, agent) as (handler, store):
        runs = (run_once(handler, store, agent, style) for _ in range(RUNS))
        outcomes = Counter(await asyncio.gather(*runs))
    assert outcomes == {case.expected(style): RUNS}, table(outcomes)


@pytest.mark.skipif(PEER, reason='a2a-sdk makes a task here')
async def test_a_direct_message_leaves_no_task_behind(kind: str, url: str | None) -> None:
    agent = FailingAgent(emit_message)
    async with serving(kind, url, agent) as (handler, store):
        for style in STYLES:
            await run_once(handler, store, agent, style)
        listed = await handler.on_list_tasks(ListTasksRequest(), ServerCallContext())
    assert [task.id for task in listed.tasks] == []
