"""What tests look for in a journal."""

from a2a_scribe.core.projection import fold
from a2a_scribe.core.records import Record
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.tasks import StoredTask
from a2a_scribe.testing.journal_driver import ScriptedTask

NO_BOUND = 2**40
"""More bytes than a test writes."""


async def read(journal: Journal, task: ScriptedTask) -> StoredTask:
    """Returns a task that must be there."""
    stored = await journal.read_task(task.id, task.caller)
    assert stored is not None
    return stored


async def all_records(journal: Journal, task_id: str) -> list[Record]:
    """Returns all records of a task."""
    return await journal.read_records(task_id, 0, limit=100_000, max_bytes=NO_BOUND)


async def check(journal: Journal, task: ScriptedTask) -> None:
    """Asserts that the journal holds the task as it stands: row, records, and what is folded from them."""
    stored, records = await read(journal, task), await all_records(journal, task.id)
    assert stored.row == task.row
    assert records == task.records
    assert stored.projection.to_task() == task.projection.to_task()
    folded = fold(None, records)
    assert folded is not None
    assert folded.to_task() == stored.projection.to_task()
    assert await journal.has_task(task.id, task.caller)


async def check_absent(journal: Journal, task: ScriptedTask) -> None:
    """Asserts that nothing of the task is there."""
    assert await journal.read_task(task.id, task.caller) is None
    assert not await journal.has_task(task.id, task.caller)
    assert await all_records(journal, task.id) == []
    assert await journal.read_configs(task.id) == []
