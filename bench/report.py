"""What a run found, as tables: on the terminal, as Markdown and as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.floors import FLOORS
from bench.machine import description, file_system
from bench.names import DATABASES, SQLITE, TITLES
from bench.results import Results, quotient
from bench.systems import OURS, PEER, PEER_WAL, System

BARE: Final = 'bare sqlite3, 64 rows a commit, per row'
NONE: Final = '-'
WORDS: Final = {True: 'pass', False: 'FAIL', None: 'not measured'}


@dataclass(frozen=True, slots=True)
class Grid:
    """One table. The first column is text, the others are figures."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def environment(folder: Path, systems: tuple[System, ...]) -> dict[str, str]:
    return {
        **{system.title: system.version for system in systems},
        **description(),
        'file system': file_system(folder),
    }


def write(results: Results, folder: Path, *, is_judged: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found = {**results.to_json(), 'ratios': _ratios(results), 'floors': _floors_json(results) if is_judged else []}
    (folder / 'results.json').write_text(json.dumps(found, indent=2, ensure_ascii=False) + '\n', encoding='utf-8')
    (folder / 'results.md').write_text(_markdown(results, is_judged=is_judged), encoding='utf-8')


def show(results: Results, console: Console, *, is_judged: bool) -> None:
    for grid in _grids(results, is_judged=is_judged):
        table = Table(title=grid.title, title_justify='left', title_style='bold')
        for number, column in enumerate(grid.columns):
            table.add_column(column, justify='left' if number == 0 else 'right', overflow='fold')
        for row in grid.rows:
            table.add_row(*row)
        console.print(table)
    for failure in results.failures:
        console.print(f'failed: {failure}', style='bold red', markup=False)
    for failure in results.peer_failures:
        console.print(f'{PEER.title} failed: {failure}', style='yellow', markup=False)


def _grids(results: Results, *, is_judged: bool) -> Iterator[Grid]:
    candidates = [_speed(results), _limit(results), _memory(results), _durability(results), _settings(results)]
    if is_judged:
        candidates.append(_floors(results))
    yield from (grid for grid in candidates if grid.rows)


def _speed(results: Results) -> Grid:
    rows = [
        (
            workload.title,
            TITLES[database],
            *(_per(results.wall(workload.name, database, system), workload.unit) for system in (PEER, PEER_WAL, OURS)),
            _times(results.speedup(workload.name, database)),
            _times(results.speedup(workload.name, database, PEER_WAL)),
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
        rows.append((BARE, _time(results.limit_wall()), _time(results.limit_cpu()), '1 x'))
    for workload in results.workloads:
        per_row = results.cpu_per_row(workload.name, SQLITE)
        if per_row is not None:
            ratio = _times(quotient(per_row, results.limit_cpu()))
            rows.append((f'{OURS.title}, {workload.title}, per row', NONE, _time(per_row), ratio))
    for workload in results.workloads:
        per_event = results.cpu_per_event(workload.name, SQLITE, OURS) if workload.kind == 'stream' else None
        if per_event is not None:
            wall = results.wall(workload.name, SQLITE, OURS)
            ratio = _times(quotient(per_event, results.limit_cpu()))
            rows.append((f'{OURS.title}, {workload.title}, per event', _time(wall), _time(per_event), ratio))
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


def _floors(results: Results) -> Grid:
    rows = []
    for floor in FLOORS:
        value = floor.figure(results)
        spoken = NONE if value is None else f'{value:.3g} {floor.unit}' if value < 100 else f'{value:.0f} {floor.unit}'
        rows.append((floor.name, floor.spoken_bound, spoken, WORDS[floor.holds(results)]))
    return Grid('Floors', ('figure', 'bound', 'measured', 'verdict'), rows)


def _ratios(results: Results) -> dict[str, dict[str, float]]:
    """How many times faster, by peer and database, then by workload."""
    found: dict[str, dict[str, float]] = {}
    for peer, database, workload in product((PEER, PEER_WAL), DATABASES, results.workloads):
        ratio = results.speedup(workload.name, database, peer)
        if ratio is not None:
            found.setdefault(f'{peer.name} on {database}', {})[workload.name] = round(ratio, 2)
    return found


def _floors_json(results: Results) -> list[dict[str, object]]:
    return [
        {
            'name': floor.name,
            'bound': floor.spoken_bound,
            'measured': floor.figure(results),
            'holds': floor.holds(results),
        }
        for floor in FLOORS
    ]


def _markdown(results: Results, *, is_judged: bool) -> str:
    parts = ['# Benchmark results', '', *(f'- {name}: {value}' for name, value in results.environment.items()), '']
    for grid in _grids(results, is_judged=is_judged):
        rules = ['---', *(['---:'] * (len(grid.columns) - 1))]
        lines = [grid.columns, tuple(rules), *grid.rows]
        parts += [f'## {grid.title}', '', *(f'| {" | ".join(line)} |' for line in lines), '']
    if results.failures or results.peer_failures:
        parts += ['## Failures', '', *(f'- {_one_line(item)}' for item in results.failures + results.peer_failures), '']
    return '\n'.join(parts)


def _one_line(text: str) -> str:
    return text.strip().splitlines()[0] + ' … ' + text.strip().splitlines()[-1] if '\n' in text.strip() else text


def _time(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    for unit, size in (('s', 1.0), ('ms', 1e-3)):
        if seconds >= size:
            return f'{seconds / size:.3g} {unit}' if seconds < size * 1000 else f'{seconds / size:.0f} {unit}'
    return f'{seconds * 1e6:.3g} µs'


def _per(seconds: float | None, unit: str) -> str:
    return NONE if seconds is None else f'{_time(seconds)} / {unit}'


def _times(ratio: float | None) -> str:
    if ratio is None:
        return NONE
    return f'{ratio:.1f} x' if ratio < 100 else f'{ratio:.0f} x'
