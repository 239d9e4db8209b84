"""The chart: how many tasks and how many events of streams a server gives in a second, by its number of clients."""

from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from bench.chart import GRID, INK, PALE, STYLE
from bench.http.plan import Workload
from bench.http.results import Results
from bench.http.systems import FASTA2A, LIMIT, LIMIT_SINGLY, OURS, SDK_DATABASE, SDK_MEMORY, System

COLOURS: Final = {
    SDK_DATABASE: '#b3541e',
    SDK_MEMORY: '#d79a6b',
    FASTA2A: '#3f8f5b',
    OURS: '#1f5fa8',
    LIMIT_SINGLY: PALE,
    LIMIT: PALE,
}
PANELS: Final = {
    'tasks': ('Tasks per second', (SDK_DATABASE, SDK_MEMORY, FASTA2A, OURS, LIMIT)),
    'streams': ('Events of streams per second', (SDK_DATABASE, SDK_MEMORY, FASTA2A, OURS, LIMIT_SINGLY)),
}
LABEL_GAP: Final = 1.5  # the least factor between two labels' heights on the logarithmic axis


def draw(results: Results, folder: Path) -> bool:
    """Write `http_rates.svg` and `.png`; False where neither tasks nor streams were measured."""
    kinds = [kind for kind in PANELS if _workloads(results, kind)]
    if not kinds:
        return False
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.2 * len(kinds) + 0.4, 4.8), layout='constrained')
        panels = figure.subplots(1, len(kinds), squeeze=False)[0]
        for axes, kind in zip(panels, kinds, strict=True):
            _draw_panel(axes, results, kind)
        figure.suptitle('What a server gives over HTTP', fontsize=15, fontweight='bold', x=0.01, ha='left')
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / 'http_rates.svg', metadata={'Date': None})
        figure.savefig(folder / 'http_rates.png', dpi=160)
    return True


def _workloads(results: Results, kind: str) -> list[Workload]:
    systems = PANELS[kind][1]
    return [
        item
        for item in results.workloads
        if item.kind == kind and any(results.rate(item.name, system) is not None for system in systems)
    ]


def _draw_panel(axes: Axes, results: Results, kind: str) -> None:
    title, systems = PANELS[kind]
    workloads = _workloads(results, kind)
    counts = [item.connections for item in workloads]
    axes.set_title(title, loc='left', fontsize=13)
    axes.set_yscale('log')
    ends: list[tuple[float, System]] = []
    for system in systems:
        points = [
            (place, rate)
            for place, item in enumerate(workloads)
            if (rate := results.rate(item.name, system)) is not None
        ]
        if points:
            places, rates = zip(*points, strict=True)
            axes.plot(places, rates, color=COLOURS[system], linewidth=2.4, marker='o', markersize=6)
            ends.append((rates[-1], system))
    _label(axes, ends, len(workloads) - 1)
    axes.set_xticks(range(len(counts)), [str(count) for count in counts])
    axes.set_xlim(-0.15, (len(counts) - 1) * 1.75 + 0.5)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f'{value:,.0f}'))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel('connections', loc='left')
    axes.grid(visible=True, which='major', axis='y', color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[['top', 'right']].set_visible(False)
    axes.tick_params(which='both', length=0, colors=INK)


def _label(axes: Axes, ends: list[tuple[float, System]], place: int) -> None:
    """Names at the ends of the lines, moved up where they would lie on each other."""
    height = 0.0
    for rate, system in sorted(ends, key=lambda end: end[0]):
        height = max(rate, height * LABEL_GAP)
        axes.annotate(
            system.title,
            (place, height),
            xytext=(10, 0),
            textcoords='offset points',
            va='center',
            color=COLOURS[system],
            fontweight='bold',
        )
