"""Lock files of nodes: who holds one lives, and nothing is concluded from what cannot be looked at."""

import multiprocessing
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from a2a_scribe.cluster.locks import NodeLocks
from a2a_scribe.protocol.types import NodeId

pytestmark = pytest.mark.skipif(sys.platform == 'win32', reason='Windows has no flock')

NODE = NodeId('node')


def hold(directory: Path, connection: Connection) -> None:
    NodeLocks(directory).take(NODE)
    connection.send('held')
    connection.recv()


def test_a_lock_is_free_as_soon_as_its_process_is_killed(tmp_path: Path) -> None:
    context = multiprocessing.get_context('spawn')
    ours, theirs = context.Pipe()
    process = context.Process(target=hold, args=(tmp_path / 'nodes', theirs))
    process.start()
    assert ours.recv() == 'held'
    locks = NodeLocks(tmp_path / 'nodes')
    assert not locks.is_free(NODE)
    process.kill()
    process.join()
    assert locks.is_free(NODE)
    locks.clear(NODE)
    assert not locks.is_free(NODE)


def test_a_lock_of_this_process_is_held(tmp_path: Path) -> None:
    locks, others = NodeLocks(tmp_path / 'nodes'), NodeLocks(tmp_path / 'nodes')
    locks.take(NODE)
    assert not locks.is_free(NODE)
    assert not others.is_free(NODE)
    locks.drop(NODE)
    assert list((tmp_path / 'nodes').iterdir()) == []


def test_a_file_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert not NodeLocks(tmp_path / 'nodes').is_free(NODE)
    assert not NodeLocks(None).is_free(NODE)


def test_without_a_place_for_files_there_is_no_lock(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / 'file').touch()
    locks = NodeLocks(tmp_path / 'file' / 'nodes')
    locks.take(NODE)
    assert 'a crash is noticed later' in caplog.text
    assert not locks.is_free(NODE)
    locks.drop(NODE)
