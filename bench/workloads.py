"""What is measured of a system: tasks, streams, reads. One call here is one measurement in a fresh process.

Called by `bench.child`. Each returns a sample: wall and CPU seconds of the timed part alone, and the number of units in
it; what was stored is checked outside that part, so a system that loses events has no figure.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from a2a.types.a2a_pb2 import ListTasksRequest

from bench.agents import finished_task
from bench.promises import durability_settings
from bench.spec import Sample, Spec
from bench.stored import record_statistics
from bench.systems import OURS, Opened, opened
from bench.traffic import WrongAnswerError, check_chunks, get_task, run_stream, run_task

LISTED_CHUNKS: Final = 10
PAGE_SIZE: Final = 50
SEEDING_CONCURRENCY: Final = 64
OWN_EVENTS: Final = 2  # the task and its last status, beside the chunks


@dataclass(slots=True)
class Stopwatch:
    wall: float = 0.0
    cpu: float = 0.0


@asynccontextmanager
async def timed() -> AsyncIterator[Stopwatch]:
    """Wall and CPU seconds of the block; CPU counts every thread of this process."""
    watch = Stopwatch()
    wall, cpu = time.perf_counter(), time.process_time()
    yield watch
    watch.wall, watch.cpu = time.perf_counter() - wall, time.process_time() - cpu


async def gathered(count: int, concurrency: int, system: Opened, chunks: int) -> list[str]:
    """Run `count` tasks, `concurrency` at a time; the ids of those that completed."""
    numbers = iter(range(count))

    async def client(mine: Iterable[int]) -> list[str]:
        return [(await run_task(system, chunks)).id for _ in mine]

    done = await asyncio.gather(*(client(numbers) for _ in range(concurrency)))
    return [task_id for ids in done for task_id in ids]


async def measure_tasks(spec: Spec) -> Sample:
    """Small blocking tasks at a given concurrency."""
    async with opened(spec.system, spec.url) as system:
        await run_task(system, spec.size)  # alone: the peer cannot create its table twice at once
        await gathered(spec.concurrency, spec.concurrency, system, spec.size)
        async with timed() as watch:
            ids = await gathered(spec.repeats, spec.concurrency, system, spec.size)
        for task_id in ids[:: max(1, len(ids) // 20)]:
            check_chunks(await get_task(system, task_id), spec.size)
        statistics = await record_statistics(system.engine, ids) if spec.system is OURS else {}
        return Sample(
            wall=watch.wall,
            cpu=watch.cpu,
            units=len(ids),
            events=len(ids) * (spec.size + OWN_EVENTS),
            settings=await durability_settings(system.engine),
            figures=statistics,
        )


async def measure_streams(spec: Spec) -> Sample:
    """Streams of a given length, one after the other, each read to its end."""
    async with opened(spec.system, spec.url) as system:
        await run_stream(system, 'chunks 10')
        async with timed() as watch:
            read = [await run_stream(system, f'chunks {spec.size}') for _ in range(spec.repeats)]
        for task_id, events in read:
            if events != spec.size + OWN_EVENTS:
                raise WrongAnswerError(f'a stream gave {events} events where {spec.size + OWN_EVENTS} are due')
            check_chunks(await get_task(system, task_id), spec.size)
        events = sum(count for _, count in read)
        settings = await durability_settings(system.engine)
        return Sample(wall=watch.wall, cpu=watch.cpu, units=events, events=events, settings=settings)


async def measure_get(spec: Spec) -> Sample:
    """GetTask of the one long task in a prepared database."""
    async with opened(spec.system, spec.url) as system:
        check_chunks(await get_task(system, spec.task_id), spec.size)
        async with timed() as watch:
            for _ in range(spec.repeats):
                await get_task(system, spec.task_id)
        return Sample(wall=watch.wall, cpu=watch.cpu, units=spec.repeats)


async def measure_list(spec: Spec) -> Sample:
    """The first page of ListTasks in a prepared database of many tasks."""
    async with opened(spec.system, spec.url) as system:
        page = await system.handler.on_list_tasks(ListTasksRequest(page_size=PAGE_SIZE), system.context)
        if (page.total_size, len(page.tasks)) != (spec.size, min(PAGE_SIZE, spec.size)):
            raise WrongAnswerError(f'{len(page.tasks)} of {page.total_size} tasks are listed')
        async with timed() as watch:
            for _ in range(spec.repeats):
                await system.handler.on_list_tasks(ListTasksRequest(page_size=PAGE_SIZE), system.context)
        return Sample(wall=watch.wall, cpu=watch.cpu, units=spec.repeats)


async def prepare_get(spec: Spec) -> Sample:
    """Store one task of `size` chunks."""
    async with opened(spec.system, spec.url) as system:
        if spec.system.seeds_by_save:
            task_id = await _save_task(system, spec.size)
        else:
            task_id, _ = await run_stream(system, f'chunks {spec.size}')
        check_chunks(await get_task(system, task_id), spec.size)
        return Sample(task_id=task_id)


async def prepare_list(spec: Spec) -> Sample:
    """Store `size` small finished tasks; without syncing each commit where that is up to us."""
    async with opened(spec.system, spec.url, is_durable=False) as system:
        if spec.system.seeds_by_save:
            for _ in range(spec.size):
                await _save_task(system, LISTED_CHUNKS)
        else:
            await gathered(spec.size, SEEDING_CONCURRENCY, system, LISTED_CHUNKS)
        return Sample()


async def _save_task(system: Opened, chunks: int) -> str:
    task = finished_task(str(uuid.uuid4()), str(uuid.uuid4()), chunks)
    await system.store.save(task, system.context)
    return task.id
