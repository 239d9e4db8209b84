"""What a node wants written: the records of its tasks, and all that depends on how tasks stand.

A group of these is one transaction. `results` says what may become of each.
"""

from dataclasses import dataclass, field

from a2a_scribe.core.projection import Projection
from a2a_scribe.core.records import AskKind, Record
from a2a_scribe.journal.deliveries import DeliveryState, KeepDeliveries
from a2a_scribe.journal.tasks import Caller, TaskRow
from a2a_scribe.protocol.types import NodeId, TaskPushNotificationConfig, TurnId


@dataclass(frozen=True, slots=True)
class Key:
    """What a client calls a message, so that it is executed once however often it is sent.

    It belongs to one message of its owner, until it expires.
    """

    name: str
    digest: bytes
    """Of the message: the same name is not to mean another one."""
    turn_id: TurnId
    """The turn that answers the message."""
    expires_at: int
    """Microseconds since the epoch."""
    replaces: TurnId | None = None
    """A turn whose task was found to be deleted: its key is free."""


@dataclass(slots=True)
class Append:
    """Records of a task that the node owns, or that is born with them."""

    row: TaskRow
    """As it is after the records; the journal itself clears or hands over the turn when it ends."""
    records: list[Record]
    projection: Projection
    caller: Caller
    born: bool = False
    snapshot: bytes | None = None
    """The projection after the last of the records, where one is due."""
    ends_turn: bool = False
    configs: tuple[TaskPushNotificationConfig, ...] = ()
    """Push configs that are created with the task."""
    key: Key | None = None
    """Of the message that the task is born with; if it is another's already, the task is not born."""


@dataclass(frozen=True, slots=True)
class Accept:
    """A message for an existing task: starts a turn, or waits for one, or is refused."""

    task_id: str
    caller: Caller
    turn_id: TurnId
    body: bytes
    """The encoded `TurnStarted`."""
    expected_seq: int
    queue_limit: int
    key: Key | None = None
    """If it is another's already, the message is not looked at; if the message is not accepted, it stays free."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Ownership of a parked task without a turn, to cancel it."""

    task_id: str
    caller: Caller
    expected_seq: int


@dataclass(frozen=True, slots=True)
class Ask:
    """What the node that owns the task, or its heir, is to do: to cancel it, or to execute the open turn again."""

    kind: AskKind
    task_id: str
    caller: Caller
    ask_id: str
    """An id of its own, which no turn has."""
    body: bytes
    """The encoded `CancelAsked` or `RerunAsked`."""
    patience: int
    """Microseconds after which nobody waits for it, and it is not carried out any more.

    Those who ask and those who are asked may have clocks that differ, so a journal whose users are on several machines
    counts them on a clock of its own; any other by the times of groups.
    """


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Ownership of a task whose owner has died, to end its turn or to run it again.

    A node may take over from itself what it owns without knowing what to do with it.
    """

    task_id: str
    caller: Caller
    owner: NodeId
    """The dead node, or the one that writes this."""
    epoch: int
    """As the task was left: somebody else may have been faster."""
    start: bytes | None = None
    """The encoded `TurnStarted` with which the open turn runs again; `None` to leave that to the new owner.

    It does not run again if a cancel waits: then the task is claimed as it is.
    """


@dataclass(frozen=True, slots=True)
class PutConfig:
    """A push config, made or replaced; one that is replaced goes on where it was."""

    caller: Caller
    config: TaskPushNotificationConfig
    position: int | None = None
    """The record after which a new one begins; `None` for the task's last one."""


@dataclass(frozen=True, slots=True)
class DropConfig:
    """A push config, removed; harmless when there is none."""

    task_id: str
    config_id: str


Judged = Accept | Claim | Ask | TakeOver
"""Writes that depend on how their task stands."""


Write = Judged | PutConfig | DropConfig | KeepDeliveries


@dataclass(slots=True)
class Group:
    """What one transaction writes. A number is never used for two different groups of a node."""

    node: NodeId
    number: int
    now: int
    appends: list[Append] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    delivers: bool = True
    """Whether the push configs that it makes are delivered from the journal, and not by a user's own sender."""

    @property
    def config_state(self) -> DeliveryState:
        """The state of a push config that it makes."""
        return 'active' if self.delivers else 'elsewhere'
