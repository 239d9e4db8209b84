"""Agents that never end, ignore that they are cancelled, or block the loop: a deadline and a cancel end their tasks."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import CancelTaskRequest, GetTaskRequest, SendMessageConfiguration, SendMessageRequest, Task
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe import DatabaseTaskStore, DefaultRequestHandler, Settings
from a2a_scribe.errors import TurnEndedError
from a2a_scribe.protocol.states import CANCELED, FAILED
from tests.dropin import kit

LIMIT, GRACE, BLOCKED = 0.3, 0.2, 1.0
ENDINGS = {
    'deadline': Settings(turn_timeout=LIMIT, cancel_grace=GRACE),
    'cancel': Settings(cancel_deadline=GRACE, cancel_grace=GRACE),
}
LONG_ENOUGH = 30.0


async def never_end(agent: 'Stubborn') -> None:
    await agent.released.wait()


async def swallow(agent: 'Stubborn') -> None:
    while not agent.released.is_set():
        with suppress(asyncio.CancelledError):
            await agent.released.wait()


async def swallow_once(agent: 'Stubborn') -> None:
    with suppress(asyncio.CancelledError):
        await agent.released.wait()


async def block(agent: 'Stubborn') -> None:
    until = time.perf_counter() + BLOCKED
    while time.perf_counter() < until:
        pass
    await agent.released.wait()


Way = Callable[['Stubborn'], Awaitable[None]]


class Stubborn(kit.Echo):
    """Works in its own way, and then tries to complete its task."""

    def __init__(self, way: Way) -> None:
        super().__init__()
        self.way = way
        self.released = asyncio.Event()
        self.over = asyncio.Event()
        self.refusal: BaseException | None = None

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        await updater.start_work()
        try:
            await self.way(self)
            await updater.complete()
        except BaseException as error:
            self.refusal = error
            raise
        finally:
            self.over.set()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await self.way(self)


@pytest.mark.anyio
@pytest.mark.parametrize('way', [never_end, swallow, swallow_once, block])
@pytest.mark.parametrize('ending', ENDINGS)
async def test_its_task_ends_in_time_and_stays_as_it_is(way: Way, ending: str, sqlite_url: str) -> None:
    database, agent = create_async_engine(sqlite_url), Stubborn(way)
    handler = DefaultRequestHandler(
        agent, DatabaseTaskStore(database), kit.new_card(), settings=ENDINGS[ending], failure_answer='task'
    )
    async with asyncio.timeout(LONG_ENOUGH):
        began = time.perf_counter()
        immediately = SendMessageConfiguration(return_immediately=ending == 'cancel')
        request = SendMessageRequest(message=kit.request('go').message, configuration=immediately)
        ended = await handler.on_message_send(request, kit.call())
        assert isinstance(ended, Task)
        if ending == 'cancel':
            ended = await handler.on_cancel_task(CancelTaskRequest(id=ended.id), kit.call())
        assert time.perf_counter() - began < LIMIT + 2 * (BLOCKED + GRACE) + 1.0
        assert ended.status.state == (FAILED if ending == 'deadline' else CANCELED)
        agent.released.set()
        await agent.over.wait()
        assert isinstance(agent.refusal, TurnEndedError | asyncio.CancelledError)
        assert await handler.on_get_task(GetTaskRequest(id=ended.id), kit.call()) == ended
        await handler.aclose()
    await database.dispose()
