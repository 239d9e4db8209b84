"""The chart: what an event costs, against the length of its stream."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from bench.names import DATABASES, TITLES
from bench.results import Results
from bench.systems import OURS, PEER, PEER_WAL, System


@dataclass(frozen=True, slots=True)
class Look:
    """How a system's line is drawn; `offset`: how far above its first point its name stands."""

    colour: str
    dashes: str | tuple[int, tuple[int, ...]]
    offset: int


LOOKS: Final = {
    PEER: Look('#b3541e', '-', 11),
    PEER_WAL: Look('#d79a6b', (0, (4, 2)), -19),
    OURS: Look('#1f5fa8', '-', 11),
}
INK: Final = '#222222'
PALE: Final = '#8a8a8a'
GRID: Final = '#e6e6e6'
STYLE: Final[Any] = {
    'font.family': 'DejaVu Sans',
    'font.size': 12,
    'svg.fonttype': 'none',
    'svg.hashsalt': 'bench',
    'axes.edgecolor': PALE,
    'text.color': INK,
    'axes.labelcolor': INK,
    'xtick.color': INK,
    'ytick.color': INK,
}
MARKED_LENGTH: Final = 1_000

Point = tuple[int, float]


def draw(results: Results, folder: Path) -> bool:
    """Write `cost_per_event.svg` and `.png`; False where no stream was measured."""
    databases = [name for name in DATABASES if _lines(results, name)]
    if not databases:
        return False
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.4 * len(databases) + 0.4, 4.6), layout='constrained')
        panels = figure.subplots(1, len(databases), sharex=True, sharey=True, squeeze=False)[0]
        for axes, database in zip(panels, databases, strict=True):
            _draw_panel(axes, results, database)
        panels[0].set_ylim(*_whole_decades(results, databases))
        panels[0].set_ylabel('time per event')
        figure.suptitle('What one event of a stream costs', fontsize=15, fontweight='bold', x=0.01, ha='left')
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / 'cost_per_event.svg', metadata={'Date': None})
        figure.savefig(folder / 'cost_per_event.png', dpi=160)
    return True


def _lines(results: Results, database: str) -> list[tuple[System, list[Point]]]:
    found = [(system, _points(results, database, system)) for system in LOOKS]
    return [(system, points) for system, points in found if points]


def _points(results: Results, database: str, system: System) -> list[Point]:
    streams = [workload for workload in results.workloads if workload.kind == 'stream']
    costs = [(workload.size, results.wall(workload.name, database, system)) for workload in streams]
    return [(size, cost) for size, cost in costs if cost is not None]


def _whole_decades(results: Results, databases: list[str]) -> tuple[float, float]:
    """Limits at powers of ten, so that the axis has a number at both ends."""
    costs = [cost for database in databases for _, points in _lines(results, database) for _, cost in points]
    return 10 ** math.floor(math.log10(min(costs))), 10 ** math.ceil(math.log10(max(costs)))


def _draw_panel(axes: Axes, results: Results, database: str) -> None:
    axes.set_title(TITLES[database], loc='left', fontsize=13)
    axes.set_xscale('log')
    axes.set_yscale('log')
    for system, points in _lines(results, database):
        _draw_line(axes, system, points)
    _draw_ratio(axes, results, database)
    sizes = sorted({workload.size for workload in results.workloads if workload.kind == 'stream'})
    axes.set_xticks(sizes, [f'{size:,}' for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_duration))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel('chunks in the stream')
    axes.margins(x=0.08)
    axes.grid(visible=True, which='major', color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[['top', 'right']].set_visible(False)
    axes.tick_params(which='both', length=0)


def _draw_line(axes: Axes, system: System, points: list[Point]) -> None:
    sizes, costs = zip(*points, strict=True)
    look = LOOKS[system]
    axes.plot(sizes, costs, color=look.colour, linestyle=look.dashes, linewidth=2.4, marker='o', markersize=6)
    axes.annotate(
        system.title,
        points[0],
        xytext=(0, look.offset),
        textcoords='offset points',
        color=look.colour,
        fontweight='bold',
    )


def _draw_ratio(axes: Axes, results: Results, database: str) -> None:
    """The distance between both lines at a stream of 1,000 chunks, in words."""
    name = f'stream-{MARKED_LENGTH}'
    ratio = results.speedup(name, database)
    upper, lower = results.wall(name, database, PEER), results.wall(name, database, OURS)
    if ratio is None or upper is None or lower is None:
        return
    axes.annotate(
        '',
        (MARKED_LENGTH, lower * 1.25),
        xytext=(MARKED_LENGTH, upper / 1.25),
        arrowprops={'arrowstyle': '<->', 'color': PALE, 'linewidth': 1.2},
    )
    middle = (upper * lower) ** 0.5
    axes.annotate(
        f'{ratio:.0f} times', (MARKED_LENGTH, middle), xytext=(8, 0), textcoords='offset points', va='center', color=INK
    )


def _duration(seconds: float, _position: int | None = None) -> str:
    if seconds >= 1:
        return f'{seconds:g} s'
    return f'{seconds * 1e3:g} ms' if seconds >= 0.999e-3 else f'{seconds * 1e6:g} µs'
