"""Measures what a server's process keeps in memory, on an SQLite file.

    memory_use.py CASE DATABASE-FILE

Prints one line of JSON: the bytes that the process has grown by, and what else the case has counted.
"""

import asyncio
import gc
import json
import os
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.owner_resolver import resolve_user_scope
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    TaskArtifactUpdateEvent,
    TaskState,
)
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe import DefaultRequestHandler
from a2a_scribe.core.records import ARTIFACT, shown_event
from a2a_scribe.journal.results import Receipt
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.journal.stores import JournalTaskStore
from a2a_scribe.journal.writes import Group

WARM_UP = 500
PAGE = os.sysconf('SC_PAGE_SIZE')

STATUSES, RESETS, CHUNKS = 100_000, 10_000, 100_000
FINISHED, OPEN = 5_000, 1_000


def rss() -> int:
    """The resident memory of this process, in bytes."""
    return int(Path('/proc/self/statm').read_text().split()[1]) * PAGE


def settled_rss() -> int:
    gc.collect()
    return rss()


async def pause(seconds: float) -> None:
    """Lets time pass, as a slow disk does."""
    over = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, over.set_result, None)
    await over


class SlowJournal(SqlJournal):
    """A journal whose commits take a while longer."""

    delay = 0.0

    async def commit(self, group: Group) -> Receipt:
        if self.delay:
            await pause(self.delay)
        return await super().commit(group)


class Agent(AgentExecutor):
    """Does what the first word of the message says."""

    def __init__(self) -> None:
        self.rss_after: list[int] = []
        self.released = asyncio.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await getattr(self, context.get_user_input())(updater)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError

    async def small(self, updater: TaskUpdater) -> None:
        for number in range(10):
            await updater.add_artifact([Part(text=f'chunk {number}')], artifact_id='text', append=number > 0)

    async def wait(self, updater: TaskUpdater) -> None:
        await updater.start_work()
        await self.released.wait()

    async def statuses(self, updater: TaskUpdater) -> None:
        for number in range(STATUSES):
            metadata = {'key': f'{number} '.ljust(1024, 'x')}
            await updater.update_status(TaskState.TASK_STATE_WORKING, metadata=metadata)
            self._look(number, STATUSES)

    async def messages(self, updater: TaskUpdater) -> None:
        for number in range(STATUSES):
            message = updater.new_agent_message([Part(text=f'{number} '.ljust(1024, 'x'))])
            await updater.update_status(TaskState.TASK_STATE_WORKING, message)
            self._look(number, STATUSES)

    async def resets(self, updater: TaskUpdater) -> None:
        for number in range(RESETS):
            await updater.add_artifact([Part(text=f'{number} '.ljust(1024, 'x'))], artifact_id='text')
            self._look(number, RESETS)

    async def chunks(self, updater: TaskUpdater) -> None:
        for number in range(CHUNKS):
            await updater.add_artifact([Part(text=f'{number} '.ljust(20))], artifact_id='text', append=number > 0)

    def _look(self, number: int, count: int) -> None:
        if number % (count // 10) == count // 10 - 1:
            self.rss_after.append(settled_rss())


class Server:
    """A handler and its agent."""

    def __init__(self, path: str) -> None:
        self.agent = Agent()
        self.engine = create_async_engine(f'sqlite+aiosqlite:///{path}')
        self.journal = SlowJournal(self.engine)
        store = JournalTaskStore(self.journal, resolve_user_scope)
        card = AgentCard(name='memory', capabilities=AgentCapabilities(streaming=True))
        self.handler = DefaultRequestHandler(self.agent, store, card)

    async def send(self, words: str, *, immediately: bool = False) -> Any:
        return await self.handler.on_message_send(request(words, immediately=immediately), ServerCallContext())

    async def send_many(self, words: str, count: int, *, immediately: bool = False) -> None:
        for start in range(0, count, 50):
            sends = [self.send(words, immediately=immediately) for _ in range(min(50, count - start))]
            await asyncio.gather(*sends)

    async def close(self) -> None:
        self.agent.released.set()
        await self.handler.aclose()
        await self.engine.dispose()


def request(words: str, *, immediately: bool = False) -> SendMessageRequest:
    message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text=words)])
    return SendMessageRequest(message=message, configuration=SendMessageConfiguration(return_immediately=immediately))


