"""Listening to other processes and telling them, while the database comes and goes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager

import pytest

from a2a_scribe.cluster import wakeups
from a2a_scribe.cluster.wakeups import Listener, Teller
from a2a_scribe.errors import JournalUnavailableError
from a2a_scribe.journal.port import Heard
from tests.component.kit import settle, until

pytestmark = pytest.mark.anyio


class ScriptedHints:
    """Listens as often as it is told to, and takes what it is told when the test lets it."""

    needs_telling = True

    def __init__(self) -> None:
        self.told: list[set[str]] = []
        self.listens = 0
        self.is_away = False
        self.passes = asyncio.Event()
        self.lost = asyncio.Event()

    async def listen(self, heard: Heard, is_wanted: Callable[[], bool]) -> None:
        self.listens += 1
        if self.is_away:
            raise JournalUnavailableError('away')
        heard(None)
        await self.lost.wait()
        self.lost.clear()
        raise JournalUnavailableError('lost')

    async def tell(self, task_ids: Collection[str]) -> None:
        self.told.append(set(task_ids))
        await self.passes.wait()
        if self.is_away:
            raise JournalUnavailableError('away')


@asynccontextmanager
async def running(service: Listener | Teller) -> AsyncIterator[None]:
    task = asyncio.ensure_future(service.run())
    try:
        await settle()
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


async def test_a_lost_listener_connects_again_and_complains_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wakeups, 'PAUSE', 0)
    caplog.set_level(logging.WARNING, 'a2a_scribe')
    hints, heard = ScriptedHints(), list[Iterable[str] | None]()
    async with running(Listener(hints, heard.append, lambda: True)):
        assert heard == [None]
        hints.is_away = True
        hints.lost.set()
        await until(lambda: hints.listens > 5)
        assert len(caplog.records) == 1
        hints.is_away = False
        await until(lambda: len(heard) == 2, 'what was missed is heard of')
        hints.lost.set()
        await until(lambda: len(heard) == 3)
        assert len(caplog.records) == 2


async def test_what_comes_while_others_are_told_is_told_together() -> None:
    hints = ScriptedHints()
    teller = Teller(hints)
    teller.tell(['early'])
    async with running(teller):
        assert hints.told == [{'early'}]
        teller.tell(['one', 'two'])
        teller.tell(['two', 'three'])
        teller.tell([])
        await settle()
        assert len(hints.told) == 1
        hints.passes.set()
        await until(lambda: len(hints.told) == 2)
        assert hints.told[1] == {'one', 'two', 'three'}


async def test_who_cannot_be_told_is_told_the_next_thing_all_the_same() -> None:
    hints = ScriptedHints()
    hints.is_away = True
    hints.passes.set()
    teller = Teller(hints)
    async with running(teller):
        teller.tell(['lost'])
        await until(lambda: len(hints.told) == 1)
        await settle()
        teller.tell(['next'])
        await until(lambda: len(hints.told) == 2)
        assert hints.told == [{'lost'}, {'next'}]
