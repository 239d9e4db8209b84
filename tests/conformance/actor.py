"""An agent that does what each message says: the text of a message is a list of steps, separated by blanks.

`work artifact:a hold:g1 complete` reports WORKING, adds an artifact, waits at a gate for the test, and completes.
"""

from collections.abc import Callable, Mapping
from typing import cast

from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.types.a2a_pb2 import TaskArtifactUpdateEvent, TaskState
from a2a.utils.errors import InvalidAgentResponseError, UnsupportedOperationError

from a2a_scribe.testing.agents import (
    Run,
    ScriptedAgent,
    Step,
    artifact,
    attempt,
    emit,
    fail,
    follow,
    message,
    status,
    task,
    wait,
)

SECRET = 'a secret of the inside'


def chunks(count: str) -> Step:
    """Adds so many chunks to one artifact, numbered from 0."""
    return emit(*(artifact(f'{number} ', 'chunks', append=number > 0) for number in range(int(count or '1'))))


def closing_chunk(name: str) -> TaskArtifactUpdateEvent:
    """The last chunk of an artifact."""
    update = artifact(' and no more', name, append=True)
    update.last_chunk = True
    return update


def report(state: str) -> Callable[[str], Step]:
    """Reports a state, with a text if there is one."""
    return lambda text: emit(status(cast('TaskState', TaskState.Value(f'TASK_STATE_{state}')), text))


WORDS: Mapping[str, Callable[[str], Step]] = {
    'task': lambda _: emit(task()),
    'work': report('WORKING'),
    'ask': report('INPUT_REQUIRED'),
    'auth': report('AUTH_REQUIRED'),
    'complete': report('COMPLETED'),
    'fail': report('FAILED'),
    'reject': report('REJECTED'),
    'cancel': report('CANCELED'),
    'artifact': lambda name: emit(artifact(f'text of {name}', name)),
    'more': lambda name: emit(artifact(' and more', name, append=True)),
    'last': lambda name: emit(closing_chunk(name)),
    'late': lambda name: attempt(artifact('too late', name), status(TaskState.TASK_STATE_WORKING, 'too late')),
    'chunks': chunks,
    'message': lambda text: emit(message(text or 'hello')),
    'hold': wait,
    'stubborn': lambda name: wait(name, stubborn=True),
    'crash': lambda _: fail(RuntimeError(SECRET)),
    'decline': lambda _: fail(UnsupportedOperationError('not this')),
    'nonsense': lambda _: fail(InvalidAgentResponseError('not that')),
}


class Actor(ScriptedAgent):
    """Does what it is told, and nothing for a message without words that it knows."""

    def __init__(self) -> None:
        """Makes one that answers a cancel as agents are to: with the status."""
        super().__init__(on_cancel=[report('CANCELED')('')])

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Takes the steps that the message names."""
        self.contexts.append(context)
        words = (word.partition(':') for word in context.get_user_input().split())
        script = [WORDS[name](argument) for name, _, argument in words if name in WORDS]
        try:
            await follow(script, Run(self, context, event_queue))
        finally:
            self.finished += 1

    def context_of(self, task_id: str) -> RequestContext:
        """What the last call for a task was given."""
        return [context for context in self.contexts if context.task_id == task_id][-1]
