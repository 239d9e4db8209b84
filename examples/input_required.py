"""An agent that asks back, put together by hand from the familiar names.

    python examples/input_required.py

This is how a program written for `a2a-sdk` looks after the change of two imports: `DefaultRequestHandler` and
`DatabaseTaskStore` are ours, everything else is as it was. A task that waits for its answer waits in the database, so
it may be answered after the server was started anew.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette

from a2a_scribe import DatabaseTaskStore, DefaultRequestHandler

DATABASE = 'sqlite+aiosqlite:///input_required.db'

CARD = AgentCard(
    name='tailor',
    description='Sews a shirt once it knows the size.',
    version='1.0.0',
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=['text/plain'],
    default_output_modes=['text/plain'],
    skills=[AgentSkill(id='sew', name='Sew', description='Sews a shirt.', tags=['clothes'])],
    supported_interfaces=[
        AgentInterface(url='http://127.0.0.1:8000/', protocol_binding='JSONRPC', protocol_version='1.0')
    ],
)


class TailorExecutor(AgentExecutor):
    """Asks for the size and sews when it is told."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Asks at the first message of a task, sews at the second."""
        if context.message is None:
            raise ValueError('a message is needed')
        if context.current_task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
            await TaskUpdater(event_queue, task.id, task.context_id).requires_input(new_text_message('Which size?'))
            return
        updater = TaskUpdater(event_queue, context.current_task.id, context.current_task.context_id)
        await updater.start_work()
        await updater.add_artifact([Part(text=f'A shirt in size {context.get_user_input()}.')], name='shirt')
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Forgets the order."""
        await TaskUpdater(event_queue, context.task_id or '', context.context_id or '').cancel()


def make_app(database: str = DATABASE) -> Starlette:
    """The app, for an ASGI server of your choice."""
    engine = create_async_engine(database)
    handler = DefaultRequestHandler(TailorExecutor(), DatabaseTaskStore(engine), CARD)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await handler.aclose()
        await engine.dispose()

    routes = [*create_agent_card_routes(CARD), *create_jsonrpc_routes(handler, '/')]
    return Starlette(routes=routes, lifespan=lifespan)


if __name__ == '__main__':
    uvicorn.run(make_app(), host='127.0.0.1', port=8000)
