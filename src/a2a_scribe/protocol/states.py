"""Task states and the moves between them (A2A 1.0, section 4.1.3), as tables.

The table is the only place that says what is terminal; the property tests run random sequences against it.
"""

from typing import Final

from a2a_scribe.protocol.types import TaskState

UNSPECIFIED: Final = TaskState.TASK_STATE_UNSPECIFIED
SUBMITTED: Final = TaskState.TASK_STATE_SUBMITTED
WORKING: Final = TaskState.TASK_STATE_WORKING
COMPLETED: Final = TaskState.TASK_STATE_COMPLETED
FAILED: Final = TaskState.TASK_STATE_FAILED
CANCELED: Final = TaskState.TASK_STATE_CANCELED
INPUT_REQUIRED: Final = TaskState.TASK_STATE_INPUT_REQUIRED
REJECTED: Final = TaskState.TASK_STATE_REJECTED
AUTH_REQUIRED: Final = TaskState.TASK_STATE_AUTH_REQUIRED

ACTIVE: Final = frozenset({SUBMITTED, WORKING})
"""The agent has work to do."""
INTERRUPTED: Final = frozenset({INPUT_REQUIRED, AUTH_REQUIRED})
"""The agent waits for somebody."""
TERMINAL: Final = frozenset({COMPLETED, FAILED, CANCELED, REJECTED})
"""Nothing follows."""

KNOWN: Final = ACTIVE | INTERRUPTED | TERMINAL

MOVES: Final = {state: frozenset() if state in TERMINAL else KNOWN for state in KNOWN}
"""From a state to those that may be recorded after it. A state may be recorded again: each carries its own message."""


def name_of(state: TaskState) -> str:
    """Returns the protocol's name of a state, also of one that this version does not know."""
    return TaskState.Name(state) if state in KNOWN or state == UNSPECIFIED else f'state {int(state)}'
