"""Python modules as syntax trees, and what they import and name."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

PACKAGE = 'a2a_scribe'


class Import(NamedTuple):
    """One import of one module or name."""

    target: str
    """The full dotted name of what is imported."""
    alias: str
    """The name that it has from then on; empty for `import *`."""
    line: int
    local: bool
    """Whether it stands inside a function."""


class Use(NamedTuple):
    """A place where something imported is named."""

    name: str
    """Its full dotted name, whatever it is called in the module."""
    line: int


@dataclass(frozen=True, eq=False)
class Module:
    """One source file."""

    name: str
    """Dotted, with the package; a folder's `__init__` has the folder's name."""
    text: str
    is_folder: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed text."""
        return ast.parse(self.text)

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """All imports, wherever they stand: also those for type checkers only and those in functions."""
        local = {
            id(inner)
            for outer in ast.walk(self.tree)
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef))
            for inner in ast.walk(outer)
        }
        return tuple(
            Import(target, alias, node.lineno, id(node) in local)
            for node in ast.walk(self.tree)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for target, alias in self._targets(node)
        )

    def _targets(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, name.asname or name.name.partition('.')[0]
            return
        base = node.module or ''
        if node.level:
            folder = self.name.split('.')[: None if self.is_folder else -1]
            base = '.'.join([*folder[: len(folder) - node.level + 1], *filter(None, [base])])
        for name in node.names:
            yield (base, '') if name.name == '*' else (f'{base}.{name.name}', name.asname or name.name)

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """Names of what is imported, resolved: `from time import time as now; now()` uses `time.time`."""
        return tuple(
            Use(name, node.lineno)
            for node in ast.walk(self.tree)
            if isinstance(node, (ast.Attribute, ast.Name)) and (name := self.resolve(node))
        )

    @cached_property
    def _meaning(self) -> dict[str, str]:
        """Alias to full name; `import a.b` binds `a`, every other import what it names."""
        heads = {found.target.partition('.')[0] for found in self.imports}
        return {found.alias: found.alias if found.alias in heads else found.target for found in self.imports}

    def resolve(self, node: ast.expr) -> str:
        """Returns the full dotted name of an expression that starts with something imported, else nothing."""
        if isinstance(node, ast.Name):
            return self._meaning.get(node.id, '')
        if isinstance(node, ast.Attribute) and (base := self.resolve(node.value)):
            return f'{base}.{node.attr}'
        return ''

    def of_type(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """Yields the nodes of these kinds."""
        return (node for node in ast.walk(self.tree) if isinstance(node, kinds))


def read_modules(folder: Path, name: str) -> tuple[Module, ...]:
    """Reads every module below a folder; `name` is the folder's own."""
    return tuple(_read(path, folder, name) for path in sorted(folder.rglob('*.py')))


def _read(path: Path, folder: Path, name: str) -> Module:
    parts = [name, *path.relative_to(folder).with_suffix('').parts]
    is_folder = parts[-1] == '__init__'
    return Module('.'.join(parts[:-1] if is_folder else parts), path.read_text(encoding='utf-8'), is_folder)
