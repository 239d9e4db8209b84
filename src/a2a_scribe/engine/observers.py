"""Those who wait for a turn or follow a task: streams and blocking calls, each a cursor with an end.

The order is always: hang up a bell, read, wait. So nothing is missed between reading and waiting.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from a2a.utils.errors import A2AError, TaskNotFoundError, UnsupportedOperationError

from a2a_scribe.core.records import (
    ARTIFACT,
    TURN_ENDED,
    TURN_STARTED,
    Record,
    Shown,
    TurnEnded,
    TurnStarted,
    decode,
    shown,
    shown_event,
)
from a2a_scribe.engine.cursors import Cursor, Reading
from a2a_scribe.engine.hub import Bell
from a2a_scribe.engine.turn import Turn
from a2a_scribe.errors import CallerGoneError, JournalUnavailableError
from a2a_scribe.journal.tasks import Caller, StoredTask
from a2a_scribe.protocol.states import INTERRUPTED, TERMINAL
from a2a_scribe.protocol.types import (
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskEvent,
    TaskState,
    TaskStatusUpdateEvent,
    TurnId,
)

Presence = Callable[[], Awaitable[bool]]
"""Tells whether who asked still waits for the answer."""


async def always() -> bool:
    """Whoever asked is taken to be there."""
    return True


@dataclass(slots=True)
class Ticket:
    """What the sender of a message holds: the turn that will answer it, wherever it runs."""

    turn_id: TurnId
    turn: Turn | None = None
    """The turn, once it runs on this node; its newest attempt is `current`."""
    initial: Task | None = None
    """The task as the turn found it, for a stream."""

    @property
    def current(self) -> Turn | None:
        """The turn as it runs now on this node, if it does."""
        while self.turn is not None and self.turn.again is not None:
            self.turn = self.turn.again
        return self.turn


class TurnObserver:
    """Waits for the answer to one message."""

    def __init__(
        self, reading: Reading, ticket: Ticket, task_id: str, caller: Caller, after: int, *, is_repeat: bool = False
    ) -> None:
        """Watches the turn of `ticket`, whose records come after `after`; a repeat watches what may be over."""
        self.ticket = ticket
        self.is_repeat = is_repeat
        """The message was sent before, and its turn is that of the first time."""
        self.task_id = task_id
        self._reading = reading
        self._caller = caller
        self._cursor = Cursor(reading, task_id, after)
        self._shown = after
        """The record up to which the observer has seen everything, as part of a whole task."""
        self._is_new = after == 0 and not is_repeat
        self._started = self._is_new

    @property
    def failure(self) -> BaseException | None:
        """What made the turn fail, if it ran on this node."""
        return None if (turn := self.ticket.current) is None else turn.failure

    @property
    def unanswered(self) -> A2AError | None:
        """The error for a message that the agent left without an answer, if the turn ran on this node."""
        return None if (turn := self.ticket.current) is None else turn.unanswered

    @property
    def spoke(self) -> bool:
        """Whether the agent has emitted something."""
        return (turn := self.ticket.current) is None or turn.spoke

    async def answer(self, is_present: Presence = always) -> Task | Message:
        """Waits for a terminal or interrupted state, the turn's end, or a Message (A2A 1.0, section 3.2.2).

        Asks `is_present` whenever it has looked for the answer and found none.

        Raises:
            CallerGoneError: Nobody waits any more.
            UnsupportedOperationError: The task ended before this message was looked at.
            TaskNotFoundError: The task was deleted.
            JournalUnavailableError: What the agent emitted could not be recorded.
        """
        with self._reading.hub.bell(self.task_id) as bell:
            while True:
                records = await self._cursor.read()
                for record in records:
                    state = state_of(record)
                    if self._ends_turn(record, state) or self._asks_for_input(record, state):
                        return await self._left_with(record)
                if self._reply is not None:
                    return self._reply
                if not records:
                    await self._wait(bell)
                if not await is_present():
                    raise CallerGoneError

    async def first(self, is_present: Presence = always) -> Task | Message:
        """Waits for the first durable Task or Message. Asks and raises as `answer`."""
        if not self._is_new:
            return await self._current()
        with self._reading.hub.bell(self.task_id) as bell:
            while True:
                if await self._cursor.read():
                    return await self._current()
                if self._reply is not None:
                    return self._reply
                await self._wait(bell)
                if not await is_present():
                    raise CallerGoneError

    async def batches(self) -> AsyncGenerator[list[Shown], None]:
        """Yields the Task first, then the turn's events, to a terminal state or the turn's end.

        What is there at the same time comes together; an empty batch comes now and then while nothing happens to the
        turn, so that who reads can look whether somebody still listens. Raises as `answer`.
        """
        with self._reading.hub.bell(self.task_id) as bell:
            while True:
                records = await self._cursor.read()
                batch, over = await self._shown_of(records)
                if not over and self._reply is not None:
                    batch.append(Shown(None, 'message', self._reply.SerializeToString()))
                    over = True
                if batch or (records and not over):
                    yield batch
                if over:
                    return
                if not records and not await self._wait(bell):
                    yield []

    async def _shown_of(self, records: list[Record]) -> tuple[list[Shown], bool]:
        """Returns what records show of this turn, and whether the answer is complete with them."""
        batch: list[Shown] = []
        for record in records:
            just_started = not self._started
            over = self._ends_turn(record, state_of(record))
            if just_started and self._started:
                batch.append(await self._initial(record))
            elif self._started and record.seq > self._shown and (item := shown(record)) is not None:
                batch.append(item)
            if over:
                return batch, True
        return batch, False

    @property
    def _reply(self) -> Message | None:
        return None if (turn := self.ticket.current) is None else turn.reply

    def _asks_for_input(self, record: Record, state: TaskState | None) -> bool:
        """Whether the turn has come to an interrupted state, rather than repeated the one that it began with."""
        if not self._started or state not in INTERRUPTED:
            return False
        event, turn = shown_event(record), self.ticket.turn
        if event is None:
            return False
        if turn is None:  # it runs elsewhere: what carries metadata may be a repetition, and the turn's end will tell
            return not (isinstance(event, TaskStatusUpdateEvent) and event.metadata.fields)
        return _status_time(event) not in turn.facts.repeats

    def _ends_turn(self, record: Record, state: TaskState | None) -> bool:
        """Notes the turn's start; returns whether the answer is complete with this record, which shows `state`."""
        if record.kind == TURN_STARTED and not self._started:
            change = decode(record)
            self._started = isinstance(change, TurnStarted) and change.turn_id == self.ticket.turn_id
            return False
        if record.kind == TURN_ENDED:
            change = decode(record)
            return isinstance(change, TurnEnded) and change.turn_id == self.ticket.turn_id
        if state not in TERMINAL:
            return False
        if not self._started:
            raise UnsupportedOperationError(f'Task {self.task_id} ended before the message was looked at')
        return True

    async def _wait(self, bell: Bell) -> bool:
        """Returns whether something has happened."""
        turn = self.ticket.current
        if turn is not None and turn.lost is not None:
            raise turn.lost
        if self._reading.hub.is_closed:
            raise JournalUnavailableError('the server is closed; try again')
        rung = await bell.wait(self._reading.poll_interval)
        if not rung and not self._is_pending_here:
            await self._reading.check_existence(self.task_id, self._caller)
        return rung

    @property
    def _is_pending_here(self) -> bool:
        turn = self.ticket.current
        return turn is not None and turn.writer.durable_seq == 0

    async def _current(self) -> Task:
        """Returns the task as it is stored now, or known here."""
        return self._known() or await self._read()

    def _known(self) -> Task | None:
        """Returns the task as its turn left it, if the turn has ended here; else as it is, if all of it is here."""
        turn, writer = self.ticket.current, self._cursor.writer
        if turn is not None and turn.result is not None:
            return turn.result
        if writer is not None and writer.is_settled and writer.projection is not None and writer.projection.is_whole:
            return writer.projection.to_task()
        return None

    async def _read(self) -> Task:
        stored = await self._stored()
        self._shown = stored.row.seq
        return stored.projection.to_task()

    async def _stored(self) -> StoredTask:
        stored = await self._reading.journal.read_task(self.task_id, self._caller)
        if stored is None:
            raise TaskNotFoundError
        return stored

    async def _left_with(self, end: Record) -> Task:
        """Returns the task as the turn has left it, whose answer is complete with `end`: without what others did."""
        turn, writer = self.ticket.current, self._cursor.writer
        knows = turn is not None and (turn.result is not None or turn.writer is writer)
        if knows and (known := self._known()) is not None:
            return known
        stored = await self._stored()
        next_start = await self._reading.next_start(self.task_id, end.seq, stored.row.seq)
        task = None if next_start is None else await self._reading.task_as_of(self.task_id, next_start - 1)
        return task or stored.projection.to_task()

    async def _initial(self, started: Record) -> Shown:
        """Returns the task that a follow-up's stream begins with: as of the turn's start if that is known here."""
        initial, self.ticket.initial = self.ticket.initial, None
        task = initial if initial is not None else await self._read()
        return Shown(max(started.seq, self._shown), 'task', task.SerializeToString())


