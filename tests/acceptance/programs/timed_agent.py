"""A server of one agent that says when it emitted each chunk, and when it was asked to cancel.

    timed_agent.py DATABASE-URL

Prints one line when clients can connect: its URL. The words of the message: COUNT of the chunks, and milliseconds
between them; then it waits until it is cancelled. Times are those of the monotonic clock, the same in all processes.
"""

import asyncio
import sys
import time

from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentSkill, Part

from a2a_scribe import serve


class Timed(AgentExecutor):
    """Never ends by itself."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        count, pace = context.get_user_input().split()
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        for _ in range(int(count)):
            await asyncio.sleep(int(pace) / 1000)
            await updater.add_artifact([Part(text=f'{time.monotonic()}')], artifact_id='chunks')
        await asyncio.Event().wait()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or '', context.context_id or '')
        await updater.add_artifact([Part(text=f'{time.monotonic()}')], artifact_id='cancel')


if __name__ == '__main__':
    card = AgentCard(
        name='timed',
        description='Tells the time.',
        version='1',
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=['text/plain'],
        default_output_modes=['text/plain'],
        skills=[AgentSkill(id='time', name='time', description='Tells the time.', tags=['test'])],
    )
    serve(Timed(), card, sys.argv[1], port=0, on_ready=lambda url: print(url, flush=True))
