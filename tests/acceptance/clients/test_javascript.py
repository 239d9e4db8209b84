"""The client of @a2a-js/sdk on three bindings."""

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.acceptance.clients.python_client import BINDINGS
from tests.acceptance.clients.scenarios import SCENARIOS
from tests.acceptance.clients.site import LONG_ENOUGH, Site
from tests.acceptance.clients.tools import Node, find_node, install_packages

pytestmark = pytest.mark.anyio

Outcomes = Mapping[str, str | None]
"""What was wrong, by scenarios."""


@pytest.fixture(scope='session')
def node() -> Node:
    return find_node()


@pytest.fixture(scope='session')
def home(node: Node, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where the script can run."""
    cache: pytest.Cache | None = getattr(pytestconfig, 'cache', None)  # a plugin that can be off
    folder = tmp_path_factory.mktemp('javascript') if cache is None else cache.mkdir('javascript')
    return install_packages(node, folder)


@pytest.fixture(scope='session', params=BINDINGS)
async def outcomes(request: pytest.FixtureRequest, node: Node, home: Path, site: Site) -> Outcomes:
    """One run of the script."""
    process = await asyncio.create_subprocess_exec(
        node.command,
        'script.mjs',
        site.url,
        request.param,
        cwd=home,
        env={**os.environ, 'no_proxy': '127.0.0.1'},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), 3 * LONG_ENOUGH)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    reports = map(json.loads, printed.decode().splitlines())
    return {report['name']: report['error'] for report in reports}


@pytest.mark.parametrize('scenario', SCENARIOS)
async def test_javascript(scenario: str, outcomes: Outcomes) -> None:
    error = outcomes.get(scenario, 'the script did not come to this scenario')
    assert error is None, error


async def test_javascript_knows_no_other_scenarios(outcomes: Outcomes) -> None:
    assert set(outcomes) <= set(SCENARIOS)
