"""The rules: each takes modules and returns what breaks it, one line per place."""

import ast
import graphlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from tests.architecture.source import PACKAGE, Module, Use

RANKS: Mapping[str, int] = {
    'errors': 0,
    'clock': 0,
    'ids': 0,
    'settings': 0,
    'services': 0,
    'event_loop': 0,
    'interpreter': 0,
    'signals': 0,
    'version': 0,
    'protocol': 1,
    'auth': 2,
    'client': 2,
    'webhooks': 2,
    'core': 2,
    'journal.port': 3,
    'journal.deliveries': 3,
    'journal.results': 3,
    'journal.tasks': 3,
    'journal.writes': 3,
    'journal': 4,
    'cluster': 5,
    'engine': 6,
    'push': 6,
    'handler': 7,
    'transport': 8,
    'console': 8,
    'testing': 9,
    'app': 9,
    'patching': 9,
    'server': 10,
    'cli': 11,
    '__main__': 12,
    '': 12,  # the front door
}
"""What a module may import: lower ranks, and its own folder at its own rank."""

HOMES: Mapping[str, Collection[str]] = {
    r'time\..+': ('clock',),
    r'datetime\.(datetime\.(now|utcnow|today)|date\.today)': ('clock',),
    r'(random|secrets)\..+|uuid\.uuid\w+|os\.urandom': ('ids', 'client.backoff', 'push.webhooks'),
    r'os\.(environ|environb|getenv|putenv)\b.*': ('settings', 'cli'),
}
"""What must be an argument everywhere but in the modules that read it."""

TASK_MAKERS: Mapping[str, Collection[str]] = {
    'create_task': ('services', 'engine.turns'),
    'ensure_future': ('services', 'engine.turns', 'journal.sql.errands'),
}
"""Who may start a coroutine of its own; a call into a database's thread is one that is awaited to its end."""

NOT_PRIVATE = ('_asdict', '_fields', '_make', '_replace', '_exit')
"""Methods of named tuples, whose underscore keeps them apart from the fields; and `os._exit`."""

PRIVATE_BY_NEED: Mapping[str, str] = {'journal.sql.in_thread': '._execute'}
"""Private names of others without which something cannot be had; their users do without where they are missing."""

LOCKS = r'(asyncio|anyio|threading)\.R?Lock'
SLEEPS = ('asyncio.sleep', 'anyio.sleep', 'time.sleep', 'trio.sleep')
DENIED_WORDS = ('TODO', 'FIXME', 'XXX', 'HACK')
FOLDERS = frozenset(
    {
        'protocol',
        'auth',
        'client',
        'webhooks',
        'core',
        'journal',
        'cluster',
        'engine',
        'push',
        'handler',
        'transport',
        'console',
        'testing',
        'cli',
    }
)
FOLDERS_WITH_CODE = ('', 'cli', 'client', 'testing')


def station(module: str) -> str:
    """Where a module of ours stands in `RANKS`: its longest known prefix.

    Raises:
        KeyError: The module has no rank.
    """
    parts = module.split('.')[1:]
    for length in range(len(parts), 0, -1):
        if (prefix := '.'.join(parts[:length])) in RANKS:
            return prefix
    if parts:
        raise KeyError(module)
    return ''


def within(module: Module, places: Collection[str]) -> bool:
    """Whether a module is one of these, or lives in one of these folders."""
    own = module.name.removeprefix(PACKAGE).removeprefix('.')
    return any(own == place or (place and own.startswith(f'{place}.')) for place in places)


def own_imports(module: Module, modules: Sequence[Module]) -> Iterator[tuple[str, int, bool]]:
    """Yields the modules of ours that a module imports: target, line, whether inside a function."""
    names = {each.name for each in modules}
    for found in module.imports:
        if found.target != PACKAGE and not found.target.startswith(f'{PACKAGE}.'):
            continue
        target = found.target
        while target not in names and '.' in target:
            target = target.rpartition('.')[0]
        yield target, found.line, found.local


def unranked_modules(modules: Sequence[Module]) -> list[str]:
    """A module lives at a station that has a rank."""
    found = []
    for module in modules:
        try:
            station(module.name)
        except KeyError:
            found.append(f'{module.name} has no rank')
    return found


def upward_imports(modules: Sequence[Module]) -> list[str]:
    """A module imports lower ranks and its own folder only; imports for type checkers count."""
    return [
        f'{module.name}:{line} imports {target}'
        for module in modules
        for target, line, _ in own_imports(module, modules)
        if not may_import(module.name, target)
    ]


def may_import(importer: str, imported: str) -> bool:
    """Whether the ranks allow an import."""
    ours, theirs = RANKS[station(importer)], RANKS[station(imported)]
    return theirs < ours or (theirs == ours and folder(importer) == folder(imported))


def folder(module: str) -> str:
    """The station's folder; modules beside the front door share one."""
    name = station(module)
    return name.partition('.')[0] if name.partition('.')[0] in FOLDERS else PACKAGE


def import_cycles(modules: Sequence[Module]) -> list[str]:
    """No module imports itself on any way round."""
    graph = {each.name: {target for target, _, _ in own_imports(each, modules)} - {each.name} for each in modules}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [' <- '.join(error.args[1])]
    return []


