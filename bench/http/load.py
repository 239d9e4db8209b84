"""The load as a process of its own: `python -m bench.http.load SPEC` prints the sample as its last line.

It knows HTTP and JSON-RPC and nothing of the systems; `psutil` tells it what the server's process has used. Clients ask
again as soon as they are answered, until the time is up.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]
import uvloop

from bench.http.client import CHUNKED, Answer, Connection
from bench.http.operations import LEAVING_TASKS, OPERATIONS, check_stored
from bench.http.spec import LoadSpec, Recording, Sample
from bench.http.subscribers import watch_once
from bench.http.tally import Tally

SUBSCRIBERS: Final = 'subscribers'
RECORDED_CALLS: Final = 5


async def measure(spec: LoadSpec) -> Sample:
    tally = Tally(psutil.Process(spec.pid))
    async with _connections(spec) as connections:
        if spec.kind == SUBSCRIBERS:
            await _watch(spec, connections, tally)
        else:
            await _ask(spec, connections, tally)
    return tally.sample()


async def _ask(spec: LoadSpec, connections: list[Connection], tally: Tally) -> None:
    run = OPERATIONS[spec.kind]
    await run(spec, connections[0])  # alone: the peer cannot create its table twice at once
    await asyncio.gather(*(run(spec, connection) for connection in connections))

    async def client(connection: Connection) -> None:
        now = time.perf_counter()
        while now < deadline:
            asked_at = now
            done = await run(spec, connection)
            now = time.perf_counter()
            tally.add(now - asked_at, done.answer, done.units)

    with tally.timed():
        deadline = time.perf_counter() + spec.seconds
        await asyncio.gather(*(client(connection) for connection in connections))
    if spec.is_checked and spec.kind in LEAVING_TASKS:
        for answer in tally.newest:
            await check_stored(spec, connections[0], answer)


async def _watch(spec: LoadSpec, connections: list[Connection], tally: Tally) -> None:
    control, *watchers = connections
    await watch_once(spec, watchers[:1], control, Tally(tally.server))
    deadline = time.perf_counter() + spec.seconds
    while not tally.latencies or time.perf_counter() < deadline:
        await watch_once(spec, watchers, control, tally)


async def record(spec: LoadSpec) -> None:
    """Keep an answer: of several clients' calls at the same time, the one in the median number of parts."""
    run = OPERATIONS[spec.kind]

    async def client(connection: Connection) -> list[Answer]:
        return [(await run(spec, connection)).answer for _ in range(RECORDED_CALLS)]

    async with _connections(spec) as connections:
        answers = [item for items in await asyncio.gather(*map(client, connections)) for item in items]
    chosen = sorted(answers, key=lambda answer: len(answer.parts))[len(answers) // 2]
    parts = chosen.parts if chosen.length == CHUNKED else [chosen.body]
    Recording(chosen.header(b'content-type').decode(), parts).write(Path(spec.recording))


@asynccontextmanager
async def _connections(spec: LoadSpec) -> AsyncIterator[list[Connection]]:
    """Those of the clients; where many watch, one more for the one who lets them wait."""
    count = spec.connections + (spec.kind == SUBSCRIBERS)
    connections = [await Connection.open(spec.port) for _ in range(count)]
    try:
        yield connections
    finally:
        for connection in connections:
            connection.close()


async def main(spec: LoadSpec) -> str:
    if spec.recording:
        await record(spec)
        return spec.recording
    return (await measure(spec)).to_json()


if __name__ == '__main__':
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(main(LoadSpec.from_json(sys.argv[1]))))
