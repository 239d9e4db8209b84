"""A small file that operators change while the server runs. It is looked at once a second, and read when it differs."""

from pathlib import Path
from typing import Final

from a2a_scribe.clock import Clock

INTERVAL: Final = 1.0
"""Seconds between two looks at the file."""
SETTLED: Final = 2_000_000_000
"""Nanoseconds after which a change must show in the time of a file; until then its content is compared."""


class WatchedFile:
    """One file."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Takes where it is."""
        self.path = path
        self._clock = clock
        self._looked_at = -INTERVAL
        self._seen: tuple[int, int, int] | None = None
        self._content: bytes | None = None
        self._is_readable = True

    def read(self) -> bytes:
        """Returns what is in it now. Raises: OSError."""
        self._looked_at = self._clock.monotonic()
        found = self.path.stat()
        is_settled = self._clock.now() * 1000 - found.st_mtime_ns > SETTLED
        self._content = self.path.read_bytes()
        self._seen = (found.st_mtime_ns, found.st_size, found.st_ino) if is_settled else None
        return self._content

    def news(self) -> bytes | None:
        """Returns what is in it, `None` if that is known, or if it was looked at just now.

        Raises:
            OSError: It cannot be read any more; only once until it can.
        """
        if self._clock.monotonic() - self._looked_at < INTERVAL:
            return None
        self._looked_at = self._clock.monotonic()
        try:
            content = self._changed()
        except OSError:
            self._seen = None
            was_readable, self._is_readable = self._is_readable, False
            if was_readable:
                raise
            return None
        self._is_readable = True
        return content

    def _changed(self) -> bytes | None:
        found = self.path.stat()
        if (found.st_mtime_ns, found.st_size, found.st_ino) == self._seen:
            return None
        known = self._content
        content = self.read()
        return None if content == known else content
