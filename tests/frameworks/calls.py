"""What the checks of all frameworks share: a handler for an executor, and the calls of a client.

The handler and the store are those of a2a-scribe; with ``SCRIBE_REGRESSION_TARGET=peer`` they are those of a2a-sdk, to
see what an executor does there.
"""

import asyncio
import importlib
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2a.server.agent_execution import AgentExecutor
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.request_handlers import RequestHandler
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from sqlalchemy.ext.asyncio import create_async_engine

PEER = os.environ.get('SCRIBE_REGRESSION_TARGET') == 'peer'
SOON = 5.0


@dataclass(frozen=True, slots=True)
class Client:
    """Calls a handler as a transport does."""

    handler: RequestHandler

    async def send(self, *parts: Part, task: Task | None = None) -> Task:
        answer = await self.handler.on_message_send(new_request(*parts, task=task), ServerCallContext())
        assert isinstance(answer, Task)
        return answer

    async def start(self, *parts: Part) -> Task:
        """Send without waiting for the outcome."""
        request = new_request(*parts)
        request.configuration.return_immediately = True
        answer = await self.handler.on_message_send(request, ServerCallContext())
        assert isinstance(answer, Task)
        return answer

    async def stream(self, *parts: Part, task: Task | None = None) -> list[Event]:
        request = new_request(*parts, task=task)
        return [event async for event in self.handler.on_message_send_stream(request, ServerCallContext())]

    async def cancel(self, task: Task) -> Task:
        answer = await self.handler.on_cancel_task(CancelTaskRequest(id=task.id), ServerCallContext())
        assert answer is not None
        return answer

    async def stored(self, task: Task) -> Task:
        answer = await self.handler.on_get_task(GetTaskRequest(id=task.id), ServerCallContext())
        assert answer is not None
        return answer


@asynccontextmanager
async def serving(executor: AgentExecutor, folder: Path) -> AsyncIterator[Client]:
    """A client of the executor, whose tasks are stored in a new SQLite file in the folder."""
    handlers: Any = importlib.import_module('a2a.server.request_handlers' if PEER else 'a2a_scribe')
    stores: Any = importlib.import_module('a2a.server.tasks' if PEER else 'a2a_scribe')
    engine = create_async_engine(f'sqlite+aiosqlite:///{folder}/tasks.db')
    card = AgentCard(name='framework', capabilities=AgentCapabilities(streaming=True))
    handler = handlers.DefaultRequestHandler(executor, stores.DatabaseTaskStore(engine), card)
    try:
        yield Client(handler)
    finally:
        async with asyncio.timeout(SOON):  # nothing is left to do
            await handler.aclose()
        await engine.dispose()


def new_request(*parts: Part, task: Task | None = None) -> SendMessageRequest:
    message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=parts)
    if task is not None:
        message.task_id, message.context_id = task.id, task.context_id
    return SendMessageRequest(message=message, configuration=SendMessageConfiguration())


def text(words: str) -> Part:
    return Part(text=words)


def state_of(task: Task) -> str:
    return TaskState.Name(task.status.state).removeprefix('TASK_STATE_')


def words_of(message: Message) -> str:
    return ''.join(part.text for part in message.parts)


def artifacts_of(task: Task) -> list[str]:
    return [''.join(part.text for part in artifact.parts) for artifact in task.artifacts]


def states_in(events: list[Event]) -> list[str]:
    """The states that a stream went through, without repetitions."""
    states: list[str] = []
    for event in events:
        if isinstance(event, Task | TaskStatusUpdateEvent):
            name = TaskState.Name(event.status.state).removeprefix('TASK_STATE_')
            states += [] if states[-1:] == [name] else [name]
    return states


def chunks_in(events: list[Event]) -> list[str]:
    updates = [event for event in events if isinstance(event, TaskArtifactUpdateEvent)]
    return [''.join(part.text for part in update.artifact.parts) for update in updates]
