"""Is what was shown really stored? A process is killed at its last event, and its database opened.

The killed half runs in a child and kills itself with SIGKILL the moment the event was printed, so that no later commit
can come to its help. The judging half runs in the parent: it reads the tables with nothing of a2a-scribe loaded.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from a2a.types.a2a_pb2 import Task, TaskArtifactUpdateEvent, TaskState
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from bench.chunks import CHUNK_PREFIX
from bench.promises import durability_settings, weaknesses
from bench.spec import Sample, Spec
from bench.stored import Stored, chunks_in, gaps, records_of
from bench.systems import opened
from bench.traffic import get_task, send_request

TASKS: Final = 'scribe_tasks'


@dataclass(frozen=True, slots=True)
class Shown:
    """What a stream had yielded when its process was killed."""

    task_id: str
    chunks: tuple[int, ...]
    state: str
    events: int


async def die_after(spec: Spec) -> Sample:
    """Show a stream of `size` chunks event by event; kill this process when event `repeats` was shown, or the last."""
    async with opened(spec.system, spec.url) as system:
        shown = 0
        async for event in system.handler.on_message_send_stream(send_request(f'chunks {spec.size}'), system.context):
            _show(event)
            shown += 1
            if shown == spec.repeats:
                os.kill(os.getpid(), signal.SIGKILL)
    return Sample(problems=['the stream ended before its last event'])


def _show(event: Any) -> None:
    if isinstance(event, Task):
        line = {'task': event.id}
    elif isinstance(event, TaskArtifactUpdateEvent):
        line = {'chunk': event.artifact.parts[0].text.removeprefix(CHUNK_PREFIX)}
    else:
        line = {'state': TaskState.Name(event.status.state)}
    sys.stdout.write(json.dumps(line) + '\n')
    sys.stdout.flush()


def shown_in(output: str) -> Shown:
    """What a killed child printed."""
    lines: list[dict[str, str]] = [json.loads(line) for line in output.splitlines()]
    merged = {key: value for line in lines for key, value in line.items()}
    chunks = tuple(int(line['chunk']) for line in lines if 'chunk' in line)
    return Shown(merged.get('task', ''), chunks, merged.get('state', ''), len(lines))


async def read_back(spec: Spec) -> Sample:
    """GetTask in a new process: the public way to what the killed one has stored."""
    async with opened(spec.system, spec.url) as system:
        task = await get_task(system, spec.task_id)
        texts = [part.text for artifact in task.artifacts for part in artifact.parts]
        figures = {'chunks': float(len(texts))}
        problems = [] if texts == sorted(set(texts)) else ['the chunks of the task are not in order']
        return Sample(figures=figures, problems=problems, settings=await durability_settings(system.engine))


async def judge(url: str, shown: Shown) -> list[str]:
    """What is missing in the database of what was shown."""
    engine = create_async_engine(url)
    try:
        records = await records_of(engine, shown.task_id)
        async with engine.connect() as connection:
            statement = text(f'SELECT * FROM {TASKS}')
            rows = [dict(row) for row in (await connection.execute(statement)).mappings()]
        return [*gaps(records), *_missing(records, shown), *_row_wrong(rows, records, shown)]
    finally:
        await engine.dispose()


def settings_problems(database: str, settings: dict[str, str]) -> list[str]:
    return [f'not durable: {weakness}' for weakness in weaknesses(database, settings)]


def _missing(records: Sequence[Stored], shown: Shown) -> list[str]:
    stored = chunks_in(records)
    problems = []
    if stored[: len(shown.chunks)] != list(shown.chunks):
        lost = sorted(set(shown.chunks) - set(stored))
        problems.append(f'{len(lost)} of {len(shown.chunks)} chunks that were shown are not stored, or not in order')
    if len(records) < shown.events:
        problems.append(f'{len(records)} records are stored of {shown.events} events that were shown')
    return problems


def _row_wrong(rows: Sequence[dict[str, Any]], records: Sequence[Stored], shown: Shown) -> list[str]:
    mine = [row for row in rows if shown.task_id in (row.get('id'), row.get('task_id'))]
    if len(mine) != 1:
        return [f'the task has {len(mine)} rows']
    problems = []
    if mine[0]['seq'] != len(records):
        problems.append(f"the task's row is at {mine[0]['seq']}, its last record at {len(records)}")
    if shown.state and not _is_state(mine[0]['state'], shown.state):
        problems.append(f"the task's row says {mine[0]['state']}, {shown.state} was shown")
    return problems


def _is_state(stored: object, shown: str) -> bool:
    """A state may be stored as its number or its name."""
    return stored == TaskState.Value(shown) or str(stored).upper() in (shown, shown.removeprefix('TASK_STATE_'))
