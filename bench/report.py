"""What a run found, as tables: on the terminal, as Markdown and as JSON."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

from rich.console import Console

from bench import tables
from bench.floors import FLOORS, judged, judged_json
from bench.machine import description, file_system
from bench.names import DATABASES, SQLITE, TITLES
from bench.results import Results, quotient
from bench.systems import OURS, PEER, PEER_WAL, System
from bench.tables import NONE, Grid, spoken_ratio, spoken_time, to_markdown

BARE: Final = 'bare sqlite3, 64 rows a commit, per row'


def environment(folder: Path, systems: tuple[System, ...]) -> dict[str, str]:
    return {
        **{system.title: system.version for system in systems},
        **description(),
        'file system': file_system(folder),
    }


def write(results: Results, folder: Path, *, is_judged: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found = {
        **results.to_json(),
        'ratios': _ratios(results),
        'floors': judged_json(FLOORS, results) if is_judged else [],
    }
    (folder / 'results.json').write_text(json.dumps(found, indent=2, ensure_ascii=False) + '\n', encoding='utf-8')
    failures = results.failures + results.peer_failures
    text = to_markdown('Benchmark results', results.environment, _grids(results, is_judged=is_judged), failures)
    (folder / 'results.md').write_text(text, encoding='utf-8')


def show(results: Results, console: Console, *, is_judged: bool) -> None:
    tables.show(_grids(results, is_judged=is_judged), console)
    for failure in results.failures:
        console.print(f'failed: {failure}', style='bold red', markup=False)
    for failure in results.peer_failures:
        console.print(f'{PEER.title} failed: {failure}', style='yellow', markup=False)


def _grids(results: Results, *, is_judged: bool) -> Iterator[Grid]:
    candidates = [_speed(results), _limit(results), _memory(results), _durability(results), _settings(results)]
    if is_judged:
        candidates.append(judged(FLOORS, results))
    yield from (grid for grid in candidates if grid.rows)


def _speed(results: Results) -> Grid:
    rows = [
        (
            workload.title,
            TITLES[database],
            *(_per(results.wall(workload.name, database, system), workload.unit) for system in (PEER, PEER_WAL, OURS)),
            spoken_ratio(results.speedup(workload.name, database)),
            spoken_ratio(results.speedup(workload.name, database, PEER_WAL)),
        )
        for workload in results.workloads
        for database in DATABASES
        if any(key.workload == workload.name and key.database == database for key in results.samples)
    ]
    return Grid(
        'Time, medians', ('workload', 'database', PEER.title, PEER_WAL.title, OURS.title, 'ratio', 'ratio to WAL'), rows
    )


def _limit(results: Results) -> Grid:
    """CPU of ours, and of bare inserts of as many rows."""
    rows = []
    if results.limit:
        rows.append((BARE, spoken_time(results.limit_wall()), spoken_time(results.limit_cpu()), '1 x'))
    for workload in results.workloads:
        per_row = results.cpu_per_row(workload.name, SQLITE)
        if per_row is not None:
            ratio = spoken_ratio(quotient(per_row, results.limit_cpu()))
            rows.append((f'{OURS.title}, {workload.title}, per row', NONE, spoken_time(per_row), ratio))
    for workload in results.workloads:
        per_event = results.cpu_per_event(workload.name, SQLITE, OURS) if workload.kind == 'stream' else None
        if per_event is not None:
            wall = results.wall(workload.name, SQLITE, OURS)
            ratio = spoken_ratio(quotient(per_event, results.limit_cpu()))
            rows.append(
                (f'{OURS.title}, {workload.title}, per event', spoken_time(wall), spoken_time(per_event), ratio)
            )
    return Grid('CPU on SQLite, medians', ('what', 'wall', 'CPU', 'CPU over bare sqlite3'), rows)


def _memory(results: Results) -> Grid:
    rows = []
    for case in results.memory_cases:
        for figure, unit in _memory_figures(results, case.name):
            value = f'{results.memory_figure(case.name, figure):.4g} {unit}'.strip()
            rows.append((case.title, figure.replace('_', ' '), value))
    return Grid('Memory (growth over stored text) and slow commits', ('case', 'figure', 'value'), rows)


def _memory_figures(results: Results, case: str) -> Iterator[tuple[str, str]]:
    names = next(iter(results.memory.get(case, [])), None)
    for name in names.figures if names else ():
        yield name, '' if name == 'commits' else 'ms' if name.endswith('_ms') else 'MB'


def _durability(results: Results) -> Grid:
    rows = [
        (verdict.name, str(verdict.details.get('shown', NONE)), '; '.join(verdict.problems) or 'all stored')
        for verdict in results.verdicts
    ]
    return Grid('Durability: kill -9 when an event was shown', ('run', 'events shown', 'found'), rows)


def _settings(results: Results) -> Grid:
    return Grid('Settings in force', ('system', 'settings'), list(results.settings().items()))


def _ratios(results: Results) -> dict[str, dict[str, float]]:
    """How many times faster, by peer and database, then by workload."""
    found: dict[str, dict[str, float]] = {}
    for peer, database, workload in product((PEER, PEER_WAL), DATABASES, results.workloads):
        ratio = results.speedup(workload.name, database, peer)
        if ratio is not None:
            found.setdefault(f'{peer.name} on {database}', {})[workload.name] = round(ratio, 2)
    return found


def _per(seconds: float | None, unit: str) -> str:
    return NONE if seconds is None else f'{spoken_time(seconds)} / {unit}'
