"""What executors do, drawn for each message: in order, out of order, not at all, too late, and after the end.

Each event carries a text of its own (`tag`), so that the journal shows which of them were recorded, in which order and
in which turn.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.utils.errors import InvalidAgentResponseError, UnsupportedOperationError

from a2a_scribe.errors import JournalUnavailableError, TurnEndedError
from a2a_scribe.protocol.states import (
    AUTH_REQUIRED,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    SUBMITTED,
    WORKING,
)
from a2a_scribe.protocol.types import Task, TaskState
from a2a_scribe.testing.agents import artifact, message, status, task
from tests.simulation.database import POISON, Database
from tests.simulation.ledger import Emission, Execution, Sent
from tests.simulation.loop import LIFE
from tests.simulation.world import World

Step = Literal[
    'task', 'working', 'chunk', 'set', 'burst', 'message', 'metadata', 'foreign', 'poison',
    'park', 'auth', 'complete', 'fail', 'reject', 'cancel', 'again',
    'pause', 'nap', 'yield', 'raise', 'refuse', 'return', 'straggle',
]  # fmt: skip
Reaction = Literal['obey', 'swallow', 'ignore', 'answer', 'convert']
Report = Literal['nothing', 'chunk', 'canceled', 'completed', 'raise', 'slow']

STATES: dict[str, TaskState] = {
    'working': WORKING,
    'park': INPUT_REQUIRED,
    'auth': AUTH_REQUIRED,
    'complete': COMPLETED,
    'fail': FAILED,
    'reject': REJECTED,
    'cancel': CANCELED,
    'again': SUBMITTED,
}
BEGINNINGS: Sequence[Sequence[Step]] = [(), ('task',), ('task',), ('working',), ('chunk',), ('pause', 'task')]
MIDDLES: Sequence[Step] = [
    'working', 'chunk', 'chunk', 'set', 'burst', 'metadata', 'pause', 'pause', 'nap', 'yield', 'task', 'again',
]  # fmt: skip
SILENT: Sequence[Step] = ['pause', 'nap', 'yield', 'return', 'foreign', 'poison']
ENDS: Sequence[Sequence[Step]] = [
    ('park',), ('park',), ('park', 'pause'), ('auth',), ('complete',), ('complete',), ('complete', 'pause'), ('fail',),
    ('reject',), ('cancel',), ('raise',), ('refuse',), ('message',), ('return',), ('complete', 'raise'),
    ('complete', 'chunk'), ('park', 'chunk'), ('park', 'raise'), ('straggle', 'complete'), ('straggle', 'park'),
    ('straggle', 'return'), ('complete', 'straggle'), ('park', 'complete'),
]  # fmt: skip
REACTIONS: Sequence[Reaction] = ['obey', 'obey', 'obey', 'swallow', 'ignore', 'answer', 'convert']
REPORTS: Sequence[Report] = ['nothing', 'nothing', 'chunk', 'canceled', 'completed', 'raise', 'slow']


class AgentError(Exception):
    """The agent's own."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What an executor does with one message."""

    steps: Sequence[Step]
    reaction: Reaction
    lets_refusals_out: bool
    pause: float

    def __str__(self) -> str:
        """Describes the plan in traces."""
        text = ' '.join(self.steps) or 'nothing'
        return f'{text}; cancelled: {self.reaction}{"" if self.lets_refusals_out else "; keeps refusals"}'


def draw_plan(world: World, *, poison: bool, pause: float, ends: bool) -> Plan:
    """Draws a plan; one that `ends` leaves no turn open of which nothing is ever recorded."""
    steps: list[Step] = [*world.pick(BEGINNINGS)]
    steps += [world.pick(MIDDLES) for _ in range(int(world.random.random() * 4))]
    if world.chance(0.03):
        steps.append('foreign')
    if poison and world.chance(0.2):
        steps.append('poison')
    steps += world.pick(ENDS)
    if ends and not any(step not in SILENT for step in steps):
        steps.insert(0, 'straggle')
    return Plan(steps, world.pick(REACTIONS), world.chance(0.5), pause * (0.2 + world.random.random()))


