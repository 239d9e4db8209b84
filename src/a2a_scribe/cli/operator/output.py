"""How operators see things: rich tables for people, one JSON object per line for programs.

Texts that came from clients or agents are shown without what would control a terminal.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from a2a_scribe.protocol.states import name_of
from a2a_scribe.protocol.types import TaskState

PIPE_WIDTH = 200
"""Columns where nobody looks at a terminal."""
TABLE_WIDTH = 10_000
"""Columns of a table at most. Lines that are too long for a terminal run on there: an id that is cut into pieces cannot
be copied."""
CELL_WIDTH = 60
"""Columns of one cell; a longer text goes on below."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def console(width: int | None = None) -> Console:
    """Returns where people read, as wide as their terminal unless another width is given."""
    shown = width or (None if sys.stdout.isatty() else PIPE_WIDTH)
    return Console(highlight=False, markup=False, width=shown)


def print_json(values: Mapping[str, Any]) -> None:
    """Prints one JSON object in one line."""
    print(orjson.dumps(values, default=str).decode(), flush=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table; what is `None` stays empty."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow='fold', max_width=CELL_WIDTH)
    for row in rows:
        table.add_row(*(Text('' if value is None else printable(value)) for value in row))
    console(TABLE_WIDTH).print(table)


def print_fields(fields: Mapping[str, object]) -> None:
    """Prints names and values, one in a line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style='bold')
    table.add_column(overflow='fold')
    for name, value in fields.items():
        table.add_row(name, Text('' if value is None else printable(value)))
    console().print(table)


def heading(text: str) -> None:
    """Begins a part."""
    out = console()
    out.print()
    out.print(Text(text, style='bold'))


def printable(value: object) -> str:
    """Returns a text without what would control a terminal."""
    return ''.join(char if char.isprintable() or char == '\n' else repr(char)[1:-1] for char in str(value))


def in_one_line(text: str, length: int = 60) -> str:
    """Returns the beginning of a text."""
    line = ' '.join(text.split())
    return line if len(line) <= length else line[: length - 1] + '…'


def time_text(micros: int | None) -> str | None:
    """Returns microseconds since the epoch as a UTC time of ISO 8601."""
    if micros is None:
        return None
    try:
        return (EPOCH + timedelta(microseconds=micros)).isoformat(timespec='milliseconds').replace('+00:00', 'Z')
    except OverflowError:
        return str(micros)


def state_text(state: TaskState) -> str:
    """Returns the short name of a state."""
    return name_of(state).removeprefix('TASK_STATE_').lower().replace('_', '-')


def size_text(size: int | None) -> str:
    """Returns a number of bytes for people."""
    if size is None:
        return 'not known'
    number = float(size)
    for unit in ('B', 'kB', 'MB', 'GB'):
        if number < 1000:
            return f'{number:.0f} {unit}' if unit == 'B' else f'{number:.1f} {unit}'
        number /= 1000
    return f'{number:.1f} TB'


def count_text(number: int, noun: str) -> str:
    """Returns a number of things."""
    return f'{number:,} {noun}' if number == 1 else f'{number:,} {noun}s'
