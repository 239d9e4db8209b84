"""One turn, and the queue that its executor emits into.

The turn owns whether its queue is open and what came of it; admission is the writer's. Whoever ends a turn for a reason
of its own (a cancel, a lost journal, the end of the server) revokes it first.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from a2a.server.agent_execution import RequestContext
from a2a.server.events import Event, EventQueue
from a2a.utils.errors import A2AError

from a2a_scribe.clock import Timer
from a2a_scribe.core.records import TurnStarted
from a2a_scribe.core.statuses import TurnFacts
from a2a_scribe.engine.capacity import Place
from a2a_scribe.engine.refusals import TaskTooLargeError
from a2a_scribe.engine.writer import Writer
from a2a_scribe.errors import TurnEndedError
from a2a_scribe.protocol.types import Message, Task, TurnId

Prepare = Callable[[], Awaitable[RequestContext]]
"""Makes what the executor is given, at the moment when the turn starts."""


class Watching(Protocol):
    """What watches over the time that a turn takes."""

    def touch(self) -> None:
        """Notes that the agent has emitted something, or could not because of us."""

    def cancel(self) -> None:
        """Watches no more."""


class Turn:
    """A running turn, as this node sees it."""

    def __init__(self, started: TurnStarted, facts: TurnFacts, writer: Writer, prepare: Prepare) -> None:
        """Makes a turn that does not run yet."""
        self.started = started
        self.facts = facts
        self.writer = writer
        self.prepare = prepare
        self.queue = TurnQueue(self)
        self.reply: Message | None = None
        """The direct message, if that was the answer."""
        self.failure: BaseException | None = None
        """What made the turn fail, for callers in this process."""
        self.unanswered: A2AError | None = None
        """The turn has left a parked task as it was."""
        self.result: Task | None = None
        """The task as the turn left it, where the next turn has changed it since."""
        self.lost: Exception | None = None
        """What the agent emitted could not be recorded, and nothing more will be."""
        self.spoke = False
        """The agent has emitted something."""
        self.detached = False
        """`execute` has returned, and the queue stays open for what the agent does in the background."""
        self.again: Turn | None = None
        """The attempt that has taken the place of this one."""
        self.cancelling = False
        """Whoever cancels the turn records its end."""
        self.ended = False
        """The end is admitted, or will be by whoever revoked the turn."""
        self.place: Place | None = None
        """Where it runs, or waits for room to."""
        self.task: asyncio.Task[None] | None = None
        """What runs `execute`, once there is room."""
        self.start: Callable[[], None] | None = None
        """Has it begin, once the key of its message is durable."""
        self.timer: Timer | None = None
        self.watch: Watching | None = None
        self.held = 0
        """How many calls of the agent wait for room."""
        self.on_background_event: Callable[[Turn], None] | None = None
        self.on_reply: Callable[[], None] | None = None
        self.on_revoke: Callable[[], None] | None = None

    @property
    def turn_id(self) -> TurnId:
        """The id of the turn."""
        return self.started.turn_id

    def admit(self, event: object) -> None:
        """Records an event, or keeps it as the reply. Raises what `Writer.admit` raises."""
        reply = self.writer.admit(self.facts, event)
        self.spoke = True
        if self.watch is not None:
            self.watch.touch()
        if reply is not None:
            self.reply = reply.message
            if self.on_reply is not None:
                self.on_reply()

    def make_task(self) -> None:
        """Creates the task from the request: the agent has been silent for too long."""
        if not self.ended:
            self.writer.make_task(self.facts)

    async def wait_for_room(self) -> None:
        """Has the agent wait until what it emitted is durable. Raises: JournalUnavailableError."""
        self.held += 1
        try:
            await self.writer.wait_for_room()
        finally:
            self.held -= 1
            if self.watch is not None:
                self.watch.touch()

    def revoke(self) -> None:
        """Ends the turn for the executor: nothing that it emits is recorded from here on."""
        self.ended = True
        self.on_background_event = None
        self.queue.revoke()
        if self.timer is not None:
            self.timer.cancel()
        if self.watch is not None:
            self.watch.cancel()
            self.watch = None
        if self.place is not None:
            self.place.leave()
        if self.on_revoke is not None:
            self.on_revoke()


class TurnQueue(EventQueue):
    """What an executor is given to emit events: admission happens at its own call site."""

    def __init__(self, turn: Turn) -> None:
        """Makes the queue of one turn, open until it is revoked."""
        self._turn: Turn | None = turn

    async def enqueue_event(self, event: Event) -> None:
        """Admits an event; waits only when too much is not durable yet.

        Raises:
            InvalidAgentResponseError: The event breaks a rule of the lifecycle; nothing of it is recorded.
            TurnEndedError: The turn is over.
            JournalUnavailableError: The journal was away for too long, and the turn is over.
        """
        turn = self._turn
        if turn is None:
            raise TurnEndedError
        try:
            turn.admit(event)
        except TaskTooLargeError as error:
            turn.failure = error
            self.revoke()
            raise
        finally:
            if turn.on_background_event is not None:
                turn.on_background_event(turn)
        if turn.writer.has_pressure():
            await turn.wait_for_room()

    def revoke(self) -> None:
        """Closes the queue for good. It forgets its turn, so that a turn is freed as soon as it is over."""
        self._turn = None

    async def close(self, immediate: bool = False) -> None:
        """Does nothing: a turn ends with `execute`, not with its queue. Executors may call it all the same."""

    def is_closed(self) -> bool:
        """Whether an event would be refused."""
        return self._turn is None
