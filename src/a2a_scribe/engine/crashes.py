"""The policy for turns whose server stops: which of them are executed again elsewhere."""

import logging

from a2a_scribe.engine.orders import AfterCrash, CrashedTurn
from a2a_scribe.protocol.types import Message, Task
from a2a_scribe.settings import CrashPolicy, Settings

logger = logging.getLogger(__name__)


def policy_for(
    settings: Settings, after_crash: AfterCrash | None, task: Task, message: Message, attempt: int
) -> CrashPolicy:
    """Returns what becomes of an attempt to answer `message`, by the user's function if there is one."""
    if attempt >= settings.crash_attempts:
        return 'fail'
    if after_crash is None:
        return settings.after_crash
    try:
        return after_crash(CrashedTurn(task, message, attempt))
    except Exception:
        logger.exception('after_crash raised for task %s: the task fails', task.id)
        return 'fail'
