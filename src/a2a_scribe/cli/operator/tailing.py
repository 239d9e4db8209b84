"""`a2a-scribe tasks tail`: the records of a task as they become durable."""

import asyncio

from rich.text import Text

from a2a_scribe.cli.operator.databases import DONE, Place, Site, opened
from a2a_scribe.cli.operator.output import console, print_json, printable, time_text
from a2a_scribe.cli.operator.records import change_of, record_values, state_after, summary_of
from a2a_scribe.cli.operator.rows import no_task
from a2a_scribe.core.records import Record
from a2a_scribe.journal.tasks import OPERATOR
from a2a_scribe.protocol.states import TERMINAL

PORTION, PORTION_BYTES = 200, 1_000_000

PAUSE = 0.2
"""Seconds between two looks."""


async def tail(place: Place, task_id: str, *, lines: int, as_json: bool) -> int:
    """Shows the last records and those that follow, until the task has ended and nobody works on it."""
    async with opened(place) as site:
        look = await site.inspector.look_at(task_id)
        if look is None:
            return no_task(task_id)
        after = max(0, look.row.seq - lines)
        ended = look.row.state in TERMINAL
        while True:
            records = await site.journal.read_records(task_id, after, PORTION, PORTION_BYTES)
            for record in records:
                ended = _show(record, as_json=as_json) or ended
                after = record.seq
            if not records:
                if await _is_over(site, task_id, after, ended=ended):
                    return DONE
                await asyncio.sleep(PAUSE)


async def _is_over(site: Site, task_id: str, shown: int, *, ended: bool) -> bool:
    """Whether nothing follows: the task has ended, or has been deleted."""
    if not ended:
        return not await site.journal.has_task(task_id, OPERATOR)
    look = await site.inspector.look_at(task_id)
    return look is None or (look.row.node is None and look.row.seq <= shown)


def _show(record: Record, *, as_json: bool) -> bool:
    """Shows a record; returns whether it ends the task."""
    change = change_of(record)
    if as_json:
        print_json(record_values(record, change))
    else:
        line = f'{record.seq:>6}  {time_text(record.recorded_at)}  {record.kind:<12}  {summary_of(change)}'
        console().print(Text(printable(line)), soft_wrap=True)
        if record.note:
            console().print(Text(printable(record.note.rstrip()), style='dim'), soft_wrap=True)
    return state_after(change) in TERMINAL
