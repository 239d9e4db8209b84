"""What the component tests share: a handler on a troubled memory journal, with a fake clock and scripted agents.

A site that closes checks its journal and that no asyncio task is left, so every test checks both.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from a2a.auth.user import User
from a2a.server.agent_execution import AgentExecutor
from a2a.server.context import ServerCallContext
from a2a.server.owner_resolver import resolve_user_scope
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
)

from a2a_scribe import DefaultRequestHandler, Settings
from a2a_scribe.core.auditing import audit_records, audit_task
from a2a_scribe.core.records import Record
from a2a_scribe.engine.engine import Engine
from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.stores import JournalTaskStore
from a2a_scribe.journal.tasks import Caller
from a2a_scribe.protocol.types import Event, Message, Part, Role, Scope, Task, TaskArtifactUpdateEvent, TaskState
from a2a_scribe.testing.agents import ScriptedAgent
from a2a_scribe.testing.clock import FakeClock
from a2a_scribe.testing.ids import CountingIds
from a2a_scribe.testing.journals import TroubledJournal
from tests.component.receivers import Receivers

TURNS = 20_000
"""How often a test lets others run before it gives up."""
numbers = itertools.count(1)
DEADLINE = 4.0
"""Real seconds after which a test that hangs fails."""


async def until(wanted: Callable[[], object], what: str = '') -> None:
    """Lets others run until `wanted` is true."""
    for _ in range(TURNS):
        if wanted():
            return
        await asyncio.sleep(0)
    raise AssertionError(f'it never came to this: {what or wanted}')


async def settle(turns: int = 60) -> None:
    """Lets others run until nothing moves any more that does not wait for the test."""
    for _ in range(turns):
        await asyncio.sleep(0)


class NamedUser(User):
    """A user who has shown who they are."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self._name


def new_context(user: str = 'ada', tenant: str = '', key: str | None = None) -> ServerCallContext:
    state = {} if key is None else {'headers': {'idempotency-key': key}}
    return ServerCallContext(user=NamedUser(user), tenant=tenant, state=state)


def new_card(**capabilities: bool) -> AgentCard:
    given: dict[str, Any] = {'streaming': True, 'push_notifications': True, **capabilities}
    return AgentCard(name='scripted', capabilities=AgentCapabilities(**given))


def new_request(
    text: str = 'go',
    *,
    task_id: str = '',
    context_id: str = '',
    message_id: str = 'm',
    tenant: str = '',
    configuration: SendMessageConfiguration | None = None,
) -> SendMessageRequest:
    message = Message(
        message_id=message_id, role=Role.ROLE_USER, parts=[Part(text=text)], task_id=task_id, context_id=context_id
    )
    return SendMessageRequest(message=message, tenant=tenant, configuration=configuration)


def text_of(message: Message) -> str:
    return ''.join(part.text for part in message.parts)


def state_of(event: object) -> TaskState | None:
    """Returns the state that an event shows."""
    if isinstance(event, TaskArtifactUpdateEvent | Message):
        return None
    return event.status.state  # type: ignore[attr-defined, no-any-return]


def history_of(task: Task) -> list[str]:
    return [text_of(message) for message in task.history]


