"""`a2a-scribe serve`: serves an executor that is named on the command line.

The composition root does the work; here names become objects, and what an operator got wrong becomes one line.
"""

import logging
import os
import sys
from pathlib import Path

from a2a_scribe.cli.loading import load_card, load_executor, make_card
from a2a_scribe.errors import ScribeError
from a2a_scribe.server import serve

FAILED = 2


def serve_executor(
    target: str, card: Path | None, database: str, host: str, port: int, grpc_port: int | None, url: str | None
) -> int:
    """Serves until the process is told to stop; returns its exit code."""
    logging.basicConfig(format='%(asctime)s %(levelname)s %(name)s: %(message)s', level=logging.WARNING)
    if '' not in sys.path:
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        executor = load_executor(target)
        agent_card = load_card(card) if card else make_card(executor)
        serve(
            executor,
            agent_card,
            database,
            host=host,
            port=port,
            grpc_port=grpc_port,
            url=url,
            on_ready=lambda place: print(f'a2a-scribe: serving {agent_card.name} at {place}', flush=True),
        )
    except ScribeError as error:
        print(f'a2a-scribe: {error}', file=sys.stderr)
        return FAILED
    return 0
