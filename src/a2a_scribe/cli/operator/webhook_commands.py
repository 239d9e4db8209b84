"""The commands for webhooks as typer sees them: names, options and their help."""

from typing import Annotated, cast, get_args

import typer

from a2a_scribe.cli.operator import probing, webhooks
from a2a_scribe.cli.operator.databases import Place, carry_out
from a2a_scribe.cli.operator.options import AsJson, Database, Prefix, group
from a2a_scribe.journal.deliveries import DeliveryQuery, DeliveryState
from a2a_scribe.journal.sql.tables import DEFAULT_PREFIX

Task = Annotated[str, typer.Argument(metavar='TASK', help='The id of a task.')]
OptionalTask = Annotated[str | None, typer.Argument(metavar='TASK', help='The id of a task.')]
Config = Annotated[str, typer.Argument(metavar='CONFIG', help='The id of one of its push configs.')]
OptionalConfig = Annotated[
    str | None, typer.Argument(metavar='CONFIG', help='The id of one of its push configs; all of them if absent.')
]
Agent = Annotated[str | None, typer.Option(metavar='TEXT', help='Only webhooks of tasks of this agent.')]

webhooks_app = group('Webhooks: list, show, suspend, resume, replay, test, keys.')


def _state(name: str) -> DeliveryState:
    states = get_args(DeliveryState)
    if name not in states:
        raise typer.BadParameter(f'{name!r} is not one of {", ".join(states)}', param_hint='--state')
    return cast(DeliveryState, name)


@webhooks_app.command('list')
def webhooks_list(
    database: Database,
    *,
    state: Annotated[
        str | None, typer.Option(metavar='STATE', help='Only those that are active, suspended or elsewhere.')
    ] = None,
    task: Annotated[str | None, typer.Option(metavar='ID', help='Only those of this task.')] = None,
    agent: Agent = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help='How many.')] = 50,
    page: Annotated[str, typer.Option(metavar='TOKEN', help='Those after an earlier list, which named it.')] = '',
    prefix: Prefix = DEFAULT_PREFIX,
    as_json: AsJson = False,
) -> None:
    """List the webhooks of all tasks, and how far each has come."""
    place = Place(database, prefix)
    wanted = DeliveryQuery(agent, None if state is None else _state(state), task, limit=limit)
    raise typer.Exit(carry_out(place, lambda: webhooks.list_webhooks(place, wanted, page=page, as_json=as_json)))


@webhooks_app.command('show')
def webhooks_show(
    database: Database,
    task: Task,
    config: OptionalConfig = None,
    prefix: Prefix = DEFAULT_PREFIX,
    as_json: AsJson = False,
) -> None:
    """Show the webhooks of a task, without their secrets."""
    place = Place(database, prefix)
    raise typer.Exit(carry_out(place, lambda: webhooks.show(place, task, config, as_json=as_json)))


@webhooks_app.command('suspend')
def webhooks_suspend(
    database: Database,
    task: Task,
    config: OptionalConfig = None,
    prefix: Prefix = DEFAULT_PREFIX,
    as_json: AsJson = False,
) -> None:
    """Call webhooks of a task no more until they are resumed; nothing is lost."""
    place = Place(database, prefix)
    raise typer.Exit(carry_out(place, lambda: webhooks.set_state(place, task, config, 'suspended', as_json=as_json)))


@webhooks_app.command('resume')
def webhooks_resume(
    database: Database,
    task: OptionalTask = None,
    config: OptionalConfig = None,
    every: Annotated[bool, typer.Option('--all', help='All that are suspended, of all tasks.')] = False,
    agent: Agent = None,
    prefix: Prefix = DEFAULT_PREFIX,
    as_json: AsJson = False,
) -> None:
    """Go on with webhooks where they were, at once: those of a task, or all that are suspended."""
    place = Place(database, prefix)
    if (task is None) is not every:
        raise typer.BadParameter('name a task, or give --all', param_hint='TASK')
    if task is None:
        raise typer.Exit(carry_out(place, lambda: webhooks.resume_all(place, agent, as_json=as_json)))
    if agent is not None:
        raise typer.BadParameter('is for --all', param_hint='--agent')
    raise typer.Exit(carry_out(place, lambda: webhooks.set_state(place, task, config, 'active', as_json=as_json)))


@webhooks_app.command('replay')
def webhooks_replay(
    database: Database,
    task: Task,
    config: Config,
    since: Annotated[int, typer.Option('--from', metavar='SEQ', min=1, help='The first record that is sent again.')],
    prefix: Prefix = DEFAULT_PREFIX,
    as_json: AsJson = False,
) -> None:
    """Send a webhook the events of its task from a record on, again or skipping others; it is resumed if suspended."""
    place = Place(database, prefix)
    raise typer.Exit(carry_out(place, lambda: webhooks.replay(place, task, config, since, as_json=as_json)))


@webhooks_app.command('test')
def webhooks_test(
    target: Annotated[str, typer.Argument(metavar='URL|DATABASE', help='What is called; or where it is to be found.')],
    task: OptionalTask = None,
    config: Annotated[str | None, typer.Argument(metavar='CONFIG', help='The id of one of its push configs.')] = None,
    prefix: Prefix = DEFAULT_PREFIX,
    as_json: AsJson = False,
) -> None:
    """Call a URL, or the webhook DATABASE TASK CONFIG, once with a signed test event; exits with 1 unless it takes it.

    Run it with the environment of the servers: what may be called, and what signs, are settings of theirs.
    """
    place = Place(target, prefix)
    if task is None:
        if not target.lower().startswith(('http://', 'https://')):
            raise typer.BadParameter('is no http or https URL; a database needs TASK and CONFIG', param_hint='URL')
        raise typer.Exit(carry_out(place, lambda: probing.try_url(target, as_json=as_json)))
    if config is None:
        raise typer.BadParameter('name one push config of the task', param_hint='CONFIG')
    raise typer.Exit(carry_out(place, lambda: probing.try_webhook(place, task, config, as_json=as_json)))
