"""One push config that this process takes care of: what is to be sent next, and what came of it.

A pump knows three places in its task's journal: `stored` is in its row, `position` is what the receiver has, and its
buffer goes on from there. It decides nothing about when it runs; the dispatcher has it run once at a time.
"""

import asyncio
import re
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Final

from a2a_scribe.clock import Timer
from a2a_scribe.core.records import ARTIFACT, SHOWN, TURN_STARTED, Record, Shown, decode_turn_started, shown
from a2a_scribe.journal.deliveries import Delivery, DeliveryKey, DeliveryOutcome
from a2a_scribe.settings import WebhookEvents

TRACEPARENT: Final = re.compile(r'[0-9a-f]{2}(-[0-9a-f]+){3,}')
"""W3C Trace Context; what a client sent is passed on only if it is one."""
MOST_SAID: Final = 300
"""Characters of a reason that are kept."""


class Phase(Enum):
    """What a pump waits for."""

    IDLE = 'for events'
    READY = 'for a worker'
    RUNNING = 'for its receiver'
    PAUSED = 'for its time'
    HELD_UP = 'for the journal'
    LEAVING = 'to be released'
    GONE = 'for nothing'


@dataclass(frozen=True, slots=True)
class Due:
    """An event that is to be sent, or, with no event, records that are not for the receiver."""

    seq: int
    event: Shown | None
    is_whole: bool = False
    """The whole task as of then takes the event's place."""


class Pump:
    """The place of one receiver in its task's journal."""

    __slots__ = (
        'attempts',
        'begun',
        'buffer',
        'config',
        'errand',
        'events',
        'failing_since',
        'is_known',
        'is_rung',
        'is_slow',
        'key',
        'last_error',
        'next_attempt_at',
        'phase',
        'position',
        'previous',
        'state',
        'stored',
        'timer',
        'trace',
        'unstored',
        'waiting_since',
    )

    def __init__(self, delivery: Delivery, events: WebhookEvents) -> None:
        """Goes on where the config is; `events` are those that it is sent."""
        self.key: DeliveryKey = delivery.key
        self.config = delivery.config
        self.events = events
        self.begun = self.stored = self.position = delivery.position
        self.attempts = delivery.attempts
        self.next_attempt_at = delivery.next_attempt_at
        self.failing_since = delivery.failing_since
        self.state = delivery.state
        self.last_error = delivery.last_error
        self.phase = Phase.IDLE
        self.timer: Timer | None = None
        self.errand: asyncio.Task[None] | None = None
        """The run under way."""
        self.buffer: deque[Record] = deque()
        self.is_rung = False
        """Something may have come since the journal was read last."""
        self.is_slow = delivery.attempts > 0
        """The last attempt failed or took long."""
        self.unstored = 0
        """Events that were delivered since the row was written."""
        self.waiting_since: int | None = None
        """When the event was recorded that is to be sent next."""
        self.trace = ''
        self.previous = ''
        """The kind of the last record that receivers see, up to `position`."""
        self.is_known = delivery.position == 0
        """Whether `trace` and `previous` are known."""

    def look_back(self, records: list[Record]) -> None:
        """Finds out about the turn at `position`, from records before it."""
        self.is_known = True
        for record in records:
            self._pass(record)

    def _pass(self, record: Record) -> None:
        if record.kind == TURN_STARTED:
            given = decode_turn_started(record.body).caller.traceparent
            self.trace = given if TRACEPARENT.fullmatch(given) else ''
        elif record.kind in SHOWN:
            self.previous = record.kind

    def next(self) -> Due | None:
        """Returns the next event that is to be sent, with what goes before it; `None` if the buffer has nothing."""
        due = None
        while self.buffer and (due is None or due.event is None):
            record = self.buffer[0]
            due = self._due(record)
            self.waiting_since = None if due.event is None else record.recorded_at
            if due.event is None:
                self.pass_by(record.seq)
        return due

    def _due(self, record: Record) -> Due:
        event = shown(record)
        if event is None or self.events == 'all':
            return Due(record.seq, event)
        if record.kind == ARTIFACT:
            return Due(record.seq, None)
        return Due(record.seq, event, is_whole=self.previous == ARTIFACT)

    def pass_by(self, seq: int) -> None:
        """Moves past record `seq`, the first of the buffer."""
        self._pass(self.buffer.popleft())
        self.position = seq

    def deliver(self, seq: int) -> None:
        """Notes that the receiver has record `seq`."""
        self.pass_by(seq)
        self.unstored += 1
        self.attempts, self.next_attempt_at, self.failing_since, self.last_error = 0, None, None, None
        self.waiting_since = None

    def fail(self, reason: str, now: int) -> None:
        """Notes that an attempt failed. What was read is forgotten: it may be long until the next one."""
        self.attempts += 1
        self.failing_since = now if self.failing_since is None else self.failing_since
        self.last_error = ''.join(each if each.isprintable() else '?' for each in reason[:MOST_SAID])
        self.is_slow = True
        self.buffer.clear()

    def suspend(self) -> None:
        """Notes that the receiver is not called any more."""
        self.state, self.next_attempt_at, self.waiting_since = 'suspended', None, None

    @property
    def has_moved(self) -> bool:
        """Whether anything came of holding the config."""
        return self.position != self.begun

    @property
    def is_moved(self) -> bool:
        """Whether the row has to be written for what was delivered."""
        return self.position != self.stored

    def outcome(self, *, releases: bool) -> DeliveryOutcome:
        """Returns how the config stands now."""
        return DeliveryOutcome(
            key=self.key,
            expected=self.stored,
            position=self.position,
            attempts=self.attempts,
            next_attempt_at=self.next_attempt_at,
            failing_since=self.failing_since,
            state=self.state,
            last_error=self.last_error,
            releases=releases,
        )

    def stop_timer(self) -> None:
        """Calls off the next attempt."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
