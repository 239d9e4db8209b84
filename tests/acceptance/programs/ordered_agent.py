"""A server of one agent that does what the words of a message say, one after the other.

    ordered_agent.py DATABASE-URL
    DATABASE=URL uvicorn --factory ordered_agent:app

As a program it prints one line when clients can connect: its URL. The words:

`emit:FIRST:COUNT:PACE`   numbered chunks, PACE milliseconds between them
`gate:PATH`               makes the file PATH.reached, and waits for the file PATH.open
`ask`, `complete`         how the turn ends
`forever`                 waits until it is cancelled

Each chunk says in its metadata when it was emitted, by the monotonic clock, which all processes share, and by which.
"""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentSkill, Part
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette

from a2a_scribe import create_app, serve

LOOK = 0.01

CARD = AgentCard(
    name='ordered',
    description='Does as it is told.',
    version='1',
    capabilities=AgentCapabilities(streaming=True, push_notifications=True),
    default_input_modes=['text/plain'],
    default_output_modes=['text/plain'],
    skills=[AgentSkill(id='orders', name='orders', description='Does as it is told.', tags=['test'])],
)


def part(text: str) -> Part:
    """Returns a part that says when it was made, and where."""
    made = Part(text=text)
    ParseDict({'at': time.monotonic(), 'process': os.getpid()}, made.metadata)
    return made


def numbers(first: str, count: str) -> Iterator[int]:
    return iter(range(int(first), int(first) + int(count)))


async def pass_gate(path: Path) -> None:
    reached, opened = (path.with_name(f'{path.name}.{end}') for end in ('reached', 'open'))
    reached.touch()
    while not opened.exists():
        await asyncio.sleep(LOOK)


os.environ['A2A_SCRIBE_WEBHOOK_ALLOW'] = '127.0.0.1'  # push configs name a port here at which nobody listens


class Ordered(AgentExecutor):
    """Has no will of its own."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        for word in context.get_user_input().split():
            await self._obey(updater, *word.split(':'))

    async def _obey(self, updater: TaskUpdater, order: str, *given: str) -> None:
        match order:
            case 'emit':
                first, count, pace = given
                for number in numbers(first, count):
                    await updater.add_artifact([part(f'{number}')], artifact_id='chunks', append=number > 0)
                    await asyncio.sleep(int(pace) / 1000)
            case 'gate':
                await pass_gate(Path(given[0]))
            case 'ask':
                await updater.requires_input()
            case 'complete':
                await updater.complete()
            case 'forever':
                await asyncio.Event().wait()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or '', context.context_id or '')
        await updater.add_artifact([part('heard')], artifact_id='cancel')


def app() -> Starlette:
    """Makes the app of a worker."""
    return create_app(Ordered(), CARD, os.environ['DATABASE'], url=os.environ['URL'])


if __name__ == '__main__':
    serve(Ordered(), CARD, sys.argv[1], port=0, on_ready=lambda url: print(url, flush=True))
