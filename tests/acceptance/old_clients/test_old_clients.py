"""The clients of a2a-sdk 0.3 and of @a2a-js/sdk 0.3 on three bindings.

That of a2a-sdk needs an environment of its own, whose Python `A2A_OLD_PYTHON` names; `make sdk-versions` makes one.
"""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.acceptance.clients.site import LONG_ENOUGH, Site
from tests.acceptance.clients.tools import find_node, install_packages, missing
from tests.acceptance.old_clients.scenarios import SCENARIOS

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
BINDINGS = ('JSONRPC', 'HTTP+JSON', 'GRPC')
PYTHON = 'A2A_OLD_PYTHON'
Outcomes = Mapping[str, str | None]
"""What was wrong, by scenarios."""


async def run(command: Sequence[str], folder: Path, site: Site, binding: str) -> Outcomes:
    """Runs a script to its end, and returns what it printed."""
    process = await asyncio.create_subprocess_exec(
        *command, site.url, binding, cwd=folder, env=environment(), stdout=asyncio.subprocess.PIPE
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), 3 * LONG_ENOUGH)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    reports = map(json.loads, printed.decode().splitlines())
    return {report['name']: report['error'] for report in reports}


def environment() -> dict[str, str]:
    """That of this process, without what would bring this project into another Python."""
    kept = {name: value for name, value in os.environ.items() if name != 'PYTHONPATH'}
    return {**kept, 'no_proxy': '127.0.0.1'}


@pytest.fixture(scope='session', params=BINDINGS)
async def in_javascript(
    request: pytest.FixtureRequest, site: Site, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Outcomes:
    node = find_node()
    cache: pytest.Cache | None = getattr(pytestconfig, 'cache', None)  # a plugin that can be off
    folder = tmp_path_factory.mktemp('javascript') if cache is None else cache.mkdir('javascript')
    home = install_packages(node, folder, HERE / 'javascript')
    return await run([node.command, 'script.mjs'], home, site, request.param)


@pytest.fixture(scope='session', params=BINDINGS)
async def in_python(request: pytest.FixtureRequest, site: Site) -> Outcomes:
    python = os.environ.get(PYTHON) or missing(f'{PYTHON} names no Python with a2a-sdk 0.3')
    return await run([python, str(HERE / 'python_script.py')], HERE, site, request.param)


@pytest.mark.parametrize('scenario', SCENARIOS)
async def test_old_javascript(scenario: str, in_javascript: Outcomes) -> None:
    check(scenario, in_javascript)


@pytest.mark.sdk_versions
@pytest.mark.parametrize('scenario', SCENARIOS)
async def test_old_python(scenario: str, in_python: Outcomes) -> None:
    check(scenario, in_python)


def check(scenario: str, outcomes: Outcomes) -> None:
    error = outcomes.get(scenario, 'the script did not come to this scenario')
    assert error is None, error
    assert set(outcomes) <= set(SCENARIOS)
