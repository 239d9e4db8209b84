"""The commands for API keys as typer sees them: names, options and their help."""

from pathlib import Path
from typing import Annotated

import typer

from a2a_scribe.cli.operator import keys
from a2a_scribe.cli.operator.options import AsJson, group

File = Annotated[Path, typer.Argument(metavar='FILE', help='The file of keys, as for `serve --api-keys`.')]

keys_app = group('API keys of callers: new, list, revoke.')


@keys_app.command('new')
def keys_new(
    file: File,
    owner: Annotated[str, typer.Option(metavar='NAME', help='Whose key it is; owns the tasks that are made with it.')],
    expires: Annotated[str | None, typer.Option(metavar='TIME', help='Until when, as 2027-01-31 or 90d.')] = None,
    scope: Annotated[list[str] | None, typer.Option(metavar='NAME', help='What it is for; may be repeated.')] = None,
) -> None:
    """Make a key and print it; the file gets only its digest."""
    raise typer.Exit(keys.carry_out(lambda: keys.make(file, owner, expires, scope or [])))


@keys_app.command('list')
def keys_list(file: File, as_json: AsJson = False) -> None:
    """List the keys, oldest first."""
    raise typer.Exit(keys.carry_out(lambda: keys.show(file, as_json=as_json)))


@keys_app.command('revoke')
def keys_revoke(file: File, key: Annotated[str, typer.Argument(metavar='ID', help='The id of the key.')]) -> None:
    """Revoke a key; servers notice within a second or two."""
    raise typer.Exit(keys.carry_out(lambda: keys.revoke(file, key)))
