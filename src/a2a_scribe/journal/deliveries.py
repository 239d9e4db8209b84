"""What a journal knows of the delivery of webhooks, and how one process at a time takes care of each.

A push config is a cursor with a URL: `position` is the last record that its receiver has, or that is not for it. A node
that delivers holds the config, as the owner of a task holds the task; what a dead node held is free. What came of it is
written for many configs at once, and counts only where the node still holds the config as it knows it.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from a2a_scribe.protocol.types import NodeId, Scope, TaskPushNotificationConfig, TaskState

DeliveryState = Literal['active', 'suspended', 'elsewhere']
"""A suspended config is not called until an operator resumes it; one that is delivered elsewhere is only stored."""

SetState = Literal['active', 'suspended']
"""What an operator can make of a config."""


class DeliveryKey(NamedTuple):
    """Names one push config."""

    task_id: str
    config_id: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A push config, and how far it has come."""

    config: TaskPushNotificationConfig
    scope: Scope
    """Of its task."""
    position: int
    attempts: int
    """How often the next event has been tried in vain."""
    next_attempt_at: int | None
    """Microseconds since the epoch; `None` for at once."""
    failing_since: int | None
    """When the first of these attempts was, in microseconds since the epoch."""
    state: DeliveryState
    last_error: str | None
    """Why the last attempt failed."""
    node: NodeId | None
    """Who delivers; nobody, if that node is dead."""
    seq: int
    """The task's last record."""
    task_state: TaskState

    @property
    def key(self) -> DeliveryKey:
        """The name of the config."""
        return DeliveryKey(self.config.task_id, self.config.id)


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """How a config stands after attempts to deliver. The fields are those of `Delivery`."""

    key: DeliveryKey
    expected: int
    """The position that is stored: with another one, somebody else has set the config anew."""
    position: int
    attempts: int = 0
    next_attempt_at: int | None = None
    failing_since: int | None = None
    state: DeliveryState = 'active'
    last_error: str | None = None
    releases: bool = False
    """Nobody holds the config from now on; it is deleted if its task has ended and its receiver has all of it."""


@dataclass(frozen=True, slots=True)
class KeepDeliveries:
    """A node's care for its configs: what came of attempts, and then configs that it takes."""

    outcomes: tuple[DeliveryOutcome, ...] = ()
    claims: tuple[DeliveryKey, ...] = ()
    """Those among them that are active and held by no living node become the node's."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of it."""

    lost: frozenset[DeliveryKey]
    """Outcomes that were not written: the config is deleted, set anew, or another node's."""
    claimed: tuple[Delivery, ...]
    """As they are stored now. After a lost answer, any of those that the node holds."""


@dataclass(frozen=True, slots=True)
class DueDeliveries:
    """Configs that a node should take: there is something to deliver, or it works on their task."""

    agent: str
    node: NodeId
    now: int
    """Those whose next attempt is later are not due."""
    limit: int
    task_ids: tuple[str, ...] | None = None
    """Only those of these tasks; `None` for those of all tasks of the agent."""


@dataclass(frozen=True, slots=True)
class DeliveryQuery:
    """Which configs an operator wants to see."""

    agent: str | None = None
    state: DeliveryState | None = None
    task_id: str | None = None
    after: DeliveryKey = field(default=DeliveryKey('', ''))
    """The last key of the page before."""
    limit: int = 100


class Deliveries(Protocol):
    """The part of a journal that webhooks are delivered from. `KeepDeliveries` is written with a group."""

    async def due_deliveries(self, due: DueDeliveries) -> list[DeliveryKey]:
        """Returns configs that are due and that no living node holds, those that have waited longest first.

        Raises:
            JournalUnavailableError: Not now.
        """

    async def held_deliveries(self, node_id: NodeId) -> set[DeliveryKey]:
        """Returns the configs that a node holds. Raises: JournalUnavailableError."""

    async def list_deliveries(self, query: DeliveryQuery) -> list[Delivery]:
        """Returns configs in the order of their keys. Raises: JournalUnavailableError."""

    async def read_delivery(self, key: DeliveryKey) -> Delivery | None:
        """Returns one config. Raises: JournalUnavailableError."""

    async def set_delivery(self, key: DeliveryKey, state: SetState, position: int | None = None) -> bool:
        """Suspends or resumes a config, from `position` on if it is given; returns whether there is one.

        It is taken from whoever holds it, and its failures are forgotten; a reason for which it was suspended stays
        until it is resumed.

        Raises:
            JournalUnavailableError: Not now.
        """
