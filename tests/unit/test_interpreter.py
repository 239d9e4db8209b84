"""How Python itself is set while a server runs, and that it is set back."""

import asyncio
import gc
import sys
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from a2a.types.a2a_pb2 import AgentCard

from a2a_scribe import interpreter, server
from a2a_scribe.interpreter import SHARE, YOUNG, Haste, seldom_collected
from a2a_scribe.testing.agents import ScriptedAgent

HASTY = pytest.approx(SHARE)


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """Keeps the process's own."""
    share, thresholds = sys.getswitchinterval(), gc.get_threshold()
    yield
    sys.setswitchinterval(share)
    gc.set_threshold(*thresholds)


def test_all_objects_are_seldom_looked_through() -> None:
    young, middle, full = gc.get_threshold()
    with seldom_collected():
        assert gc.get_threshold() == (YOUNG, middle, full)
    assert gc.get_threshold() == (young, middle, full)


@pytest.mark.parametrize('young', [0, YOUNG * 2])
def test_who_has_them_looked_through_more_seldom_keeps_that(young: int) -> None:
    gc.set_threshold(young, 20, 30)
    with seldom_collected():
        assert gc.get_threshold() == (young, 20, 30)


def test_serve_makes_it_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_program(program: Coroutine[Any, Any, None], **_: object) -> None:
        program.close()
        found.append(gc.get_threshold()[0])

    found: list[int] = []
    monkeypatch.setattr(server, 'run_program', run_program)
    server.serve(ScriptedAgent([]), AgentCard(), port=0)
    assert found == [YOUNG]


@pytest.mark.anyio
async def test_threads_take_turns_quickly_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, 'LASTS', 0.02)
    usual, haste = sys.getswitchinterval(), Haste()
    for _ in range(2):
        haste.ask()
        haste.ask()
        assert sys.getswitchinterval() == HASTY
        async with asyncio.timeout(10):
            while sys.getswitchinterval() == HASTY:
                await asyncio.sleep(0)
        assert sys.getswitchinterval() == usual


@pytest.mark.anyio
async def test_haste_lasts_while_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, 'LASTS', 0.02)
    loop, haste = asyncio.get_running_loop(), Haste()
    until = loop.time() + 0.1
    while loop.time() < until:
        haste.ask()
        assert sys.getswitchinterval() == HASTY
        await asyncio.sleep(0)
    haste.end()


@pytest.mark.anyio
async def test_the_end_sets_back_what_was_set() -> None:
    haste, usual = Haste(), sys.getswitchinterval()
    haste.end()
    haste.ask()
    haste.end()
    assert sys.getswitchinterval() == usual


@pytest.mark.anyio
async def test_who_is_hastier_stays_so() -> None:
    sys.setswitchinterval(SHARE / 10)
    haste = Haste()
    haste.ask()
    assert sys.getswitchinterval() == pytest.approx(SHARE / 10)
    haste.end()
