"""`a2a-scribe demo`: the order of the demonstration, and its verdict.

Called by the command line. The files live in a temporary folder that is gone in the end, whatever happens.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from a2a.client import A2AClientError, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import Task
from a2a.utils.errors import A2AError
from rich.console import Console
from rich.text import Text

from a2a_scribe.cli.demo.agents import CHUNKS
from a2a_scribe.cli.demo.checks import Check, Outcomes, Scene
from a2a_scribe.cli.demo.process import ServerProcessError, serving
from a2a_scribe.cli.demo.report import heading, progress_line, show_end, show_outcomes, show_scene, show_tasks
from a2a_scribe.cli.demo.scenes import (
    RIGHT_FAILURE,
    Clients,
    answer_a_question,
    call_a_failing_agent,
    cancel_a_task,
    list_tasks,
    state_of,
    stream_a_task,
)
from a2a_scribe.clock import SystemClock

RUNS = 50
DEADLINE = 30.0


def show_demo() -> int:
    """Shows it all; returns 0 if every outcome is right, else 1."""
    console = Console(highlight=False)
    clock = SystemClock()
    began = clock.monotonic()
    with tempfile.TemporaryDirectory(prefix='a2a-scribe-demo-') as folder:
        try:
            is_right = asyncio.run(_show(console, Path(folder)))
        except (ServerProcessError, TimeoutError, A2AError, A2AClientError, httpx.HTTPError) as error:
            console.print(Text(f'the demonstration broke off: {error or type(error).__name__}', style='bold red'))
            return 1
    show_end(console, is_right=is_right, seconds=clock.monotonic() - began)
    return 0 if is_right else 1


async def _show(console: Console, folder: Path) -> bool:
    async with asyncio.timeout(DEADLINE):
        async with serving(folder) as url, _connected(url) as clients:
            console.print(f'An agent is served at {url}, its tasks are in an SQLite file.')
            works = await _show_work(console, clients)
            fails = await _show_failures(console, clients)
        async with serving(folder) as url, _connected(url) as clients:
            keeps = _show_stored(console, await list_tasks(clients))
    return works and fails and keeps


async def _show_work(console: Console, clients: Clients) -> bool:
    heading(console, 1, "A day's work, over HTTP with the client of a2a-sdk")
    with progress_line(console) as progress:
        line = progress.add_task('streaming', total=CHUNKS)
        scenes = [await stream_a_task(clients, lambda count: progress.update(line, completed=count))]
    show_scene(console, scenes[0])
    for act in (answer_a_question, cancel_a_task):
        scenes.append(await act(clients))
        show_scene(console, scenes[-1])
    return not any(scene.wrong for scene in scenes)


async def _show_failures(console: Console, clients: Clients) -> bool:
    heading(console, 2, f'An agent that enqueues its task and then raises, {RUNS} times')
    outcomes = Outcomes.of(RIGHT_FAILURE, [await call_a_failing_agent(clients) for _ in range(RUNS)])
    show_outcomes(console, outcomes, RUNS)
    return outcomes.are_right(RUNS)


def _show_stored(console: Console, tasks: list[Task]) -> bool:
    heading(console, 3, 'The tasks as stored, read by a new server process from the same file')
    show_tasks(console, tasks)
    states = Counter(state_of(task) for task in tasks)
    expected = {'COMPLETED': 2, 'CANCELED': 1, 'FAILED': RUNS}
    found = ', '.join(f'{count} {state}' for state, count in sorted(states.items()))
    scene = Scene('stored', found, (Check('states', expected, dict(states)),))
    show_scene(console, scene)
    return not scene.wrong


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Clients]:
    # The server is on this machine: a proxy that the environment names is for others.
    async with httpx.AsyncClient(trust_env=False, timeout=DEADLINE) as http:
        yield Clients(
            streaming=await ClientFactory(ClientConfig(streaming=True, httpx_client=http)).create_from_url(url),
            blocking=await ClientFactory(ClientConfig(streaming=False, httpx_client=http)).create_from_url(url),
        )
