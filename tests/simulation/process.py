"""A process: one handler with its engine, and the wires on which clients call it.

A crash drops the process between two callbacks: none of its tasks, timers and `finally` blocks runs again, the wires
break, and what it had sent to the database may still arrive.
"""

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from a2a.server.agent_execution import AgentExecutor, SimpleRequestContextBuilder
from a2a.server.id_generator import IDGenerator, IDGeneratorContext
from a2a.server.owner_resolver import resolve_user_scope
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard

from a2a_scribe import DefaultRequestHandler, Settings
from a2a_scribe.engine.session import Session
from a2a_scribe.journal.stores import JournalTaskStore
from a2a_scribe.testing.ids import CountingIds
from tests.simulation.database import Connection, Database, Trouble
from tests.simulation.ledger import Report
from tests.simulation.loop import Life, SimulatedTask
from tests.simulation.world import SimulatedClock, World

T = TypeVar('T')

CARD = AgentCard(name='simulated', capabilities=AgentCapabilities(streaming=True))


class _Names(IDGenerator):
    """Ids that count, for all processes of a world."""

    def __init__(self, world: World, what: str) -> None:
        self._world = world
        self._what = what

    def generate(self, context: IDGeneratorContext) -> str:
        return self._world.name(self._what)


class ConnectionLostError(Exception):
    """The process has died, and the call with it."""


class Process:
    """One life of one server process."""

    def __init__(
        self,
        world: World,
        name: str,
        database: Database,
        agent: AgentExecutor,
        settings: Settings,
        trouble: Trouble,
        skew: int,
    ) -> None:
        """Starts a process; its engine starts with the first call."""
        self.world = world
        self.name = name
        self.life = Life(name)
        self.connection = Connection(world, database, self.life, trouble)
        self.is_closing = False
        self._wires: dict[asyncio.Future[Any], Report] = {}
        self.handler = DefaultRequestHandler(
            agent,
            JournalTaskStore(self.connection, resolve_user_scope),
            CARD,
            request_context_builder=SimpleRequestContextBuilder(
                task_id_generator=_Names(world, 'task'), context_id_generator=_Names(world, 'context')
            ),
            settings=settings,
            clock=SimulatedClock(world.loop, skew),
            ids=CountingIds(name),
        )
        self.handler.engine.signals.fenced.connect(lambda _: self._doom('is fenced'))

    def _doom(self, how: str) -> None:
        self.world.note(self.name, how)
        self.world.ledger.doomed_processes.add(self.name)
        self.world.ledger.troubled = True

    @property
    def is_serving(self) -> bool:
        """Whether clients can connect."""
        return self.life.is_alive and not self.life.is_paused

    async def call(self, work: Coroutine[Any, Any, T], report: Report) -> T:
        """Has the process do a call's work, and waits for its answer. Going away cancels the work, now and then.

        Raises:
            ConnectionLostError: The process died.
        """
        task = self.world.spawn(work, str(report), self.life)
        answer: asyncio.Future[T] = self.world.loop.create_future()
        self._wires[answer] = report
        task.add_done_callback(lambda done: _settle(answer, done))
        try:
            return await answer
        except asyncio.CancelledError:
            if self.life.is_alive:
                task.cancel()
            raise
        finally:
            self._wires.pop(answer, None)

    def crash(self) -> None:
        """Dies, here and now."""
        self._doom('CRASHES')
        self.life.is_alive = False
        self.connection.break_off()
        for answer in tuple(self._wires):
            if not answer.done():
                answer.set_exception(ConnectionLostError())

    async def stop(self) -> None:
        """Ends in order: what still waits is told, what ignores that is left behind."""
        self._doom('is being stopped')
        self.is_closing = True
        await self.world.spawn(self.handler.aclose(), f'stop of {self.name}', self.life)

    def exit(self) -> None:
        """Ends what is left of a process that was stopped."""
        self.life.is_alive = False
        for answer in tuple(self._wires):
            if not answer.done():
                answer.set_exception(ConnectionLostError())

    @property
    def session(self) -> Session | None:
        """What the engine has on the loop, for a look at what is left in memory."""
        return self.handler.engine._session  # noqa: SLF001 - nothing else can see that memory is as before

    def left(self) -> 'list[SimulatedTask[Any]]':
        """Returns the tasks of the process that are not done."""
        return self.world.loop.pending(self.life)


def _settle(answer: 'asyncio.Future[T]', done: 'asyncio.Task[T]') -> None:
    if answer.done():
        if not done.cancelled():
            done.exception()
    elif done.cancelled():
        answer.set_exception(ConnectionLostError('the call was cancelled'))
    elif (error := done.exception()) is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())


def bury(tasks: 'list[SimulatedTask[Any]]') -> None:
    """Ends coroutines that will never run again, without a word of what they say to it."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        for task in tasks:
            if not task.done():
                coroutine = task.get_coro()
                with suppress(BaseException):
                    coroutine.close()
    finally:
        sys.unraisablehook = hook
