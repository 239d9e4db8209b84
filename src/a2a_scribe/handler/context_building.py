"""What an executor is given for one message: a request context, with ids where the message brings none."""

from a2a.server.agent_execution import RequestContext, RequestContextBuilder, SimpleRequestContextBuilder
from a2a.server.context import ServerCallContext
from a2a.server.id_generator import IDGenerator, IDGeneratorContext
from a2a.server.tasks import TaskStore

from a2a_scribe.ids import IdSource, UuidSource
from a2a_scribe.protocol.types import SendMessageRequest, Task


class ContextBuilding:
    """Makes request contexts with the user's builder."""

    def __init__(self, builder: RequestContextBuilder) -> None:
        """Takes the builder."""
        self._builder = builder

    async def __call__(
        self, request: SendMessageRequest, context: ServerCallContext, task: Task | None
    ) -> RequestContext:
        """Builds a context; ids that `request` lacks are made by the builder."""
        return await self._builder.build(
            params=request,
            task_id=request.message.task_id or None,
            context_id=request.message.context_id or None,
            task=task,
            context=context,
        )


def default_builder(ids: IdSource | None = None, referred_tasks: TaskStore | None = None) -> RequestContextBuilder:
    """Returns the builder that is used where the user has none.

    Args:
        ids: Where ids of tasks and contexts come from.
        referred_tasks: A store of the tasks that messages refer to, which the executor is then given too.
    """
    generator = _Generator(ids or UuidSource())
    return SimpleRequestContextBuilder(referred_tasks is not None, referred_tasks, generator, generator)


class _Generator(IDGenerator):
    def __init__(self, ids: IdSource) -> None:
        self._ids = ids

    def generate(self, context: IDGeneratorContext) -> str:
        """Returns a new id, whatever it is for."""
        return self._ids.new()
