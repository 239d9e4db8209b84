"""Servers in processes of their own, for clients of all kinds: one with the usual paths, one with others."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROGRAM: Final = Path(__file__).parents[1] / 'programs' / 'clients_agent.py'
LONG_ENOUGH: Final = 60.0


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a server has its bindings."""

    rpc_path: str
    rest_prefix: str


LAYOUTS: Final[Mapping[str, Layout]] = {'root': Layout('/', ''), 'prefixed': Layout('/rpc', '/rest')}


@dataclass(frozen=True, slots=True)
class Site:
    """A running server."""

    url: str
    """Where its card is."""
    layout: Layout

    @property
    def rpc_url(self) -> str:
        return self.url + self.layout.rpc_path

    @property
    def rest_url(self) -> str:
        return self.url + self.layout.rest_prefix


@asynccontextmanager
async def serving(layout: Layout, folder: Path, *options: str) -> AsyncIterator[Site]:
    """Runs a server with its database in a folder; it is asked to stop, as its operator would, and has to stop well."""
    database = f'sqlite+aiosqlite:///{folder / "clients.db"}'
    command = [sys.executable, str(PROGRAM), database, layout.rpc_path, layout.rest_prefix, *options]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        url = (await asyncio.wait_for(process.stdout.readline(), LONG_ENOUGH)).decode().strip()
        assert url, 'the server did not start'
        yield Site(url, layout)
        process.terminate()
        assert await asyncio.wait_for(process.wait(), LONG_ENOUGH) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