class SimulatedAgent(AgentExecutor):
    """The agent of all processes."""

    def __init__(self, world: World, database: Database, bound: int) -> None:
        """Starts without plans; `bound` is how many records of one task may wait for a commit."""
        self.world = world
        self.database = database
        self.bound = bound
        self.plans: dict[str, Plan] = {}
        self._running: Counter[str] = Counter()
        self._cancels = 0

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Does what was planned for the message."""
        life, message_id = LIFE.get(), context.get_user_input()
        name = '' if life is None else life.name
        sent = self.world.ledger.messages[message_id]
        task_id = context.task_id or ''
        execution = Execution(name, task_id, begun=self.database.length(task_id))
        sent.executions.append(execution)
        self._note_start(sent, execution, context)
        self._running[name] += 1
        try:
            await _Run(self, sent, execution, event_queue).follow()
        except BaseException as error:
            self.world.note(name, f'the agent ends {message_id} with {error!r}')
            raise
        else:
            self.world.note(name, f'the agent ends {message_id}')
        finally:
            self._running[name] -= 1

    def is_at_work(self, process: str) -> bool:
        """Whether a call of `execute` runs in a process."""
        return self._running[process] > 0

    def _note_start(self, sent: Sent, execution: Execution, context: RequestContext) -> None:
        self.world.note(execution.process, f'the agent works on {sent.message_id} for {execution.task_id}')
        check = self.world.ledger.check
        if sent.task_id:
            check(context.current_task is not None, f'{sent.message_id} runs without its task')
            started = any(
                sent.message_id.encode() in record.body
                for record in self.database.records_of(sent.task_id)
                if record.kind == 'turn_started'
            )
            check(started, f'{sent.message_id} runs before its start is durable')

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Reports something, or takes too long."""
        report, name, task_id = self.world.pick(REPORTS), self._name(), context.task_id or ''
        self.world.note(name, f'the agent is asked to cancel {task_id}: {report}')
        self._cancels += 1
        emission = Emission(f'<cancel {self._cancels}>')
        match report:
            case 'chunk':
                await self._report(task_id, event_queue, emission, artifact(emission.tag, append=True))
            case 'canceled':
                await self._report(task_id, event_queue, emission, status(CANCELED, emission.tag))
            case 'completed':
                await self._report(task_id, event_queue, emission, status(COMPLETED, emission.tag))
            case 'raise':
                raise AgentError('in cancel')
            case 'slow':
                await self.world.pause(2.0)
                await self._report(task_id, event_queue, emission, artifact(emission.tag, append=True))

    async def _report(self, task_id: str, queue: EventQueue, emission: Emission, event: Any) -> None:
        self.world.ledger.cancel_emissions.append((task_id, emission))
        await emit(queue, emission, event)

    def _name(self) -> str:
        life = LIFE.get()
        return '' if life is None else life.name


async def emit(queue: EventQueue, emission: Emission, event: Any) -> None:
    """Emits an event, and notes what became of it. Raises what the queue raises."""
    try:
        await queue.enqueue_event(event)
    except TurnEndedError:
        emission.fate = 'ended'
        raise
    except InvalidAgentResponseError:
        emission.fate = 'refused'
        raise
    else:
        emission.fate = 'admitted'


class _Run:
    """One call of `execute`."""

    def __init__(self, agent: 'SimulatedAgent', sent: Sent, execution: Execution, queue: EventQueue) -> None:
        self._world = agent.world
        self._database = agent.database
        self._bound = agent.bound
        self._sent = sent
        self._execution = execution
        self._queue = queue
        self._plan = agent.plans[sent.message_id]
        self._left = list(self._plan.steps)

    async def follow(self) -> None:
        """Takes the steps, whatever comes in between."""
        try:
            await self._go_on()
        except asyncio.CancelledError:
            self._execution.is_cancelled = True
            await self._react()

    async def _react(self) -> None:
        match self._plan.reaction:
            case 'obey':
                raise asyncio.CancelledError
            case 'swallow':
                await self._world.pause(0.3)
                await self._emit('chunk')
            case 'ignore':
                await self._go_on()
            case 'answer':
                await self._emit('cancel')
                raise asyncio.CancelledError
            case 'convert':
                raise AgentError('cancelled')

    async def _go_on(self) -> None:
        while self._left:
            await self._take(self._left.pop(0))

    async def _take(self, step: Step) -> None:
        match step:
            case 'pause':
                await self._world.pause(self._plan.pause)
            case 'nap':
                await self._world.pause(0.01)
            case 'yield':
                await asyncio.sleep(0)
            case 'raise':
                raise AgentError(self._sent.message_id)
            case 'refuse':
                raise UnsupportedOperationError(self._sent.message_id)
            case 'return':
                self._left.clear()
            case 'straggle':
                self._world.spawn(self._straggle(), f'straggler of {self._sent.message_id}', LIFE.get())
            case 'burst':
                for _ in range(8):
                    await self._emit('chunk')
            case _:
                await self._emit(step)

    async def _straggle(self) -> None:
        await self._world.pause(self._plan.pause)
        for step in ('chunk', 'complete'):
            try:
                await self._emit(step)
            except JournalUnavailableError:
                return

    async def _emit(self, step: str) -> None:
        tag = f'<{self._sent.message_id} {len(self._execution.emissions)} {step}>'
        emission = Emission(tag, after_cancel=self._execution.is_cancelled)
        self._execution.emissions.append(emission)
        try:
            await emit(self._queue, emission, EVENTS.get(step, _state_event(step))(emission.tag))
        except (InvalidAgentResponseError, TurnEndedError) as error:
            self._world.note(self._execution.process, f'{emission.tag}: {type(error).__name__}')
            if self._plan.lets_refusals_out:
                raise
        else:
            self._execution.replied = self._execution.replied or step == 'message'
            self._check_bound()
            self._world.note(self._execution.process, f'{emission.tag}')

    def _check_bound(self) -> None:
        """An executor is held back while too much of it is not durable."""
        execution = self._execution
        durable = self._database.length(execution.task_id) - execution.begun
        waiting, bound = execution.admitted - execution.replied - durable, self._bound
        self._world.ledger.check(waiting <= bound, f'{waiting} records of {self._sent.message_id} wait at once')


def _state_event(step: str) -> Callable[[str], object]:
    return lambda tag: status(STATES[step], tag)


EVENTS: dict[str, Callable[[str], object]] = {
    'task': lambda tag: task(WORKING, tag),
    'chunk': lambda tag: artifact(tag, append=True),
    'set': lambda tag: artifact(tag, 'other'),
    'message': message,
    'metadata': lambda tag: Task(metadata={'tag': tag}),
    'foreign': lambda tag: status(WORKING, tag, task_id='somebody-elses'),
    'poison': lambda tag: artifact(f'{tag} {POISON.decode()}', append=True),
}
