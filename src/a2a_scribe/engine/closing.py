"""The end of a session: stop accepting, let turns finish, record the rest, stop writing.

Bounded by the settings at each step, whatever executors and journal do. Nothing is recorded as canceled because of it,
except what was being cancelled.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from a2a_scribe.engine.latch import Latch
from a2a_scribe.engine.session import Session
from a2a_scribe.errors import EnvironmentFault, JournalUnavailableError

ROUNDS = 3
"""How often what is live is stopped: a claim that was under way starts a turn when it has become durable."""


async def close(session: Session) -> None:
    """Ends a session; those who still wait are told."""
    grace = session.parts.settings.cancel_grace
    session.accepting = False
    _send_away(session)
    session.hub.close_idle()
    await _drain(session)
    for _ in range(ROUNDS):
        stopped = [task for live in session.registry if (task := session.stops.stop(live)) is not None]
        await _until_done(session, stopped, grace)
        await _until_idle(session)
    if session.delivery is not None:
        await session.delivery.close(session.parts.settings.drain_deadline)
    await _until_done(session, session.background.errands, grace)
    session.background.cancel()
    await _until_done(session, session.background.errands, grace)
    await session.supervisor.stop()
    await _retire(session)
    closed = JournalUnavailableError('the server is closed; try again')
    session.commits.abandon(closed)
    session.break_all(closed)
    session.background.cancel()
    session.hub.close()
    await _give_back(session)


async def _retire(session: Session) -> None:
    """Has the node forgotten; or declares it dead itself, if it has left tasks for others to go on with."""
    node_id, journal = session.commits.node.row.node_id, session.parts.journal
    with suppress(EnvironmentFault, TimeoutError):
        async with asyncio.timeout(session.parts.settings.cancel_grace):
            await journal.retire(node_id)
            for node in await journal.living_nodes(session.parts.agent_name):
                if node.node_id == node_id:
                    await journal.declare_dead(node_id, node.number)
    session.locks.drop(node_id)


async def _give_back(session: Session) -> None:
    """Has the journal give back what it took when the session began."""
    with suppress(EnvironmentFault, TimeoutError):
        async with asyncio.timeout(session.parts.settings.cancel_grace):
            await session.parts.journal.close()


def _send_away(session: Session) -> None:
    """Tells those who wait for room, and have been promised nothing, to try elsewhere."""
    for live in session.registry:
        if live.turn is not None:
            session.stops.withdraw(live.turn)


async def _drain(session: Session) -> None:
    """Waits until nothing is live or under way, as long as the deadline allows."""
    await _until_idle(session)
    registry = session.registry
    if len(registry) > 0:
        registry.emptied = Latch()
        await registry.emptied.wait(session.parts.clock, session.parts.settings.drain_deadline)
        registry.emptied = None
    await _until_idle(session)


async def _until_done(session: Session, tasks: Sequence['asyncio.Task[Any]'], seconds: float) -> None:
    """Waits for tasks, `seconds` at most: what ignores that it is cancelled is left behind."""
    over, waiting = Latch(), set(tasks)

    def done(task: 'asyncio.Task[Any]') -> None:
        waiting.discard(task)
        if not waiting:
            over.open()

    for task in tasks:
        task.add_done_callback(done)
    if waiting:
        await over.wait(session.parts.clock, seconds)


async def _until_idle(session: Session) -> None:
    """Waits for what is pending, as long as the journal takes it."""
    commits = session.commits
    with session.hub.bell('') as bell:
        disconnect = session.parts.signals.committed.connect(lambda _: bell.ring())
        try:
            while not commits.is_idle and session.died is None and not commits.is_away:
                await bell.wait(session.parts.settings.poll_interval)
        finally:
            disconnect()
