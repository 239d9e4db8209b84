"""The client of a2a-sdk on three bindings."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.acceptance.clients import python_script
from tests.acceptance.clients.python_client import BINDINGS, Caller, calling
from tests.acceptance.clients.scenarios import SCENARIOS
from tests.acceptance.clients.site import LONG_ENOUGH, Site

pytestmark = pytest.mark.anyio


@pytest.fixture(params=BINDINGS)
async def caller(request: pytest.FixtureRequest, site: Site) -> AsyncIterator[Caller]:
    async with calling(site, request.param) as connected:
        yield connected


@pytest.mark.parametrize('scenario', SCENARIOS)
async def test_python(scenario: str, caller: Caller) -> None:
    async with asyncio.timeout(LONG_ENOUGH):
        await getattr(python_script, scenario)(caller)
