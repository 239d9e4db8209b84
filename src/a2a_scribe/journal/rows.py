"""From tasks to rows: the columns that a whole task stands for. Pure."""

from a2a_scribe.core.records import VERSION
from a2a_scribe.journal.tasks import TaskRow
from a2a_scribe.protocol.types import Scope, Task, Timestamp


def status_micros(timestamp: Timestamp) -> int:
    """Returns a timestamp as microseconds since the epoch, cut like the times that are recorded."""
    return timestamp.seconds * 1_000_000 + timestamp.nanos // 1000


def row_of_task(task: Task, scope: Scope, before: TaskRow | None, now: int) -> TaskRow:
    """Returns the row after the record that stores `task` from outside a turn, which follows `before`."""
    given = task.status.HasField('timestamp')
    return TaskRow(
        task_id=task.id,
        scope=scope,
        context_id=task.context_id,
        state=task.status.state,
        status_time=status_micros(task.status.timestamp) if given else now,
        created_at=now if before is None else before.created_at,
        seq=1 if before is None else before.seq + 1,
        epoch=0 if before is None else before.epoch,
        attempt=0 if before is None else before.attempt,
        size=len(VERSION) + task.ByteSize() + (0 if before is None else before.size),
        first=1 if before is None else before.first,
    )
