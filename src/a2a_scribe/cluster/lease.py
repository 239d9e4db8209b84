"""Which nodes have been silent for too long. Pure: time and what was seen are passed in.

A lease counts on the observer's own monotonic clock, and only time that the observer has lived through and could
itself have written in: after a pause of its own or trouble with the journal it starts to watch anew. So neither clocks
that differ nor an outage of the database kills a healthy node.
"""

from collections.abc import Iterable
from typing import Final

from a2a_scribe.journal.port import LivingNode
from a2a_scribe.protocol.types import NodeId

IDLE_SIGN: Final = 60.0
"""Seconds between two signs of life of a node that owns nothing, if there are others."""
IDLE_LEASE: Final = 600.0
"""Seconds without one after which it is dead. Nobody waits for that; to be wrong costs a node one transaction."""


class Lease:
    """What one observer has seen of the other nodes."""

    def __init__(self, seconds: float, longest_pause: float) -> None:
        """Nodes are dead after `seconds`; an observer that has not looked for `longest_pause` knows nothing more."""
        self._seconds = seconds
        self._longest_pause = longest_pause
        self._looked_at: float | None = None
        self._seen: dict[NodeId, tuple[int, float]] = {}
        """The number of each node's newest group, and since when it has been that."""

    def look(self, nodes: Iterable[LivingNode], now: float, *, undisturbed: bool) -> list[LivingNode]:
        """Notes what is seen at `now`, and returns the nodes that are dead.

        `undisturbed` says whether the observer could write all the time since it looked last.
        """
        if not undisturbed or self._looked_at is None or now - self._looked_at > self._longest_pause:
            self._seen = {}
        self._looked_at = now
        before, self._seen = self._seen, {}
        dead = []
        for node in nodes:
            number, since = before.get(node.node_id, (node.number, now))
            if number != node.number:
                since = now
            self._seen[node.node_id] = (node.number, since)
            if now - since >= self._seconds:
                dead.append(node)
        return dead
