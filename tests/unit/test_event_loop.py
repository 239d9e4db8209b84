"""A program on its event loop: however badly it leaves it, the loop ends in time and says what it left behind."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

import pytest
import uvloop

from a2a_scribe import event_loop
from a2a_scribe.event_loop import run_program

GRACE = 0.05
TOO_LONG = 30.0

NewLoop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=['asyncio', 'uvloop'])
def new_loop(request: pytest.FixtureRequest) -> NewLoop:
    made: NewLoop = request.param
    return made


@pytest.fixture(autouse=True)
def _short_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, 'MOMENT', GRACE)


@pytest.fixture
def blocked() -> Iterator[threading.Event]:
    """What a thread waits for; it comes when the test is over."""
    event = threading.Event()
    yield event
    event.set()


class Stop:
    """What a program leaves behind: it notes how it ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def politely(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.ended.append('politely')

    async def with_an_error(self) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise ValueError('an error at the end')

    async def never(self) -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def never_whatever_is_thrown(self) -> None:
        while True:
            with suppress(BaseException):
                await asyncio.Event().wait()

    async def events(self, *, forever: bool) -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            if forever:
                await self.never()
            await asyncio.sleep(0)
            self.ended.append('generated')


def test_a_program_that_leaves_nothing_is_not_spoken_of(new_loop: NewLoop, caplog: pytest.LogCaptureFixture) -> None:
    done = []

    async def program() -> None:
        done.append(await asyncio.to_thread(lambda: 'done'))

    run_program(program(), grace=TOO_LONG, new_loop=new_loop)
    assert done == ['done']
    assert caplog.records == []


def test_what_a_program_raises_is_raised(new_loop: NewLoop) -> None:
    stop = Stop()

    async def program() -> None:
        tasks.append(asyncio.create_task(stop.politely()))
        await asyncio.sleep(0)
        raise KeyError('mine')

    tasks: list[asyncio.Task[None]] = []
    with pytest.raises(KeyError, match='mine'):
        run_program(program(), grace=TOO_LONG, new_loop=new_loop)
    assert stop.ended == ['politely']


def test_what_is_left_ends_in_its_own_way(new_loop: NewLoop, caplog: pytest.LogCaptureFixture) -> None:
    stop = Stop()

    async def program() -> None:
        tasks.append(asyncio.create_task(stop.politely()))
        tasks.append(asyncio.create_task(stop.with_an_error(), name='broken'))
        generators.append(stop.events(forever=False))
        await anext(generators[0])
        await asyncio.sleep(0)

    tasks: list[asyncio.Task[None]] = []
    generators: list[AsyncIterator[int]] = []
    run_program(program(), grace=TOO_LONG, new_loop=new_loop)
    assert sorted(stop.ended) == ['generated', 'politely']
    (record,) = caplog.records
    assert record.getMessage() == 'broken failed when it was cancelled at the end'
    assert 'an error at the end' in caplog.text


@pytest.mark.parametrize('how', ['never', 'never_whatever_is_thrown'])
def test_tasks_that_never_end_are_left_behind(how: str, new_loop: NewLoop, caplog: pytest.LogCaptureFixture) -> None:
    stop = Stop()

    async def program() -> None:
        asyncio.create_task(getattr(stop, how)(), name='deaf')  # noqa: RUF006 - nobody keeps it
        polite.append(asyncio.create_task(stop.politely(), name='polite'))
        await asyncio.sleep(0)

    polite: list[asyncio.Task[None]] = []
    run_program(program(), grace=GRACE, new_loop=new_loop)
    assert stop.ended == ['politely']
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith('left behind: deaf')


def test_generators_that_never_end_are_left_behind(new_loop: NewLoop, caplog: pytest.LogCaptureFixture) -> None:
    stop = Stop()

    async def program() -> None:
        generators.extend([stop.events(forever=True), stop.events(forever=False)])
        for generator in generators:
            await anext(generator)

    generators: list[AsyncIterator[int]] = []
    run_program(program(), grace=GRACE, new_loop=new_loop)
    assert stop.ended == ['generated']
    assert 'are left behind' in caplog.text


def test_threads_that_never_end_are_left_behind(
    new_loop: NewLoop, blocked: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    def block() -> None:
        begun.set()
        blocked.wait()

    async def program() -> None:
        waiting.append(asyncio.create_task(asyncio.to_thread(block)))
        await asyncio.to_thread(begun.wait)

    waiting: list[asyncio.Task[None]] = []
    begun = threading.Event()
    run_program(program(), grace=GRACE, new_loop=new_loop)
    assert [record.getMessage() for record in caplog.records] == ['Threads that do not end are left behind']


def test_a_thread_may_end_with_the_help_of_the_loop(new_loop: NewLoop, caplog: pytest.LogCaptureFixture) -> None:
    ended: list[str] = []

    async def answer() -> str:
        return 'answered'

    def ask(loop: asyncio.AbstractEventLoop) -> None:
        asked.set()
        over.wait()
        ended.append(asyncio.run_coroutine_threadsafe(answer(), loop).result())

    async def say_that_it_is_over() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            over.set()

    async def program() -> None:
        loop = asyncio.get_running_loop()
        left.append(loop.run_in_executor(None, ask, loop))
        left.append(asyncio.create_task(say_that_it_is_over()))
        await asyncio.to_thread(asked.wait)

    left: list[asyncio.Future[None]] = []
    asked, over = threading.Event(), threading.Event()
    run_program(program(), grace=TOO_LONG, new_loop=new_loop)
    assert ended == ['answered']
    assert caplog.records == []
