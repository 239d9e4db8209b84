"""Two processes on one journal: they share what is stored, and a clock."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from a2a_scribe import Settings
from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.testing.agents import ScriptedAgent
from a2a_scribe.testing.clock import FakeClock
from a2a_scribe.testing.journals import TroubledJournal
from tests.component.kit import Site, running

PATIENT = Settings(journal_patience=3600.0)


@asynccontextmanager
async def two_sites(
    owner: ScriptedAgent, asker: ScriptedAgent | None = None, settings: Settings = PATIENT, **given: Any
) -> AsyncIterator[tuple[Site, Site]]:
    """A process that works on tasks, and one that does not; each knows that the other lives."""
    memory, clock = MemoryJournal(), FakeClock()
    async with AsyncExitStack() as stack:
        sites = []
        for agent in (owner, asker or ScriptedAgent()):
            journal = TroubledJournal(memory)
            opening = running(agent, journal=journal, clock=clock, settings=settings, checked=False, **given)
            sites.append(await stack.enter_async_context(opening))
        for site in sites:
            await site.engine.start()
        yield sites[0], sites[1]


async def pass_time(site: Site, seconds: int, wanted: 'asyncio.Task[Any] | None' = None) -> None:
    for _ in range(seconds):
        if wanted is not None and wanted.done():
            return
        await site.advance(1.0)
