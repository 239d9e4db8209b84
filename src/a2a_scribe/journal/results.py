"""What became of writes: of those that depend on how their task stands, and of the ends of turns."""

from dataclasses import dataclass, field

from a2a_scribe.core.records import Record
from a2a_scribe.journal.deliveries import Kept
from a2a_scribe.journal.tasks import TaskRow
from a2a_scribe.protocol.types import NodeId, TurnId


@dataclass(frozen=True, slots=True)
class Claimed:
    """The task is the node's; `row` is how it stands, the started turn included."""

    row: TaskRow


@dataclass(frozen=True, slots=True)
class Queued:
    """The message, or the cancel, waits in the inbox for the node that works on the task."""

    owner: NodeId | None = field(default=None, compare=False)
    """The node that works on the task, and will see to it; a hint, `None` if it is not known."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The task has ended."""


@dataclass(frozen=True, slots=True)
class Full:
    """Too many messages wait for the task already."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The task has moved on since the caller read it: read again."""


@dataclass(frozen=True, slots=True)
class Missing:
    """No such task for this caller."""


@dataclass(frozen=True, slots=True)
class Done:
    """Written."""


@dataclass(frozen=True, slots=True)
class Known:
    """The key belongs to a message that came before, and nothing was written for this one."""

    task_id: str
    turn_id: TurnId
    digest: bytes


WriteResult = Claimed | Queued | Refused | Full | Stale | Missing | Known | Done | Kept


@dataclass(frozen=True, slots=True)
class Continues:
    """The records are durable and the task stays the node's."""


@dataclass(frozen=True, slots=True)
class Released:
    """The turn ended, nobody waits, and the task belongs to nobody now."""


@dataclass(frozen=True, slots=True)
class NextTurn:
    """The turn ended and the next message of the inbox has started: `started` is its durable record."""

    started: Record


@dataclass(frozen=True, slots=True)
class CancelDue:
    """The turn ended and a cancel waits, which goes before messages: the task stays the node's, without a turn."""

    body: bytes
    """The encoded `CancelAsked`, empty if its time has passed since."""


AppendResult = Continues | Released | NextTurn | CancelDue | Known


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a group, in its order."""

    appended: list[AppendResult]
    written: list[WriteResult]
