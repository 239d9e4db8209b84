"""The sections in the order of the checklist, and all their checks."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.conformance.table import Check, Section


def sections() -> list[Section]:
    """The sections of all modules that begin with `section_`, by their numbers, the general ones first."""
    names = sorted(path.stem for path in Path(__file__).parent.glob('section_*.py'))
    found: list[Section] = [import_module(f'tests.conformance.{name}').SECTION for name in names]
    return sorted(found, key=lambda section: (section.number, ':' in section.title))


SECTIONS: Final[Sequence[Section]] = sections()
CHECKS: Final[Sequence[Check]] = [check for section in SECTIONS for line in section.lines for check in line.checks]
