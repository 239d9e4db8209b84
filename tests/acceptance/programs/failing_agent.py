"""A program for a2a-sdk, and for nothing else: 50 messages to an agent that fails once it has created its task.

Prints one line for each kind of outcome, then when it was done.
"""

import asyncio
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path

from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import DatabaseTaskStore
from a2a.types.a2a_pb2 import AgentCard, Message, Part, Role, SendMessageRequest, Task, TaskState
from sqlalchemy.ext.asyncio import create_async_engine

MESSAGES = 50


class Unlucky(AgentExecutor):
    """Announces a task with a note of its own, then loses its model."""

    last_task_id = ''

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        announced = new_task_from_user_message(context.message)
        announced.metadata.update({'note': 'written by the agent'})
        self.last_task_id = announced.id
        await event_queue.enqueue_event(announced)
        raise RuntimeError('no answer from the model')

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def new_request() -> SendMessageRequest:
    message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text='are you there?')])
    return SendMessageRequest(message=message)


async def ask(handler: DefaultRequestHandler) -> str:
    try:
        answer = await handler.on_message_send(new_request(), ServerCallContext())
    except Exception as error:
        return f'raised {type(error).__name__}'
    return f'returned {TaskState.Name(answer.status.state)}' if isinstance(answer, Task) else 'returned a message'


async def converse(folder: str) -> Counter[str]:
    engine = create_async_engine(f'sqlite+aiosqlite:///{Path(folder, "tasks.db")}')
    store, agent = DatabaseTaskStore(engine), Unlucky()
    handler = DefaultRequestHandler(agent, store, AgentCard(name='unlucky'))
    outcomes: Counter[str] = Counter()
    for _ in range(MESSAGES):
        heard = await ask(handler)
        stored = await store.get(agent.last_task_id, ServerCallContext())
        state = TaskState.Name(stored.status.state) if stored else 'nothing'
        kept = stored is not None and 'note' in stored.metadata
        outcomes[f'{heard:22} stored {state:22} metadata kept: {kept}'] += 1
    await engine.dispose()
    return outcomes


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        outcomes = asyncio.run(converse(folder))
    for outcome, count in outcomes.most_common():
        print(f'{count:3} {outcome}')
    print(f'done at {time.time()}')
    sys.stdout.flush()


if __name__ == '__main__':
    main()