class TaskObserver:
    """Follows a task, whoever works on it, to its end (A2A 1.0, section 3.1.6)."""

    def __init__(self, reading: Reading, task_id: str, caller: Caller, after: int, until: float) -> None:
        """Follows the task from record `after` on; to record `until` if it has ended there."""
        self._reading = reading
        self._until = until
        self._caller = caller
        self._task_id = task_id
        self._cursor = Cursor(reading, task_id, after)

    async def batches(self) -> AsyncGenerator[list[Shown], None]:
        """Yields every event after the start, through interrupted states, up to the terminal one.

        Batches are as those of a turn.

        Raises:
            TaskNotFoundError: The task was deleted.
            JournalUnavailableError: The journal cannot be read now.
        """
        with self._reading.hub.bell(self._task_id) as bell:
            while True:
                records = await self._cursor.read()
                if records:
                    yield [item for record in records if (item := shown(record)) is not None]
                if any(state_of(record) in TERMINAL for record in records):
                    return
                if records:
                    continue
                if self._cursor.position >= self._until or self._reading.expects_nothing(self._task_id):
                    return
                if not await bell.wait(self._reading.poll_interval):
                    await self._reading.check_existence(self._task_id, self._caller)
                    yield []


def state_of(record: Record) -> TaskState | None:
    """Returns the state that a record shows, `None` if it shows none."""
    if record.kind == ARTIFACT:
        return None
    event = shown_event(record)
    if isinstance(event, TaskStatusUpdateEvent | Task):
        return event.status.state
    return None


def _status_time(event: TaskEvent) -> int | None:
    """Returns the time of the status that an event shows, in microseconds."""
    return None if isinstance(event, TaskArtifactUpdateEvent) else event.status.timestamp.ToMicroseconds()
