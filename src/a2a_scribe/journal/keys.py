"""Keys of messages that live in memory: for the reference adapter, and for users' own stores, which keep none."""

from collections import defaultdict
from itertools import islice

from a2a_scribe.journal.results import Known
from a2a_scribe.journal.writes import Accept, Append, Key
from a2a_scribe.protocol.types import Scope

MOST_KEYS = 1_000
"""Keys that are deleted at once."""


class MemoryKeys:
    """Which key belongs to which message; no method awaits."""

    def __init__(self) -> None:
        """Starts without keys."""
        self._taken: dict[tuple[Scope, str], tuple[Key, str]] = {}
        self._of_task: defaultdict[str, set[tuple[Scope, str]]] = defaultdict(set)

    def take(self, message: Append | Accept, now: int) -> Known | None:
        """Takes a message's key, if it has one; returns whose it is if it is another's. Again is harmless."""
        key = message.key
        if key is None:
            return None
        other = self.holder(message, now)
        if other is None:
            place, task_id = (message.caller.scope, key.name), _task_id(message)
            if place in self._taken:
                self._drop(place)
            self._taken[place] = key, task_id
            self._of_task[task_id].add(place)
        return other

    def holder(self, message: Append | Accept, now: int) -> Known | None:
        """Returns whose the key of a message is, if it has one that is not free."""
        key = message.key
        known, task_id = (None, '') if key is None else self._taken.get((message.caller.scope, key.name), (None, ''))
        if key is None or known is None or known.expires_at <= now or known.turn_id in (key.turn_id, key.replaces):
            return None
        return Known(task_id, known.turn_id, known.digest)

    def give_back(self, message: Append | Accept) -> None:
        """Frees a message's key, if it has one and it is its own: nothing came of the message."""
        if message.key is not None:
            place = (message.caller.scope, message.key.name)
            known, _ = self._taken.get(place, (None, ''))
            if known is not None and known.turn_id == message.key.turn_id:
                self._drop(place)

    def forget(self, task_id: str) -> None:
        """Frees the keys of a task that is deleted."""
        for place in self._of_task.pop(task_id, ()):
            self._taken.pop(place, None)

    def delete_expired(self, now: int) -> int:
        """Deletes some of the keys that have expired; returns how many."""
        expired = (place for place, (key, _) in self._taken.items() if key.expires_at <= now)
        found = list(islice(expired, MOST_KEYS))
        for place in found:
            self._drop(place)
        return len(found)

    def _drop(self, place: tuple[Scope, str]) -> None:
        _, task_id = self._taken.pop(place)
        places = self._of_task[task_id]
        places.discard(place)
        if not places:
            del self._of_task[task_id]


def _task_id(message: Append | Accept) -> str:
    return message.row.task_id if isinstance(message, Append) else message.task_id
