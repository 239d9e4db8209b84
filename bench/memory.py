"""What tasks leave in memory: finished ones, open ones, and long ones that only change.

Called by `bench.child`. Every figure is growth of the resident set since 500 warm-up tasks and `gc.collect()`, in
megabytes (10^6 bytes); the highest value in between is watched by a thread of its own.
"""

import asyncio
import gc
import re
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from a2a.types.a2a_pb2 import Task
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.agents import KILOBYTE
from bench.chunks import CHUNK_DIGITS, CHUNK_PREFIX
from bench.machine import MEGABYTE, resident
from bench.spec import Sample, Spec
from bench.stored import chunks_in, gaps, records_of
from bench.systems import OURS, Opened, opened
from bench.traffic import WrongAnswerError, run_stream, run_task, send_request
from bench.workloads import OWN_EVENTS, gathered

WARM_UP_TASKS: Final = 500
CONCURRENCY: Final = 16
SMALL_CHUNKS: Final = 10
SAMPLING_SECONDS: Final = 0.02
COMMIT_DELAY: Final = 0.005
PROBE_PAUSE: Final = 0.1
CHUNK_BYTES: Final = len(CHUNK_PREFIX) + CHUNK_DIGITS
COMMIT: Final = re.compile(r'\s*COMMIT\b', re.IGNORECASE)


def settled() -> float:
    gc.collect()
    return resident()


class HighWater(threading.Thread):
    """Keeps the highest resident set that it saw."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.highest = resident()
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(SAMPLING_SECONDS):
            self.highest = max(self.highest, resident())

    def stop(self) -> None:
        self._stopping.set()
        self.join()
        self.highest = max(self.highest, resident())


@contextmanager
def high_water() -> Iterator[HighWater]:
    watch = HighWater()
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


async def warm_up(system: Opened, spec: Spec) -> float:
    """The size to compare with: after the warm-up, collected."""
    await run_task(system, SMALL_CHUNKS)
    await gathered(min(WARM_UP_TASKS, spec.size), CONCURRENCY, system, SMALL_CHUNKS)
    return settled()


async def measure_finished(spec: Spec) -> Sample:
    """`size` small tasks that are over."""
    async with opened(spec.system, spec.url) as system:
        before = await warm_up(system, spec)
        await gathered(spec.size, CONCURRENCY, system, SMALL_CHUNKS)
        return Sample(units=spec.size, figures={'growth': settled() - before})


async def measure_open(spec: Spec) -> Sample:
    """`size` tasks whose executors wait."""
    async with opened(spec.system, spec.url) as system:
        before = await warm_up(system, spec)
        for _ in range(0, spec.size, CONCURRENCY):
            await asyncio.gather(*(_start_waiting(system) for _ in range(CONCURRENCY)))
        started = -(-spec.size // CONCURRENCY) * CONCURRENCY
        growth = (settled() - before) * spec.size / started
        return Sample(units=spec.size, figures={'growth': growth})


async def _start_waiting(system: Opened) -> None:
    request = send_request(f'wait {SMALL_CHUNKS}', return_immediately=True)
    if not isinstance(await system.handler.on_message_send(request, system.context), Task):
        raise WrongAnswerError('a message in place of a task')


async def measure_statuses(spec: Spec) -> Sample:
    """`size` status updates on one task, each with a kilobyte of metadata in the place of the one before."""
    return await _measure_long(spec, 'statuses', growing_bytes=0)


async def measure_messages(spec: Spec) -> Sample:
    """The same with a kilobyte of status message: they become the task's history, which grows by design."""
    return await _measure_long(spec, 'messages', growing_bytes=KILOBYTE)


async def measure_resets(spec: Spec) -> Sample:
    """`size` times one artifact of a kilobyte, set anew."""
    return await _measure_long(spec, 'resets', growing_bytes=0)


async def _measure_long(spec: Spec, script: str, *, growing_bytes: int) -> Sample:
    async with opened(spec.system, spec.url) as system:
        before = await warm_up(system, spec)
        with high_water() as watch:
            task_id, events = await run_stream(system, f'{script} {spec.size}')
        growth = settled() - before
        problems = _miscounted(events, spec.size + OWN_EVENTS)
        if spec.system is OURS:
            problems += gaps(await records_of(system.engine, task_id))
        text = spec.size * growing_bytes / MEGABYTE
        figures = {'growth': growth - text, 'highest': watch.highest - before - text, 'text': text}
        return Sample(units=spec.size, figures=figures, problems=problems)


async def measure_slow_commits(spec: Spec) -> Sample:
    """`size` chunks as fast as the agent can while every commit takes 5 ms more, and another client's small tasks."""
    async with opened(spec.system, spec.url) as system:
        slow = SlowCommits(system.engine)
        before = await warm_up(system, spec)
        slow.delay = COMMIT_DELAY
        with high_water() as watch:
            (task_id, events), waits = await _streamed_beside_probes(system, f'chunks {spec.size}')
        slow.delay = 0
        growth = settled() - before
        problems = _miscounted(events, spec.size + OWN_EVENTS)
        if spec.system is OURS:
            problems += await _stored_wrong(system.engine, task_id, spec.size)
        text = spec.size * CHUNK_BYTES / MEGABYTE
        figures = {
            'growth': growth - text,
            'highest': watch.highest - before - text,
            'text': text,
            'commits': slow.commits,
            'small_task_ms': statistics.median(waits) * 1000,
            'small_task_worst_ms': max(waits) * 1000,
        }
        return Sample(units=spec.size, figures=figures, problems=problems)


async def _streamed_beside_probes(system: Opened, text: str) -> tuple[tuple[str, int], list[float]]:
    """The stream's result, and the seconds that each small task took meanwhile."""
    waits: list[float] = []
    stream = asyncio.ensure_future(run_stream(system, text))
    while not stream.done():
        await asyncio.wait([stream], timeout=PROBE_PAUSE)
        started = time.perf_counter()
        await run_task(system, SMALL_CHUNKS)
        waits.append(time.perf_counter() - started)
    return stream.result(), waits


async def _stored_wrong(engine: AsyncEngine, task_id: str, chunks: int) -> list[str]:
    records = await records_of(engine, task_id)
    problems = gaps(records)
    if chunks_in(records) != list(range(chunks)):
        problems.append(f'the {chunks} chunks are not stored once each, in order')
    return problems


def _miscounted(events: int, due: int) -> list[str]:
    return [] if events == due else [f'{events} events were streamed where {due} are due']


class SlowCommits:
    """Makes every COMMIT of an engine's connections wait in SQLite's own thread, where a slow disk would.

    SQLite calls a trace function in the thread that runs the statement, so the event loop stays free.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self.delay = 0.0
        self.commits = 0
        event.listen(engine.sync_engine, 'connect', self._trace_connection)

    def _trace_connection(self, connection: Any, _record: Any) -> None:
        connection.run_async(lambda driver: driver.set_trace_callback(self._on_statement))

    def _on_statement(self, statement: str) -> None:
        if self.delay and COMMIT.match(statement):
            self.commits += 1
            time.sleep(self.delay)
