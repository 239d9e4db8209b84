"""The server under test: a process of its own, and what it says of itself."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.fuzz.http_client import DEADLINE, HttpConnection

PROGRAM: Final = Path(__file__).with_name('agent.py')
UNTOLD: Final = 'ASGI callable returned without completing response'
"""What uvicorn logs where requests were pipelined: it tells only the last of them that the connection is gone."""
SETTLED: Final = 10.0
"""Seconds within which a server forgets readers that have gone."""


@dataclass(frozen=True, slots=True)
class State:
    """What the server's process holds."""

    rss: int
    coroutines: int
    live_tasks: int


@dataclass(frozen=True, slots=True)
class Service:
    """A running server."""

    process: subprocess.Popen[str]
    host: str
    port: int
    grpc: str
    log: Path

    def connect(self) -> HttpConnection:
        """Returns a client for HTTP."""
        return HttpConnection(self.host, self.port)

    def call(self, method: str, params: dict[str, Any], http: HttpConnection) -> Any:
        """Returns the result of a request that is as it should be."""
        body = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}).encode()
        head = f'POST / HTTP/1.1\r\nHost: fuzz\r\nA2A-Version: 1.0\r\nContent-Length: {len(body)}\r\n\r\n'
        response = http.exchange(head.encode() + body)
        assert response.status == 200, response
        return json.loads(response.body)['result']

    def state(self, like: State | None = None) -> State:
        """Returns what the process holds once it is at rest, if it can be with no more coroutines than before."""
        http = self.connect()
        end = time.monotonic() + SETTLED
        try:
            found = self._look(http)
            while time.monotonic() < end:
                found, before = self._look(http), found
                is_at_rest = found.live_tasks == 0 and found.coroutines == before.coroutines
                # Streams look for their readers about once a second: two looks may see the same that are about to end.
                if is_at_rest and (like is None or found.coroutines <= like.coroutines):
                    break
            return found
        finally:
            http.close()

    def _look(self, http: HttpConnection) -> State:
        response = http.exchange(b'GET /fuzz-state HTTP/1.1\r\nHost: fuzz\r\n\r\n')
        found = json.loads(response.body)
        return State(found['rss'], found['coroutines'], found['live tasks'])

    def complaints(self) -> list[str]:
        """Returns what the server logged as an error, and what it did not catch; each once."""
        log = self.log.read_text(encoding='utf-8', errors='replace')
        records = re.split(r'^(?=INFO|WARNING|ERROR)', log, flags=re.MULTILINE)
        found = {record.strip().rpartition('\n')[2]: record for record in records if UNTOLD not in record}
        return [record for record in found.values() if record and not record.startswith(('WARNING', 'INFO'))]


@contextmanager
def running(folder: Path) -> Iterator[Service]:
    """Runs a server on an SQLite file; it has to stop when it is told to."""
    log = folder / 'log'
    command = [sys.executable, str(PROGRAM), f'sqlite+aiosqlite:///{folder / "fuzz.db"}']
    with (
        log.open('w') as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            place = urlsplit(process.stdout.readline().strip())
            address = process.stdout.readline().strip()
            assert place.hostname is not None, log.read_text()
            assert place.port is not None
            yield Service(process, place.hostname, place.port, address, log)
            process.terminate()
            assert process.wait(3 * DEADLINE) == 0, log.read_text()[-2000:]
        finally:
            process.kill()
