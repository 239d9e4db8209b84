"""What a check has found: one line, and what to do about it."""

from dataclasses import dataclass
from typing import Literal

Level = Literal['ok', 'warn', 'fail']


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    level: Level
    check: str
    what: str
    advice: str = ''
    """What to do, where something is to be done."""


def ok(check: str, what: str) -> Finding:
    """Returns that all is well."""
    return Finding('ok', check, what)


def warn(check: str, what: str, advice: str) -> Finding:
    """Returns that it works, but not as well as it could."""
    return Finding('warn', check, what, advice)


def fail(check: str, what: str, advice: str) -> Finding:
    """Returns that it does not work."""
    return Finding('fail', check, what, advice)
