"""A program written against `a2a-sdk` alone whose agent never ends, and which nobody closes."""

import asyncio
import sys

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import DatabaseTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import AgentCard, Message, Part, Role, SendMessageConfiguration, SendMessageRequest
from sqlalchemy.ext.asyncio import create_async_engine


class Endless(AgentExecutor):
    """Works and works."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).start_work()
        await asyncio.Event().wait()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Has nothing to stop."""


async def main() -> None:
    """Begins a task, says so, and goes on for ever."""
    handler = DefaultRequestHandler(Endless(), DatabaseTaskStore(create_async_engine(sys.argv[1])), AgentCard(name='x'))
    message = Message(role=Role.ROLE_USER, message_id='1', parts=[Part(text='go')])
    request = SendMessageRequest(message=message, configuration=SendMessageConfiguration(return_immediately=True))
    await handler.on_message_send(request, ServerCallContext())
    print('begun', flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
