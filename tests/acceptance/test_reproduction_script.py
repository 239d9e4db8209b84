"""A program written for a2a-sdk is cured by `a2a-scribe run`, and nothing is left behind: no warning, no thread."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / 'programs' / 'failing_agent.py'
AT_ONCE = 1 if os.environ.get('SCRIBE_FULL') else 10
"""Seconds; a machine that does other things too takes longer."""
OUTCOME = re.compile(r' *50 raised RuntimeError +stored TASK_STATE_FAILED +metadata kept: True')
DONE = re.compile(r'done at ([\d.]+)')
TRACEBACK = re.compile(r'^Traceback \(most recent call last\):\n(?: .*\n|\n)+RuntimeError: no answer.*\n', re.MULTILINE)
SLOW = re.compile(r'^Executing <.* took [\d.]+ seconds$')  # what asyncio's debug mode says on a busy machine
UNWANTED = re.compile(r'Warning|Exception ignored|never awaited|was destroyed|unclosed|Error', re.IGNORECASE)
MESSAGES = 50


@pytest.fixture(scope='module')
def run() -> tuple[subprocess.CompletedProcess[str], float]:
    """The finished program, and when it had ended."""
    command = [sys.executable, '-X', 'dev', '-W', 'error', '-m', 'a2a_scribe.cli', 'run', str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done, time.time()


def test_every_message_ends_in_the_right_outcome(run: tuple[subprocess.CompletedProcess[str], float]) -> None:
    done, _ = run
    assert done.returncode == 0, done.stderr
    outcome, stamp = done.stdout.splitlines()
    assert OUTCOME.fullmatch(outcome)
    assert DONE.fullmatch(stamp)


def test_the_process_ends_with_its_last_line(run: tuple[subprocess.CompletedProcess[str], float]) -> None:
    done, ended = run
    stamp = DONE.search(done.stdout)
    assert stamp, done.stderr
    assert ended - float(stamp[1]) < AT_ONCE


def test_one_line_says_what_was_replaced(run: tuple[subprocess.CompletedProcess[str], float]) -> None:
    done, _ = run
    first, *rest = done.stderr.splitlines()
    assert 'a2a-scribe' in first
    assert [line for line in rest if 'a2a-scribe' in line] == []


def test_nothing_else_is_said_but_the_failures(run: tuple[subprocess.CompletedProcess[str], float]) -> None:
    done, _ = run
    said, failures = TRACEBACK.subn('', done.stderr)
    assert failures == MESSAGES
    messages = [line for line in said.splitlines()[1:] if line.strip() and not SLOW.match(line)]
    assert len(messages) == MESSAGES, said
    assert [line for line in messages if UNWANTED.search(line)] == []
