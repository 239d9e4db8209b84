"""What the engine asks of durable storage, in the engine's words.

A journal keeps records and one row per task, and writes a group of changes atomically. It decides nothing about what
may be recorded (that is `core`), only what depends on rows that other nodes may have changed: whether a message can
start, has to wait or is refused, and who goes on when a turn ends. Adapters must pass the suite in
`a2a_scribe.testing.journal_contract`.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from a2a_scribe.core.records import AskKind, Record
from a2a_scribe.journal.deliveries import Deliveries
from a2a_scribe.journal.results import Receipt
from a2a_scribe.journal.tasks import Caller, Ended, StoredTask, TaskPage, TaskRow
from a2a_scribe.journal.writes import Group
from a2a_scribe.protocol.types import ListTasksRequest, NodeId, Task, TaskPushNotificationConfig


@dataclass(frozen=True, slots=True)
class WaitingAsk:
    """What waits in the inbox of a task and is no message."""

    kind: AskKind
    task_id: str
    body: bytes
    """The encoded `CancelAsked` or `RerunAsked`."""


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

    async def waiting_asks(self, node_id: NodeId, now: int) -> list[WaitingAsk]:
        """Returns what a node, dead or alive, is asked to do, without that whose time has passed, oldest first.

        Cheap where there is nothing. The time is `now`, unless the journal has a clock.

        Raises:
            JournalUnavailableError: Not now.
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
