"""A server for strange requests, on all three bindings and on free ports.

    agent.py DATABASE-URL

Prints two lines when clients can connect: its URL, and the address for gRPC. `/fuzz-state` says what it holds.
"""

import asyncio
import gc
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path

from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentSkill, Message, Role
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from a2a_scribe import Settings, serve

BODY_LIMIT = 200_000
AT_WORK = 0.5
"""Seconds that a task is at work unless it is cancelled; messages to it wait so long."""


class Echo(AgentExecutor):
    """Answers with the parts it was sent: in a message, or in a task if the text begins with one of its words."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message, task = context.message, context.current_task
        assert message is not None
        word = context.get_user_input().partition(' ')[0]
        if task is None and word not in ('task', 'ask', 'work'):
            await event_queue.enqueue_event(Message(message_id='answer', role=Role.ROLE_AGENT, parts=message.parts))
            return
        if task is None:
            task = new_task_from_user_message(message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if word == 'work':
            await updater.start_work()
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), AT_WORK)
        await updater.add_artifact(list(message.parts), metadata=dict(message.metadata) or None)
        await (updater.requires_input() if word == 'ask' else updater.complete())

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def rss() -> int:
    """The resident memory of this process, in bytes."""
    return int(Path('/proc/self/statm').read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE')


async def state(request: Request) -> JSONResponse:
    """Says what the process holds."""
    gc.collect()
    return JSONResponse(
        {
            'rss': rss(),
            'coroutines': len(asyncio.all_tasks()),
            'live tasks': request.app.state.handler.engine.live_tasks,
        }
    )


if __name__ == '__main__':
    logging.basicConfig(level=logging.WARNING, format='%(levelname)s %(name)s: %(message)s')
    card = AgentCard(
        name='echo',
        description='Says it again.',
        version='1',
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        default_input_modes=['text/plain', 'application/json', 'image/*'],
        default_output_modes=['text/plain'],
        skills=[AgentSkill(id='echo', name='echo', description='Says it again.', tags=['test'])],
    )
    serve(
        Echo(),
        card,
        sys.argv[1],
        port=0,
        grpc_port=0,
        extended_agent_card=card,
        settings=Settings(request_bytes=BODY_LIMIT, poll_interval=0.1, stream_keep_alive=0.2, drain_deadline=1.0),
        routes=[Route('/fuzz-state', state)],
        on_ready=lambda url: print(url, flush=True),
        on_grpc_ready=lambda address: print(address, flush=True),
    )
