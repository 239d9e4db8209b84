"""One task and many who watch it: how long until each has every event, from the moment that the agent goes on.

Opening the subscriptions is not timed. Each of them has begun when it has shown the task as it is.
"""

import asyncio
import time
from typing import Final

from bench.http.client import Answer, Connection, Exchange
from bench.http.dialects import DIALECTS, post, subscribe, task_in
from bench.http.spec import RELEASE, LoadSpec
from bench.http.tally import Tally

SNAPSHOT_AND_END: Final = 2


async def watch_once(spec: LoadSpec, watchers: list[Connection], control: Connection, tally: Tally) -> None:
    """Start a task, let all watch it, and let it go."""
    started = await control.send(DIALECTS[spec.dialect].send_at_once(f'gated {spec.size}'))
    exchanges = [watcher.start(subscribe(task_in(started)['id'])) for watcher in watchers]
    await asyncio.gather(*(exchange.begun for exchange in exchanges))
    with tally.timed():
        released_at = time.perf_counter()
        await control.send(post(RELEASE))
        done = await asyncio.gather(*(_ended(exchange) for exchange in exchanges))
    for ended_at, answer in done:
        events = DIALECTS[spec.dialect].check_stream(answer, spec.size, SNAPSHOT_AND_END)
        tally.add(ended_at - released_at, answer, events)


async def _ended(exchange: Exchange) -> tuple[float, Answer]:
    answer = await exchange.done
    return time.perf_counter(), answer
