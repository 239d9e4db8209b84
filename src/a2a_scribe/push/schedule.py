"""When a webhook is called again, and when no more. Pure: time and chance are passed in.

What an answer means (A2A 1.0, sections 4.3.3 and 13.2):

| answer | meaning |
| --- | --- |
| 2xx | delivered |
| 401, 403, 408, 409, 423, 425, 429, 5xx; no answer | tried again: it may pass, credentials that are being changed too |
| 3xx | tried again at the same place, never followed: what is moved for a while comes back |
| 404, 410 | the receiver is gone: suspended |
| any other | the receiver does not take it, and would not take it later: suspended |
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from a2a_scribe.push.delivery import Answer
from a2a_scribe.settings import Settings

PASSING: Final = frozenset({401, 403, 408, 409, 423, 425, 429})
"""Refusals after which the same call may be taken later."""
ENOUGH: Final = 60
"""Failures after which a pause grows no more, so that no number overflows."""
MICROS: Final = 1_000_000


class Verdict(Enum):
    """What an answer means for the event that was sent."""

    DELIVERED = 'delivered'
    AGAIN = 'tried again'
    SUSPENDED = 'suspended'


def verdict_of(status: int) -> Verdict:
    """Returns what an HTTP status means."""
    if 200 <= status < 300:
        return Verdict.DELIVERED
    if 300 <= status < 400 or status >= 500 or status in PASSING:
        return Verdict.AGAIN
    return Verdict.SUSPENDED


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often an event is tried, and for how long. Times are in seconds."""

    first_pause: float
    longest_pause: float
    give_up_after: float
    """From the first failure on."""
    give_up_after_end: float
    """The same where the task has ended: whoever waits for its end is given longer."""

    @classmethod
    def of(cls, settings: Settings) -> 'Schedule':
        """Returns the schedule that the settings ask for."""
        return cls(
            settings.webhook_first_pause,
            settings.webhook_longest_pause,
            settings.webhook_give_up_after,
            max(settings.webhook_give_up_after, settings.webhook_give_up_after_end),
        )

    def pause(self, failures: int, chance: float, answer: Answer | None = None) -> float:
        """Returns the seconds to wait after so many failures in a row, at least one.

        Full jitter: anything between nothing and a bound that doubles with each failure, by `chance` from 0 to 1. Who
        asks for more with `Retry-After` is given it, up to the longest pause.
        """
        bound = min(self.longest_pause, self.first_pause * 2.0 ** min(failures - 1, ENOUGH))
        asked = 0.0 if answer is None or answer.retry_after is None else answer.retry_after
        return max(bound * chance, min(asked, self.longest_pause))

    def is_over(self, failing_since: int, now: int, *, has_ended: bool) -> bool:
        """Whether to give up what has failed from `failing_since` to `now`, in microseconds since the epoch."""
        patience = self.give_up_after_end if has_ended else self.give_up_after
        return now - failing_since >= patience * MICROS
