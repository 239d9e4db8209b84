"""Tasks as a journal keeps them beside their records: a row, a scope, and who may see it."""

from dataclasses import dataclass, replace
from typing import Final

from a2a_scribe.core.projection import Projection
from a2a_scribe.protocol.types import NodeId, Scope, Task, TaskState, TurnId


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


def without_owner(row: TaskRow) -> TaskRow:
    """Returns the row of a task that nobody owns."""
    return replace(row, node=None, open_turn=None)
