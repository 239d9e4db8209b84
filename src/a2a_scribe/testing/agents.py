"""Agents whose behaviour is written down step by step, for tests of servers and clients.

A script is a list of steps, made by the functions here: `emit`, `attempt`, `wait`, `fail`, `leave`, `do`. The events
that `task`, `status`, `artifact` and `message` make have no ids; the server fills them in.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, cast

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import Event, EventQueue

from a2a_scribe.protocol.types import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)


class Gate:
    """A place where scripts wait for the test, and the test for scripts."""

    def __init__(self) -> None:
        """Makes a gate that is shut and that nobody has reached."""
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()


@dataclass(slots=True)
class Run:
    """One call of `execute` or `cancel`."""

    agent: 'ScriptedAgent'
    context: RequestContext
    queue: EventQueue


Step = Callable[[Run], Awaitable[None]]
Script = Sequence[Step]
Maker = Callable[[RequestContext], object]


class Left(Exception):
    """The script returns here."""


class ScriptedAgent(AgentExecutor):
    """Follows one script per call of `execute`, in order; the last one again and again.

    A script in `answers` is chosen by the text of the user's message instead. `cancel` follows the script `on_cancel`,
    by default none.
    """

    def __init__(self, *scripts: Script, answers: Mapping[str, Script] | None = None, on_cancel: Script = ()) -> None:
        """Takes the scripts."""
        self.contexts: list[RequestContext] = []
        """What `execute` was given, call by call."""
        self.queues: list[EventQueue] = []
        """What `execute` was given to emit to, call by call."""
        self.cancels = 0
        """How often `cancel` was called."""
        self.finished = 0
        """How many calls of `execute` are over."""
        self.refusals: list[BaseException] = []
        """What the attempts of scripts were refused with, in order."""
        self.on_cancel = on_cancel
        self._scripts = scripts or ((),)
        self._answers = dict(answers or {})
        self._gates: defaultdict[str, Gate] = defaultdict(Gate)

    @property
    def heard(self) -> list[str]:
        """The texts of the messages that `execute` was called for, in order."""
        return [context.get_user_input() for context in self.contexts]

    def open(self, *names: str) -> None:
        """Lets scripts pass these gates, now and later."""
        for name in names:
            self._gates[name].opened.set()

    def open_all(self) -> None:
        """Lets scripts pass all gates that were named so far."""
        self.open(*self._gates)

    async def reached(self, name: str) -> None:
        """Waits until a script has come to a gate."""
        await self._gates[name].reached.wait()

    def gate(self, name: str) -> Gate:
        """Returns the gate of that name."""
        return self._gates[name]

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Follows the script of this call."""
        script = self._answers.get(context.get_user_input())
        if script is None:
            script = self._scripts[min(len(self.contexts), len(self._scripts) - 1)]
        self.contexts.append(context)
        self.queues.append(event_queue)
        try:
            await follow(script, Run(self, context, event_queue))
        finally:
            self.finished += 1

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Follows the script of cancels."""
        self.cancels += 1
        await follow(self.on_cancel, Run(self, context, event_queue))


async def follow(script: Script, run: Run) -> None:
    """Takes the steps of a script, one after another."""
    try:
        for step in script:
            await step(run)
    except Left:
        return


# Steps


def emit(*events: object) -> Step:
    """Emits events, or what functions make of the request context; refusals are the agent's failure."""

    async def step(run: Run) -> None:
        for event in events:
            made = event(run.context) if callable(event) else event
            await run.queue.enqueue_event(cast('Event', made))

    return step


def attempt(*events: object) -> Step:
    """Emits events and goes on when they are refused; the agent keeps the refusals."""

    async def step(run: Run) -> None:
        for event in events:
            try:
                await emit(event)(run)
            except Exception as refusal:  # noqa: BLE001 - whatever it is, the test looks at it
                run.agent.refusals.append(refusal)

    return step


def wait(name: str, *, stubborn: bool = False) -> Step:
    """Waits at a gate; a stubborn agent waits on when it is cancelled."""

    async def step(run: Run) -> None:
        gate = run.agent.gate(name)
        gate.reached.set()
        while not gate.opened.is_set():
            try:
                await gate.opened.wait()
            except asyncio.CancelledError:
                if not stubborn:
                    raise

    return step


def fail(error: BaseException) -> Step:
    """Raises."""

    async def step(run: Run) -> None:
        raise error

    return step


def leave() -> Step:
    """Returns, whatever follows in the script."""

    async def step(run: Run) -> None:
        raise Left

    return step


def do(action: Callable[[Run], Any]) -> Step:
    """Calls a function, and awaits what it returns if that can be awaited; one that does not return blocks the loop."""

    async def step(run: Run) -> None:
        result = action(run)
        if isawaitable(result):
            await result

    return step


# Events without ids


def message(text: str = 'hello', **fields: Any) -> Message:
    """Returns a message of the agent."""
    return Message(role=Role.ROLE_AGENT, parts=[Part(text=text)], **fields)


def task(state: TaskState = TaskState.TASK_STATE_SUBMITTED, text: str = '', **fields: Any) -> Task:
    """Returns a whole task; `text` becomes its status message."""
    return Task(status=_status(state, text), **fields)


def status(state: TaskState = TaskState.TASK_STATE_WORKING, text: str = '', **fields: Any) -> TaskStatusUpdateEvent:
    """Returns a status update."""
    return TaskStatusUpdateEvent(status=_status(state, text), **fields)


def artifact(
    text: str = 'chunk', artifact_id: str = 'answer', *, append: bool = False, **fields: Any
) -> TaskArtifactUpdateEvent:
    """Returns an artifact update with one part."""
    content = Artifact(artifact_id=artifact_id, parts=[Part(text=text)], **fields)
    return TaskArtifactUpdateEvent(artifact=content, append=append)


def _status(state: TaskState, text: str) -> TaskStatus:
    return TaskStatus(state=state, message=message(text)) if text else TaskStatus(state=state)
