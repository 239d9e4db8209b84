"""Arguments and options that several of the operator's commands have."""

from typing import Annotated

import typer

Database = Annotated[str, typer.Argument(metavar='DATABASE', help='A URL, or the path of an SQLite file.')]
Prefix = Annotated[str, typer.Option(metavar='TEXT', help='What the names of the tables begin with.')]
AsJson = Annotated[bool, typer.Option('--json', help='One JSON object per line.')]


def group(text: str) -> typer.Typer:
    """Returns a group of commands."""
    return typer.Typer(help=text, no_args_is_help=True, context_settings={'help_option_names': ['-h', '--help']})
