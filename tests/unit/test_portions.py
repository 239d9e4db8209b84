"""Rows that are inserted together: each once, in statements of few sizes, the large ones by themselves."""

import sqlite3
from collections import Counter

import pytest

from a2a_scribe.journal.sql.portions import LARGE, SIZES, in_portions
from a2a_scribe.journal.sql.tables import tables_of

OLD_SQLITE = 999
"""Values that a statement may have at most."""


def rows_of(count: int, body: bytes = b'') -> list[tuple[object, ...]]:
    return [(number, body) for number in range(count)]


@pytest.mark.parametrize('count', [0, 1, 7, 8, 9, 31, 32, 33, 285])
def test_every_row_is_there_once_and_few_statements_are_run(count: int) -> None:
    found = list(in_portions(rows_of(count)))
    assert all(len(values) == 2 * size for size, portions in found for values in portions)
    numbers = [number for _, portions in found for values in portions for number in values[::2]]
    assert numbers == list(range(count))
    assert sum(len(portions) for _, portions in found) <= count // 32 + 3 + 7
    assert len(found) <= len(SIZES)


@pytest.mark.parametrize('large', [b'x' * LARGE, 'x' * LARGE])
def test_a_large_row_goes_by_itself(large: bytes | str) -> None:
    rows = [*rows_of(20), (20, large), *rows_of(20)]
    sizes = Counter({size: len(portions) for size, portions in in_portions(rows)})
    assert sizes == {32: 1, 8: 1, 1: 1}
    ((_, alone),) = [found for found in in_portions(rows) if found[0] == 1]
    assert alone == [(20, large)]


def test_old_releases_of_sqlite_take_the_largest_portion() -> None:
    tables = tables_of('x')
    assert max(len(table.columns) for table in (tables.tasks, tables.records, tables.push_configs)) * 32 <= OLD_SQLITE


def test_sqlite_takes_the_values_as_they_are_joined() -> None:
    connection = sqlite3.connect(':memory:')
    connection.execute('CREATE TABLE numbers (id INTEGER, body BLOB)')
    for size, portions in in_portions(rows_of(43, b'body')):
        connection.executemany(f'INSERT INTO numbers VALUES {", ".join(["(?, ?)"] * size)}', portions)
    assert connection.execute('SELECT * FROM numbers ORDER BY id').fetchall() == rows_of(43, b'body')