async def measure_turn(server: Server, words: str) -> dict[str, Any]:
    """One long turn: the memory after each tenth of it."""
    await server.send(words, immediately=True)
    while server.handler.engine.live_tasks:
        await pause(0.05)
    looks = server.agent.rss_after
    return {'growth': max(looks[2:]) - looks[1], 'looks': looks}


async def measure_finished(server: Server) -> dict[str, Any]:
    before = settled_rss()
    await server.send_many('small', FINISHED)
    return {'growth': settled_rss() - before, 'live': server.handler.engine.live_tasks}


async def measure_open(server: Server) -> dict[str, Any]:
    before = settled_rss()
    await server.send_many('wait', OPEN, immediately=True)
    return {'growth': settled_rss() - before, 'live': server.handler.engine.live_tasks}


async def measure_slow_commits(server: Server) -> dict[str, Any]:
    """A hundred thousand chunks on slow commits, and small tasks of others meanwhile."""
    before, peak = settled_rss(), 0

    def look(_: object) -> None:
        nonlocal peak
        peak = max(peak, rss())

    server.journal.delay = 0.005
    server.handler.engine.signals.committed.connect(look)
    reading = asyncio.ensure_future(read_chunks(server))
    latencies = []
    while not reading.done():
        start = time.perf_counter()
        await server.send('small')
        latencies.append(time.perf_counter() - start)
        await pause(0.02)
    task_id, seen = await reading
    look(None)
    stored = await stored_chunks(server, task_id)
    text = sum(map(len, stored['texts']))
    expected = [f'{number} '.ljust(20) for number in range(CHUNKS)]
    return {
        'growth': peak - before,
        'text': text,
        'seen in order': seen == expected,
        'stored in order': stored['texts'] == expected,
        'gap-free': stored['gap-free'],
        'latencies': sorted(latencies),
    }


async def read_chunks(server: Server) -> tuple[str, list[str]]:
    """Streams the task; returns its id and the texts as they came."""
    task_id, seen = '', []
    async for event in server.handler.on_message_send_stream(request('chunks'), ServerCallContext()):
        if isinstance(event, TaskArtifactUpdateEvent):
            task_id = event.task_id
            seen.append(event.artifact.parts[0].text)
    return task_id, seen


async def stored_chunks(server: Server, task_id: str) -> dict[str, Any]:
    texts, position, gap_free = [], 0, True
    while records := await server.journal.read_records(task_id, position, 5_000, 100_000_000):
        for record in records:
            gap_free = gap_free and record.seq == position + 1
            position = record.seq
            if record.kind == ARTIFACT:
                event = shown_event(record)
                assert isinstance(event, TaskArtifactUpdateEvent)
                texts.append(event.artifact.parts[0].text)
    return {'texts': texts, 'gap-free': gap_free}


CASES: dict[str, Callable[[Server], Awaitable[dict[str, Any]]]] = {
    'statuses': lambda server: measure_turn(server, 'statuses'),
    'messages': lambda server: measure_turn(server, 'messages'),
    'resets': lambda server: measure_turn(server, 'resets'),
    'finished': measure_finished,
    'open': measure_open,
    'slow-commits': measure_slow_commits,
}


async def main(case: str, path: str) -> None:
    server = Server(path)
    await server.send_many('small', WARM_UP)
    print(json.dumps(await CASES[case](server)), flush=True)
    await server.close()


if __name__ == '__main__':
    asyncio.run(main(sys.argv[1], sys.argv[2]))
