"""The smallest agent: says back what it hears.

    python examples/echo.py

or, under any ASGI server, `uvicorn --factory examples.echo:make_app`. Its tasks are in `echo.db` afterwards.
"""

from a2a.helpers.proto_helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentSkill
from starlette.applications import Starlette

from a2a_scribe import create_app, serve

DATABASE = 'sqlite+aiosqlite:///echo.db'

CARD = AgentCard(
    name='echo',
    description='Says back what it hears.',
    version='1.0.0',
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=['text/plain'],
    default_output_modes=['text/plain'],
    skills=[AgentSkill(id='echo', name='Echo', description='Says it back.', tags=['text'])],
)


class EchoExecutor(AgentExecutor):
    """Answers with a message; that makes no task."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Says it back."""
        await event_queue.enqueue_event(new_text_message(context.get_user_input()))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Has nothing to cancel: an echo is over at once."""


def make_app(database: str = DATABASE) -> Starlette:
    """The app, for an ASGI server of your choice."""
    return create_app(EchoExecutor(), CARD, database)


if __name__ == '__main__':
    serve(EchoExecutor(), CARD, DATABASE, on_ready=print)
