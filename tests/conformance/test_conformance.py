"""Every requirement of A2A on every binding: one test for each check of the table and each of its bindings."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import report
from tests.conformance.over_grpc import GrpcWire
from tests.conformance.over_http import JsonRpcWire, RestWire
from tests.conformance.site import Site
from tests.conformance.suite import CHECKS, SECTIONS
from tests.conformance.table import Check
from tests.conformance.wire import Binding, Wire

pytestmark = pytest.mark.anyio

WIRES: dict[Binding, type[Wire]] = {kind.binding: kind for kind in (JsonRpcWire, RestWire, GrpcWire)}
DEADLINE = 10.0
"""Seconds after which a check that hangs fails."""


@pytest.fixture(scope='module')
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """The servers that checks share."""
    folder: Path = tmp_path_factory.mktemp('conformance')
    async with Site(folder) as opened:
        yield opened


def cases() -> Iterator[Any]:
    for check in CHECKS:
        for binding in check.bindings:
            yield pytest.param(check, binding, id=check.id_on(binding))


def test_every_line_has_a_check_or_a_reason_for_none() -> None:
    lines = [line for section in SECTIONS for line in section.lines]
    assert {section.number for section in SECTIONS} == set(range(1, 17))
    assert [line for line in lines if not line.checks and not (line.business and line.why)] == []
    ids = [check.id_on(binding) for check in CHECKS for binding in check.bindings]
    assert [each for each in ids if ids.count(each) > 1] == []


def test_the_page_is_as_the_table_makes_it() -> None:
    assert report.PAGE.read_text(encoding='utf-8') == report.page(), 'python -m tests.conformance.report writes it anew'


@pytest.mark.parametrize(('check', 'binding'), list(cases()))
async def test_requirement(check: Check, binding: Binding, site: Site) -> None:
    """Tries one check on one binding."""
    async with asyncio.timeout(DEADLINE):
        await check.run(WIRES[binding](await site.service()), site)
