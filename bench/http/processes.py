"""A server as a process of the harness: started, found listening, and ended."""

import json
import select
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.children import MeasurementError, last_line, reason, run_module
from bench.http.spec import SETTINGS, LoadSpec, ServerSpec

START_TIMEOUT: Final = 60
STOP_TIMEOUT: Final = 15


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    pid: int


@contextmanager
def serving(spec: ServerSpec, log: Path) -> Iterator[Server]:
    """Serve until the block is left; what the server says goes into the file `log`."""
    command = [sys.executable, '-m', 'bench.http.server', spec.to_json()]
    with (
        log.open('wb') as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            yield Server(_port(process, log), process.pid)
        finally:
            _stop(process)


def load(spec: LoadSpec, timeout: float) -> str:
    """Run a load to its end; the last line that it printed. Raises `MeasurementError` if it failed."""
    return last_line(run_module('bench.http.load', spec.to_json(), timeout))


def settings(port: int) -> dict[str, str]:
    """The durability settings of a server's database."""
    with urllib.request.urlopen(f'http://127.0.0.1:{port}{SETTINGS}') as answer:
        found: dict[str, str] = json.load(answer)
    return found


def _port(process: subprocess.Popen[str], log: Path) -> int:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], START_TIMEOUT)
    line = process.stdout.readline() if readable else ''
    if not line:
        raise MeasurementError(f'the server did not start: {reason(log.read_text(errors="replace"))}')
    return int(line)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
