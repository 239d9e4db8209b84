"""Looks after the other nodes of the agent: finds those that are dead, fences them, and has their tasks taken over.

Only nodes that own tasks can be missed, so a node that watches one writes signs of life of its own: whoever cannot
write itself must not hold another's silence against it.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from a2a_scribe.clock import Clock
from a2a_scribe.cluster.lease import Lease
from a2a_scribe.cluster.locks import NodeLocks
from a2a_scribe.engine.commits import CommitLoop
from a2a_scribe.engine.latch import Latch
from a2a_scribe.errors import EnvironmentFault
from a2a_scribe.journal.port import Journal, LivingNode, TaskRow
from a2a_scribe.protocol.types import NodeId
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
        self._buried: list[NodeId] = []
        self._passed = ''
        """The orphan up to which all have been looked at in this round."""
        self._lease = Lease(settings.lease, 2 * settings.heartbeat)

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
        silent = self._lease.look(owners, self._clock.monotonic(), undisturbed=self._commits.goes_well)
        await self._bury(silent, f'has been silent for {self._settings.lease:g} s')
        await self._bury((node for node in others if self._locks.is_free(node.node_id)), 'has left its lock')
        await self._take_over_orphans()
        while self._buried:
            await self._journal.retire(self._buried.pop())

    async def _take_over_orphans(self) -> None:
        """Tries each orphan once in a round: those that cannot be taken, and those that fail it, hide no others."""
        while rows := await self._journal.orphans(self._agent, PORTION, self._passed):
            self._passed = rows[-1].task_id
            await self._take_over(rows)
        self._passed = ''

    async def _bury(self, nodes: Iterable[LivingNode], reason: str) -> None:
        for node in nodes:
            if await self._journal.declare_dead(node.node_id, node.number):
                self._locks.clear(node.node_id)
                self._buried.append(node.node_id)
                logger.warning('Node %s %s: it is dead, and its tasks are taken over', node.node_id, reason)
