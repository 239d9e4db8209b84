"""Takes tasks from nodes that are dead, for a command that ends them.

Whoever takes a task over is a node itself. A node that is declared dead cannot write any more: the fence stops it.
"""

from dataclasses import replace

from sqlalchemy.ext.asyncio import AsyncEngine

from a2a_scribe.journal.port import TaskRow
from a2a_scribe.journal.sql.access import Access
from a2a_scribe.journal.sql.inspection_statements import inspection_statements_of
from a2a_scribe.journal.sql.running import Running
from a2a_scribe.journal.sql.tables import DEFAULT_PREFIX
from a2a_scribe.protocol.types import NodeId

PATIENCE = 10.0
"""Seconds that one transaction may take on a server."""


class Taker:
    """Writes on an operator's behalf what no node writes about itself."""

    def __init__(self, engine: AsyncEngine, *, prefix: str = DEFAULT_PREFIX) -> None:
        """Takes an engine, which stays its user's. Raises: SettingsError."""
        self._access = Access(engine, deadline=PATIENCE)
        self._statements = inspection_statements_of(prefix)

    async def declare_dead(self, node_id: NodeId, seen: int) -> bool:
        """Declares a node dead whose commit number still is `seen`; returns whether it was.

        Raises:
            JournalUnavailableError: Not now.
        """

        async def work(running: Running) -> bool:
            return await running.change(self._statements.declare_dead, {'the_node': node_id, 'seen': seen}) == 1

        return await self._access.write(work)

    async def take_over(self, row: TaskRow, to_node: NodeId) -> TaskRow | None:
        """Gives a task of a node that is dead or unknown to `to_node`; `None` if it is not as `row` says any more.

        Raises:
            JournalUnavailableError: Not now.
        """
        values = {'the_id': row.task_id, 'from_node': row.node, 'expected_seq': row.seq, 'to_node': to_node}

        async def work(running: Running) -> bool:
            return await running.change(self._statements.take_over, values) == 1

        return replace(row, node=to_node, epoch=row.epoch + 1) if await self._access.write(work) else None

    async def retire(self, node_id: NodeId) -> None:
        """Forgets a node; one that owns a task still is only declared dead, so that others take the task.

        Raises:
            JournalUnavailableError: Not now.
        """

        async def work(running: Running) -> None:
            await running.change(self._statements.bury, {'the_node': node_id})
            await running.change(self._statements.forget_node, {'the_node': node_id})

        await self._access.write(work)
