"""Tasks that ended long ago leave the journal, where the settings ask for it."""

import logging

import pytest

from a2a_scribe import Settings
from a2a_scribe.journal.tasks import Ended
from a2a_scribe.protocol.states import COMPLETED, FAILED, INPUT_REQUIRED, REJECTED
from a2a_scribe.protocol.types import TaskState
from a2a_scribe.testing.agents import ScriptedAgent, emit, status, wait
from tests.component.kit import Site, new_site, running, until

pytestmark = pytest.mark.anyio

ENDS = (COMPLETED, FAILED, REJECTED, INPUT_REQUIRED)
HOUR = Settings(retain_completed=3600.0, retain_failed=7200.0, retention_interval=10.0)


async def states(site: Site) -> set[TaskState]:
    rows = [site.memory.row(task_id) for task_id in site.task_ids]
    return {row.state for row in rows if row is not None}


async def test_tasks_are_deleted_when_they_have_been_kept_for_long_enough() -> None:
    """Each state has its own age, and what has none is kept."""
    async with running(ScriptedAgent(*([emit(status(state))] for state in ENDS)), settings=HOUR, checked=False) as site:
        for _ in ENDS:
            await site.send()
        await site.advance(3590)
        assert await states(site) == {COMPLETED, FAILED, REJECTED, INPUT_REQUIRED}
        await site.advance(20)
        assert await states(site) == {FAILED, REJECTED, INPUT_REQUIRED}
        await site.advance(3600)
        await site.advance(20)
        assert await states(site) == {REJECTED, INPUT_REQUIRED}
        await site.advance(10**7)
        await site.advance(20)
        assert await states(site) == {REJECTED, INPUT_REQUIRED}


async def test_nothing_is_deleted_by_default() -> None:
    async with running(ScriptedAgent([emit(status(COMPLETED))])) as site:
        await site.send()
        timers = site.clock.timers
        await site.advance(10**9)
        assert await states(site) == {COMPLETED}
        assert site.clock.timers == timers


async def test_a_task_that_is_at_work_still_stays() -> None:
    agent = ScriptedAgent([emit(status(COMPLETED)), wait('a long farewell')])
    async with running(agent, settings=HOUR, checked=False) as site:
        await site.send()
        await site.advance(4000)
        assert await states(site) == {COMPLETED}
        agent.open_all()
        await site.left_memory()
        await site.advance(10)
        assert await states(site) == set()


async def test_tasks_of_other_agents_stay() -> None:
    async with running(ScriptedAgent([emit(status(COMPLETED))]), checked=False) as site:
        await site.send()
        async with running(
            ScriptedAgent([emit(status(COMPLETED))]),
            journal=site.journal,
            clock=site.clock,
            settings=HOUR,
            name='another',
            checked=False,
        ) as other:
            await other.send()
            await site.advance(4000)
            rows = [site.memory.row(task_id) for task_id in site.task_ids]
            assert [row.scope.agent for row in rows if row is not None] == ['scripted']


async def test_it_goes_on_when_the_journal_was_away(caplog: pytest.LogCaptureFixture) -> None:
    async with running(ScriptedAgent([emit(status(COMPLETED))]), settings=HOUR, checked=False) as site:
        await site.send()
        site.journal.is_away = True
        with caplog.at_level(logging.WARNING):
            await site.advance(4000)
        assert 'could not be deleted now' in caplog.text
        assert await states(site) == {COMPLETED}
        site.journal.is_away = False
        await site.advance(10)
        assert await states(site) == set()


async def test_others_have_a_rest_between_two_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is as long as the transaction was."""
    site = new_site(ScriptedAgent([emit(status(COMPLETED))]), settings=HOUR)
    await site.handler.start()
    deletions: list[float] = []

    async def delete_ended(ended: Ended) -> list[str]:
        deletions.append(site.clock.monotonic())
        site.clock.skip(2.0)
        return ['some task'] if len(deletions) < 3 else []

    monkeypatch.setattr(site.memory, 'delete_ended', delete_ended)
    await site.advance(10)
    await until(lambda: len(deletions) == 1)
    await site.advance(1.9)
    assert len(deletions) == 1
    await site.advance(0.2)
    assert len(deletions) == 2
    await site.close()
