"""The documentation says what the code says: generated blocks are as the code makes them, links lead somewhere.

`python -m tests.unit.test_docs`, from the root of the repository, writes the blocks anew.
"""

import ast
import importlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Table

from a2a_scribe import settings
from a2a_scribe.journal.sql.tables import DEFAULT_PREFIX, tables_of
from a2a_scribe.protocol.states import ACTIVE, INTERRUPTED, KNOWN, MOVES, TERMINAL, name_of
from a2a_scribe.protocol.types import TaskState
from tests.architecture.rules import RANKS
from tests.architecture.source import PACKAGE, read_modules

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / 'README.md', ROOT / 'CHANGELOG.md', ROOT / 'CONTRIBUTING.md', *sorted(ROOT.glob('docs/**/*.md')))
GROUPS = {'active': ACTIVE, 'interrupted': INTERRUPTED, 'terminal': TERMINAL}


def table_of(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ['---'] * len(head), *rows]
    return '\n'.join(f'| {" | ".join(line)} |' for line in lines)


# What is generated


def short_name(state: TaskState) -> str:
    return name_of(state).removeprefix('TASK_STATE_')


def states() -> str:
    """The diagram by groups, and the table by states: the first is true only while the second has no exceptions."""
    lines = ['```mermaid', 'stateDiagram-v2']
    for group, members in GROUPS.items():
        lines += [f'    state {group} {{', *(f'        {short_name(state)}' for state in sorted(members)), '    }']
    lines += [f'    [*] --> {group}' for group in GROUPS]
    for group, members in GROUPS.items():
        for following, targets in GROUPS.items():
            allowed = {target in MOVES[state] for state in members for target in targets}
            assert len(allowed) == 1, f'not all moves from {group} to {following} are alike: draw them one by one'
            if allowed == {True}:
                lines.append(f'    {group} --> {following}')
    lines += ['    terminal --> [*]', '```', '']
    columns = sorted(KNOWN)
    rows = [
        [short_name(state), *('yes' if target in MOVES[state] else '' for target in columns)] for state in sorted(KNOWN)
    ]
    return '\n'.join(lines) + '\n' + table_of(['from \\ to', *map(short_name, columns)], rows)


def default_of(value: ast.expr) -> ast.expr:
    """The default of a field, which one that is not shown has as an argument of `field`."""
    if isinstance(value, ast.Call):
        return next(keyword.value for keyword in value.keywords if keyword.arg == 'default')
    return value


def setting_rows() -> Iterator[list[str]]:
    tree = ast.parse(Path(settings.__file__).read_text(encoding='utf-8'))
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == 'Settings')
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and field.value is not None:
            default = ast.unparse(default_of(field.value))
            yield [f'`{ast.unparse(field.target)}`', f'`{default}`', str(ast.literal_eval(text.value))]


def setting_table() -> str:
    return table_of(['setting', 'default', 'meaning'], list(setting_rows()))


def table_row(table: Table) -> list[str]:
    key = [column.name for column in table.primary_key]
    rest = [column.name for column in table.columns if column.name not in key]
    return [f'`{table.name.removeprefix(DEFAULT_PREFIX)}`', ', '.join(key), ', '.join(rest)]


def storage() -> str:
    tables = tables_of(DEFAULT_PREFIX).metadata.tables.values()
    return table_of(['table', 'key', 'other columns'], [table_row(table) for table in tables])


def stations() -> str:
    """The ranks, with the first line of what each station says about itself."""
    modules = read_modules(ROOT / 'src' / PACKAGE, PACKAGE)
    texts = {module.name: ast.get_docstring(module.tree) or '' for module in modules}
    rows = []
    for station, rank in sorted(RANKS.items(), key=lambda item: -item[1]):
        name = f'{PACKAGE}.{station}'.rstrip('.')
        if name in texts:
            shown = station.replace('.', '/') or PACKAGE
            rows.append([str(rank), f'`{shown}`', texts[name].partition('\n')[0]])
    return table_of(['rank', 'station', 'what lives there'], rows)


BLOCKS: Mapping[str, tuple[str, Callable[[], str]]] = {
    'states': ('docs/states.md', states),
    'settings': ('docs/architecture.md', setting_table),
    'storage': ('docs/architecture.md', storage),
    'stations': ('docs/architecture.md', stations),
}


def framed(name: str, text: str) -> str:
    return f'<!-- {name}: generated -->\n\n{text}\n\n<!-- {name}: end -->'


def frame_of(name: str) -> re.Pattern[str]:
    return re.compile(f'<!-- {name}: generated -->.*<!-- {name}: end -->', re.DOTALL)


def write() -> None:
    for name, (page, make) in BLOCKS.items():
        path = ROOT / page
        block = framed(name, make())
        path.write_text(frame_of(name).sub(lambda _: block, path.read_text(encoding='utf-8')), encoding='utf-8')  # noqa: B023


@pytest.mark.parametrize('name', BLOCKS)
def test_a_generated_block_is_as_the_code_makes_it(name: str) -> None:
    page, make = BLOCKS[name]
    found = frame_of(name).search((ROOT / page).read_text(encoding='utf-8'))
    assert found is not None, f'{page} has no block {name}'
    assert found[0] == framed(name, make()), 'python -m tests.unit.test_docs writes it anew'


def test_every_setting_says_what_it_means() -> None:
    assert [row[0].strip('`') for row in setting_rows()] == list(settings.Settings.__dataclass_fields__)


# What is written by hand


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r'\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)', page.read_text(encoding='utf-8'))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_imported_in_an_example_exists(page: Path) -> None:
    for example in re.findall(r'```python\n(.*?)```', page.read_text(encoding='utf-8'), re.DOTALL):
        for node in ast.walk(ast.parse(example)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.partition('.')[0] in ('a2a', PACKAGE):
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


if __name__ == '__main__':
    write()
