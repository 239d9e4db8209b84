"""The demonstration: what it shows is right, and it would say so if it were not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from a2a_scribe.cli.demo import process
from a2a_scribe.cli.demo.command import show_demo

TOO_LONG = 120.0

# The agent of the demonstration, but what should fail does not.
TAME = """
from a2a.server.tasks import TaskUpdater
from a2a_scribe.cli.demo.agents import DemoAgent

class TameAgent(DemoAgent):
    async def execute(self, context, event_queue):
        try:
            await super().execute(context, event_queue)
        except ConnectionError:
            await TaskUpdater(event_queue, context.task_id, context.context_id).complete()
"""


def test_the_demonstration_is_right(tmp_path: Path) -> None:
    """In a pipe: three parts, 50 of 50, nothing wider than a terminal, nothing left behind."""
    done = subprocess.run(
        [sys.executable, '-m', 'a2a_scribe', 'demo'],
        cwd=tmp_path,
        env={**os.environ, 'TMPDIR': str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TOO_LONG,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ''
    assert '20/20' in done.stdout
    assert '50 of 50 ended the only right way' in done.stdout
    assert 'every outcome is right' in done.stdout
    assert 'WRONG' not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_outcome_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the table, in what is stored, and in the exit code."""
    (tmp_path / 'tame.py').write_text(TAME)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(process, 'AGENT', 'tame:TameAgent')
    assert show_demo() == 1
    shown = capsys.readouterr().out
    assert '0 of 50 ended the only right way' in shown
    assert 'stored: 1 CANCELED, 52 COMPLETED' in shown
    assert 'an outcome is WRONG' in shown


def test_a_server_that_does_not_start_is_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what it said itself."""
    monkeypatch.setattr(process, 'AGENT', 'nosuchmodule:Agent')
    assert show_demo() == 1
    assert "there is no module 'nosuchmodule'" in ' '.join(capsys.readouterr().out.split())
