"""The command line as typer sees it: names, options and their help. What a command does lives beside this module."""

from pathlib import Path
from typing import Annotated

import typer

from a2a_scribe.app import DEFAULT_DATABASE
from a2a_scribe.cli.authentication import (
    Algorithms,
    ApiKeyFile,
    Audience,
    CallerOptions,
    Issuer,
    Keys,
    Leeway,
    OwnerClaim,
    Scopes,
)
from a2a_scribe.cli.demo.command import show_demo
from a2a_scribe.cli.operator.commands import db_app, doctor, nodes_app
from a2a_scribe.cli.operator.key_commands import keys_app
from a2a_scribe.cli.operator.task_commands import tasks_app
from a2a_scribe.cli.operator.webhook_commands import webhooks_app
from a2a_scribe.cli.running import run as run_program
from a2a_scribe.cli.serving import Place, SignedBy, serve_executor
from a2a_scribe.cli.webhooks_keys import keys_app as webhook_keys_app
from a2a_scribe.version import __version__

app = typer.Typer(
    help='A durable server runtime for A2A agents.',
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={'help_option_names': ['-h', '--help']},
)


webhooks_app.add_typer(webhook_keys_app, name='keys')

app.add_typer(db_app, name='db')
app.add_typer(tasks_app, name='tasks')
app.add_typer(nodes_app, name='nodes')
app.add_typer(webhooks_app, name='webhooks')
app.add_typer(keys_app, name='keys')
app.command()(doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f'a2a-scribe {__version__}')
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool, typer.Option('--version', callback=_show_version, is_eager=True, help='Show the version and exit.')
    ] = False,
) -> None:
    """Options of the command itself."""


@app.command()
def serve(  # noqa: PLR0913, PLR0917 - each is a choice of its own
    target: Annotated[
        str,
        typer.Argument(
            metavar='MODULE:EXECUTOR',
            help='An executor: an instance, a class or a factory, in a module here or installed.',
        ),
    ],
    card: Annotated[Path | None, typer.Option(metavar='FILE.json', help='The agent card; made if absent.')] = None,
    database: Annotated[
        str, typer.Option(metavar='URL', help='Where tasks are kept; `memory` keeps them in the process.')
    ] = DEFAULT_DATABASE,
    host: Annotated[str, typer.Option(metavar='HOST', help='The address to listen on.')] = '127.0.0.1',
    port: Annotated[
        int, typer.Option(metavar='PORT', min=0, max=65535, help='The port for HTTP; 0 takes a free one.')
    ] = 8000,
    grpc_port: Annotated[
        int | None, typer.Option(metavar='PORT', min=0, max=65535, help='The port for gRPC, if wanted.')
    ] = None,
    grpc_in_card: Annotated[bool, typer.Option(help='Name the gRPC interface in the card.')] = False,
    url: Annotated[
        str | None,
        typer.Option(metavar='URL', help='Where clients reach it; for the card. The address it listens on by default.'),
    ] = None,
    api_keys: ApiKeyFile = None,
    jwt_issuer: Issuer = None,
    jwt_audience: Audience = None,
    jwt_keys: Keys = None,
    jwt_algorithms: Algorithms = None,
    jwt_owner_claim: OwnerClaim = None,
    jwt_scopes: Scopes = None,
    jwt_leeway: Leeway = None,
    health: Annotated[bool, typer.Option(help='Serve /healthz and /readyz.')] = True,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(metavar='ORIGIN', help='Whose pages may call it, as https://app.example; may be repeated.'),
    ] = None,
    hsts: Annotated[
        int | None, typer.Option(min=0, metavar='SECONDS', help='For how long browsers are to insist on TLS.')
    ] = None,
    audit_log: Annotated[bool, typer.Option('--audit-log', help='Say who did what, on stderr, as JSON.')] = False,
    with_0_3: Annotated[
        bool | None,
        typer.Option(
            '--with-0.3/--without-0.3',
            help='Serve clients of version 0.3 too; by default if the card names an interface of theirs.',
        ),
    ] = None,
    sign_card: Annotated[
        Path | None, typer.Option(metavar='KEYFILE', help='Sign the card with this private key: PEM or JWK.')
    ] = None,
    key_id: Annotated[
        str | None, typer.Option(metavar='ID', help='What signatures call the key; its thumbprint by default.')
    ] = None,
) -> None:
    """Serve an executor over JSON-RPC, HTTP+JSON and, if wanted, gRPC.

    Settings come from the environment: A2A_SCRIBE_ and a name in capitals, as A2A_SCRIBE_TURN_TIMEOUT=60. See
    docs/architecture.md.
    """
    callers = CallerOptions(
        api_keys=api_keys,
        issuer=jwt_issuer,
        audience=jwt_audience,
        keys=jwt_keys,
        algorithms=jwt_algorithms,
        owner_claim=jwt_owner_claim,
        scopes=jwt_scopes,
        leeway=jwt_leeway,
    )
    place = Place(
        host=host,
        port=port,
        grpc_port=grpc_port,
        grpc_in_card=grpc_in_card,
        url=url,
        health=health,
        cors_origins=cors_origin or (),
        hsts=hsts,
        enable_v0_3_compat=with_0_3,
    )
    signed_by = SignedBy(sign_card, key_id)
    raise typer.Exit(serve_executor(target, card, database, callers, signed_by, place, audit_log=audit_log))


@app.command(context_settings={'allow_extra_args': True, 'ignore_unknown_options': True, 'help_option_names': []})
def run(context: typer.Context) -> None:
    """Run a program written for a2a-sdk: SCRIPT.py [ARGS] or -m MODULE [ARGS]."""
    run_program(context.args)


@app.command()
def demo() -> None:
    """Show a served agent at work, also one that fails, and check every outcome."""
    raise typer.Exit(show_demo())
