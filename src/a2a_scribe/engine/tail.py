"""The newest records of one live task, kept for its readers.

Only what is durable is given out, and only what was durable before the last commit is dropped: a reader that was just
woken finds here what it was woken for, and older records are in the journal.
"""

from a2a_scribe.core.records import Record, within
from a2a_scribe.settings import Settings


class Tail:
    """Records without gaps, up to the last one admitted."""

    __slots__ = ('_bytes', '_records', '_settings')

    def __init__(self, settings: Settings) -> None:
        """Starts empty; the settings bound what is kept of the past."""
        self._settings = settings
        self._records: list[Record] = []
        self._bytes = 0

    def keep(self, record: Record) -> None:
        """Adds the next record, durable or not."""
        self._records.append(record)
        self._bytes += len(record.body)

    def after(self, position: int, durable_seq: int, limit: int, max_bytes: int) -> list[Record] | None:
        """Returns records after `position` up to `durable_seq`, `None` when the tail does not reach back so far.

        They are `limit` at most, with at most `max_bytes` of bodies together; the first is given whatever its size.
        """
        if position >= durable_seq:
            return []
        if not self._records or self._records[0].seq > position + 1:
            return None
        start = position + 1 - self._records[0].seq
        return within(self._records[start : start + min(limit, durable_seq - position)], max_bytes)

    def trim(self, durable_seq: int) -> None:
        """Drops what is surplus, up to `durable_seq`, which is from the commit before the last."""
        surplus = 0
        for record in self._records:
            too_many = len(self._records) - surplus > self._settings.tail_records
            if record.seq > durable_seq or not (too_many or self._bytes > self._settings.tail_bytes):
                break
            self._bytes -= len(record.body)
            surplus += 1
        del self._records[:surplus]

    def forget_after(self, durable_seq: int) -> None:
        """Drops what will never be durable."""
        while self._records and self._records[-1].seq > durable_seq:
            self._bytes -= len(self._records.pop().body)
