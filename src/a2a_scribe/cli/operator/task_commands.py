"""The commands for tasks as typer sees them: names, options and their help."""

from collections.abc import Collection
from typing import Annotated

import typer

from a2a_scribe.cli.operator.databases import Place, carry_out
from a2a_scribe.cli.operator.deleting import delete, prune
from a2a_scribe.cli.operator.ending import Manner, cancellation, end_task, failure
from a2a_scribe.cli.operator.listing import list_tasks
from a2a_scribe.cli.operator.options import AsJson, Database, Prefix, group
from a2a_scribe.cli.operator.output import state_text
from a2a_scribe.cli.operator.rerunning import rerun_task
from a2a_scribe.cli.operator.showing import show_task
from a2a_scribe.cli.operator.tailing import tail
from a2a_scribe.journal.sql.inspecting import TaskFilter
from a2a_scribe.journal.sql.tables import DEFAULT_PREFIX
from a2a_scribe.protocol.states import KNOWN, TERMINAL
from a2a_scribe.protocol.types import TaskState

Task = Annotated[str, typer.Argument(metavar='TASK', help='The id of a task.')]
Sure = Annotated[bool, typer.Option('--yes', help='Do not ask.')]
Said = Annotated[str, typer.Option('--message', metavar='TEXT', help='What clients are told.')]
Lease = Annotated[
    float,
    typer.Option(metavar='SECONDS', min=0.1, help='How long a node that owns the task must be silent to be dead.'),
]

Wait = Annotated[
    float,
    typer.Option(metavar='SECONDS', min=0.1, help='How long a process that works on the task may take to cancel it.'),
]

LEASE = 6.0
"""Three heartbeats, as servers have them."""
WAIT = 20.0
"""A little more than servers take at most, as they have it: `cancel_deadline` and `cancel_grace`."""

tasks_app = group('Tasks of all owners: list, show, tail, cancel, fail, rerun, delete, prune.')


def _state(name: str, known: Collection[TaskState]) -> TaskState:
    states = {state_text(state): state for state in sorted(known)}
    if name not in states:
        raise typer.BadParameter(f'{name!r} is not one of {", ".join(states)}', param_hint='--state')
    return states[name]


@tasks_app.command('list')
def tasks_list(  # noqa: PLR0913 - each is a filter of its own
    database: Database,
    *,
    state: Annotated[
        str | None, typer.Option(metavar='STATE', help='Only tasks in this state, as input-required.')
    ] = None,
    owner: Annotated[str | None, typer.Option(metavar='TEXT', help='Only tasks of this owner.')] = None,
    tenant: Annotated[str | None, typer.Option(metavar='TEXT', help='Only tasks of this tenant.')] = None,
    agent: Annotated[str | None, typer.Option(metavar='TEXT', help='Only tasks of this agent.')] = None,
    context: Annotated[str | None, typer.Option(metavar='ID', help='Only tasks of this context.')] = None,
    node: Annotated[str | None, typer.Option(metavar='ID', help='Only tasks that this node works on.')] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help='How many.')] = 50,
    page: Annotated[str, typer.Option(metavar='TOKEN', help='Those after an earlier list, which named it.')] = '',
    prefix: Prefix = DEFAULT_PREFIX,
    as_json: AsJson = False,
) -> None:
    """List tasks of all owners, newest status first."""
    place = Place(database, prefix)
    wanted = TaskFilter(agent, owner, tenant, context, None if state is None else _state(state, KNOWN), node)
    raise typer.Exit(carry_out(place, lambda: list_tasks(place, wanted, limit=limit, page=page, as_json=as_json)))


@tasks_app.command('show')
def tasks_show(database: Database, task: Task, prefix: Prefix = DEFAULT_PREFIX, as_json: AsJson = False) -> None:
    """Show a task with its turns, waiting messages, node, and the notes of failures."""
    place = Place(database, prefix)
    raise typer.Exit(carry_out(place, lambda: show_task(place, task, as_json=as_json)))


@tasks_app.command('tail')
def tasks_tail(
    database: Database,
    task: Task,
    lines: Annotated[int, typer.Option('--lines', '-n', min=0, help='How many records before the next.')] = 10,
    prefix: Prefix = DEFAULT_PREFIX,
    as_json: AsJson = False,
) -> None:
    """Follow the records of a task until it ends, or Ctrl-C."""
    place = Place(database, prefix)
    raise typer.Exit(carry_out(place, lambda: tail(place, task, lines=lines, as_json=as_json)))


@tasks_app.command('cancel')
def tasks_cancel(
    database: Database,
    task: Task,
    message: Said = '',
    lease: Lease = LEASE,
    wait: Wait = WAIT,
    sure: Sure = False,
    prefix: Prefix = DEFAULT_PREFIX,
    as_json: AsJson = False,
) -> None:
    """Cancel a task. The process that works on it is asked to; where none does, the agent does not hear of it."""
    place, manner = Place(database, prefix), Manner(lease, sure, as_json, wait)
    raise typer.Exit(carry_out(place, lambda: end_task(place, task, cancellation(message), manner)))


@tasks_app.command('fail')
def tasks_fail(
    database: Database,
    task: Task,
    message: Said = 'The task was ended by an operator.',
    lease: Lease = LEASE,
    sure: Sure = False,
    prefix: Prefix = DEFAULT_PREFIX,
    as_json: AsJson = False,
) -> None:
    """End a task as failed on which no living process works."""
    place, manner = Place(database, prefix), Manner(lease, sure, as_json)
    raise typer.Exit(carry_out(place, lambda: end_task(place, task, failure(message), manner)))


@tasks_app.command('rerun')
def tasks_rerun(
    database: Database,
    task: Task,
    wait: Annotated[
        float, typer.Option(metavar='SECONDS', min=0, help='How long to wait for the server to begin.')
    ] = 15.0,
    prefix: Prefix = DEFAULT_PREFIX,
    as_json: AsJson = False,
) -> None:
    """Have a server give up what its agent does for a task, and execute the message again."""
    place = Place(database, prefix)
    raise typer.Exit(carry_out(place, lambda: rerun_task(place, task, wait, as_json=as_json)))


@tasks_app.command('delete')
def tasks_delete(
    database: Database,
    tasks: Annotated[list[str], typer.Argument(metavar='TASK', help='The ids of tasks.')],
    sure: Sure = False,
    prefix: Prefix = DEFAULT_PREFIX,
    as_json: AsJson = False,
) -> None:
    """Delete tasks with everything of them; those at work are refused."""
    place = Place(database, prefix)
    raise typer.Exit(carry_out(place, lambda: delete(place, tasks, sure=sure, as_json=as_json)))


@tasks_app.command('prune')
def tasks_prune(
    database: Database,
    older_than: Annotated[str, typer.Option(metavar='AGE', help='For how long it must have ended: 90s, 12h, 30d, 8w.')],
    state: Annotated[
        list[str] | None, typer.Option(metavar='STATE', help='Only tasks that ended so; may be repeated.')
    ] = None,
    agent: Annotated[str | None, typer.Option(metavar='TEXT', help='Only tasks of this agent.')] = None,
    dry_run: Annotated[bool, typer.Option('--dry-run', help='Only count.')] = False,
    prefix: Prefix = DEFAULT_PREFIX,
    as_json: AsJson = False,
) -> None:
    """Delete tasks that have ended long ago, a few at a time."""
    place, states = Place(database, prefix), [_state(each, TERMINAL) for each in state or ()]
    raise typer.Exit(
        carry_out(place, lambda: prune(place, older_than, states, agent, dry_run=dry_run, as_json=as_json))
    )
