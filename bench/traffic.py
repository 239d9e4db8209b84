"""Requests that the measurements send, and the checks of what came back."""

import uuid

from a2a.types.a2a_pb2 import (
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskState,
)

from bench.chunks import ARTIFACT_ID, chunk_text
from bench.systems import Opened


class WrongAnswerError(Exception):
    """A system answered, but not with what its agent emitted."""


def send_request(text: str, *, return_immediately: bool = False) -> SendMessageRequest:
    message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text=text)])
    configuration = SendMessageConfiguration(return_immediately=return_immediately)
    return SendMessageRequest(message=message, configuration=configuration)


async def run_task(system: Opened, chunks: int) -> Task:
    """One blocking task, checked to have completed."""
    answer = await system.handler.on_message_send(send_request(f'chunks {chunks}'), system.context)
    if not isinstance(answer, Task):
        raise WrongAnswerError('a message in place of a task')
    if answer.status.state != TaskState.TASK_STATE_COMPLETED:
        raise WrongAnswerError(f'the task is {TaskState.Name(answer.status.state)}')
    return answer


async def run_stream(system: Opened, text: str) -> tuple[str, int]:
    """One stream, read to its end: the task's id and the number of events."""
    task_id, events = '', 0
    async for event in system.handler.on_message_send_stream(send_request(text), system.context):
        if events == 0:
            task_id = event.id
        events += 1
    return task_id, events


async def get_task(system: Opened, task_id: str) -> Task:
    task = await system.handler.on_get_task(GetTaskRequest(id=task_id), system.context)
    if task is None:
        raise WrongAnswerError('a task is not there')
    return task


def check_chunks(task: Task, chunks: int) -> None:
    """Every chunk is in the task, once and in order, and the task is completed."""
    if task.status.state != TaskState.TASK_STATE_COMPLETED:
        raise WrongAnswerError(f'the stored task is {TaskState.Name(task.status.state)}')
    stored = [
        part.text for artifact in task.artifacts if artifact.artifact_id == ARTIFACT_ID for part in artifact.parts
    ]
    if stored != [chunk_text(number) for number in range(chunks)]:
        raise WrongAnswerError(f'{len(stored)} chunks are stored where {chunks} in order are due')
