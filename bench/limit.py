"""The limit: rows of the journal's shape, inserted by bare `sqlite3`, 64 to a commit.

No asyncio, no SQLAlchemy, no protobuf: what is above this line is what a server costs over its disk.
"""

import sqlite3
import time
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from bench.promises import named
from bench.spec import Sample, Spec

BATCH: Final = 64
TASKS_AT_ONCE: Final = 64
SCHEMA: Final = """
CREATE TABLE records (
    task_id TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL,
    recorded_at INTEGER NOT NULL, note TEXT, PRIMARY KEY (task_id, seq)
)
"""
INSERT: Final = 'INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)'

Row = tuple[str, int, str, bytes, int, None]


async def measure_limit(spec: Spec) -> Sample:
    """Insert `repeats` rows with bodies of `size` bytes."""
    path = Path(spec.url.removeprefix('sqlite+aiosqlite:///'))
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute('PRAGMA journal_mode=WAL')
    connection.execute('PRAGMA synchronous=FULL')
    connection.execute(SCHEMA)
    rows = list(_rows(spec.repeats, spec.size))
    wall, cpu = time.perf_counter(), time.process_time()
    _insert(connection, rows)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    values = {name: str(connection.execute(f'PRAGMA {name}').fetchone()[0]) for name in ('journal_mode', 'synchronous')}
    connection.close()
    return Sample(wall=wall, cpu=cpu, units=len(rows), events=len(rows), settings=named(values))


def _insert(connection: sqlite3.Connection, rows: list[Row]) -> None:
    for start in range(0, len(rows), BATCH):
        connection.execute('BEGIN IMMEDIATE')
        connection.executemany(INSERT, rows[start : start + BATCH])
        connection.execute('COMMIT')


def _rows(count: int, size: int) -> Iterator[Row]:
    return islice(_endless_rows(size), count)


def _endless_rows(size: int) -> Iterator[Row]:
    """The records of 64 tasks at a time, side by side, as a commit of many running tasks holds them."""
    body = b'.' * size
    while True:
        tasks = [str(uuid.uuid4()) for _ in range(TASKS_AT_ONCE)]
        for seq in range(1, 15):
            for task_id in tasks:
                yield task_id, seq, 'artifact', body, 1_767_225_600_000_000 + seq, None
