"""What an operator sees of a task's row."""

from typing import Any

from a2a_scribe.cli.operator.databases import FOUND, complain
from a2a_scribe.cli.operator.output import state_text, time_text
from a2a_scribe.journal.tasks import TaskRow


def no_task(task_id: str) -> int:
    """Says that there is no such task; returns the exit code."""
    return complain(f'there is no task {task_id!r}', FOUND)


def row_values(row: TaskRow) -> dict[str, Any]:
    """Returns a row as plain values."""
    return {
        'task': row.task_id,
        'state': state_text(row.state),
        'status_time': time_text(row.status_time),
        'created_at': time_text(row.created_at),
        'agent': row.scope.agent,
        'owner': row.scope.owner,
        'tenant': row.scope.tenant,
        'context': row.context_id,
        'records': row.seq,
        'size': row.size,
        'node': row.node,
        'open_turn': row.open_turn,
        'attempt': row.attempt,
        'claims': row.epoch,
    }