def local_imports(modules: Sequence[Module]) -> list[str]:
    """Our own package is imported at the top of a module, by a statement."""
    statements = [
        f'{module.name}:{line} imports {target} inside a function'
        for module in modules
        for target, line, local in own_imports(module, modules)
        if local
    ]
    calls = [
        f'{module.name}:{call.lineno} imports by name'
        for module in modules
        for call in module.of_type(ast.Call)
        if isinstance(call, ast.Call) and called(call) in ('import_module', '__import__') and names_ours(call)
    ]
    return statements + calls


def called(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ''


def names_ours(call: ast.Call) -> bool:
    """Whether the first argument is the name of a module of ours."""
    match call.args:
        case [ast.Constant(value=str(name)), *_]:
            return name.split('.')[0] == PACKAGE
    return False


def is_private(name: str) -> bool:
    """An underscore in front, but no name of the language."""
    return name.startswith('_') and not (name.startswith('__') and name.endswith('__')) and name not in NOT_PRIVATE


def private_access(modules: Sequence[Module]) -> list[str]:
    """Nobody uses another's private names: neither attributes nor imports."""
    return [
        f'{module.name}:{line} {name}'
        for module in modules
        for line, name in private_names(module)
        if not any(within(module, [home]) and name == needed for home, needed in PRIVATE_BY_NEED.items())
    ]


def private_names(module: Module) -> Iterator[tuple[int, str]]:
    """Yields where a module uses private names of others."""
    for node in module.of_type(ast.Attribute, ast.Call):
        match node:
            case ast.Attribute(value=ast.Name(id='self' | 'cls')):
                pass
            case ast.Attribute(attr=name) if is_private(name):
                yield node.lineno, f'.{name}'
            case ast.Call(func=ast.Name(id='getattr' | 'setattr'), args=[owner, ast.Constant(value=str(name)), *_]) if (
                is_private(name) and not (isinstance(owner, ast.Name) and owner.id in ('self', 'cls'))
            ):
                yield node.lineno, f'.{name} by name'
    for found in module.imports:
        if any(is_private(part) for part in found.target.split('.')):
            yield found.line, found.target


def uses_of(modules: Sequence[Module], pattern: str) -> Iterator[tuple[Module, Use]]:
    """Yields each use of an imported name that the pattern describes in full."""
    for module in modules:
        for use in module.uses:
            if re.fullmatch(pattern, use.name):
                yield module, use


def locks_in_the_engine(modules: Sequence[Module]) -> list[str]:
    """Where a lock seems needed in the engine, two owners exist."""
    engine = [module for module in modules if within(module, ['engine'])]
    return [f'{module.name}:{use.line} {use.name}' for module, use in uses_of(engine, LOCKS)]


def stray_tasks(modules: Sequence[Module]) -> list[str]:
    """Tasks are made by the supervisor and by turns, nowhere else."""
    return [
        f'{module.name}:{call.lineno} {called(call)}'
        for module in modules
        for call in module.of_type(ast.Call)
        if isinstance(call, ast.Call) and makes_a_task(module, call)
        if not within(module, TASK_MAKERS[called(call)])
    ]


def makes_a_task(module: Module, call: ast.Call) -> bool:
    """Whether a call starts a coroutine: of asyncio, a loop or a group; a function of ours may have the same name."""
    if called(call) not in TASK_MAKERS:
        return False
    name = module.resolve(call.func)
    return name.startswith('asyncio.') if name or isinstance(call.func, ast.Name) else True


def ambient_reads(modules: Sequence[Module]) -> list[str]:
    """Time, identity and environment are arguments."""
    return [
        f'{module.name}:{use.line} {use.name}'
        for pattern, homes in HOMES.items()
        for module, use in uses_of(modules, pattern)
        if not within(module, homes)
    ]


def impure_core(modules: Sequence[Module]) -> list[str]:
    """The core decides; it neither waits nor logs."""
    core = [module for module in modules if within(module, ['core'])]
    waits = [
        f'{module.name}:{getattr(node, "lineno", 0)} {type(node).__name__}'
        for module in core
        for node in module.of_type(ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    ]
    imports = [
        f'{module.name}:{found.line} imports {found.target}'
        for module in core
        for found in module.imports
        if found.target.partition('.')[0] in ('asyncio', 'anyio', 'logging')
    ]
    return waits + imports


def folders_with_code(modules: Sequence[Module]) -> list[str]:
    """A folder's `__init__` holds a docstring and nothing else."""
    return [
        f'{module.name} holds code'
        for module in modules
        if module.is_folder and not within(module, FOLDERS_WITH_CODE)
        if not (len(module.tree.body) == 1 and ast.get_docstring(module.tree))
    ]


def denied_words(modules: Sequence[Module]) -> list[str]:
    """What is not done is not left in the source."""
    pattern = re.compile(rf'\b({"|".join(DENIED_WORDS)})\b')
    return [
        f'{module.name}:{number} {found[0]}'
        for module in modules
        for number, line in enumerate(module.text.splitlines(), 1)
        if (found := pattern.search(line))
    ]


def sleeps(modules: Sequence[Module]) -> list[str]:
    """Tests wait for what they want to see; `sleep(0)` only lets others run."""
    return [
        f'{module.name}:{use.line} {use.name}'
        for module in modules
        for use in module.uses
        if use.name in SLEEPS and use.line not in zero_sleeps(module)
    ]


def zero_sleeps(module: Module) -> set[int]:
    """The lines on which somebody sleeps for no time."""
    return {
        call.lineno
        for call in module.of_type(ast.Call)
        if isinstance(call, ast.Call) and called(call) == 'sleep' and [ast.unparse(arg) for arg in call.args] == ['0']
    }