@dataclass
class Watcher:
    """A client that reads a stream to its end in the background."""

    events: list[Event] = field(default_factory=list)
    task: 'asyncio.Task[None] | None' = None

    @classmethod
    def of(cls, stream: AsyncGenerator[Event, None]) -> 'Watcher':
        watcher = cls()
        watcher.task = asyncio.create_task(watcher.read(stream))
        return watcher

    async def read(self, stream: AsyncGenerator[Event, None]) -> None:
        try:
            async for event in stream:
                self.events.append(event)
        finally:
            await stream.aclose()

    async def end(self) -> list[Event]:
        """Waits for the end of the stream; raises what it raises."""
        assert self.task is not None
        await self.task
        return self.events

    async def go_away(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait([self.task])

    @property
    def states(self) -> list[TaskState]:
        return [state for event in self.events if (state := state_of(event)) is not None]


@dataclass
class Site:
    """A handler, and everything that a test wants to reach of it."""

    handler: DefaultRequestHandler
    journal: TroubledJournal
    memory: MemoryJournal
    clock: FakeClock

    @property
    def engine(self) -> Engine:
        return self.handler.engine

    async def send(
        self,
        text: str = 'go',
        *,
        user: str = 'ada',
        key: str | None = None,
        immediately: bool = False,
        **given: Any,
    ) -> Any:
        """Sends a message and returns the answer."""
        if immediately:
            given['configuration'] = SendMessageConfiguration(return_immediately=True)
        return await self.handler.on_message_send(new_request(text, **given), new_context(user, key=key))

    async def send_as(self, context: ServerCallContext, text: str = 'go', **given: Any) -> Any:
        """Sends a message in a context of the test's own."""
        return await self.handler.on_message_send(new_request(text, **given), context)

    def begin(self, text: str = 'go', **given: Any) -> 'asyncio.Task[Any]':
        """Sends a message in the background."""
        return asyncio.create_task(self.send(text, **given))

    async def begin_task(self, text: str = 'go', **given: Any) -> Task:
        """Sends a message whose agent creates a task, and returns the task."""
        task = await self.send(text, immediately=True, **given)
        assert isinstance(task, Task)
        return task

    def stream(self, text: str = 'go', *, user: str = 'ada', key: str | None = None, **given: Any) -> Watcher:
        """Sends a message and reads its stream in the background."""
        context = new_context(user, key=key)
        return Watcher.of(self.handler.on_message_send_stream(new_request(text, **given), context))

    def subscribe(self, task_id: str, *, user: str = 'ada') -> Watcher:
        """Subscribes in the background."""
        request = SubscribeToTaskRequest(id=task_id)
        return Watcher.of(self.handler.on_subscribe_to_task(request, new_context(user)))

    async def get(self, task_id: str, *, user: str = 'ada', **given: Any) -> Task:
        return await self.handler.on_get_task(GetTaskRequest(id=task_id, **given), new_context(user))

    async def find(self, *, user: str = 'ada', **given: Any) -> ListTasksResponse:
        return await self.handler.on_list_tasks(ListTasksRequest(**given), new_context(user))

    async def cancel(self, task_id: str, *, user: str = 'ada') -> Task:
        return await self.handler.on_cancel_task(CancelTaskRequest(id=task_id), new_context(user))

    def begin_cancel(self, task_id: str) -> 'asyncio.Task[Task]':
        return asyncio.create_task(self.cancel(task_id))

    def caller(self, user: str = 'ada', tenant: str = '') -> Caller:
        return Caller(Scope('scripted', user, tenant))

    @property
    def task_ids(self) -> list[str]:
        """The ids of all tasks that the journal was asked to keep, oldest first."""
        return list(dict.fromkeys(append.row.task_id for group in self.journal.attempts for append in group.appends))

    @property
    def task_id(self) -> str:
        """The id of the only task."""
        (task_id,) = self.task_ids
        return task_id

    async def records(self, task_id: str) -> list[Record]:
        return await self.memory.read_records(task_id, 0, limit=10**9, max_bytes=10**12)

    async def kinds(self, task_id: str) -> list[str]:
        return [record.kind for record in await self.records(task_id)]

    async def notes(self, task_id: str) -> str:
        return '\n'.join(record.note for record in await self.records(task_id) if record.note)

    async def left_memory(self) -> None:
        """Waits until no task is live."""
        await until(lambda: self.engine.live_tasks == 0, 'no task is live')

    async def advance(self, seconds: float) -> None:
        """Moves time, and lets others run before and after."""
        await settle()
        self.clock.advance(seconds)
        await settle()

    async def close(self) -> None:
        """Closes the handler, while time passes."""
        closing = asyncio.create_task(self.handler.aclose())
        for _ in range(60):
            await settle(20)
            if closing.done():
                break
            self.clock.advance(1.0)
        if not closing.done():
            closing.cancel()
            raise AssertionError('closing has no end')
        await closing


def new_site(
    agent: AgentExecutor,
    *,
    journal: TroubledJournal | None = None,
    clock: FakeClock | None = None,
    settings: Settings | None = None,
    card: AgentCard | None = None,
    name: str | None = None,
    **options: Any,
) -> Site:
    """Makes a handler that has not started."""
    clock = clock or FakeClock()
    journal = journal or TroubledJournal(MemoryJournal())
    memory = journal.inner
    assert isinstance(memory, MemoryJournal)
    options.setdefault('webhooks', Receivers().options)
    handler = DefaultRequestHandler(
        agent,
        JournalTaskStore(journal, resolve_user_scope),
        card or new_card(),
        settings=settings or Settings(),
        agent=name,
        clock=clock,
        ids=CountingIds(f'{next(numbers)}'),
        **options,
    )
    return Site(handler, journal, memory, clock)


@asynccontextmanager
async def running(agent: AgentExecutor, *, checked: bool = True, **given: Any) -> AsyncIterator[Site]:
    """Serves an agent; at the end opens its gates, closes, and checks what is left."""
    before = asyncio.all_tasks()
    async with asyncio.timeout(DEADLINE):
        site = new_site(agent, **given)
        try:
            yield site
        finally:
            site.journal.heal()
            if isinstance(agent, ScriptedAgent):
                agent.open_all()
        await settle()
        await site.close()
    if checked:
        await check_journal(site)
        await until(lambda: not (asyncio.all_tasks() - before), f'no tasks are left: {asyncio.all_tasks() - before}')


async def check_journal(site: Site) -> None:
    """Checks what must hold of every journal, whatever happened."""
    for task_id in site.task_ids:
        check_records(await site.records(task_id))
        row = site.memory.row(task_id)
        assert row is None or row.node is None, f'{task_id} is still owned'
        assert row is None or row.open_turn is None, f'{task_id} has an open turn'
        assert row is None or audit_task(row, await site.records(task_id)) == []


def check_records(records: Sequence[Record]) -> None:
    """Checks one task's records: no gaps, turns that start and end, nothing after the terminal state but its end."""
    assert records == [] or audit_records(records[0].task_id, records) == []
