"""`a2a-scribe serve`: serves an executor that is named on the command line.

The composition root does the work; here names become objects, and what an operator got wrong becomes one line.
"""

import logging
import os
import sys
from pathlib import Path
from typing import NamedTuple, TypedDict, Unpack

from sqlalchemy.engine import make_url

from a2a_scribe.cli.leaving import leave_within
from a2a_scribe.cli.loading import check_folder, load_card, load_executor, make_card
from a2a_scribe.errors import EnvironmentFault, ScribeError, SettingsError
from a2a_scribe.journal.opening import MEMORY
from a2a_scribe.server import serve
from a2a_scribe.settings import Settings
from a2a_scribe.transport.card_signing import CardSigner, load_card_signer

FAILED = 2


class Place(TypedDict):
    """Where to serve, and under which address."""

    host: str
    port: int
    grpc_port: int | None
    grpc_in_card: bool
    url: str | None
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


def serve_executor(target: str, card: Path | None, database: str, signed_by: SignedBy, **place: Unpack[Place]) -> int:
    """Serves until the process is told to stop; returns its exit code."""
    logging.basicConfig(format='%(asctime)s %(levelname)s %(name)s: %(message)s', level=logging.WARNING)
    if '' not in sys.path:
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        executor = load_executor(target)
        agent_card = load_card(card) if card else make_card(executor)
        check_folder(database)
        settings = Settings.from_environment()
        serve(
            executor,
            agent_card,
            database,
            settings=settings,
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


def _shown(database: str) -> str:
    return database if database == MEMORY else make_url(database).render_as_string(hide_password=True)


def _refuse(problem: str) -> int:
    print(f'a2a-scribe: {" ".join(problem.split())}', file=sys.stderr)
    return FAILED
