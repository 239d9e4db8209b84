"""How Python itself is set while a server runs, and that it is set back."""

import gc
import sys
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from a2a.types.a2a_pb2 import AgentCard

from a2a_scribe import server
from a2a_scribe.interpreter import FULL_COLLECTION, SHARE, made_prompt
from a2a_scribe.testing.agents import ScriptedAgent


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """Keeps the process's own."""
    share, thresholds = sys.getswitchinterval(), gc.get_threshold()
    yield
    sys.setswitchinterval(share)
    gc.set_threshold(*thresholds)


def test_threads_take_turns_quickly_and_all_objects_are_seldom_looked_through() -> None:
    share, (young, middle, full) = sys.getswitchinterval(), gc.get_threshold()
    with made_prompt():
        assert sys.getswitchinterval() == pytest.approx(SHARE)
        assert gc.get_threshold() == (young, middle, FULL_COLLECTION)
    assert (sys.getswitchinterval(), gc.get_threshold()) == (share, (young, middle, full))


def test_whoever_asks_for_more_gets_that() -> None:
    sys.setswitchinterval(SHARE / 10)
    gc.set_threshold(0, 20, FULL_COLLECTION * 2)
    with made_prompt():
        assert sys.getswitchinterval() == pytest.approx(SHARE / 10)
        assert gc.get_threshold() == (0, 20, FULL_COLLECTION * 2)


def test_it_is_set_back_after_a_failure() -> None:
    share, thresholds = sys.getswitchinterval(), gc.get_threshold()
    with pytest.raises(KeyError), made_prompt():
        raise KeyError
    assert (sys.getswitchinterval(), gc.get_threshold()) == (share, thresholds)


def test_serve_makes_it_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_program(program: Coroutine[Any, Any, None], **_: object) -> None:
        program.close()
        found.append(gc.get_threshold()[2])

    found: list[int] = []
    monkeypatch.setattr(server, 'run_program', run_program)
    server.serve(ScriptedAgent([]), AgentCard(), port=0)
    assert found == [FULL_COLLECTION]
