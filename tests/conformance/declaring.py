"""A server in a process of its own that is made by `serve` and declares all three of its bindings.

As a program: `python -m tests.conformance.declaring` serves until it is told to end, and says where.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard

from a2a_scribe import serve
from tests.conformance.actor import Actor

ROOT = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def declaring() -> AsyncIterator[str]:
    """Runs the server, and gives its URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        '-m',
        'tests.conformance.declaring',
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.communicate()


def main() -> None:
    """Serves until the process is told to end."""
    serve(
        Actor(),
        AgentCard(name='declaring', capabilities=AgentCapabilities(streaming=True)),
        'memory',
        port=0,
        grpc_port=0,
        grpc_in_card=True,
        rpc_path='/a2a/rpc',
        rest_prefix='/a2a/rest',
        on_ready=lambda url: print(url, flush=True),
    )


if __name__ == '__main__':
    main()
