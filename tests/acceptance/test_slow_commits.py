"""A slow disk and a greedy agent: memory stays bounded, others are served, readers see things as they happen."""

import asyncio
import json
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import Part, TaskArtifactUpdateEvent
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe import DatabaseTaskStore
from tests.dropin import kit

PROGRAM = Path(__file__).parent / 'programs' / 'memory_use.py'
LONG_ENOUGH = 300
EVENTS, BLOCKED = 20, 0.05


@pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')
def test_an_agent_that_is_faster_than_the_disk(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), 'slow-commits', str(tmp_path / 'tasks.db')]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_ENOUGH, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found['growth'] - found['text'] < 60_000_000
    assert found['gap-free']
    assert found['stored in order']
    assert found['seen in order']
    latencies = found['latencies']
    assert len(latencies) > 10
    assert median(latencies) < 0.2


class Blocking(kit.Echo):
    """Keeps the event loop busy between its events, as agents with blocking clients do."""

    def __init__(self) -> None:
        super().__init__()
        self.emitted: list[float] = []

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        for number in range(EVENTS):
            await updater.add_artifact([Part(text=f'{number}')], artifact_id='text', append=number > 0)
            self.emitted.append(time.perf_counter())
            while time.perf_counter() < self.emitted[-1] + BLOCKED:
                pass
        await updater.complete()


@pytest.mark.anyio
async def test_a_reader_sees_the_events_of_a_blocking_agent_as_they_come(sqlite_url: str) -> None:
    engine, agent = create_async_engine(sqlite_url), Blocking()
    async with kit.serving(agent, DatabaseTaskStore(engine)) as handler, asyncio.timeout(LONG_ENOUGH):
        stream = handler.on_message_send_stream(kit.request('go'), kit.call())
        arrived = [time.perf_counter() async for event in stream if isinstance(event, TaskArtifactUpdateEvent)]
    await engine.dispose()
    assert len(arrived) == EVENTS
    assert arrived[-1] - arrived[0] > 0.8 * (agent.emitted[-1] - agent.emitted[0])
    moments = 1 + sum(later - earlier > BLOCKED / 2 for earlier, later in pairwise(arrived))
    assert moments >= EVENTS / 3
    assert all(late - early < 4 * BLOCKED for early, late in zip(agent.emitted, arrived, strict=True))
