"""The client's side of the demonstration: what is asked over HTTP with the client of `a2a-sdk`, and what comes back.

Called by the command with a connected client. Each scene returns what it found and judges nothing on the way, so that
a wrong outcome is shown beside the right ones.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

from a2a.client import A2AClientError, Client
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError, TaskNotCancelableError

from a2a_scribe.cli.demo.agents import BOOK, CHUNKS, FAIL, METADATA_KEY, QUESTION, STREAM, WATCH
from a2a_scribe.cli.demo.checks import Check, Outcome, Scene
from a2a_scribe.ids import UuidSource

IDS = UuidSource()
PEOPLE = 'four'
STORY = ''.join(f'chunk {number} ' for number in range(1, CHUNKS + 1))


@dataclass(frozen=True, slots=True)
class Clients:
    """One server, asked in both ways that the protocol has."""

    streaming: Client
    blocking: Client

    async def stored(self, task_id: str) -> Task:
        """The task as the server has it now."""
        return await self.blocking.get_task(GetTaskRequest(id=task_id))


def state_of(task: Task) -> str:
    """The name of the task's state, without the prefix that all states share."""
    return TaskState.Name(task.status.state).removeprefix('TASK_STATE_')


def summary_of(task: Task) -> str:
    """What the user said first."""
    return next((_text(message.parts) for message in task.history if message.role == Role.ROLE_USER), '')


async def stream_a_task(clients: Clients, progress: Callable[[int], None]) -> Scene:
    """A task whose artifact arrives in 20 chunks."""
    first, chunks, last, task_id = '', [], '', ''
    async for event in _send(clients.streaming, STREAM):
        first = first or str(event.WhichOneof('payload'))
        task_id = task_id or event.task.id
        if event.HasField('artifact_update'):
            chunks.append(_text(event.artifact_update.artifact.parts))
            progress(len(chunks))
        elif event.HasField('status_update'):
            last = TaskState.Name(event.status_update.status.state)
    stored = await clients.stored(task_id)
    return Scene(
        'a streaming task',
        f'{len(chunks)} chunks, then {last.removeprefix("TASK_STATE_")}',
        (
            Check('first event', 'task', first),
            Check('chunks, in order', STORY, ''.join(chunks)),
            Check('number of chunks', CHUNKS, len(chunks)),
            Check('last status', 'TASK_STATE_COMPLETED', last),
            Check('stored state', 'COMPLETED', state_of(stored)),
            Check('stored text', [STORY], [_text(artifact.parts) for artifact in stored.artifacts]),
        ),
    )


async def answer_a_question(clients: Clients) -> Scene:
    """A task that asks for input and is answered."""
    asked = await _answer(clients.blocking, BOOK)
    answered = await _answer(clients.blocking, PEOPLE, asked)
    stored = await clients.stored(asked.id)
    said = [_text(message.parts) for message in stored.history if message.role == Role.ROLE_USER]
    return Scene(
        'a task that asks',
        f'{state_of(asked)}, then {state_of(answered)}',
        (
            Check('state when asked', 'INPUT_REQUIRED', state_of(asked)),
            Check('question', QUESTION, _text(asked.status.message.parts)),
            Check('same task', asked.id, answered.id),
            Check('state when answered', 'COMPLETED', state_of(answered)),
            Check('stored state', 'COMPLETED', state_of(stored)),
            Check('stored artifact', [f'A table for {PEOPLE}.'], [_text(each.parts) for each in stored.artifacts]),
            Check('stored messages of the user', [BOOK, PEOPLE], said),
        ),
    )


async def cancel_a_task(clients: Clients) -> Scene:
    """A task that works until it is cancelled, while its stream is read."""
    task_id, answer, states = '', Task(), []
    async for event in _send(clients.streaming, WATCH):
        task_id = task_id or event.task.id
        if event.HasField('status_update'):
            states.append(TaskState.Name(event.status_update.status.state).removeprefix('TASK_STATE_'))
            if states == ['WORKING']:
                answer = await clients.blocking.cancel_task(CancelTaskRequest(id=task_id))
    stored = await clients.stored(task_id)
    return Scene(
        'a cancelled task',
        ', then '.join(states),
        (
            Check('answer to the cancel', 'CANCELED', state_of(answer)),
            Check('states in the stream', ['WORKING', 'CANCELED'], states),
            Check('stored state', 'CANCELED', state_of(stored)),
            Check('second cancel', TaskNotCancelableError.__name__, await _cancel_again(clients, task_id)),
        ),
    )


async def call_a_failing_agent(clients: Clients) -> Outcome:
    """One call of the agent that enqueues its task and then raises."""
    try:
        task = await _answer(clients.blocking, FAIL)
        client = f'a task, {state_of(task)}'
    except (A2AError, A2AClientError) as error:
        return Outcome(f'{type(error).__name__}', 'unknown', metadata_kept=False)
    stored = await clients.stored(task.id)
    return Outcome(client, state_of(stored), metadata_kept=METADATA_KEY in stored.metadata)


RIGHT_FAILURE = Outcome('a task, FAILED', 'FAILED', metadata_kept=True)


async def list_tasks(clients: Clients) -> list[Task]:
    """All tasks of the server, newest first."""
    response = await clients.blocking.list_tasks(ListTasksRequest(page_size=100, include_artifacts=True))
    return list(response.tasks)


async def _send(client: Client, text: str, task: Task | None = None) -> AsyncIterator[StreamResponse]:
    message = Message(role=Role.ROLE_USER, message_id=IDS.new(), parts=[Part(text=text)])
    if task is not None:
        message.task_id, message.context_id = task.id, task.context_id
    async for event in client.send_message(SendMessageRequest(message=message)):
        yield event


async def _answer(client: Client, text: str, task: Task | None = None) -> Task:
    answer = Task()
    async for event in _send(client, text, task):
        answer = event.task
    return answer


async def _cancel_again(clients: Clients, task_id: str) -> str:
    try:
        await clients.blocking.cancel_task(CancelTaskRequest(id=task_id))
    except (A2AError, A2AClientError) as error:
        return type(error).__name__
    return 'accepted'


def _text(parts: Iterable[Part]) -> str:
    return ''.join(part.text for part in parts)
