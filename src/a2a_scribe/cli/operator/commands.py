"""The commands for the database, the nodes and the health of both as typer sees them: names, options and their help."""

from typing import Annotated

import typer

from a2a_scribe.cli.operator import db, nodes
from a2a_scribe.cli.operator.databases import Place, carry_out
from a2a_scribe.cli.operator.doctor.command import examine
from a2a_scribe.cli.operator.options import AsJson, Database, Prefix, group
from a2a_scribe.cli.operator.sealing import reseal
from a2a_scribe.journal.sql.tables import DEFAULT_PREFIX

db_app = group('The database: check, status, upgrade, reseal.')
nodes_app = group('The nodes: the processes that write, or wrote.')


@db_app.command('check')
def db_check(database: Database, prefix: Prefix = DEFAULT_PREFIX, as_json: AsJson = False) -> None:
    """Check every task against what must hold of a journal; exits with 1 if something does not."""
    place = Place(database, prefix)
    raise typer.Exit(carry_out(place, lambda: db.check(place, as_json=as_json)))


@db_app.command('status')
def db_status(database: Database, prefix: Prefix = DEFAULT_PREFIX, as_json: AsJson = False) -> None:
    """Show the schema, and how much there is."""
    place = Place(database, prefix)
    raise typer.Exit(carry_out(place, lambda: db.status(place, as_json=as_json)))


@db_app.command('upgrade')
def db_upgrade(database: Database, prefix: Prefix = DEFAULT_PREFIX) -> None:
    """Bring the schema up to date, or make it."""
    place = Place(database, prefix)
    raise typer.Exit(carry_out(place, lambda: db.upgrade(place)))


@db_app.command('reseal')
def db_reseal(database: Database, prefix: Prefix = DEFAULT_PREFIX, as_json: AsJson = False) -> None:
    """Encrypt the secrets of push configs with the newest key of the environment; exits with 1 if no key opens one."""
    place = Place(database, prefix)
    raise typer.Exit(carry_out(place, lambda: reseal(place, as_json=as_json)))


@nodes_app.command('list')
def nodes_list(database: Database, prefix: Prefix = DEFAULT_PREFIX, as_json: AsJson = False) -> None:
    """List the nodes, oldest first."""
    place = Place(database, prefix)
    raise typer.Exit(carry_out(place, lambda: nodes.list_nodes(place, as_json=as_json)))


def doctor(
    database: Database,
    url: Annotated[str | None, typer.Option(metavar='URL', help='A server whose card is checked too.')] = None,
    prefix: Prefix = DEFAULT_PREFIX,
    as_json: AsJson = False,
) -> None:
    """Check Python, packages, settings, the database, and a served card; exits with 1 if something does not work."""
    place = Place(database, prefix)
    raise typer.Exit(carry_out(place, lambda: examine(place, url, as_json=as_json)))
