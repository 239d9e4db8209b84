"""Processes that measure: what one printed as its last line, or why there is nothing."""

import re
import subprocess
import sys
from typing import Final

LAST_LINES: Final = 5
RAISED: Final = re.compile(r'[\w.]+(Error|Exception|Timeout)\b')


class MeasurementError(Exception):
    """A child ended without a sample."""


def run_module(module: str, argument: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run `python -m module argument` to its end; one that takes too long is killed, and has failed."""
    command = [sys.executable, '-m', module, argument]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, '', f'no answer in {timeout:g} s')


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """What the child printed in the end. Raises `MeasurementError` if it failed."""
    if done.returncode != 0:
        raise MeasurementError(reason(done.stderr) or f'exit code {done.returncode}')
    return done.stdout.splitlines()[-1]


def reason(errors: str) -> str:
    """The line that names the last exception, or the last lines."""
    lines = errors.strip().splitlines()
    raised = [line for line in lines if RAISED.match(line)]
    return raised[-1] if raised else '\n'.join(lines[-LAST_LINES:])
