"""An agent that works for a while and streams its result, word by word.

    python examples/streaming.py

Whoever loses the connection on the way subscribes to the task again, and whoever cancels it gets `CANCELED`.
"""

import asyncio

from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentSkill, Part
from starlette.applications import Starlette

from a2a_scribe import create_app, serve

DATABASE = 'sqlite+aiosqlite:///streaming.db'
PACE = 0.1

CARD = AgentCard(
    name='reader',
    description='Reads aloud what it is given.',
    version='1.0.0',
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=['text/plain'],
    default_output_modes=['text/plain'],
    skills=[AgentSkill(id='read', name='Read', description='Reads aloud.', tags=['text'])],
)


class ReadingExecutor(AgentExecutor):
    """Appends one word after the other to one artifact."""

    def __init__(self, pace: float = PACE) -> None:
        """Reads a word every `pace` seconds."""
        self.pace = pace

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Reads the user's message aloud."""
        if context.message is None:
            raise ValueError('a message is needed')
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        words = context.get_user_input().split()
        for number, word in enumerate(words, start=1):
            await updater.add_artifact(
                [Part(text=f'{word} ')], artifact_id='reading', append=number > 1, last_chunk=number == len(words)
            )
            await asyncio.sleep(self.pace)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stops in the middle; what was read stays in the task."""
        await TaskUpdater(event_queue, context.task_id or '', context.context_id or '').cancel()


def make_app(database: str = DATABASE, pace: float = PACE) -> Starlette:
    """The app, for an ASGI server of your choice."""
    return create_app(ReadingExecutor(pace), CARD, database)


if __name__ == '__main__':
    serve(ReadingExecutor(), CARD, DATABASE, on_ready=print)
