"""What can be wrong with a journal, by name."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Rule(StrEnum):
    """What is broken."""

    GAP = 'gap'
    """Records are missing, or stand twice."""
    BEYOND = 'beyond'
    """There are records after the last one that the row knows."""
    UNREADABLE = 'unreadable'
    """A record or snapshot cannot be decoded."""
    UNKNOWN = 'unknown'
    """A record or snapshot is of a kind or version that this version does not know: a warning."""
    ORDER = 'order'
    """The task is not created first, or more than once."""
    IDENTITY = 'identity'
    """A record is about another task."""
    AFTER_END = 'after_end'
    """A record follows the terminal state."""
    SECOND_END = 'second_end'
    """A terminal state follows the terminal state."""
    TURN = 'turn'
    """A turn starts or ends without its counterpart."""
    OPEN_TURN = 'open_turn'
    """The row and the records disagree about the open turn."""
    STATE = 'state'
    """The row and the records disagree about the state."""
    STATUS_TIME = 'status_time'
    """The row and the records disagree about the time of the status."""
    CONTEXT = 'context'
    """The row and the records disagree about the context."""
    SIZE = 'size'
    """The row and the records disagree about the number of bytes."""
    SNAPSHOT = 'snapshot'
    """The snapshot is not what its records amount to."""
    INBOX = 'inbox'
    """A message waits for a turn that will never end."""
    OWNER = 'owner'
    """The task is owned by nobody who could work on it."""
    GONE = 'gone'
    """The task is owned by a node whose process has ended, which nobody has noticed yet: a warning."""
    STRAY = 'stray'
    """Something belongs to a task that is not there."""


WARNINGS: Final = frozenset({Rule.UNKNOWN, Rule.GONE})

MOVING: Final = frozenset({Rule.BEYOND, Rule.INBOX, Rule.OWNER, Rule.GONE})
"""Rules that seem broken when a task moves on between two looks at it."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that does not hold."""

    rule: Rule
    task_id: str
    seq: int | None
    """The record, where it is about one."""
    what: str

    @property
    def is_warning(self) -> bool:
        """Whether nothing needs to be wrong."""
        return self.rule in WARNINGS
