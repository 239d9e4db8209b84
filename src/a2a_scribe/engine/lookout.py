"""Looks after the other nodes of the agent: finds those that are dead, fences them, and has their tasks taken over.

Nodes that own tasks are missed soon, so a node that watches one writes signs of life of its own: whoever cannot write
itself must not hold another's silence against it. Those that own nothing give signs and are missed much more seldom,
only so that nobody takes them to be there for ever.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence

from a2a_scribe.clock import Clock
from a2a_scribe.cluster.lease import IDLE_LEASE, IDLE_SIGN, Lease
from a2a_scribe.cluster.locks import NodeLocks
from a2a_scribe.engine.commits import CommitLoop
from a2a_scribe.engine.latch import Latch
from a2a_scribe.errors import EnvironmentFault
from a2a_scribe.journal.port import Journal, LivingNode
from a2a_scribe.journal.tasks import TaskRow
from a2a_scribe.settings import Settings

logger = logging.getLogger(__name__)

PORTION = 50
"""Tasks that are taken over side by side."""

TakeOvers = Callable[[Sequence[TaskRow]], Awaitable[None]]
"""Takes tasks over, those that can be."""


class Lookout:
    """The view of one node."""

    def __init__(
        self,
        journal: Journal,
        agent: str,
        commits: CommitLoop,
        locks: NodeLocks,
        clock: Clock,
        settings: Settings,
        take_over: TakeOvers,
    ) -> None:
        """Makes a lookout that has seen nothing yet."""
        self.is_watching = False
        """Whether another node owns tasks."""
        self.has_others = False
        """Whether another node lives."""
        self._journal = journal
        self._agent = agent
        self._commits = commits
        self._locks = locks
        self._clock = clock
        self._settings = settings
        self._take_over = take_over
        self._has_dead = True
        """Whether dead nodes may be known that nothing is left of."""
        self._passed = ''
        """The orphan up to which all have been looked at in this round."""
        self._lease = Lease(settings.lease, 2 * settings.heartbeat)
        self._idle_lease = Lease(IDLE_LEASE, 2 * IDLE_SIGN)

    async def run(self) -> None:
        """Looks once in every heartbeat, until cancelled."""
        while True:
            try:
                await self._look()
            except EnvironmentFault as error:
                logger.debug('The other nodes cannot be seen now: %s', error)
            await Latch().wait(self._clock, self._settings.heartbeat)

    async def _look(self) -> None:
        own = self._commits.node.row.node_id
        others = [node for node in await self._journal.living_nodes(self._agent) if node.node_id != own]
        owners = [node for node in others if node.owns]
        self.is_watching, self.has_others = bool(owners), bool(others)
        for node, seconds in self._silent(others):
            await self._bury(node, f'has been silent for {seconds:g} s')
        for node in others:
            if self._locks.is_free(node.node_id):
                await self._bury(node, 'has left its lock')
        await self._take_over_orphans()
        if self._has_dead:
            await self._journal.forget_dead(self._agent)
            self._has_dead = False

    def _silent(self, others: Sequence[LivingNode]) -> Iterator[tuple[LivingNode, float]]:
        """Yields nodes that have been silent for too long, and for how long."""
        now, went_well = self._clock.monotonic(), self._commits.went_well()
        may_judge = went_well and self._commits.has_written_within(2 * self._settings.heartbeat)
        for node in self._lease.look([each for each in others if each.owns], now, undisturbed=may_judge):
            yield node, self._settings.lease
        may_judge = went_well and self._commits.has_written_within(2 * IDLE_SIGN)
        for node in self._idle_lease.look([each for each in others if not each.owns], now, undisturbed=may_judge):
            yield node, IDLE_LEASE

    async def _take_over_orphans(self) -> None:
        """Tries each orphan once in a round: those that cannot be taken, and those that fail it, hide no others."""
        while rows := await self._journal.orphans(self._agent, PORTION, self._passed):
            self._passed = rows[-1].task_id
            self._has_dead = True
            await self._take_over(rows)
        self._passed = ''

    async def _bury(self, node: LivingNode, reason: str) -> None:
        if await self._journal.declare_dead(node.node_id, node.number):
            self._locks.clear(node.node_id)
            self._has_dead = True
            left = 'its tasks are taken over' if node.owns else 'it had no tasks'
            logger.warning('Node %s %s: it is dead, and %s', node.node_id, reason, left)
