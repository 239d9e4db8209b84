"""`a2a-scribe tasks rerun`: has the message of a task's open turn executed again, by the server that works on it.

Only a server has the agent, so the command leaves a wish in the task's inbox. The server that owns the task gives up
the attempt under way; where that server is dead, the one that takes the task over executes the message again whatever
its policy says.
"""

import asyncio
from typing import Final

from a2a_scribe.cli.operator.databases import DONE, FOUND, Place, Site, complain, opened
from a2a_scribe.cli.operator.ending import IDS, PAUSE, OperatorNode
from a2a_scribe.cli.operator.output import print_json, state_text
from a2a_scribe.cli.operator.rows import no_task
from a2a_scribe.clock import Clock, SystemClock
from a2a_scribe.core.records import RERUN, RerunAsked, encode_rerun
from a2a_scribe.journal.results import Queued
from a2a_scribe.journal.tasks import OPERATOR, TaskRow
from a2a_scribe.journal.writes import Ask
from a2a_scribe.protocol.states import TERMINAL

KEPT: Final = 24 * 3600
"""Seconds for which the wish is kept for a server that takes the task over."""


async def rerun_task(
    place: Place, task_id: str, wait: float, *, as_json: bool = False, clock: Clock | None = None
) -> int:
    """Asks for another attempt, and waits `wait` seconds for it to begin."""
    async with opened(place) as site:
        look = await site.inspector.look_at(task_id)
        if look is None:
            return no_task(task_id)
        if told := _why_not(look.row):
            return complain(told, FOUND)
        node = OperatorNode(site, look.row.scope.agent, clock or SystemClock())
        async with node.registered():
            if not await _ask(node, look.row):
                return complain(f'task {task_id} has just moved on: look at it again', FOUND)
            row = await _wait_for_attempt(site, look.row, node.clock.monotonic() + wait, node.clock)
        return _tell(task_id, look.row, row, as_json=as_json)


def _why_not(row: TaskRow) -> str:
    if row.state in TERMINAL:
        return f'task {row.task_id} has ended as {state_text(row.state)}, which is final: only a new task can follow'
    if row.open_turn is None:
        return f'nothing runs at task {row.task_id}: it waits for its client'
    return ''


async def _ask(node: OperatorNode, row: TaskRow) -> bool:
    assert row.open_turn is not None
    group = node.group()
    body = encode_rerun(RerunAsked(row.open_turn, row.attempt))
    group.writes.append(Ask(RERUN, row.task_id, OPERATOR, IDS.new(), body, KEPT * 1_000_000))
    (result,) = (await node.site.journal.commit(group)).written
    return isinstance(result, Queued)


async def _wait_for_attempt(site: Site, before: TaskRow, until: float, clock: Clock) -> TaskRow | None:
    """Returns the task as it stands once another attempt has begun or the turn has ended; `None` if it is gone."""
    while True:
        look = await site.inspector.look_at(before.task_id)
        if look is None:
            return None
        if _has_moved(before, look.row) or clock.monotonic() >= until:
            return look.row
        await asyncio.sleep(PAUSE)


def _has_moved(before: TaskRow, row: TaskRow) -> bool:
    return (row.open_turn, row.attempt) != (before.open_turn, before.attempt) or row.state in TERMINAL


def _tell(task_id: str, before: TaskRow, row: TaskRow | None, *, as_json: bool) -> int:
    if row is None:
        return no_task(task_id)
    runs_again = row.open_turn == before.open_turn and row.attempt > before.attempt
    if as_json:
        print_json({'task': task_id, 'state': state_text(row.state), 'attempt': row.attempt, 'runs_again': runs_again})
    elif runs_again:
        print(f'task {task_id} runs again, attempt {row.attempt}')
    if runs_again:
        return DONE
    if _has_moved(before, row):
        return complain(f'the turn of task {task_id} ended before: it is {state_text(row.state)}', FOUND)
    return complain(f'task {task_id} does not run again yet: a server will see to it, or the next that starts', FOUND)
