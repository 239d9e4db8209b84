"""What a run found, as tables: on the terminal, as Markdown and as JSON."""

import importlib.metadata
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from rich.console import Console

from bench import tables
from bench.floors import judged, judged_json
from bench.http.floors import FLOORS
from bench.http.results import Results
from bench.http.systems import LIMIT, LIMIT_SINGLY, OURS, System
from bench.machine import description, file_system
from bench.results import quotient
from bench.tables import NONE, Grid, spoken_ratio, spoken_time, to_markdown

SERVERS: Final = ('uvicorn', 'uvloop', 'httptools')
COLUMNS: Final = ('workload', 'system', 'per second', 'p50', 'p99', 'server CPU', 'load', 'a2a-scribe is')


def environment(folder: Path, systems: Iterable[System]) -> dict[str, str]:
    distributions = {system.distribution: None for system in systems} | dict.fromkeys(SERVERS)
    return {
        **{name: importlib.metadata.version(name) for name in distributions},
        **description(),
        'file system': file_system(folder),
    }


def write(results: Results, folder: Path, *, is_judged: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found = {**results.to_json(), 'floors': judged_json(FLOORS, results) if is_judged else []}
    (folder / 'http.json').write_text(json.dumps(found, indent=2, ensure_ascii=False) + '\n', encoding='utf-8')
    grids = _grids(results, is_judged=is_judged)
    failures = results.failures + results.peer_failures
    text = to_markdown('Benchmark results, over HTTP', results.environment, grids, failures)
    (folder / 'http.md').write_text(text, encoding='utf-8')


def show(results: Results, console: Console, *, is_judged: bool) -> None:
    tables.show(_grids(results, is_judged=is_judged), console)
    for failure in results.failures:
        console.print(f'failed: {failure}', style='bold red', markup=False)
    for failure in results.peer_failures:
        console.print(f'a peer failed: {failure}', style='yellow', markup=False)


def _grids(results: Results, *, is_judged: bool) -> Iterator[Grid]:
    candidates = [
        _speed(results),
        _limit(results),
        Grid('Settings in force', ('system', 'settings'), _settings(results)),
    ]
    if is_judged:
        candidates.append(judged(FLOORS, results))
    yield from (grid for grid in candidates if grid.rows)


def _speed(results: Results) -> Grid:
    rows = [
        (
            workload.title,
            system.title,
            _rate(results.rate(workload.name, system), workload.unit),
            spoken_time(results.p50(workload.name, system)),
            spoken_time(results.p99(workload.name, system)),
            f'{spoken_time(results.server_cpu(workload.name, system))} / {workload.unit}',
            _share(results.load_share(workload.name, system)),
            NONE if system in (OURS, LIMIT, LIMIT_SINGLY) else _times(results.speedup(workload.name, system)),
        )
        for workload in results.workloads
        for system in workload.systems
        if results.rate(workload.name, system) is not None
    ]
    return Grid('Throughput, latency of a call, CPU: medians', COLUMNS, rows, texts=2)


def _limit(results: Results) -> Grid:
    rows = [
        (
            workload.title,
            system.title,
            _plain(results.messages(workload.name, system)),
            _rate(quotient(1, results.server_cpu(workload.name, system)), workload.unit),
            _share(results.share_of_limit(workload.name, system)),
        )
        for workload in results.workloads
        for system in (LIMIT, LIMIT_SINGLY, OURS)
        if results.server_cpu(workload.name, system) is not None and LIMIT in workload.systems
    ]
    columns = ('workload', 'system', 'messages an answer', 'per second of server CPU', 'a2a-scribe reaches')
    return Grid('Beside a bare ASGI app that sends the same bytes: medians', columns, rows, texts=2)


def _settings(results: Results) -> list[tuple[str, ...]]:
    return list(results.settings().items())


def _rate(rate: float | None, unit: str) -> str:
    return NONE if rate is None else f'{_plain(rate)} {unit}s'


def _plain(value: float | None) -> str:
    if value is None:
        return NONE
    return f'{value:,.0f}' if value >= 100 else f'{value:.3g}'


def _share(value: float | None) -> str:
    return NONE if value is None else f'{value:.0%}'


def _times(ratio: float | None) -> str:
    """Two digits near 1, where they matter."""
    return f'{ratio:.2f} x' if ratio is not None and ratio < 10 else spoken_ratio(ratio)
