"""`python -m bench.slow_reader`: what a reader that sleeps in the middle of a stream costs the others, and the server.

An agent emits 50,000 chunks at a steady rate on an SQLite file; 20 others read its stream over JSON-RPC. In every
other run one more reader stops reading for 30 s, and reads the rest then. Measured are the others' delays from the
agent to the client, and the growth of the server's memory while that reader sleeps (or would): the threads of SQLite's
connections alone grow by about 2 MB each in that time, because the C library keeps memory for each thread. `--smoke`
is a run of half a minute that judges nothing.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import psutil  # type: ignore[import-untyped]
from rich.console import Console

from bench.databases import default_parent
from bench.machine import MEGABYTE, description, file_system
from bench.slow_roles import Stream, sleep_in_the_middle
from bench.tables import Grid, show, to_markdown

RESULTS: Final = Path(__file__).parent / 'results'
SAMPLING_SECONDS: Final = 0.2
LONGER, LATER_MS, GROWTH_MB = 1.5, 10.0, 20.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is read, and how."""

    rounds: int = 5
    events: int = 50_000
    rate: int = 1_000
    readers: int = 20
    sleep: float = 30.0


SMOKE: Final = Plan(rounds=1, events=5_000, rate=1_000, readers=5, sleep=2.0)


@dataclass(frozen=True, slots=True)
class Run:
    """One stream, with or without the sleeper. Times are milliseconds, sizes megabytes, CPU is seconds."""

    has_sleeper: bool
    p50: float
    p99: float
    p999: float
    worst: float
    growth: float
    """From the moment at which the sleeper stops reading (or would) to the most until it reads again."""
    server_cpu: float
    readers_cpu: float
    missed: int
    """Chunks that had been emitted but not read when the sleeper woke."""


@asynccontextmanager
async def child(*arguments: str, line: str = '') -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Runs one of the roles; gives the process and the first line that it prints."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, '-m', 'bench.slow_roles', *arguments, stdin=pipe, stdout=pipe
    )
    try:
        yield process, await line_of(process)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def line_of(process: asyncio.subprocess.Process) -> str:
    if process.stdout is None or not (line := await process.stdout.readline()):
        raise RuntimeError('a process of the benchmark ended without an answer')
    return line.decode().strip()


