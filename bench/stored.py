"""A look into the tables of a2a-scribe from outside: the records of a task, as any auditor would read them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, text
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.chunks import CHUNK_DIGITS, CHUNK_PREFIX

RECORDS: Final = 'scribe_records'
CHUNK: Final = re.compile(rb'%b(\d{%d})' % (CHUNK_PREFIX.encode(), CHUNK_DIGITS))
IDS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Stored:
    seq: int
    kind: str
    body: bytes


async def records_of(engine: AsyncEngine, task_id: str) -> list[Stored]:
    statement = text(f'SELECT seq, kind, body FROM {RECORDS} WHERE task_id = :id ORDER BY seq')
    async with engine.connect() as connection:
        rows = (await connection.execute(statement, {'id': task_id})).all()
    return [Stored(int(seq), str(kind), bytes(body)) for seq, kind, body in rows]


async def record_statistics(engine: AsyncEngine, task_ids: Sequence[str]) -> dict[str, float]:
    """How many records the tasks have, and the mean length of a body."""
    statement = text(
        f'SELECT count(*), coalesce(sum(length(body)), 0) FROM {RECORDS} WHERE task_id IN :ids'
    ).bindparams(bindparam('ids', expanding=True))
    rows = size = 0
    async with engine.connect() as connection:
        for start in range(0, len(task_ids), IDS_AT_ONCE):
            ids = list(task_ids[start : start + IDS_AT_ONCE])
            found = (await connection.execute(statement, {'ids': ids})).one()
            rows, size = rows + int(found[0]), size + int(found[1])
    return {'rows': rows, 'body_bytes': round(size / rows, 1) if rows else 0}


def chunks_in(records: Iterable[Stored]) -> list[int]:
    """The numbers of the chunks that the artifact records carry, in the order of the records."""
    return [int(match) for record in records if 'artifact' in record.kind for match in CHUNK.findall(record.body)]


def gaps(records: Sequence[Stored]) -> list[str]:
    """Nothing, or what is wrong with the numbers of the records."""
    if [record.seq for record in records] == list(range(1, len(records) + 1)):
        return []
    return [f'the {len(records)} records are not numbered 1..{len(records)}']
