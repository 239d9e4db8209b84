"""The one agent that every system under test runs.

Called by the workloads through a handler; the user's text says what to do ('chunks 10'). The agent knows nothing of
the system that runs it, so both sides of a comparison do the same work in the same code.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from bench.chunks import ARTIFACT_ID, chunk_text

KILOBYTE: Final = 1024

Script = Callable[['Turn', int], Awaitable[None]]


def agent_card() -> AgentCard:
    return AgentCard(
        name='bench',
        description='Emits what it is asked for.',
        version='1',
        supported_interfaces=[
            AgentInterface(url='http://127.0.0.1/', protocol_binding='JSONRPC', protocol_version='1.0')
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=['text/plain'],
        default_output_modes=['text/plain'],
        skills=[AgentSkill(id='emit', name='emit', description='Emits events.', tags=['bench'])],
    )


def kilobyte(number: int) -> str:
    """One kilobyte of text that differs from number to number."""
    return f'{number:08d}'.ljust(KILOBYTE, '.')


def finished_task(task_id: str, context_id: str, chunks: int) -> Task:
    """What is stored of a task after 'chunks N', for stores that are filled without running the agent."""
    status = TaskStatus(state=TaskState.TASK_STATE_COMPLETED)
    status.timestamp.GetCurrentTime()
    question = Message(
        role=Role.ROLE_USER,
        message_id=f'{task_id}-question',
        task_id=task_id,
        context_id=context_id,
        parts=[Part(text=f'chunks {chunks}')],
    )
    answer = Artifact(artifact_id=ARTIFACT_ID, parts=[Part(text=chunk_text(number)) for number in range(chunks)])
    return Task(id=task_id, context_id=context_id, status=status, history=[question], artifacts=[answer])


class Turn:
    """What a script may do: emit events of the task that it answers."""

    def __init__(self, task: Task, queue: EventQueue, release: asyncio.Event) -> None:
        self._task = task
        self._queue = queue
        self._release = release

    async def chunk(self, text: str, *, append: bool) -> None:
        await self._queue.enqueue_event(
            TaskArtifactUpdateEvent(
                task_id=self._task.id,
                context_id=self._task.context_id,
                artifact=Artifact(artifact_id=ARTIFACT_ID, parts=[Part(text=text)]),
                append=append,
            )
        )

    async def status(
        self, state: TaskState, *, message: Message | None = None, metadata: dict[str, str] | None = None
    ) -> None:
        await self._queue.enqueue_event(
            TaskStatusUpdateEvent(
                task_id=self._task.id,
                context_id=self._task.context_id,
                status=TaskStatus(state=state, message=message),
                metadata=metadata,
            )
        )

    def message(self, number: int) -> Message:
        return Message(
            role=Role.ROLE_AGENT,
            message_id=f'{self._task.id}-{number}',
            task_id=self._task.id,
            context_id=self._task.context_id,
            parts=[Part(text=kilobyte(number))],
        )

    async def wait_for_release(self) -> None:
        await self._release.wait()


async def emit_chunks(turn: Turn, count: int) -> None:
    for number in range(count):
        await turn.chunk(chunk_text(number), append=number > 0)


async def work(turn: Turn, count: int) -> None:
    await turn.status(TaskState.TASK_STATE_WORKING)
    await emit_chunks(turn, count)


async def emit_resets(turn: Turn, count: int) -> None:
    for number in range(count):
        await turn.chunk(kilobyte(number), append=False)


async def emit_statuses(turn: Turn, count: int) -> None:
    for number in range(count):
        await turn.status(TaskState.TASK_STATE_WORKING, metadata={'progress': kilobyte(number)})


async def emit_messages(turn: Turn, count: int) -> None:
    for number in range(count):
        await turn.status(TaskState.TASK_STATE_WORKING, message=turn.message(number))


async def wait(turn: Turn, count: int) -> None:
    await emit_chunks(turn, count)
    await turn.wait_for_release()


async def work_when_released(turn: Turn, count: int) -> None:
    await turn.wait_for_release()
    await emit_chunks(turn, count)


SCRIPTS: Final[dict[str, Script]] = {
    'chunks': emit_chunks,
    'resets': emit_resets,
    'statuses': emit_statuses,
    'messages': emit_messages,
    'wait': wait,
    'work': work,
    'gated': work_when_released,
}


class BenchAgent(AgentExecutor):
    """Enqueues its `Task`, follows the script that the user names, and completes."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        if context.message is None:
            raise ValueError('a turn without a message')
        name, count = context.get_user_input().split()
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        turn = Turn(task, event_queue, self.release)
        await SCRIPTS[name](turn, int(count))
        await turn.status(TaskState.TASK_STATE_COMPLETED)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError('nothing here is cancelled')
