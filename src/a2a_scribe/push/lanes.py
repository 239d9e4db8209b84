"""Which pump runs next: bounded, in turn, and so that receivers that are slow leave room for the others."""

from collections import deque
from dataclasses import dataclass

from a2a_scribe.push.pump import Phase, Pump


@dataclass(frozen=True, slots=True)
class Place:
    """A worker's, for one run of a pump."""

    pump: Pump
    is_slow: bool


class Lanes:
    """The pumps that wait for a worker."""

    def __init__(self, workers: int) -> None:
        """Lets so many run at once; slow ones have half of that at most."""
        self._workers = workers
        self._most_slow = max(1, workers // 2)
        self._quick: deque[Pump] = deque()
        self._slow: deque[Pump] = deque()
        self._running = self._running_slow = 0

    def add(self, pump: Pump) -> None:
        """Puts a pump at the end of its lane."""
        pump.phase = Phase.READY
        (self._slow if pump.is_slow else self._quick).append(pump)

    def take(self) -> Place | None:
        """Takes a pump that may run now; `give_back` must follow."""
        if self._running >= self._workers:
            return None
        place = None
        if (pump := _first(self._quick)) is not None:
            place = Place(pump, is_slow=False)
        elif self._running_slow < self._most_slow and (pump := _first(self._slow)) is not None:
            place = Place(pump, is_slow=True)
        if place is not None:
            place.pump.phase = Phase.RUNNING
            self._running += 1
            self._running_slow += place.is_slow
        return place

    def give_back(self, place: Place) -> None:
        """Makes room for another."""
        self._running -= 1
        self._running_slow -= place.is_slow

    def should_yield(self, place: Place) -> bool:
        """Whether a pump that runs should make room: others wait, or it belongs into the other lane."""
        return bool(self._quick or self._slow) or place.pump.is_slow != place.is_slow


def _first(lane: deque[Pump]) -> Pump | None:
    """Takes the first that still waits: what is gone is left in its lane until here."""
    while lane:
        pump = lane.popleft()
        if pump.phase is Phase.READY:
            return pump
    return None
