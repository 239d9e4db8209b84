"""`a2a-scribe serve` as an operator runs it who asks who calls, and the three bindings of it."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import grpc.aio
import httpx

from tests.conformance.over_grpc import GrpcWire
from tests.conformance.over_http import JsonRpcWire, RestWire
from tests.conformance.wire import Pairs, Wire

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, '-m', 'a2a_scribe')
TOO_LONG = 60.0
WIRES: tuple[type[Wire], ...] = (JsonRpcWire, RestWire, GrpcWire)


@dataclass(frozen=True)
class Server:
    """A process that serves."""

    pid: int
    url: str
    grpc_target: str
    http: httpx.AsyncClient
    channel: grpc.aio.Channel

    @property
    def wires(self) -> list[Wire]:
        """All bindings."""
        return [kind(cast('Any', self)) for kind in WIRES]

    @property
    def cpu(self) -> float:
        """Seconds of processor that the process has taken so far."""
        fields = Path(f'/proc/{self.pid}/stat').read_text().rpartition(') ')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    async def outcomes(self, headers: Pairs, operation: str = 'ListTasks') -> list[str]:
        """How a call is answered on each binding: `ok`, or the reason of the error."""
        found = []
        for wire in self.wires:
            if isinstance(wire, GrpcWire):
                answer = await wire.call(operation, {}, headers=headers)
                found.append(answer.error.reason if answer.error else 'ok')
            else:
                assert isinstance(wire, JsonRpcWire | RestWire)
                response = await wire.request(**wire.prepare(operation, {}), headers=headers)
                error = wire.error_of(response.json(), 200 if wire.binding == 'jsonrpc' else response.status_code)
                assert (response.status_code == 200) == (error is None), response.text
                assert error is None or response.headers['www-authenticate'], response
                found.append(error.reason if error else 'ok')
        return found


@dataclass
class Output:
    """What a process has written, once it has ended."""

    text: str = ''


@asynccontextmanager
async def serving(output: Output, *arguments: str, database: str = 'memory') -> AsyncIterator[Server]:
    """Runs the command until the context ends; it has to end well."""
    command = [*COMMAND, 'serve', 'tests.conformance.actor:Actor', '--port', '0', '--grpc-port', '0']
    # A pipe that nobody reads would hold up the server once it is full.
    with tempfile.TemporaryFile('w+') as errors:
        process = subprocess.Popen(  # noqa: ASYNC220 - nothing else goes on meanwhile
            [*command, '--database', database, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(2)]
            assert 'serving' in lines[0], _written(errors)
            target = lines[1].split()[-1]
            async with (
                httpx.AsyncClient(trust_env=False, timeout=TOO_LONG) as http,
                grpc.aio.insecure_channel(target) as channel,
            ):
                yield Server(process.pid, lines[0].split()[-1], target, http, channel)
            process.send_signal(signal.SIGTERM)
            output.text += process.communicate(timeout=TOO_LONG)[0] + _written(errors)
            assert process.returncode == 0
        finally:
            process.kill()
            process.communicate()


def _written(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def run(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=TOO_LONG,
        check=False,
    )
