"""What webhook delivery counts, for whoever shows it."""

from collections.abc import Callable
from dataclasses import dataclass, field


def _nothing(_: int) -> float:
    return 0.0


@dataclass(slots=True)
class DeliveryCounters:
    """What the dispatcher of one process has done since it started."""

    attempts: int = 0
    delivered: int = 0
    """Attempts that were answered with 2xx."""
    failed: int = 0
    """Attempts that were not."""
    suspended: int = 0
    """How often a config was suspended."""
    seconds: float = 0.0
    """What all attempts have taken together."""
    slowest: float = 0.0
    """Seconds that the slowest attempt took."""
    held: int = 0
    """Push configs that the process takes care of now."""
    age_of_oldest: Callable[[int], float] = field(default=_nothing, repr=False)
    """Seconds for which the oldest event has waited that this process is to deliver, at a moment in microseconds."""

    def note(self, seconds: float, *, delivered: bool) -> None:
        """Counts one attempt."""
        self.attempts += 1
        self.delivered += delivered
        self.failed += not delivered
        self.seconds += seconds
        self.slowest = max(self.slowest, seconds)
