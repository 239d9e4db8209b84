"""`a2a-scribe serve`: serves an executor that is named on the command line.

The composition root does the work; here names become objects, and what an operator got wrong becomes one line.
"""

import dataclasses
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

from sqlalchemy.engine import make_url

from a2a_scribe.cli.authentication import CallerOptions
from a2a_scribe.cli.leaving import leave_within
from a2a_scribe.cli.loading import check_folder, load_card, load_executor, make_card
from a2a_scribe.errors import EnvironmentFault, ScribeError, SettingsError
from a2a_scribe.journal.opening import MEMORY
from a2a_scribe.server import serve
from a2a_scribe.settings import Settings
from a2a_scribe.transport.audit import logger as audit_logger
from a2a_scribe.transport.card_signing import CardSigner, load_card_signer

FAILED = 2


class Place(TypedDict):
    """Where to serve, under which address, and for whom."""

    host: str
    port: int
    grpc_port: int | None
    grpc_in_card: bool
    url: str | None
    health: bool
    cors_origins: Sequence[str]
    hsts: int | None
    enable_v0_3_compat: bool | None


class SignedBy(NamedTuple):
    """Whose signature the card gets."""

    key_file: Path | None = None
    key_id: str | None = None

    def signer(self) -> CardSigner | None:
        """What signs, if anything shall. Raises: SettingsError."""
        if self.key_file is None:
            if self.key_id is not None:
                raise SettingsError('--key-id names the key of --sign-card, which is not there')
            return None
        return load_card_signer(self.key_file, self.key_id)


def serve_executor(
    target: str,
    card: Path | None,
    database: str,
    callers: CallerOptions,
    signed_by: SignedBy,
    place: Place,
    *,
    audit_log: bool = False,
) -> int:
    """Serves until the process is told to stop; returns its exit code."""
    logging.basicConfig(format='%(asctime)s %(levelname)s %(name)s: %(message)s', level=logging.WARNING)
    if '' not in sys.path:
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        executor = load_executor(target)
        agent_card = load_card(card) if card else make_card(executor)
        check_folder(database)
        settings = Settings.from_environment()
        if audit_log or settings.audit_log:
            settings = dataclasses.replace(settings, audit_log=True)
            _show_audit_log()
        serve(
            executor,
            agent_card,
            database,
            settings=settings,
            authenticate=callers.authenticator(),
            card_signer=signed_by.signer(),
            on_ready=lambda url: print(f'a2a-scribe: serving {agent_card.name} at {url}', flush=True),
            on_grpc_ready=lambda address: print(f'a2a-scribe: and over gRPC at {address}', flush=True),
            **place,
        )
        leave_within(settings.cancel_grace)
    except EnvironmentFault as error:
        return _refuse(f'the database {_shown(database)} cannot be used: {error}')
    except ScribeError as error:
        return _refuse(str(error))
    return 0


def _show_audit_log() -> None:
    """Has its lines written as they are: each is JSON, and nothing else."""
    lines = logging.StreamHandler()
    lines.setFormatter(logging.Formatter('%(message)s'))
    audit_logger.addHandler(lines)
    audit_logger.propagate = False


def _shown(database: str) -> str:
    return database if database == MEMORY else make_url(database).render_as_string(hide_password=True)


def _refuse(problem: str) -> int:
    print(f'a2a-scribe: {" ".join(problem.split())}', file=sys.stderr)
    return FAILED
