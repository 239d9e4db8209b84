"""The identity of one engine among those that share a database.

A node's id is new at each start, so that what an earlier life left in flight can never pass for this one. Commit
numbers only ever grow and are never used for two different groups: the fence lets a number pass once.
"""

from a2a_scribe.clock import Clock
from a2a_scribe.ids import IdSource
from a2a_scribe.journal.port import NodeRow
from a2a_scribe.protocol.types import NodeId


class Node:
    """One life of an engine. Owned by its commit loop."""

    __slots__ = ('_number', 'row')

    def __init__(self, agent: str, name: str, ids: IdSource, clock: Clock) -> None:
        """Makes up a new id."""
        self.row = NodeRow(NodeId(ids.new()), agent, name, clock.now())
        self._number = 0

    def next_number(self) -> int:
        """Returns the number of the next group."""
        self._number += 1
        return self._number
