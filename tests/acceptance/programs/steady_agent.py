"""A server of one agent that takes the same time for every message; the owner is whom a header names.

    steady_agent.py DATABASE-URL SECONDS

Prints one line when clients can connect: its URL. HTTP and gRPC are served, on free ports.
"""

import asyncio
import sys

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentSkill, Part

from a2a_scribe import serve

OWNER = 'x-owner'


class Steady(AgentExecutor):
    """Works as long as it is said to."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or '', context.context_id or '')
        await updater.start_work()
        await asyncio.sleep(self._seconds)
        await updater.add_artifact([Part(text='done')])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def owner_of(context: ServerCallContext) -> str:
    """Believes what the caller says."""
    return str(context.state['headers'].get(OWNER, ''))


if __name__ == '__main__':
    card = AgentCard(
        name='steady',
        description='Takes its time.',
        version='1',
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=['text/plain'],
        default_output_modes=['text/plain'],
        skills=[AgentSkill(id='work', name='work', description='Takes its time.', tags=['test'])],
    )
    serve(
        Steady(float(sys.argv[2])),
        card,
        sys.argv[1],
        port=0,
        grpc_port=0,
        grpc_in_card=True,
        owner_resolver=owner_of,
        on_ready=lambda url: print(url, flush=True),
    )
