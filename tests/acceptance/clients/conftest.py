"""The servers that all clients talk to."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack

import pytest

from tests.acceptance.clients.site import LAYOUTS, Site, serving


@pytest.fixture(scope='session')
async def sites(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mapping[str, Site]]:
    """A running server of each layout."""
    async with AsyncExitStack() as stack:
        starting = [
            stack.enter_async_context(serving(layout, tmp_path_factory.mktemp(name)))
            for name, layout in LAYOUTS.items()
        ]
        yield dict(zip(LAYOUTS, await asyncio.gather(*starting), strict=True))


@pytest.fixture(scope='session', params=list(LAYOUTS))
def site(request: pytest.FixtureRequest, sites: Mapping[str, Site]) -> Site:
    """One of them."""
    return sites[request.param]
