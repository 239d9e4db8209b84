"""5,000 requests of one owner at once: refused or served, none hung, memory bounded; another owner is still served."""

import asyncio
import os
import resource
import sys
import time
from collections.abc import Callable

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import Part
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe import DatabaseTaskStore, DefaultRequestHandler, Settings
from a2a_scribe.protocol.faults import BusyError
from a2a_scribe.protocol.states import COMPLETED
from tests.component.kit import new_card, new_context, new_request, state_of

IS_FULL = bool(os.environ.get('SCRIBE_FULL'))
"""Judge the delay of the others too, which only a quiet machine can hold."""
WORK, EVERY = 0.2, 0.02
CROWD = 5_000
LONG_ENOUGH = 120.0


async def pause(seconds: float) -> None:
    """Lets real time pass: the latencies of real turns are measured here."""
    over = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, over.set_result, None)
    await over


class Steady(AgentExecutor):
    """Takes the same time for every message, and counts how many it works on."""

    def __init__(self) -> None:
        self.running = self.most = 0

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        updater = TaskUpdater(event_queue, context.task_id or '', context.context_id or '')
        await updater.start_work()
        await pause(WORK)
        await updater.add_artifact([Part(text='done')])
        await updater.complete()
        self.running -= 1

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


class Owner:
    """Sends messages, and notes what became of them and how long it took."""

    def __init__(self, handler: DefaultRequestHandler, name: str) -> None:
        self.latencies: list[float] = []
        self.refused = 0
        self._handler = handler
        self._context = new_context(name)

    async def send(self) -> None:
        began = time.perf_counter()
        try:
            answer = await self._handler.on_message_send(new_request(), self._context)
        except BusyError:
            self.refused += 1
        else:
            assert state_of(answer) == COMPLETED
            self.latencies.append(time.perf_counter() - began)

    async def send_steadily(self, is_over: Callable[[], bool]) -> None:
        async with asyncio.TaskGroup() as group:
            while not is_over():
                group.create_task(self.send())
                await pause(EVERY)

    @property
    def p99(self) -> float:
        return sorted(self.latencies)[len(self.latencies) * 99 // 100]


def peak_memory() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.skipif(sys.platform != 'linux', reason='memory is counted in other units elsewhere')
@pytest.mark.anyio
async def test_a_crowd_is_refused_or_served_and_holds_nobody_else_up(sqlite_url: str) -> None:
    database, agent = create_async_engine(sqlite_url), Steady()
    handler = DefaultRequestHandler(
        agent, DatabaseTaskStore(database), new_card(push_notifications=False), settings=Settings(max_running_turns=50)
    )
    alone, crowd, other = (Owner(handler, name) for name in ('alone', 'crowd', 'other'))
    async with asyncio.timeout(LONG_ENOUGH):
        await Owner(handler, 'first').send()
        until = time.perf_counter() + 2.0
        await alone.send_steadily(lambda: time.perf_counter() > until)
        before = peak_memory()
        over = asyncio.Event()
        steadily = asyncio.ensure_future(other.send_steadily(over.is_set))
        await pause(WORK)
        await asyncio.gather(*[crowd.send() for _ in range(CROWD)])
        over.set()
        await steadily
        await handler.aclose()
    await database.dispose()
    assert crowd.refused + len(crowd.latencies) == CROWD
    assert crowd.refused > CROWD / 2
    assert len(crowd.latencies) > 400
    assert agent.most == 50
    assert (handler.engine.running_turns, handler.engine.waiting_turns) == (0, 0)
    assert other.refused == 0
    assert len(other.latencies) > 50
    assert other.p99 < max(crowd.latencies) / 2, 'nobody waits behind the crowd'
    if IS_FULL:
        assert other.p99 <= 2 * alone.p99 + 0.05
    assert peak_memory() - before < 80_000_000
