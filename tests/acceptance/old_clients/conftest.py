"""The server that clients of version 0.3 talk to."""

from collections.abc import AsyncIterator

import pytest

from tests.acceptance.clients.site import LAYOUTS, Site, serving


@pytest.fixture(scope='session')
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with serving(LAYOUTS['prefixed'], tmp_path_factory.mktemp('old'), '--with-0.3') as running:
        yield running
