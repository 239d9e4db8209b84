"""docs/conformance.md, made from the table: `python -m tests.conformance.report` writes it anew."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.conformance.suite import CHECKS, SECTIONS
from tests.conformance.table import Business, Check, Line, Section
from tests.conformance.wire import ALL

PAGE: Final = Path(__file__).resolve().parents[2] / 'docs' / 'conformance.md'
HEAD: Final = """# Conformance

What A2A 1.0.1 asks of servers, and the tests that hold this one to it. The suite knows nothing of the server but its
sockets: each test runs from one table over JSON-RPC, HTTP+JSON and gRPC, or over those that it is about.

Run them with `python -m pytest tests/conformance`; `-k` takes a part of an id. The id of a test is the section of the
specification, what is tried, and the binding: `3.1.1-answer-is-a-task-grpc`.

"Not a2a-sdk" marks what a2a-sdk 1.3.0 was seen to do otherwise.
"""
WHOSE: Final = {Business.AGENT: "the agent's business", Business.DOCUMENT: 'a matter of documentation'}


def page() -> str:
    """The whole page."""
    return '\n'.join([HEAD, *_summary(), *(row for section in SECTIONS for row in _rows(section))]) + '\n'


def _summary() -> Iterator[str]:
    lines = [line for section in SECTIONS for line in section.lines]
    tests = sum(len(check.bindings) for check in CHECKS)
    yield f'{len(lines)} requirements, {len(CHECKS)} things that are tried, {tests} tests.'


def _rows(section: Section) -> Iterator[str]:
    yield f'\n## {section.number}. {section.title}\n'
    yield '| | where | requirement | tests |'
    yield '| --- | --- | --- | --- |'
    yield from (_row(line) for line in section.lines)


def _row(line: Line) -> str:
    mark = ' (not a2a-sdk)' if line.sdk_fails else ''
    text = line.text.replace('|', '\\|')
    return f'| {line.level} | {line.spec} | {text}{mark} | {_tests(line)} |'


def _tests(line: Line) -> str:
    if line.business is not None:
        return f'{WHOSE[line.business]}: {line.why}'
    return '<br>'.join(_test(check) for check in line.checks)


def _test(check: Check) -> str:
    bindings = '' if tuple(check.bindings) == ALL else f' ({", ".join(check.bindings)})'
    return f'`{check.spec}-{check.name}`{bindings}'


if __name__ == '__main__':
    PAGE.write_text(page(), encoding='utf-8')
