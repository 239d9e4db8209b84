"""The end of the process: Python waits for every thread that is not a daemon, and one may be blocked for ever."""

import logging
import os
import sys
import threading

logger = logging.getLogger(__name__)


def leave_within(seconds: float) -> None:
    """Has the process end with code 0 after `seconds`, if threads keep it that long from ending by itself."""
    if _others():
        threading.Thread(target=_leave, args=(seconds,), daemon=True).start()


def _others() -> list[str]:
    """Returns the names of the threads that Python would wait for."""
    return sorted(
        thread.name for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()
    )


def _leave(seconds: float) -> None:
    threading.Event().wait(seconds)
    logger.warning('The process ends without threads that do not: %s', ', '.join(_others()))
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)
