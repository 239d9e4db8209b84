"""The systems under test, as values, and one way to open any of them.

Called by the measurements inside their child process. A system is its import paths and what differs in its care:
everything else is the same on both sides.
"""

import asyncio
import importlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, cast

from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import GetTaskRequest, ListTasksRequest, ListTasksResponse, Message, SendMessageRequest, Task
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bench.agents import BenchAgent, agent_card
from bench.contenders import Contender
from bench.names import DATABASES, SQLITE


class Handler(Protocol):
    """The part of a request handler that is measured."""

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Message | Task: ...

    def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any, None]: ...

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None: ...

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse: ...

    async def aclose(self) -> None: ...


class Store(Protocol):
    async def save(self, task: Task, context: ServerCallContext) -> None: ...


@dataclass(frozen=True, slots=True)
class System(Contender):
    """One contender.

    `is_given_wal`: the harness sets WAL and `synchronous=FULL` on its SQLite connections, which it would not do by
    itself. `seeds_by_save`: too slow to be filled by running the agent.
    """

    handler: str
    store: str
    seeds_by_save: bool
    is_given_wal: bool = False
    databases: tuple[str, ...] = DATABASES


PEER: Final = System(
    name='peer',
    title='a2a-sdk',
    package='a2a',
    distribution='a2a-sdk',
    handler='a2a.server.request_handlers:DefaultRequestHandler',
    store='a2a.server.tasks:DatabaseTaskStore',
    seeds_by_save=True,
)
PEER_WAL: Final = replace(PEER, name='peer-wal', title='a2a-sdk, WAL', is_given_wal=True, databases=(SQLITE,))
OURS: Final = System(
    name='ours',
    title='a2a-scribe',
    package='a2a_scribe',
    distribution='a2a-scribe',
    handler='a2a_scribe:DefaultRequestHandler',
    store='a2a_scribe:DatabaseTaskStore',
    seeds_by_save=False,
)
SYSTEMS: Final = {system.name: system for system in (PEER, PEER_WAL, OURS)}


@dataclass(frozen=True, slots=True)
class Opened:
    """A system at work on one database."""

    system: System
    engine: AsyncEngine
    store: Store
    handler: Handler
    agent: BenchAgent
    context: ServerCallContext = field(default_factory=ServerCallContext)


@asynccontextmanager
async def opened(system: System, url: str, *, is_durable: bool = True) -> AsyncIterator[Opened]:
    """Open `system` on the database at `url`; `is_durable=False` is for filling a database that is only read later."""
    engine = create_async_engine(url)
    if engine.dialect.name == SQLITE:
        _set_pragmas(engine, _pragmas(system, is_durable=is_durable))
    agent = BenchAgent()
    store = _load(system.store)(engine)
    handler = cast('Handler', _load(system.handler)(agent, store, agent_card()))
    try:
        yield Opened(system, engine, cast('Store', store), handler, agent)
    finally:
        agent.release.set()
        await asyncio.wait_for(handler.aclose(), timeout=60)
        await engine.dispose()


def _load(path: str) -> Any:
    module, _, name = path.partition(':')
    return getattr(importlib.import_module(module), name)


def _pragmas(system: System, *, is_durable: bool) -> list[str]:
    """What the harness sets: nothing, unless it gives WAL or fills a database that is only read later."""
    if not is_durable and system is not OURS:
        return ['synchronous=OFF']
    return ['journal_mode=WAL', 'synchronous=FULL'] if system.is_given_wal else []


def _set_pragmas(engine: AsyncEngine, pragmas: list[str]) -> None:
    def set_on_connection(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f'PRAGMA {pragma}')
        cursor.close()

    event.listen(engine.sync_engine, 'connect', set_on_connection)
