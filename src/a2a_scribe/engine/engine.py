"""The facade: what the handler asks of the engine, in the words of A2A's operations.

Without a lifespan the engine starts itself at the first call, on the loop of that call; the session ends with the
loop, and a call on another loop makes a new one.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Literal

from a2a.utils.errors import TaskNotFoundError, UnsupportedOperationError

from a2a_scribe.clock import Clock, SystemClock
from a2a_scribe.core.records import CANCEL, RERUN, Record, Shown
from a2a_scribe.engine import cancels, closing, reruns, sends, takeovers
from a2a_scribe.engine.capacity import Place
from a2a_scribe.engine.cursors import Cursor
from a2a_scribe.engine.deliveries import Deliver
from a2a_scribe.engine.observers import TaskObserver, TurnObserver
from a2a_scribe.engine.orders import AfterCrash, Agent, CancelOrder, Order
from a2a_scribe.engine.parts import Parts
from a2a_scribe.engine.session import Duties, Session
from a2a_scribe.errors import EnvironmentFault, JournalUnavailableError, OperatorError
from a2a_scribe.ids import IdSource, UuidSource
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.tasks import Caller, StoredTask, TaskPage
from a2a_scribe.journal.writes import DropConfig, PutConfig
from a2a_scribe.protocol.faults import InvalidFieldError
from a2a_scribe.protocol.ids import is_usable
from a2a_scribe.protocol.service_parameters import LAST_EVENT_ID
from a2a_scribe.protocol.states import TERMINAL, name_of
from a2a_scribe.protocol.types import ListTasksRequest, Task, TaskPushNotificationConfig
from a2a_scribe.settings import Settings
from a2a_scribe.signals import Signals

Trouble = Literal['draining', 'journal', 'schema']
"""The engine is closing; the journal cannot be written; it is not set up as it must be."""
DUTIES = Duties(takeovers.take_over, {CANCEL: cancels.carry_out, RERUN: reruns.run_again}, cancels.cancel_ended)


def _ignore(task_id: str, position: int) -> None:
    """Nobody wants to hear of turns."""


class Engine:
    """Runs one agent on one journal."""

    def __init__(
        self,
        agent: Agent,
        journal: Journal,
        *,
        agent_name: str = '',
        node_name: str = '',
        settings: Settings | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        after_crash: AfterCrash | None = None,
        deliver: Deliver | None = None,
    ) -> None:
        """Makes an engine that has not started; `deliver` starts the delivery of webhooks, if there is to be one."""
        self.signals = Signals()
        self.on_turn: Callable[[str, int], None] = _ignore
        """Hears of every turn that starts here: task id, and the record before the turn's first."""
        self._parts = Parts(
            agent=agent,
            journal=journal,
            agent_name=agent_name,
            node_name=node_name,
            settings=settings or Settings(),
            clock=clock or SystemClock(),
            ids=ids or UuidSource(),
            signals=self.signals,
            on_turn=self._tell_of_turn,
            after_crash=after_crash,
            deliver=deliver,
        )
        self._session: Session | None = None
        self._closed = False

    def _tell_of_turn(self, task_id: str, position: int) -> None:
        self.on_turn(task_id, position)

    @property
    def settings(self) -> Settings:
        """How the engine behaves."""
        return self._parts.settings

    @property
    def live_tasks(self) -> int:
        """How many tasks are in memory."""
        return 0 if self._session is None else len(self._session.registry)

    async def start(self) -> None:
        """Makes the engine ready on the running loop; every operation does so by itself.

        An engine that is started like this holds a connection of its own, over which it hears at once of what other
        processes write; one that starts by itself looks once per `poll_interval`.

        Raises:
            OperatorError: The journal cannot be used as it is set up.
            JournalUnavailableError: The engine is closed, or the journal cannot be reached.
        """
        await self._ready(joins=True)

    async def _ready(self, *, joins: bool = False) -> Session:
        await self._parts.journal.open()
        session = self._session
        if session is None or session.loop is not asyncio.get_running_loop() or session.hub.is_closed:
            if self._closed:
                raise JournalUnavailableError('the server is closed')
            session = self._session = Session(self._parts, DUTIES, joins=joins)
        if session.died is not None:
            raise JournalUnavailableError('the server has stopped working and must be restarted')
        return session

    @property
    def is_closing(self) -> bool:
        """Whether nothing new is begun any more."""
        return self._closed

    async def find_trouble(self, seconds: float) -> Trouble | None:
        """Returns what keeps the engine from working, if anything does; waits for the journal for `seconds` at most."""
        if self._closed:
            return 'draining'
        try:
            async with asyncio.timeout(seconds):
                session = await self._ready()
                return None if await session.commits.prove(seconds) else 'journal'
        except OperatorError:
            return 'schema'
        except (EnvironmentFault, TimeoutError):
            return 'journal'

    @property
    def running_turns(self) -> int:
        """How many turns run, or are about to."""
        return 0 if self._session is None else self._session.capacity.running

    @property
    def waiting_turns(self) -> int:
        """How many turns wait for room."""
        return 0 if self._session is None else self._session.capacity.waiting

    async def take_place(self, caller: Caller) -> Place:
        """Takes a place for a message, before anything is done for it; `leave` it unless the message is sent.

        Raises:
            OverloadedError: There is no room for it.
            JournalUnavailableError: The engine is closing, or the journal cannot be reached.
        """
        session = await self._ready()
        if not session.accepting:
            raise JournalUnavailableError('the server is closing; try again')
        return session.capacity.take(caller.scope.owner)

    def leave(self, observer: TurnObserver) -> None:
        """Says that nobody waits for the answer any more: a turn that waits for room unrecorded is dropped."""
        turn = observer.ticket.turn
        if turn is not None and turn.task is None and self._session is not None:
            self._session.stops.withdraw(turn)

    async def send(self, order: Order) -> TurnObserver:
        """Accepts a message (A2A 1.0, sections 3.1.1 and 3.1.2). Raises as `sends.accept`."""
        session = await self._ready()
        if not session.accepting:
            raise JournalUnavailableError('the server is closing; try again')
        return await sends.accept(session, order)

    async def find(self, task_id: str, caller: Caller) -> StoredTask:
        """Returns a stored task. Raises: TaskNotFoundError, JournalUnavailableError."""
        await self._parts.journal.open()
        stored = await self._parts.journal.read_task(task_id, caller) if is_usable(task_id) else None
        if stored is None:
            raise TaskNotFoundError
        return stored

    async def list_tasks(self, caller: Caller, query: ListTasksRequest) -> TaskPage:
        """Returns a page of the caller's tasks. Raises: InvalidParamsError, JournalUnavailableError."""
        await self._parts.journal.open()
        return await self._parts.journal.list_tasks(caller, query)

    async def cancel(self, order: CancelOrder) -> Task:
        """Cancels a task. Raises as `cancels.cancel`."""
        return await cancels.cancel(await self._ready(), order)

    async def subscribe(
        self, task_id: str, caller: Caller, after: int | None = None
    ) -> AsyncGenerator[list[Shown], None]:
        """Yields the task and then every event of it; with `after`, just the events after that record.

        The first batch comes at once; it is empty where there may be nothing to show yet. The others are as those of
        `TaskObserver.batches`. Where the records after `after` are not kept, the task as it is now stands for them.

        Raises:
            TaskNotFoundError: The task does not exist for this caller.
            UnsupportedOperationError: The task has ended, and no `after` was given.
            InvalidParamsError: `after` is beyond the task's last record.
        """
        session = await self._ready()
        stored = await self.find(task_id, caller)
        seq, has_ended = stored.row.seq, stored.row.state in TERMINAL
        if after is None and has_ended:
            raise UnsupportedOperationError(f'Task {task_id} has ended as {name_of(stored.row.state)}')
        if after is not None and not 0 <= after <= seq:
            raise InvalidFieldError(LAST_EVENT_ID, f'is {after}, but the last event of the task is {seq}')
        if after is None or not await self._reaches_back(task_id, after, seq):
            after = seq
            yield [Shown(seq, 'task', stored.projection.to_task().SerializeToString())]
        else:
            yield []
        observer = TaskObserver(session.reading, task_id, caller, after, seq if has_ended else math.inf)
        async with aclosing(observer.batches()) as batches:
            async for batch in batches:
                yield batch

    async def _reaches_back(self, task_id: str, after: int, seq: int) -> bool:
        """Whether the records after `after` can be read: a user's own store keeps tasks, not how they came about."""
        if after == seq:
            return True
        following = await self._parts.journal.read_records(task_id, after, limit=1, max_bytes=1)
        return bool(following) and following[0].seq == after + 1

    async def put_config(self, caller: Caller, config: TaskPushNotificationConfig, position: int | None = None) -> None:
        """Stores a push config; a new one begins after `position`, or at the task's present.

        Raises:
            JournalUnavailableError: Not now.
        """
        session = await self._ready()
        await session.commits.write(PutConfig(caller, config, position))

    async def drop_config(self, task_id: str, config_id: str) -> None:
        """Removes a push config. Raises: JournalUnavailableError."""
        session = await self._ready()
        await session.commits.write(DropConfig(task_id, config_id))

    async def configs(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Returns a task's push configs. Raises: JournalUnavailableError."""
        return await self._parts.journal.read_configs(task_id)

    def open_cursor(self, task_id: str, after: int) -> Callable[[], Coroutine[Any, Any, list[Record] | None]]:
        """Returns a function that waits for the next durable records; it returns `None` when the task is not live."""
        assert self._session is not None
        session = self._session
        cursor = Cursor(session.reading, task_id, after)
        bell = session.hub.bell(task_id)

        async def read() -> list[Record] | None:
            with bell:
                while not (records := await cursor.read()):
                    if session.registry.get(task_id) is None:
                        return None
                    await bell.wait(session.parts.settings.poll_interval)
            return records

        return read

    def spawn(self, errand: Coroutine[Any, Any, None], name: str) -> None:
        """Runs an errand that ends with the engine's session."""
        assert self._session is not None
        self._session.background.spawn(errand, name)

    async def aclose(self) -> None:
        """Stops accepting, lets turns finish until the deadline, and stops; may be called twice."""
        if self._closed:
            return
        self._closed = True
        session = self._session
        if session is not None and session.loop is asyncio.get_running_loop():
            await closing.close(session)
