"""The tree is the pipeline: the source keeps the rules, and each rule can be broken."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.architecture import rules
from tests.architecture.source import PACKAGE, Module, read_modules

ROOT = Path(__file__).resolve().parents[2]
SOURCE = read_modules(ROOT / 'src' / PACKAGE, PACKAGE)
TESTS = tuple(module for module in read_modules(ROOT / 'tests', 'tests') if '.programs.' not in module.name)
"""Without the programs that tests run as somebody else wrote them."""

Rule = Callable[[Sequence[Module]], list[str]]

SOURCE_RULES: tuple[Rule, ...] = (
    rules.unranked_modules,
    rules.upward_imports,
    rules.import_cycles,
    rules.local_imports,
    rules.private_access,
    rules.locks_in_the_engine,
    rules.stray_tasks,
    rules.ambient_reads,
    rules.impure_core,
    rules.folders_with_code,
    rules.denied_words,
)


@pytest.mark.parametrize('rule', SOURCE_RULES, ids=lambda rule: rule.__name__)
def test_the_source_keeps(rule: Rule) -> None:
    broken = rule(SOURCE)
    assert not broken, '\n'.join(broken)


def test_tests_do_not_sleep() -> None:
    broken = rules.sleeps(TESTS)
    assert not broken, '\n'.join(broken)


def test_the_rules_saw_the_source() -> None:
    seen = {rules.station(module.name) for module in SOURCE}
    known = {'', 'errors', 'protocol', 'core', 'journal.port', 'journal', 'engine', 'handler', 'app', 'server', 'cli'}
    assert known <= seen
    assert sum(len(module.imports) for module in SOURCE) > 100
    assert 'tests.architecture.test_layers' in {module.name for module in TESTS}


def sources(texts: Mapping[str, str]) -> list[Module]:
    """Modules made up for one test; the name of a folder ends in a slash."""
    return [
        Module(f'{PACKAGE}.{name.rstrip("/")}'.rstrip('.'), text, name.endswith('/')) for name, text in texts.items()
    ]


Broken = tuple[Rule, Mapping[str, str]]

BROKEN: Mapping[str, Broken] = {
    'a module without a rank': (rules.unranked_modules, {'helpers': ''}),
    'a folder without a rank': (rules.unranked_modules, {'common.text': ''}),
    'an import upward': (
        rules.upward_imports,
        {'core.views': 'from a2a_scribe.engine.turns import Turn', 'engine.turns': ''},
    ),
    'an import upward for type checkers': (
        rules.upward_imports,
        {
            'core.views': 'from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a2a_scribe.engine.turns',
            'engine.turns': '',
        },
    ),
    'an import of a neighbour of the same rank': (
        rules.upward_imports,
        {'push.sender': 'from a2a_scribe.engine import turns', 'engine.turns': '', 'engine/': ''},
    ),
    'an import of an adapter by the port': (
        rules.upward_imports,
        {'journal.port': 'from a2a_scribe.journal.memory import MemoryJournal', 'journal.memory': ''},
    ),
    'a relative import upward': (
        rules.upward_imports,
        {'core.views': 'from ..engine.turns import Turn', 'engine.turns': ''},
    ),
    'an import of the front door': (
        rules.upward_imports,
        {
            'cli.demo': 'from a2a_scribe import create_app',
            '/': 'from a2a_scribe.app import create_app',
            'app': '',
        },
    ),
    'testing on the composition root': (
        rules.upward_imports,
        {'testing.agents': 'from a2a_scribe.app import create_app', 'app': ''},
    ),
    'a cycle in a folder': (
        rules.import_cycles,
        {
            'engine.a': 'from a2a_scribe.engine import b',
            'engine.b': 'import a2a_scribe.engine.c',
            'engine.c': 'def f():\n    from a2a_scribe.engine.a import x',
        },
    ),
    'an import in a function': (
        rules.local_imports,
        {'engine.a': 'def f():\n    from a2a_scribe.engine.b import x', 'engine.b': ''},
    ),
    'an import by name': (rules.local_imports, {'engine.a': 'import_module("a2a_scribe.engine.b")'}),
    'a private attribute of another': (rules.private_access, {'engine.a': 'turn._queue.close()'}),
    'a private attribute of an own part': (rules.private_access, {'engine.a': 'self.turn._queue'}),
    'a private attribute by name': (rules.private_access, {'engine.a': 'getattr(turn, "_queue")'}),
    'a private import': (rules.private_access, {'engine.a': 'from a2a.server.events import _queue'}),
    'a private module': (rules.private_access, {'engine.a': 'from uvicorn._types import Scope'}),
    'a lock': (rules.locks_in_the_engine, {'engine.a': 'import asyncio\nlock = asyncio.Lock()'}),
    'a lock by another name': (rules.locks_in_the_engine, {'engine.a': 'from asyncio import Lock as Gate\nGate()'}),
    'a stray task': (rules.stray_tasks, {'transport.sse': 'import asyncio\nasyncio.create_task(f())'}),
    'a stray task by name': (rules.stray_tasks, {'handler.a': 'from asyncio import create_task\ncreate_task(f())'}),
    'a stray task of a group': (rules.stray_tasks, {'handler.tasks': 'group.create_task(f())'}),
    'a look at the clock': (rules.ambient_reads, {'engine.a': 'import time\ntime.monotonic()'}),
    'a look at the clock in disguise': (rules.ambient_reads, {'ids': 'from time import time as now\nnow()'}),
    'a look at the calendar': (rules.ambient_reads, {'core.a': 'import datetime as dt\ndt.datetime.now(dt.UTC)'}),
    'an id out of thin air': (rules.ambient_reads, {'handler.a': 'from uuid import uuid4\nuuid4()'}),
    'a random number': (rules.ambient_reads, {'push.a': 'import random\nrandom.random()'}),
    'the environment': (rules.ambient_reads, {'server': 'import os\nos.environ["X"]'}),
    'a coroutine in the core': (rules.impure_core, {'core.a': 'async def f(): ...'}),
    'a log line in the core': (rules.impure_core, {'core.a': 'import logging'}),
    'a folder that re-exports': (rules.folders_with_code, {'core/': '"""Rules."""\nfrom a2a_scribe.core.a import b'}),
    'unfinished work': (rules.denied_words, {'core.a': f'# {rules.DENIED_WORDS[0]}: later'}),
    'a sleep': (rules.sleeps, {'x': 'import asyncio\nawait asyncio.sleep(0.1)'}),
    'a sleep in disguise': (rules.sleeps, {'x': 'from time import sleep as wait\nwait(1)'}),
}


@pytest.mark.parametrize(('rule', 'texts'), BROKEN.values(), ids=BROKEN)
def test_a_rule_sees(rule: Rule, texts: Mapping[str, str]) -> None:
    assert len(rule(sources(texts))) == 1


FINE: Mapping[str, Broken] = {
    'lower ranks and the own folder': (
        rules.upward_imports,
        {
            'cli.demo': 'from a2a_scribe import server\nfrom a2a_scribe.cli.tables import show',
            'cli.tables': '',
            'server': 'from a2a_scribe.journal.sql.journal import SqlJournal\nimport a2a_scribe.errors',
            'journal.sql.journal': 'import a2a_scribe.journal.port\nfrom a2a_scribe.journal.sql import tables',
            'journal.sql.tables': 'import sqlalchemy',
            'journal.port': '',
            'settings': 'from a2a_scribe.errors import SettingsError',
            'errors': '',
        },
    ),
    'dunders and own private names': (
        rules.private_access,
        {'engine.a': 'self._queue\ncls._made\nx.__class__\nrow._replace(a=1)\nfrom __future__ import annotations'},
    ),
    'a lock outside the engine': (rules.locks_in_the_engine, {'journal.a': 'import asyncio\nasyncio.Lock()'}),
    'the makers of tasks': (
        rules.stray_tasks,
        {'services': 'g.create_task(f())', 'engine.turns': 'g.create_task(f())'},
    ),
    'homes': (
        rules.ambient_reads,
        {'clock': 'import time\ntime.time()', 'ids': 'import uuid\nuuid.uuid4()', 'cli.main': 'import os\nos.environ'},
    ),
    'what only looks alike': (
        rules.ambient_reads,
        {'core.a': 'import datetime, uuid\ntime.monotonic()\nuuid.UUID(x)\ndatetime.datetime.fromtimestamp(0)'},
    ),
    'a coroutine elsewhere': (rules.impure_core, {'engine.a': 'async def f(): ...', 'core.b': 'def f(): ...'}),
    'a yield to others': (rules.sleeps, {'x': 'import asyncio\nawait asyncio.sleep(0)'}),
}


@pytest.mark.parametrize(('rule', 'texts'), FINE.values(), ids=FINE)
def test_a_rule_lets_pass(rule: Rule, texts: Mapping[str, str]) -> None:
    assert rule(sources(texts)) == []
