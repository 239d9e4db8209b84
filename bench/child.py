"""One measurement in a process of its own: `python -m bench.child SPEC` prints the sample as its last line."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Final

from bench import durability, limit, memory, workloads
from bench.spec import Sample, Spec

KINDS: Final[dict[str, Callable[[Spec], Awaitable[Sample]]]] = {
    'tasks': workloads.measure_tasks,
    'stream': workloads.measure_streams,
    'get': workloads.measure_get,
    'list': workloads.measure_list,
    'prepare-get': workloads.prepare_get,
    'prepare-list': workloads.prepare_list,
    'limit': limit.measure_limit,
    'die': durability.die_after,
    'read-back': durability.read_back,
    'finished': memory.measure_finished,
    'open': memory.measure_open,
    'statuses': memory.measure_statuses,
    'messages': memory.measure_messages,
    'resets': memory.measure_resets,
    'slow-commits': memory.measure_slow_commits,
}


async def measure(spec: Spec) -> Sample:
    return await KINDS[spec.kind](spec)


if __name__ == '__main__':
    logging.basicConfig(level=logging.WARNING)
    chosen = Spec.from_json(sys.argv[1])
    print(asyncio.run(measure(chosen)).to_json())
