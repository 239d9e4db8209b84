"""What becomes of tasks whose claim was lost: whoever looks after them does not undo what others did meanwhile."""

import asyncio

import pytest
from a2a.utils.errors import InternalError

from a2a_scribe import Settings
from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.results import Receipt
from a2a_scribe.journal.tasks import Caller, StoredTask
from a2a_scribe.journal.writes import Claim, Group
from a2a_scribe.protocol.states import CANCELED, INPUT_REQUIRED
from a2a_scribe.testing.agents import ScriptedAgent, emit, status, wait
from a2a_scribe.testing.journals import TroubledJournal
from tests.component.kit import running, settle, until

pytestmark = pytest.mark.anyio


class SlowReading(TroubledJournal):
    """The first reading after a claim has found its answer long before it gives it."""

    def __init__(self) -> None:
        super().__init__(MemoryJournal())
        self.goes_on = asyncio.Event()
        self.is_reading = False
        self._is_next = False

    async def commit(self, group: Group) -> Receipt:
        receipt = await super().commit(group)
        self._is_next = any(isinstance(write, Claim) for write in group.writes)
        return receipt

    async def read_task(self, task_id: str, caller: Caller) -> StoredTask | None:
        stored = await super().read_task(task_id, caller)
        if self._is_next:
            self._is_next, self.is_reading = False, True
            await self.goes_on.wait()
        return stored


async def test_a_task_that_was_claimed_and_ended_during_the_look_at_a_lost_claim_stays_as_it_is() -> None:
    journal = SlowReading()
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED))], on_cancel=[wait('gate')])
    async with running(agent, journal=journal, settings=Settings(journal_patience=1.0)) as site:
        parked = await site.send()
        await site.left_memory()
        journal.fail()
        lost = site.begin_cancel(parked.id)
        for _ in range(8):
            await site.advance(0.5)
        with pytest.raises(InternalError):
            await lost
        journal.heal()
        canceling = site.begin_cancel(parked.id)
        await until(lambda: journal.is_reading)
        agent.open('gate')
        assert (await canceling).status.state == CANCELED
        await site.left_memory()
        journal.goes_on.set()
        await settle()
        await site.advance(5.0)
        assert (await site.get(parked.id)).status.state == CANCELED
