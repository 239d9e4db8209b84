"""`a2a-scribe tasks delete` and `prune`: deletes tasks with everything of them."""

import re
from collections.abc import Sequence

import typer

from a2a_scribe.cli.operator.databases import DONE, FOUND, Place, complain, opened
from a2a_scribe.cli.operator.output import count_text, print_json, state_text
from a2a_scribe.cli.operator.rows import no_task
from a2a_scribe.clock import SystemClock
from a2a_scribe.errors import SettingsError, TaskConflictError
from a2a_scribe.journal.sql.inspecting import TaskFilter
from a2a_scribe.journal.tasks import OPERATOR, Ended
from a2a_scribe.protocol.states import TERMINAL
from a2a_scribe.protocol.types import TaskState

UNITS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86_400, 'w': 604_800}


async def delete(place: Place, task_ids: Sequence[str], *, sure: bool, as_json: bool) -> int:
    """Deletes tasks on which nobody works."""
    code = DONE
    async with opened(place) as site:
        for task_id in task_ids:
            look = await site.inspector.look_at(task_id)
            if look is None:
                code = no_task(task_id)
                continue
            told = f'Delete task {task_id} ({state_text(look.row.state)}, {count_text(look.row.seq, "record")})?'
            if not sure and not typer.confirm(told):
                code = FOUND
                continue
            try:
                await site.journal.delete_task(task_id, OPERATOR)
            except TaskConflictError as error:
                dead = look.owner is None or look.owner.state == 'dead'
                hint = '; its node is dead: `a2a-scribe tasks fail` ends it' if dead else ''
                code = complain(f'{error}{hint}', FOUND)
                continue
            _tell(task_id, as_json=as_json)
    return code


def _tell(task_id: str, *, as_json: bool) -> None:
    if as_json:
        print_json({'task': task_id, 'deleted': True})
    else:
        print(f'task {task_id} is deleted')


async def prune(
    place: Place, age: str, states: Sequence[TaskState], agent: str | None, *, dry_run: bool, as_json: bool
) -> int:
    """Deletes tasks that have ended long ago, a few at a time."""
    before = SystemClock().now() - seconds_of(age) * 1_000_000
    async with opened(place) as site:
        for state in states or sorted(TERMINAL):
            count = 0
            if dry_run:
                count = await site.inspector.count(TaskFilter(agent=agent, state=state, before=before))
            else:
                ended = Ended(state, before, agent)
                while deleted := await site.journal.delete_ended(ended):
                    count += len(deleted)
            if as_json:
                print_json({'state': state_text(state), 'tasks': count, 'deleted': not dry_run})
            else:
                action = 'would delete' if dry_run else 'deleted'
                print(f'{action} {count_text(count, f"{state_text(state)} task")}')
    return DONE


def seconds_of(age: str) -> int:
    """Returns an age like `30d` or `12h` in seconds.

    Raises:
        SettingsError: It is none.
    """
    found = re.fullmatch(r'([0-9]{1,9})([smhdw])', age)
    if found is None:
        raise SettingsError(f'{age!r} is no age: write a number and a unit, as 90s, 15m, 12h, 30d or 8w')
    return int(found[1]) * UNITS[found[2]]
