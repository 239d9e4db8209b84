"""The life of background loops: one shape, one supervisor.

A service runs until it is cancelled. The supervisor starts services in the order given, inside one task group, and
when one dies it ends the others and says so: nothing dies silently while the server looks alive.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar('T')


class Service(Protocol):
    """A background loop."""

    async def run(self) -> None:
        """Runs until cancelled; returning or raising means that it died."""


class Supervisor:
    """Runs services on the loop that was running when it was made."""

    def __init__(
        self,
        services: Sequence[Service],
        died: Callable[[BaseException], None],
        loop_ends: Callable[[], Awaitable[None]],
    ) -> None:
        """Starts the services; `died` hears of the first failure.

        `loop_ends` is awaited when the services are cancelled by somebody else: `asyncio.run` does that to whatever is
        left when its program is over, and waits for it.

        Raises:
            RuntimeError: No loop is running.
        """
        self._died = died
        self._loop_ends = loop_ends
        self._stopped = False
        self._task = asyncio.get_running_loop().create_task(self._run(services), name='a2a-scribe')

    async def _run(self, services: Sequence[Service]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for service in services:
                    group.create_task(service.run(), name=f'a2a-scribe {type(service).__name__}')
        except asyncio.CancelledError:
            if not self._stopped:
                await self._loop_ends()
            raise
        except ExceptionGroup as failures:
            logger.critical('A background service of a2a-scribe died', exc_info=failures)
            self._died(failures.exceptions[0])

    async def stop(self) -> None:
        """Ends the services and waits for them; may be called twice."""
        self._stopped = True
        self._task.cancel()
        await asyncio.wait([self._task])


class Background:
    """Errands that outlive the request that caused them, kept until they are done."""

    def __init__(self) -> None:
        """Starts without errands."""
        self._errands: set[asyncio.Task[Any]] = set()

    def spawn(self, errand: Coroutine[Any, Any, T], name: str) -> 'asyncio.Task[T]':
        """Runs `errand` on the running loop; a failure that nobody awaits is logged."""
        task = asyncio.get_running_loop().create_task(errand, name=f'a2a-scribe {name}')
        self._errands.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: 'asyncio.Task[Any]') -> None:
        self._errands.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.debug('%s failed', task.get_name(), exc_info=task.exception())

    @property
    def errands(self) -> 'tuple[asyncio.Task[Any], ...]':
        """What is not done yet."""
        return tuple(self._errands)

    def cancel(self) -> None:
        """Cancels what is not done yet."""
        for errand in self.errands:
            errand.cancel()
