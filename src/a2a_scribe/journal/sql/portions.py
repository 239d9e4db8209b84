"""Rows that one statement inserts together.

Between two rows of `executemany`, SQLite's thread asks for the interpreter, which a busy event loop gives up late: a
hundred tasks took longer to wait for it than to write. So most rows go in portions of a few fixed sizes, since a
connection keeps the statements that it has prepared, with the values that they had last; large rows go by themselves.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

SIZES: Final = (32, 8, 1)
"""Rows of one statement; all of them have fewer than the 999 values that old releases of SQLite take."""
LARGE: Final = 16_000
"""Bytes of a value from which on a row goes by itself."""

Values = Sequence[Any]


def in_portions(rows: Sequence[Values]) -> Iterator[tuple[int, list[Values]]]:
    """Yields how many rows a statement takes, and the values for each time that it is run. Their order may change."""
    alone = [row for row in rows if _is_large(row)]
    small = [row for row in rows if not _is_large(row)] if alone else rows
    begin = 0
    for size in SIZES:
        end = begin + (len(small) - begin) // size * size
        portions = [_joined(small[first : first + size]) for first in range(begin, end, size)]
        if size == 1:
            portions += alone
        if portions:
            yield size, portions
        begin = end


def _is_large(row: Values) -> bool:
    return any(isinstance(value, bytes | str) and len(value) >= LARGE for value in row)


def _joined(rows: Sequence[Values]) -> Values:
    return rows[0] if len(rows) == 1 else [value for row in rows for value in row]
