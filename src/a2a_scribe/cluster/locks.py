"""Locks that show at once that a process is gone: the operating system frees them, however it died.

Each node of a database that is a file holds the lock of a file of its own beside it. A lock that is free says that its
node is dead; a file that is missing says nothing, because not every node can make one.
"""

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from a2a_scribe.protocol.types import NodeId

if sys.platform != 'win32':
    import fcntl

logger = logging.getLogger(__name__)

CAN_LOCK: Final = sys.platform != 'win32'
"""Elsewhere nodes are known to be dead by their silence alone."""


class NodeLocks:
    """The lock files of one database."""

    def __init__(self, directory: Path | None) -> None:
        """Takes where the files are, `None` where there can be none."""
        self._directory = directory if CAN_LOCK else None
        self._held: dict[NodeId, int] = {}

    def take(self, node_id: NodeId) -> None:
        """Holds the lock of a node of this process from now on, if that is possible."""
        if self._directory is None:
            return
        try:
            self._directory.mkdir(exist_ok=True)
            file = os.open(self._directory / node_id, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _lock(file)
        except OSError as error:
            logger.warning('No lock file in %s: %s; a crash is noticed later', self._directory, error.strerror)
            self._directory = None
        else:
            self._held[node_id] = file

    def drop(self, node_id: NodeId) -> None:
        """Gives the lock of a node of this process back."""
        file = self._held.pop(node_id, None)
        if file is not None:
            self.clear(node_id)
            os.close(file)

    def is_free(self, node_id: NodeId) -> bool:
        """Whether a node's lock is there and nobody holds it: its process is gone."""
        if self._directory is None or node_id in self._held:
            return False
        try:
            file = os.open(self._directory / node_id, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            _lock(file)
        except OSError:
            return False
        finally:
            os.close(file)
        return True

    def clear(self, node_id: NodeId) -> None:
        """Removes the file of a node that is gone."""
        if self._directory is not None:
            with suppress(OSError):
                (self._directory / node_id).unlink()


def _lock(file: int) -> None:
    """Takes the lock of an open file. Raises: OSError, when somebody else holds it."""
    if sys.platform != 'win32':
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
