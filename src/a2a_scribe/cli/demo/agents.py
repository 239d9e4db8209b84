"""The agent that the demonstration serves: one executor with four ways to behave, chosen by what the user says.

Served by a process of its own through `a2a-scribe serve`, so it knows nothing of the demonstration's other side.
"""

import asyncio

from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import Part, Task

STREAM = 'tell a story in 20 chunks'
BOOK = 'book a table'
WATCH = 'watch the oven'
FAIL = 'call the model that is down'

CHUNKS = 20
PACE = 0.05
QUESTION = 'For how many people?'
METADATA_KEY = 'model'


class DemoAgent(AgentExecutor):
    """Streams, asks, waits or fails, as it is told."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answers one message; a follow-up is the answer to the question about the table."""
        updater = TaskUpdater(event_queue, context.task_id or '', context.context_id or '')
        if context.current_task is not None:
            await self._book(updater, context.get_user_input())
            return
        task = _new_task(context)
        await event_queue.enqueue_event(task)
        match context.get_user_input():
            case said if said == FAIL:
                raise ConnectionError('the model refused the connection')
            case said if said == STREAM:
                await self._tell(updater)
            case said if said == WATCH:
                await updater.start_work()
                await asyncio.Event().wait()
            case _:
                await updater.requires_input(new_text_message(QUESTION))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Says that the work has stopped."""
        await TaskUpdater(event_queue, context.task_id or '', context.context_id or '').cancel()

    async def _tell(self, updater: TaskUpdater) -> None:
        for number in range(1, CHUNKS + 1):
            await updater.add_artifact(
                [Part(text=f'chunk {number} ')], artifact_id='story', append=number > 1, last_chunk=number == CHUNKS
            )
            await asyncio.sleep(PACE)
        await updater.complete()

    async def _book(self, updater: TaskUpdater, people: str) -> None:
        await updater.add_artifact([Part(text=f'A table for {people}.')], name='booking')
        await updater.complete()


def _new_task(context: RequestContext) -> Task:
    if context.message is None:
        raise ValueError('a message is needed')
    task = new_task_from_user_message(context.message)
    task.metadata.update({METADATA_KEY: 'large'})
    return task
