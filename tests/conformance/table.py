"""The table of requirements: lines of the specification, and the checks that hold a server to them.

A section module makes a `Section`, a `Line` for each requirement of it, and hangs checks on the lines. A check's name
is its function's; together with the section of the specification and the binding it is the id of a test.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeVar

from tests.conformance.wire import ALL, Binding

Level = Literal['MUST', 'SHOULD', 'MAY', 'ours']
Run = Callable[..., Awaitable[None]]
"""Takes a wire of one of the check's bindings, and the site."""
AnyRun = TypeVar('AnyRun', bound=Run)


class Business(StrEnum):
    """Whose business a requirement is that no check of a server can hold."""

    AGENT = 'agent'
    DOCUMENT = 'document'


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is tried, on each of its bindings."""

    spec: str
    name: str
    run: Run
    bindings: Sequence[Binding]

    def id_on(self, binding: Binding) -> str:
        """The id of its test, without the name of the test function."""
        return f'{self.spec}-{self.name}-{binding}'


@dataclass(slots=True)
class Line:
    """One requirement."""

    level: Level
    spec: str
    """Section of the specification, or where else the requirement is written."""
    text: str
    sdk_fails: bool = False
    """Whether `a2a-sdk` 1.3.0 was seen not to do it."""
    business: Business | None = None
    why: str = ''
    """Why there is no check."""
    checks: list[Check] = field(default_factory=list)

    def check(self, *, on: Sequence[Binding] = ALL) -> Callable[[AnyRun], AnyRun]:
        """Hangs a check on the line; returns the function as it is."""

        def add(run: AnyRun) -> AnyRun:
            name = getattr(run, '__name__', '').replace('_', '-')
            self.checks.append(Check(self.spec, name, run, on))
            return run

        return add


@dataclass(slots=True)
class Section:
    """The requirements of one topic."""

    number: int
    title: str
    lines: list[Line] = field(default_factory=list)

    def must(self, spec: str, text: str, **more: Any) -> Line:
        """Adds a line that servers MUST obey."""
        return self._add('MUST', spec, text, **more)

    def should(self, spec: str, text: str, **more: Any) -> Line:
        """Adds a line that servers SHOULD obey."""
        return self._add('SHOULD', spec, text, **more)

    def may(self, spec: str, text: str, **more: Any) -> Line:
        """Adds what servers MAY do, and this one does."""
        return self._add('MAY', spec, text, **more)

    def ours(self, spec: str, text: str, **more: Any) -> Line:
        """Adds what this server promises beyond the specification."""
        return self._add('ours', spec, text, **more)

    def _add(self, level: Level, spec: str, text: str, **more: Any) -> Line:
        self.lines.append(Line(level, spec, text, **more))
        return self.lines[-1]
