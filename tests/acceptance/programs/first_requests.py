"""One of several processes that use a new database at the same moment.

    first_requests.py URL COUNT

Prints that it is ready, waits for a line on its input, sends COUNT messages at once and prints how many were completed.
"""

import asyncio
import sys
import uuid
from collections import Counter

from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import AgentCard, Message, Part, Role, SendMessageRequest, Task, TaskState
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe import DatabaseTaskStore, DefaultRequestHandler


class Quick(AgentExecutor):
    """Completes its task at once."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.add_artifact([Part(text='here')])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def new_request() -> SendMessageRequest:
    message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text='hi')])
    return SendMessageRequest(message=message)


async def send(handler: DefaultRequestHandler) -> str:
    answer = await handler.on_message_send(new_request(), ServerCallContext())
    assert isinstance(answer, Task)
    return TaskState.Name(answer.status.state)


async def main(url: str, count: int) -> None:
    engine = create_async_engine(url)
    handler = DefaultRequestHandler(Quick(), DatabaseTaskStore(engine), AgentCard(name='quick'))
    print('ready', flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    states = Counter(await asyncio.gather(*(send(handler) for _ in range(count))))
    print('completed', states['TASK_STATE_COMPLETED'], flush=True)
    await handler.aclose()
    await engine.dispose()


if __name__ == '__main__':
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
