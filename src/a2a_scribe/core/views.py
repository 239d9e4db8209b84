"""What a client asked to see of a task (A2A 1.0, sections 3.1.4 and 3.2.4)."""

from a2a_scribe.protocol.types import Task


def limit_history(task: Task, length: int | None) -> Task:
    """Keeps the newest `length` messages of the history; all of them for `None`. Changes and returns `task`."""
    if length is not None:
        surplus = len(task.history) - length
        if surplus > 0:
            del task.history[:surplus]
    return task


def for_list(task: Task, *, history_length: int | None, include_artifacts: bool) -> Task:
    """Leaves out what a list does not show. Changes and returns `task`."""
    if not include_artifacts:
        task.ClearField('artifacts')
    return limit_history(task, history_length)
