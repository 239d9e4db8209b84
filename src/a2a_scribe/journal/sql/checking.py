"""Checks a whole database, task by task, while servers may be working on it.

A task that seems wrong is looked at again until it has not moved meanwhile, so that one that moves is no false alarm.
Row and snapshot are read in one statement, and records up to the row's last one never change.
"""

from collections.abc import AsyncIterator, Callable

from a2a_scribe.core.auditing import TaskAudit, audit_claim
from a2a_scribe.core.violations import MOVING, Rule, Violation
from a2a_scribe.journal.sql.inspecting import Inspector, TaskLook
from a2a_scribe.protocol.types import NodeId

PAGE = 500
"""Tasks whose ids are read at once."""

PORTION_BYTES, PORTION_RECORDS = 4_000_000, 1_000
"""What is read of a task at once, about."""

LOOKS = 10
"""How often a task that moves is looked at before only what no movement explains is reported."""


IsGone = Callable[[NodeId], bool]
"""Whether the process of a node is known to have ended."""


def _unknown(node_id: NodeId) -> bool:
    """Where nothing tells of processes."""
    return False


async def checked_tasks(inspector: Inspector, is_gone: IsGone = _unknown) -> AsyncIterator[list[Violation]]:
    """Yields what is wrong with each task, in the order of ids. Raises: JournalUnavailableError."""
    after = ''
    while page := await inspector.ids_after(after, PAGE):
        for task_id in page:
            yield await check_task(inspector, task_id, is_gone)
        after = page[-1]


async def check_task(inspector: Inspector, task_id: str, is_gone: IsGone = _unknown) -> list[Violation]:
    """Returns what is wrong with a task; nothing if there is none. Raises: JournalUnavailableError."""
    look = await inspector.look_at(task_id)
    found: list[Violation] = []
    for _ in range(LOOKS):
        if look is None:
            return []
        found = await _audit(inspector, look, is_gone)
        again = await inspector.look_at(task_id) if found else look
        if _has_stood_still(look, again):
            return found
        look = again
    return [each for each in found if each.rule not in MOVING]


def _has_stood_still(look: TaskLook, again: TaskLook | None) -> bool:
    """Whether nothing has changed that the task is judged by: its owner's commits have not."""
    if again is None:
        return False
    one, other = ((each.row, each.snapshot_seq, each.inbox, _owner_state(each)) for each in (look, again))
    return one == other


def _owner_state(look: TaskLook) -> str | None:
    return None if look.owner is None else look.owner.state


async def _audit(inspector: Inspector, look: TaskLook, is_gone: IsGone) -> list[Violation]:
    row = look.row
    audit = TaskAudit(row.task_id, row, look.snapshot, look.snapshot_seq)
    average = row.size // max(row.seq, 1)
    limit = max(1, min(PORTION_RECORDS, PORTION_BYTES // max(average, 1)))
    after = 0
    while portion := await inspector.records(row.task_id, after, limit):
        for record in portion:
            audit.see(record)
        after = portion[-1].seq
        if after > row.seq:
            break
    left = row.node is not None and is_gone(row.node)
    return [*audit.finish(), *audit_claim(row, len(look.inbox), _owner_state(look), is_gone=left)]


async def check_strays(inspector: Inspector) -> AsyncIterator[Violation]:
    """Yields what belongs to no task. Raises: JournalUnavailableError."""
    async for table, task_id in inspector.strays():
        if await inspector.look_at(task_id) is None:
            yield Violation(Rule.STRAY, task_id, None, f'the table of {table} knows the task, which is not there')
