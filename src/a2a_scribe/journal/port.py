"""What the engine asks of durable storage, in the engine's words.

A journal keeps records and one row per task, and writes a group of changes atomically. It decides nothing about what
may be recorded (that is `core`), only what depends on rows that other nodes may have changed: whether a message can
start, has to wait or is refused, and who goes on when a turn ends. Adapters must pass the suite in
`a2a_scribe.testing.journal_contract`.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from a2a_scribe.core.projection import Projection
from a2a_scribe.core.records import Record
from a2a_scribe.journal.deliveries import Deliveries, DeliveryState, KeepDeliveries, Kept
from a2a_scribe.protocol.types import (
    ListTasksRequest,
    NodeId,
    Scope,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TurnId,
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Tasks outside the caller's scope do not exist for it."""

    scope: Scope
    context: object = None
    """The `ServerCallContext`, for stores of users that resolve owners by themselves."""
    any_agent: bool = False
    """Sees the tasks of all agents of its owner and tenant: what a task store does, which knows no agent."""
    is_operator: bool = False
    """Sees the tasks of everybody."""

    def sees(self, scope: Scope) -> bool:
        """Whether a task of `scope` exists for this caller."""
        if self.is_operator:
            return True
        return scope[1:] == self.scope[1:] and (self.any_agent or scope.agent == self.scope.agent)


OPERATOR: Final = Caller(Scope('', '', ''), is_operator=True)
"""Who runs the server, on the command line."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """What the journal knows of a task without reading its records."""

    task_id: str
    scope: Scope
    context_id: str
    state: TaskState
    status_time: int
    """Microseconds since the epoch, UTC: what lists are sorted by."""
    created_at: int
    seq: int
    """The last record."""
    node: NodeId | None = None
    """Who owns the task: only that node appends to it."""
    epoch: int = 0
    """How often the task has been claimed."""
    open_turn: TurnId | None = None
    attempt: int = 0
    size: int = 0
    """Bytes of all its records."""
    first: int = 1
    """The first record; a later one where the journal has found the task and knows nothing of what came before."""


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task as of the last record of `row`."""

    row: TaskRow
    projection: Projection
    snapshot_bytes: int = 0


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
class AskCancel:
    """A cancel that the node which owns the task is to carry out."""

    task_id: str
    caller: Caller
    ask_id: str
    """An id of its own, which no turn has."""
    body: bytes
    """The encoded `CancelAsked`."""
    patience: int
    """Microseconds after which nobody waits for it, and it is not carried out any more.

    Those who ask and those who are asked may have clocks that differ, so a journal whose users are on several machines
    counts them on a clock of its own; any other by the times of groups.
    """


@dataclass(frozen=True, slots=True)
class AskRerun:
    """The wish of an operator that the owner of the task, or its heir, executes the open turn's message again."""

    task_id: str
    caller: Caller
    ask_id: str
    """An id of its own, which no turn has."""
    body: bytes
    """The encoded `RerunAsked`."""
    patience: int
    """Microseconds after which it is not looked at any more, counted as those of a cancel."""


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


Judged = Accept | Claim | AskCancel | AskRerun | TakeOver
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
class WaitingCancel:
    """A cancel that waits in the inbox of a task."""

    task_id: str
    body: bytes
    """The encoded `CancelAsked`."""


