"""The life of an event loop: a program runs on it, and nothing that the program leaves behind keeps it from ending.

`asyncio.Runner` waits for all tasks that it cancels, and for all threads, however long that takes: an agent that
swallows its cancellation, or that blocks in a thread, would keep the process for ever. Called by `serve`.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

logger = logging.getLogger(__name__)

MOMENT = 1.0
"""Seconds that each step of the end has, however much the steps before it took."""


def run_program(
    program: Coroutine[Any, Any, None],
    *,
    grace: float,
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> None:
    """Runs a program on a loop of its own.

    Args:
        program: What to run; an interrupt cancels it.
        grace: Seconds that the tasks, generators and threads which it leaves behind have to end. Those that do not are
            named in the log. Such threads can still keep the process from ending, but not this function.
        new_loop: Makes the loop.
    """
    runner = asyncio.Runner(loop_factory=new_loop)
    loop = runner.get_loop()
    threads = ThreadPoolExecutor(thread_name_prefix='asyncio')
    loop.set_default_executor(threads)
    try:
        runner.run(program)
    finally:
        try:
            _wind_up(loop, threads, loop.time() + grace)
        finally:
            loop.close()


def _wind_up(loop: asyncio.AbstractEventLoop, threads: ThreadPoolExecutor, deadline: float) -> None:
    """Ends what is left, in an order in which each may still use what ends after it."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        _run_until(loop, deadline, asyncio.gather(*tasks, return_exceptions=True))
        _tell_of_failures(tasks)
    _run_until(loop, deadline, loop.shutdown_asyncgens())
    ended = loop.create_future()
    threading.Thread(target=_end_threads, args=(threads, loop, ended), daemon=True).start()
    _run_until(loop, deadline, ended)
    if not ended.done():
        logger.warning('Threads that do not end are left behind')
    if left := asyncio.all_tasks(loop):
        names = ', '.join(sorted(task.get_name() for task in left))
        logger.warning('Tasks that do not end when they are cancelled are left behind: %s', names)
        threading.Thread(target=_hold, args=(left,), daemon=True).start()


def _run_until(loop: asyncio.AbstractEventLoop, deadline: float, awaited: Awaitable[object]) -> None:
    """Runs the loop until something has come, or its time is up."""
    timer = loop.call_at(max(deadline, loop.time() + MOMENT), loop.stop)
    with suppress(RuntimeError):  # a loop that is stopped says so
        loop.run_until_complete(awaited)
    timer.cancel()


def _tell_of_failures(tasks: Collection['asyncio.Task[Any]']) -> None:
    for task in tasks:
        if task.done() and not task.cancelled() and task.exception() is not None:
            logger.error('%s failed when it was cancelled at the end', task.get_name(), exc_info=task.exception())


def _end_threads(threads: ThreadPoolExecutor, loop: asyncio.AbstractEventLoop, ended: 'asyncio.Future[None]') -> None:
    threads.shutdown(cancel_futures=True)
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(ended.set_result, None)


def _hold(_: Collection['asyncio.Task[Any]']) -> None:
    """Keeps tasks until the process is gone: Python throws into the coroutine of a task that is dropped.

    One that swallows that too, and waits again, finds no event loop to wait on, and would be at it for ever.
    """
    threading.Event().wait()
