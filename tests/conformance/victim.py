"""A server in a process of its own, which is killed while its agent works.

As a program: `python -m tests.conformance.victim DATABASE` serves until it is killed, and says where.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
from grpc import aio

from tests.conformance.actor import Actor
from tests.conformance.kit import begun, came_to
from tests.conformance.site import KINDS, Service, Site
from tests.conformance.wire import Wire

ROOT = Path(__file__).resolve().parents[2]


async def killed(
    wire: Wire, database: str, script: str, then: Callable[[], Awaitable[object]] | None = None, **fields: Any
) -> str:
    """Begins a task on a server that is killed once the task says WORKING, `then` waited for; returns its id."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, '-m', 'tests.conformance.victim', database, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        url, target = (await process.stdout.readline()).decode().split()
        async with httpx.AsyncClient(trust_env=False) as http, aio.insecure_channel(target) as channel:
            victim = wire.at(Service(Actor(), wire.service.app, url, target, http, channel))
            task = await begun(victim, script, **fields)
            await came_to(victim, task['id'], 'WORKING')
            if then is not None:
                await then()
    finally:
        process.kill()
        await process.communicate()
    return str(task['id'])


async def serve(database: str) -> None:
    """Serves until the end of the process."""
    async with Site(Path()) as site, site.serving(database=database, **KINDS['webhooks']()) as service:
        print(service.url, service.grpc_target, flush=True)
        await asyncio.Event().wait()


if __name__ == '__main__':
    asyncio.run(serve(sys.argv[1]))
