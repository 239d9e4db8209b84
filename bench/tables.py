"""Tables of figures, on the terminal and as Markdown."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table

NONE: Final = '-'


@dataclass(frozen=True, slots=True)
class Grid:
    """One table. The first `texts` columns are text, the others are figures."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    texts: int = 1


def show(grids: Iterable[Grid], console: Console) -> None:
    for grid in grids:
        table = Table(title=grid.title, title_justify='left', title_style='bold')
        for number, column in enumerate(grid.columns):
            table.add_column(column, justify='left' if number < grid.texts else 'right', overflow='fold')
        for row in grid.rows:
            table.add_row(*row)
        console.print(table)


def to_markdown(title: str, environment: dict[str, str], grids: Iterable[Grid], failures: Sequence[str]) -> str:
    parts = [f'# {title}', '', *(f'- {name}: {value}' for name, value in environment.items()), '']
    for grid in grids:
        parts += [f'## {grid.title}', '', *_lines(grid), '']
    if failures:
        parts += ['## Failures', '', *(f'- {_one_line(item)}' for item in failures), '']
    return '\n'.join(parts)


def _lines(grid: Grid) -> Iterator[str]:
    rules = ['---'] * grid.texts + ['---:'] * (len(grid.columns) - grid.texts)
    for line in (grid.columns, rules, *grid.rows):
        yield f'| {" | ".join(line)} |'


def _one_line(text: str) -> str:
    lines = text.strip().splitlines()
    return f'{lines[0]} … {lines[-1]}' if len(lines) > 1 else text


def spoken_time(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    for unit, size in (('s', 1.0), ('ms', 1e-3)):
        if seconds >= size:
            return f'{seconds / size:.3g} {unit}' if seconds < size * 1000 else f'{seconds / size:.0f} {unit}'
    return f'{seconds * 1e6:.3g} µs'


def spoken_ratio(ratio: float | None) -> str:
    if ratio is None:
        return NONE
    return f'{ratio:.1f} x' if ratio < 100 else f'{ratio:.0f} x'
