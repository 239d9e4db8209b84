"""The demonstration's server: `a2a-scribe serve` in a process of its own, as a user would start it.

Called by the command. The process is gone when the context ends, and its log is a file beside the database.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from a2a_scribe.errors import ScribeError

AGENT = 'a2a_scribe.cli.demo.agents:DemoAgent'
PATIENCE = 30.0


class ServerProcessError(ScribeError):
    """The demonstration's server did not start, or did not stop when it was told to."""


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[str]:
    """A server on a free port whose SQLite file and log are in `folder`; yields its URL.

    Raises:
        ServerProcessError: The process ended by itself or with an error; the message ends with its log.
    """
    database = f'sqlite+aiosqlite:///{folder / "tasks.db"}'
    command = (sys.executable, '-m', 'a2a_scribe', 'serve', AGENT, '--port', '0', '--database', database)
    log_file = folder / 'server.log'
    with log_file.open('ab') as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=log)
    try:
        yield await _url_of(process, log_file)
    finally:
        await _stop(process)
    if process.returncode != 0:
        raise ServerProcessError(f'The server ended with code {process.returncode}:\n{_tail(log_file)}')


async def _url_of(process: asyncio.subprocess.Process, log_file: Path) -> str:
    if process.stdout is None:
        raise ServerProcessError
    line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
    if not line:
        raise ServerProcessError(f'The server did not start:\n{_tail(log_file)}')
    return line.decode().split()[-1]


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), PATIENCE)
    except TimeoutError:
        process.kill()
        await process.wait()


def _tail(log_file: Path) -> str:
    return log_file.read_text(errors='replace')[-2000:]
