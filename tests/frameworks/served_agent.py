"""A server as `serve` makes it for somebody who chooses nothing but where it listens, on free ports, gRPC too.

    served_agent.py DATABASE-URL [--grpc-in-card]

Prints one line when clients can connect: its URL. The agent says what it hears, in two chunks; `ask` has it ask back,
`break` has it fail, `chat` has it answer without a task.
"""

import sys
from functools import partial

from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentSkill, Part

from a2a_scribe import serve


class Echo(AgentExecutor):
    """Says what it hears."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        words = context.get_user_input()
        if words == 'chat':
            await event_queue.enqueue_event(new_text_message('hello'))
            return
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if words == 'break':
            raise RuntimeError('a secret of the inside')
        if words == 'ask':
            await updater.requires_input(updater.new_agent_message([Part(text='which one?')]))
            return
        await updater.add_artifact([Part(text='you said ')], artifact_id='answer')
        await updater.add_artifact([Part(text=words)], artifact_id='answer', append=True, last_chunk=True)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


if __name__ == '__main__':
    card = AgentCard(
        name='echo',
        description='Says what it hears.',
        version='1',
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=['text/plain'],
        default_output_modes=['text/plain'],
        skills=[AgentSkill(id='echo', name='echo', description='Says what it hears.', tags=['test'])],
    )
    run = partial(serve, Echo(), card, sys.argv[1], port=0, grpc_port=0, on_ready=lambda url: print(url, flush=True))
    if '--grpc-in-card' in sys.argv:
        run(grpc_in_card=True)
    else:
        run()
