"""A server for clients of all kinds, on three bindings and on free ports.

    clients_agent.py DATABASE-URL RPC-PATH REST-PREFIX [--with-0.3]

Prints one line when clients can connect: its URL. The first part of a message tells the agent what to do, as a list of
steps that are separated by blanks; a second part is what some of the steps work with. So a client needs nothing but the
protocol to have a task wait (`hold:NAME`) and go on (`open:NAME` in another message).
"""

import hashlib
import sys
from collections.abc import Callable, Mapping

from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentSkill, Message, TaskState, TaskStatusUpdateEvent

from a2a_scribe import serve
from a2a_scribe.testing.agents import Run, ScriptedAgent, Step, artifact, do, emit, fail, follow, message, status, wait


def report(state: TaskState) -> Callable[[str], Step]:
    """Reports a state; the words of the status are the step's argument."""
    return lambda text: emit(status(state, text))


def chunks(count: str) -> Step:
    """Adds so many chunks to one artifact."""
    return emit(*(artifact(f'{number} ', 'chunks', append=number > 0) for number in range(int(count))))


def open_gate(name: str) -> Step:
    """Lets the tasks that are held there go on, now and later."""

    def action(run: Run) -> None:
        run.agent.open(name)

    return do(action)


def second_part(context: RequestContext) -> str:
    assert isinstance(context.message, Message)
    return context.message.parts[1].text


def echo(name: str) -> Step:
    """Gives the second part back."""
    return emit(lambda context: artifact(second_part(context), name or 'echo'))


def measure(name: str) -> Step:
    """Tells the number of characters of the second part, and the hash of its UTF-8."""

    def measured(context: RequestContext) -> object:
        text = second_part(context)
        return artifact(f'{len(text)} {hashlib.sha256(text.encode()).hexdigest()}', name or 'measure')

    return emit(measured)


def tenant(name: str) -> Step:
    """Tells for which tenant it works."""
    return emit(lambda context: artifact(context.tenant, name or 'tenant'))


STEPS: Mapping[str, Callable[[str], Step]] = {
    'work': report(TaskState.TASK_STATE_WORKING),
    'ask': report(TaskState.TASK_STATE_INPUT_REQUIRED),
    'complete': report(TaskState.TASK_STATE_COMPLETED),
    'artifact': lambda name: emit(artifact(f'text of {name}', name)),
    'chunks': chunks,
    'echo': echo,
    'measure': measure,
    'tenant': tenant,
    'message': lambda text: emit(message(text)),
    'hold': wait,
    'open': open_gate,
    'crash': lambda _: fail(RuntimeError('a secret of the inside')),
}


class Agent(ScriptedAgent):
    """Does what it is told."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        words = (word.partition(':') for word in context.message.parts[0].text.split())
        await follow([STEPS[name](argument) for name, _, argument in words], Run(self, context, event_queue))


def canceled(_: RequestContext) -> TaskStatusUpdateEvent:
    return status(TaskState.TASK_STATE_CANCELED)


def new_card(name: str) -> AgentCard:
    return AgentCard(
        name=name,
        description='Does what it is told.',
        version='1',
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        default_input_modes=['text/plain'],
        default_output_modes=['text/plain'],
        skills=[AgentSkill(id='obey', name='obey', description='Does what it is told.', tags=['test'])],
    )


if __name__ == '__main__':
    database, rpc_path, rest_prefix, *options = sys.argv[1:]
    serve(
        Agent(on_cancel=[emit(canceled)]),
        new_card('obedient'),
        database,
        port=0,
        grpc_port=0,
        grpc_in_card=True,
        rpc_path=rpc_path,
        rest_prefix=rest_prefix,
        extended_agent_card=new_card('obedient to those it knows'),
        enable_v0_3_compat='--with-0.3' in options,
        on_ready=lambda url: print(url, flush=True),
    )
