"""What happened in a run, as far as invariants ask for it: messages, executions, and what clients were told."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from a2a_scribe.core.records import Shown
from a2a_scribe.protocol.types import Message, Task

Kind = Literal['blocking', 'immediately', 'stream', 'subscribe', 'get', 'list', 'cancel']
Ending = Literal['open', 'answered', 'ended', 'left', 'lost', 'error']
Fate = Literal['admitted', 'refused', 'ended', 'unclear']


@dataclass(slots=True)
class Emission:
    """One event that an agent emitted, with a text that no other has."""

    tag: str
    fate: Fate = 'unclear'
    after_cancel: bool = False
    """The engine had cancelled the executor before."""


@dataclass(slots=True)
class Execution:
    """One call of `execute`."""

    process: str
    task_id: str
    emissions: list[Emission] = field(default_factory=list)
    begun: int = 0
    """How many records the task had before."""
    is_cancelled: bool = False
    replied: bool = False

    @property
    def admitted(self) -> int:
        """How many events were admitted."""
        return sum(emission.fate == 'admitted' for emission in self.emissions)


@dataclass(slots=True)
class Sent:
    """One message of a client; its id is also its text."""

    message_id: str
    owner: str
    task_id: str
    """Empty for a new task."""
    executions: list[Execution] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that a client was told, and how many records of its task were durable then."""

    what: Shown | Task | Message
    durable: int
    full: bool = True
    """With artifacts; lists leave them out."""


@dataclass(slots=True)
class Report:
    """One call of a client."""

    number: int
    kind: Kind
    client: str
    owner: str
    process: str
    task_id: str
    begun: int = 0
    """How many records the task had when the call began."""
    message: Sent | None = None
    after: int | None = None
    """The last record that a subscriber has seen already."""
    told: list[Told] = field(default_factory=list)
    ending: Ending = 'open'
    error: BaseException | None = None
    ended_with: int = 0
    """How many records the task had when the call ended."""
    was_closing: bool = False
    """The process was being stopped when the call ended."""

    def __str__(self) -> str:
        """Names the call in traces."""
        what = self.message.message_id if self.message is not None else self.task_id
        return f'call {self.number} ({self.kind} {what})'


@dataclass(slots=True)
class Ledger:
    """Everything that invariants look at, apart from the journal."""

    messages: dict[str, Sent] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)
    cancel_emissions: list[tuple[str, Emission]] = field(default_factory=list)
    """What `executor.cancel` emitted, with its task."""
    lossy_tasks: set[str] = field(default_factory=set)
    """Tasks of which a process may have lost records that it had admitted."""
    doomed_processes: set[str] = field(default_factory=set)
    """Processes that crashed, were stopped or fenced: they may have lost anything."""
    troubled: bool = False
    """Whether anything has gone wrong that entitles a process to answer with a retryable error."""
    violations: list[str] = field(default_factory=list)
    """What was seen to be wrong while it happened."""

    def check(self, holds: object, what: 'str | Callable[[], str]') -> None:
        """Notes a violation unless something holds."""
        if not holds:
            self.violations.append(what if isinstance(what, str) else what())
