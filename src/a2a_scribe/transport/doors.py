"""Who is let in: rate, open streams and the audit log, the same for all bindings of an app.

A binding asks as soon as it knows who calls, before it reads what they want. What is switched off costs next to
nothing.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, aclosing

from a2a_scribe.clock import Clock
from a2a_scribe.core.records import Shown
from a2a_scribe.protocol.faults import RateError
from a2a_scribe.settings import Settings
from a2a_scribe.transport.audit import Audit, Visit
from a2a_scribe.transport.open_streams import OpenStreams
from a2a_scribe.transport.rates import Rates, in_whole_seconds

Batches = AsyncGenerator[list[Shown], None]


class Doors:
    """The bounds of one app, and what it writes down."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Opens them."""
        self._clock = clock
        self._rates = None
        if settings.requests_per_second is not None:
            self._rates = Rates(settings.requests_per_second, settings.request_burst)
        self._streams = OpenStreams(settings.max_streams, settings.max_streams_per_owner)
        self._needs_owner = self._rates is not None or settings.max_streams_per_owner is not None or settings.audit_log
        self.audit = Audit(clock, is_on=settings.audit_log)

    @property
    def open_streams(self) -> int:
        """How many streams are open."""
        return self._streams.count

    def enter(self, visit: Visit, find_owner: Callable[[], str]) -> None:
        """Lets a call in; `find_owner` is asked only if it matters who calls. Raises: RateError."""
        if self._needs_owner:
            visit.owner = find_owner()
            self.charge(visit)

    def charge(self, visit: Visit, requests: int = 1) -> None:
        """Counts requests of the caller. Raises: RateError."""
        if self._rates is not None and requests:
            wait = self._rates.take(visit.owner, self._clock.monotonic(), requests)
            if wait:
                raise RateError(in_whole_seconds(wait))

    def stream(self, visit: Visit) -> AbstractContextManager[None]:
        """Counts a stream while it is open. Raises: TooManyStreamsError, TooManyStreamsOfCallerError."""
        return self._streams.one(visit.owner)

    def told(self, visit: Visit, stream: Batches, *, starts_at_once: bool) -> Batches:
        """Returns a stream whose beginning the audit log tells; it may begin with an empty batch."""
        return self._told(visit, stream, starts_at_once) if self.audit.is_on else stream

    async def _told(self, visit: Visit, stream: Batches, starts_at_once: bool) -> Batches:
        async with aclosing(stream) as batches:
            async for batch in batches:
                if batch or starts_at_once:
                    self.audit.accepted(visit, batch)
                yield batch
        self.audit.done(visit)
