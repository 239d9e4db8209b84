"""A server of one agent that emits numbered chunks, on all three bindings and on free ports.

    streaming_agent.py DATABASE-URL

Prints one line when clients can connect: its URL. What the agent does is said by the words of the message:
FIRST and COUNT of the chunks, milliseconds between them, and how the turn ends (`complete` or `ask`).
"""

import asyncio
import sys

from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentSkill, Part

from a2a_scribe import serve


class Streaming(AgentExecutor):
    """Emits its chunks as fast as it may, or one by one."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        first, count, pace, end = context.get_user_input().split()
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        for number in range(int(first), int(first) + int(count)):
            await updater.add_artifact([Part(text=f'chunk {number:06d}')], artifact_id='text', append=number > 0)
            if pace != '0':
                await asyncio.sleep(int(pace) / 1000)
        await (updater.complete() if end == 'complete' else updater.requires_input())

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


if __name__ == '__main__':
    card = AgentCard(
        name='streaming',
        description='Emits chunks.',
        version='1',
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=['text/plain'],
        default_output_modes=['text/plain'],
        skills=[AgentSkill(id='chunks', name='chunks', description='Emits chunks.', tags=['test'])],
    )
    serve(
        Streaming(),
        card,
        sys.argv[1],
        port=0,
        grpc_port=0,
        grpc_in_card=True,
        on_ready=lambda url: print(url, flush=True),
    )