@dataclass(frozen=True, slots=True)
class WaitingRerun:
    """A wish for another attempt that waits in the inbox of a task."""

    task_id: str
    body: bytes
    """The encoded `RerunAsked`."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a group, in its order."""

    appended: list[AppendResult]
    written: list[WriteResult]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One engine, from its start on."""

    node_id: NodeId
    agent: str
    name: str
    started_at: int


@dataclass(frozen=True, slots=True)
class LivingNode:
    """A node that nobody has declared dead."""

    node_id: NodeId
    number: int
    """Of its newest group: it moves as long as the node lives and owns tasks."""
    owns: bool
    """Whether tasks are its own, or push configs that it delivers."""


@dataclass(frozen=True, slots=True)
class TaskPage:
    """One page of a list, newest status first."""

    tasks: list[Task]
    next_token: str
    total: int


@dataclass(frozen=True, slots=True)
class Ended:
    """Tasks that ended long ago."""

    state: TaskState
    """How they ended."""
    before: int
    """They ended before this moment, in microseconds since the epoch."""
    agent: str | None = None
    """Whose they are; `None` for those of all agents."""


Heard = Callable[[Iterable[str] | None], None]
"""Hears that tasks were written to, `None` for any."""


class Hints(Protocol):
    """How the processes of one journal hear that others have written. They may be late, lost, or about nothing."""

    @property
    def needs_telling(self) -> bool:
        """Whether others hear only what they are told."""

    async def listen(self, heard: Heard, is_wanted: Callable[[], bool]) -> None:
        """Calls `heard` for each hint, and once for all that came before, until it is cancelled.

        It may be deaf while hints are not wanted.

        Raises:
            JournalUnavailableError: The connection cannot be made, or is lost.
        """

    async def tell(self, task_ids: Collection[str]) -> None:
        """Tells the others that tasks were written to. Raises: JournalUnavailableError."""


class Journal(Deliveries, Protocol):
    """Durable storage of tasks."""

    @property
    def keeps_records(self) -> bool:
        """Whether the records of a task can be read as long as it exists."""

    @property
    def lock_directory(self) -> Path | None:
        """Where nodes of the same journal can lock files, if all of them are on one machine."""

    @property
    def hints(self) -> Hints | None:
        """How processes hear of each other, `None` if there is only one, or no way."""

    async def open(self) -> None:
        """Makes the journal ready on the running loop; may be called again and again.

        Raises:
            OperatorError: The storage cannot be used as it is set up.
            JournalUnavailableError: It cannot be reached now.
        """

    async def close(self) -> None:
        """Gives back what `open` took; what is stored stays."""

    async def register(self, node: NodeRow) -> None:
        """Makes a node known and alive. Raises: JournalUnavailableError."""

    async def retire(self, node_id: NodeId) -> None:
        """Forgets a node that owns nothing; one that does stays known. Raises: JournalUnavailableError."""

    async def forget_dead(self, agent: str) -> None:
        """Forgets the dead nodes of an agent that own nothing. Raises: JournalUnavailableError."""

    async def living_nodes(self, agent: str) -> list[LivingNode]:
        """Returns the nodes of an agent that are not dead. Raises: JournalUnavailableError."""

    async def declare_dead(self, node_id: NodeId, number: int) -> bool:
        """Fences a node for good if its newest group is still `number`; returns whether it did.

        Never waits for a transaction of that node. Raises: JournalUnavailableError.
        """

    async def orphans(self, agent: str, limit: int, after: str = '') -> list[TaskRow]:
        """Returns tasks of an agent whose owner is no living node, in the order of their ids, those after `after`.

        Raises:
            JournalUnavailableError: Not now.
        """

    async def waiting_cancels(self, node_id: NodeId, now: int) -> list[WaitingCancel]:
        """Returns the cancels that wait for a node, without those whose time has passed, oldest first.

        Cheap where there are none. The time is `now`, unless the journal has a clock.

        Raises:
            JournalUnavailableError: Not now.
        """

    async def waiting_reruns(self, node_id: NodeId, now: int) -> list[WaitingRerun]:
        """Returns the wishes for other attempts at turns of tasks that a node owns, dead or alive, oldest first.

        Those whose time has passed at `now` are left out. Raises: JournalUnavailableError.
        """

    async def waited_for(self, node_id: NodeId) -> list[str]:
        """Returns the ids of the tasks of a node for which messages wait. Raises: JournalUnavailableError."""

    async def commit(self, group: Group) -> Receipt:
        """Writes a group atomically; the same group again, after a lost answer, gives what became of it.

        Raises:
            NodeFencedError: The node is not alive any more; nothing was written.
            JournalUnavailableError: Not now; whether it was written is unknown.
            JournalRefusedError: Never; nothing was written.
        """

    async def has_task(self, task_id: str, caller: Caller) -> bool:
        """Whether the task exists for the caller. Raises: JournalUnavailableError."""

    async def read_task(self, task_id: str, caller: Caller) -> StoredTask | None:
        """Returns a task that `caller` sees, consistent as of one moment. Raises: JournalUnavailableError."""

    async def read_records(self, task_id: str, after: int, limit: int, max_bytes: int) -> list[Record]:
        """Returns the records after `after`, in order: `limit` at most, with at most `max_bytes` of bodies together.

        The first is given whatever its size, so who reads on always gets on. No more than that is held in memory.

        Raises:
            JournalUnavailableError: Not now.
        """

    async def list_tasks(self, caller: Caller, query: ListTasksRequest) -> TaskPage:
        """Returns the caller's tasks that `query` asks for (A2A 1.0, section 3.1.4), whole.

        Raises:
            InvalidParamsError: The page token is not valid.
            JournalUnavailableError: Not now.
        """

    async def read_configs(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Returns a task's push configs in the order of their ids. Raises: JournalUnavailableError."""

    async def replace_task(self, task: Task, caller: Caller, now: int) -> None:
        """Stores a whole task from outside a turn.

        Raises:
            TaskConflictError: A turn is open, the task has ended otherwise, or it is another owner's.
            JournalUnavailableError: Not now.
        """

    async def delete_task(self, task_id: str, caller: Caller) -> bool:
        """Deletes a task with all that belongs to it; returns whether there was one.

        Raises:
            TaskConflictError: A turn is open.
            JournalUnavailableError: Not now.
        """

    async def delete_expired_keys(self, now: int) -> int:
        """Deletes a few of the keys that have expired, and returns how many. Raises: JournalUnavailableError."""

    async def delete_ended(self, ended: Ended) -> list[str]:
        """Deletes some of the tasks that `ended` names, with all that belongs to them, and returns their ids.

        It deletes few at once, so that others need not wait long; when none is left, it returns an empty list. Tasks
        that somebody owns, and those that have something to deliver still, are left for later.

        Raises:
            JournalUnavailableError: Not now.
        """


def without_owner(row: TaskRow) -> TaskRow:
    """Returns the row of a task that nobody owns."""
    return replace(row, node=None, open_turn=None)