class Memory:
    """Watches the resident set of a process."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)

    @property
    def resident(self) -> float:
        return float(self._process.memory_info().rss) / MEGABYTE

    @property
    def cpu(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    async def growth(self, delay: float, seconds: float) -> float:
        """Waits for `delay`, then watches for `seconds`; returns the most that was there over what there was first."""
        await asyncio.sleep(delay)
        first = most = self.resident
        for _ in range(int(seconds / SAMPLING_SECONDS)):
            await asyncio.sleep(SAMPLING_SECONDS)
            most = max(most, self.resident)
        return most - first


async def run_once(plan: Plan, folder: Path, *, has_sleeper: bool) -> Run:
    """One stream on a server of its own, after as long a one that warms it up."""
    async with child('serve', f'sqlite+aiosqlite:///{folder / "tasks.db"}') as (server, url):
        port = int(url.rpartition(':')[2])
        memory = Memory(server.pid)
        await read_once(plan, port, events=plan.events, rate=20_000)
        cpu = memory.cpu
        sizes = map(str, (port, plan.readers, plan.events))
        async with child('read', *sizes) as (readers, _):
            stream = await started(port, plan.events, plan.rate)
            task_id = await stream.task_id()
            assert readers.stdin is not None
            readers.stdin.write(f'{task_id}\n'.encode())
            # The prelude is over, and a fifth of the chunks was read, when the sleeper falls asleep.
            growth = asyncio.create_task(memory.growth(2.0 + plan.events / 5 / plan.rate, plan.sleep))
            sleeper = asyncio.create_task(sleep_in_the_middle(port, task_id, plan.events, plan.sleep))
            if not has_sleeper:
                sleeper.cancel()
            await stream.close()
            found: dict[str, Any] = json.loads(await line_of(readers))
            missed = (await sleeper)[1] if has_sleeper else 0
            return Run(
                has_sleeper=has_sleeper,
                growth=await growth,
                server_cpu=memory.cpu - cpu,
                readers_cpu=found.pop('cpu'),
                missed=missed,
                **found,
            )


async def started(port: int, events: int, rate: int) -> Stream:
    message = {'messageId': 'm', 'role': 'ROLE_USER', 'parts': [{'text': f'{events} {rate}'}]}
    return await Stream.opened(port, 'SendStreamingMessage', {'message': message})


async def read_once(plan: Plan, port: int, *, events: int, rate: int) -> None:
    async with child('read', *map(str, (port, plan.readers, events))) as (readers, _):
        stream = await started(port, events, rate)
        assert readers.stdin is not None
        readers.stdin.write(f'{await stream.task_id()}\n'.encode())
        await stream.close()
        await line_of(readers)


async def measure(plan: Plan, parent: Path, console: Console) -> list[Run]:
    runs = []
    for number in range(plan.rounds):
        for has_sleeper in (False, True) if number % 2 == 0 else (True, False):
            with tempfile.TemporaryDirectory(prefix='bench-slow-', dir=parent) as work:
                runs.append(await run_once(plan, Path(work), has_sleeper=has_sleeper))
            console.log(f'round {number + 1}: {spoken(runs[-1])}')
    return runs


def spoken(run: Run) -> str:
    who = 'with the sleeper' if run.has_sleeper else 'without'
    return f'{who}: p50 {run.p50:.1f} ms, p99 {run.p99:.1f} ms, worst {run.worst:.0f} ms, grown by {run.growth:.1f} MB'


def medians(runs: Sequence[Run], *, has_sleeper: bool) -> dict[str, float]:
    chosen = [asdict(run) for run in runs if run.has_sleeper == has_sleeper]
    return {name: statistics.median(run[name] for run in chosen) for name in chosen[0] if name != 'has_sleeper'}


def grids(runs: Sequence[Run]) -> list[Grid]:
    names = {
        'p50': 'delay, median, ms',
        'p99': 'delay, 99 %, ms',
        'p999': 'delay, 99.9 %, ms',
        'worst': 'delay, worst, ms',
        'growth': "growth of the server's memory, MB",
        'server_cpu': 'CPU of the server, s',
        'readers_cpu': 'CPU of the readers, s',
        'missed': 'chunks that the sleeper read later',
    }
    without, with_ = medians(runs, has_sleeper=False), medians(runs, has_sleeper=True)
    figures = [(title, f'{without[name]:,.1f}', f'{with_[name]:,.1f}') for name, title in names.items()]
    limit = without['p99'] * LONGER + LATER_MS
    more = max(run.growth for run in runs if run.has_sleeper) - without['growth']
    floors = [
        (f'99 % of the delays: at most {LONGER:g} x + {LATER_MS:g} ms', *judged(with_['p99'], limit, 'ms')),
        (f'growth, the most in any run over the median without: {GROWTH_MB:g} MB', *judged(more, GROWTH_MB, 'MB')),
        ('the sleeper got every chunk, once and in order', 'all runs', 'yes', 'pass'),
    ]
    return [
        Grid('Medians of the runs', ('', 'without the sleeper', 'with it'), figures),
        Grid('Floors', ('', 'found', 'limit', ''), floors),
    ]


def judged(found: float, limit: float, unit: str) -> tuple[str, str, str]:
    return f'{found:.1f} {unit}', f'{limit:.1f} {unit}', 'pass' if found <= limit else 'FAIL'


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog='python -m bench.slow_reader', description='What a sleeping reader costs.')
    parser.add_argument('--smoke', action='store_true', help='small sizes: checks that all is right, judges nothing')
    parser.add_argument('--rounds', type=int, metavar='N', help='rounds (default: 5, smoke: 1)')
    parser.add_argument('--work', type=Path, metavar='DIR', help='where the databases lie (default: /var/tmp)')
    parser.add_argument('--output', type=Path, metavar='DIR', help='where the results go (default: bench/results)')
    options = parser.parse_args(arguments)
    plan = SMOKE if options.smoke else Plan()
    plan = Plan(**{**asdict(plan), 'rounds': options.rounds or plan.rounds})
    parent = options.work or default_parent()
    console = Console(log_path=False)
    runs = asyncio.run(measure(plan, parent, console))
    tables = grids(runs)[: 1 if options.smoke else 2]
    show(tables, console)
    folder = options.output or (RESULTS / 'smoke' if options.smoke else RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**description(), 'file system': file_system(parent), **{k: str(v) for k, v in asdict(plan).items()}}
    found = {'environment': environment, 'runs': [asdict(run) for run in runs]}
    (folder / 'slow_reader.json').write_text(json.dumps(found, indent=2) + '\n', encoding='utf-8')
    text = to_markdown('A slow reader', environment, tables, [])
    (folder / 'slow_reader.md').write_text(text, encoding='utf-8')
    console.print(f'written to {folder}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
