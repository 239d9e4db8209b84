"""What the drop-in tests share: agents as users of a2a-sdk write them, and handlers that serve them.

With ``SCRIBE_REGRESSION_TARGET=peer`` the handler and stores are those of the installed a2a-sdk: what a test asks for
there as well is what a2a-sdk does, so a difference is ours.
"""

import asyncio
import importlib
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from a2a.auth.user import User
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server import tasks as sdk_tasks
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import RequestHandler
from a2a.server.tasks import TaskStore, TaskUpdater
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskState,
)
from sqlalchemy.ext.asyncio import create_async_engine

PEER = os.environ.get('SCRIBE_REGRESSION_TARGET') == 'peer'
SOON = 5.0

handlers: Any = importlib.import_module('a2a.server.request_handlers' if PEER else 'a2a_scribe')
stores: Any = importlib.import_module('a2a.server.tasks' if PEER else 'a2a_scribe')


# Agents


@dataclass
class Echo(AgentExecutor):
    """Says back what it is told, as an artifact; keeps what it was given for the test to look at."""

    contexts: list[RequestContext] = field(default_factory=list)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.contexts.append(context)
        updater = await open_task(context, event_queue)
        await updater.start_work()
        await self.work(context, updater)

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        await updater.add_artifact([Part(text=f'you said {context.get_user_input()}')], artifact_id='echo')
        await updater.complete(updater.new_agent_message([Part(text='done')]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await updater_for(context, event_queue).cancel()


@dataclass
class Asking(Echo):
    """Asks for a name before it greets."""

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        if context.current_task is None:
            await updater.add_artifact([Part(text='a form')], artifact_id='form')
            await updater.requires_input(updater.new_agent_message([Part(text='your name?')]))
            return
        await updater.add_artifact([Part(text=f'hello {context.get_user_input()}')], artifact_id='greeting')
        await updater.complete()


@dataclass
class Failing(Echo):
    """Starts to work, then fails."""

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        raise ConnectionError('a secret of the inside')


@dataclass
class Waiting(Echo):
    """Works until the test lets it end."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        self.started.set()
        await self.released.wait()
        await super().work(context, updater)


async def open_task(context: RequestContext, queue: EventQueue) -> TaskUpdater:
    if context.current_task is None:
        assert context.message is not None
        await queue.enqueue_event(new_task_from_user_message(context.message))
    return updater_for(context, queue)


def updater_for(context: RequestContext, queue: EventQueue) -> TaskUpdater:
    assert context.task_id is not None
    assert context.context_id is not None
    return TaskUpdater(queue, context.task_id, context.context_id)


# Handlers


def new_card(**fields: Any) -> AgentCard:
    capabilities = AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True)
    interfaces = [
        AgentInterface(url='http://agent.test/rpc', protocol_binding='JSONRPC', protocol_version='1.0'),
        AgentInterface(url='http://agent.test/rest', protocol_binding='HTTP+JSON', protocol_version='1.0'),
    ]
    complete = {'name': 'drop-in', 'description': 'An agent for tests.', 'version': '1', **fields}
    return AgentCard(capabilities=capabilities, supported_interfaces=interfaces, **complete)


@asynccontextmanager
async def serving(
    executor: AgentExecutor, store: TaskStore | None = None, card: AgentCard | None = None, **options: Any
) -> AsyncIterator[RequestHandler]:
    """A handler of ours for the executor, closed at the end."""
    handler = handlers.DefaultRequestHandler(
        executor, store or stores.InMemoryTaskStore(), card or new_card(), **options
    )
    try:
        yield handler
    finally:
        async with asyncio.timeout(SOON):  # nothing is left to do
            await handler.aclose()


@asynccontextmanager
async def opened_store(kind: str, folder: Path) -> AsyncIterator[Any]:
    """A store of ours, or with `foreign-` before its kind one of a2a-sdk."""
    place: Any = sdk_tasks if kind.startswith('foreign-') else stores
    if kind.endswith('memory'):
        yield place.InMemoryTaskStore()
        return
    engine = create_async_engine(f'sqlite+aiosqlite:///{folder}/tasks.db')
    yield place.DatabaseTaskStore(engine)
    await engine.dispose()


# Calls


@dataclass(frozen=True, slots=True)
class NamedUser(User):
    """An authenticated user."""

    name: str

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self.name


def call(user: str = '') -> ServerCallContext:
    return ServerCallContext(user=NamedUser(user)) if user else ServerCallContext()


def request(*texts: str, task: Task | None = None, **fields: Any) -> SendMessageRequest:
    parts = [Part(text=text) for text in texts]
    message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=parts, **fields)
    if task is not None:
        message.task_id, message.context_id = task.id, task.context_id
    return SendMessageRequest(message=message, configuration=SendMessageConfiguration())


async def send(handler: RequestHandler, *texts: str, task: Task | None = None, **fields: Any) -> Task:
    answer = await handler.on_message_send(request(*texts, task=task, **fields), call())
    assert isinstance(answer, Task)
    return answer


def state_of(task: Task) -> str:
    return TaskState.Name(task.status.state).removeprefix('TASK_STATE_')


def artifacts_of(task: Task) -> dict[str, str]:
    return {item.artifact_id: ''.join(part.text for part in item.parts) for item in task.artifacts}


def words_of(message: Message) -> str:
    return ''.join(part.text for part in message.parts)
