"""Statements as SQLite's driver takes them: text, and values in the order in which it has its marks for them.

SQLAlchemy compiles; what is run through this is spared its way to the driver.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Dialect, Executable
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

SQLITE: Final[Dialect] = sqlite.dialect(paramstyle='qmark')


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement, with the names of its values and those that it brings itself."""

    sql: str
    names: tuple[str, ...]
    constants: Mapping[str, Any]
    row: str
    """What the text ends with for one row, if it can insert several; empty otherwise."""

    def for_rows(self, count: int) -> str:
        """Returns the text that inserts so many rows."""
        return f'{self.sql}{f", {self.row}" * (count - 1)}'

    def values_of(self, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns the values to run it with."""
        constants = self.constants
        return tuple([parameters[name] if name in parameters else constants[name] for name in self.names])


@lru_cache(maxsize=256)
def compiled(statement: Executable) -> Compiled | None:
    """Returns a statement as text; `None` if lists have to be expanded in it."""
    made = _compile(statement)
    if made.post_compile_params or made.positiontup is None:
        return None
    constants = {name: value for name, value in made.params.items() if not made.binds[name].required}
    sql, names = str(made), tuple(made.positiontup)
    row = f'({", ".join("?" * len(names))})'
    return Compiled(sql, names, constants, row if made.isinsert and sql.endswith(f' VALUES {row}') else '')


def without_lists(statement: Executable) -> Compiled:
    """Returns a statement, which has no lists, as text."""
    direct = compiled(statement)
    assert direct is not None, 'lists are not expanded in what is run many times'
    return direct


def with_values(statement: Executable, parameters: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
    """Returns the text for these parameters, lists expanded, and the values to run it with."""
    direct = compiled(statement)
    if direct is not None:
        return direct.sql, direct.values_of(parameters)
    expanded = _compile(statement).construct_expanded_state(dict(parameters))
    return expanded.statement, expanded.positional_parameters


def for_once(statement: Executable) -> tuple[str, Sequence[Any]]:
    """Returns the text of a statement that was made for one call, with all of its values, and these."""
    expanded = _make(statement).construct_expanded_state()
    return expanded.statement, expanded.positional_parameters


@lru_cache(maxsize=256)
def _compile(statement: Executable) -> SQLCompiler:
    return _make(statement)


def _make(statement: Executable) -> SQLCompiler:
    assert isinstance(statement, ClauseElement)
    made = statement.compile(dialect=SQLITE)
    assert isinstance(made, SQLCompiler)
    return made
