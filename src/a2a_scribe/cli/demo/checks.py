"""What the demonstration found: checks with an expected and a found value, and outcomes that are counted.

Written by the scenes, read by the report. The demonstration is right only if every check is.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    expected: object
    found: object

    @property
    def is_right(self) -> bool:
        """Whether it is as expected."""
        return self.expected == self.found


@dataclass(frozen=True, slots=True)
class Scene:
    """One thing that was shown, with a line that says what the viewer saw."""

    title: str
    summary: str
    checks: tuple[Check, ...]

    @property
    def wrong(self) -> list[Check]:
        """The checks that are not as expected."""
        return [check for check in self.checks if not check.is_right]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one call of a failing agent ended, for its client and in the store."""

    client: str
    stored: str
    metadata_kept: bool


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How many calls ended in which way, and which is the only right one."""

    right: Outcome
    counts: Counter[Outcome] = field(default_factory=Counter)

    @classmethod
    def of(cls, right: Outcome, found: Iterable[Outcome]) -> 'Outcomes':
        """Counts what was found."""
        return cls(right, Counter(found))

    def are_right(self, runs: int) -> bool:
        """Whether all runs were made and all ended the right way."""
        return self.counts == {self.right: runs}
