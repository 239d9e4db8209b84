"""What the SQL journal reads for those who may not see a task: no more than for a task that does not exist."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from a2a_scribe.journal.sql import rows
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.testing.contract.scenes import BOB, OTHER_AGENT, OTHER_TENANT, born
from a2a_scribe.testing.journal_driver import ALICE, ScriptedNode

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engine(sqlite_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(sqlite_url)
    yield engine
    await engine.dispose()


@pytest.mark.parametrize('stranger', [BOB, OTHER_AGENT, OTHER_TENANT], ids=['owner', 'agent', 'tenant'])
async def test_nothing_of_a_strangers_task_is_read(
    engine: AsyncEngine, stranger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = SqlJournal(engine)
    await journal.open()
    node = await ScriptedNode(journal, 'node').register()
    await born(node, 'live')
    await born(node, 'parked', parked=True, snapshot=True)
    assert await journal.read_task('none', stranger) is None, 'the connection for reading is there'
    asked: list[str] = []
    read: list[Any] = []
    make_row = rows.task_row
    event.listen(engine.sync_engine, 'before_cursor_execute', lambda *given: asked.append(given[2]))

    def make_and_note(columns: Any) -> Any:
        read.append(columns)
        return make_row(columns)

    monkeypatch.setattr(rows, 'task_row', make_and_note)
    seen = []
    for task_id in ('live', 'parked', 'none'):
        asked.clear()
        assert await journal.read_task(task_id, stranger) is None
        seen.append([*asked])
    assert seen[0] == seen[1] == seen[2]
    assert read == []
    for task_id in ('live', 'parked'):
        assert await journal.read_task(task_id, ALICE) is not None
    assert len(read) == 2
    await journal.close()
