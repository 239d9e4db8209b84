"""One step of one pump: reads what comes next, and makes one attempt to deliver it."""

import asyncio
import logging
from enum import Enum
from typing import Final

from a2a_scribe.core.records import Shown
from a2a_scribe.errors import SettingsError
from a2a_scribe.protocol.codec.errors import UnencodableError
from a2a_scribe.protocol.states import TERMINAL
from a2a_scribe.push.delivery import Answer, DeliveryFailedError, Outgoing, Poster
from a2a_scribe.push.desk import Desk
from a2a_scribe.push.metrics import DeliveryCounters
from a2a_scribe.push.notifications import body_of, outgoing, whole
from a2a_scribe.push.pump import Due, Pump
from a2a_scribe.push.schedule import MICROS, Schedule, Verdict, verdict_of
from a2a_scribe.push.webhooks import Webhooks

logger = logging.getLogger(__name__)

SLOW: Final = 1.0
"""Seconds of an attempt after which its receiver is slow."""


class Step(Enum):
    """What came of one step."""

    NOTHING = 'there was nothing to deliver'
    PASSED = 'there was nothing that the receiver sees'
    DELIVERED = 'the receiver has an event more'
    FAILED = 'the receiver will be called again'
    SUSPENDED = 'the receiver will not be called any more'
    LOST = 'the config is not ours'


class Courier:
    """Makes the attempts of one dispatcher."""

    def __init__(self, desk: Desk, webhooks: Webhooks, poster: Poster, counters: DeliveryCounters) -> None:
        """Takes what carries the events."""
        self._desk = desk
        self._webhooks = webhooks
        self._poster = poster
        self._counters = counters
        self._schedule = Schedule.of(desk.settings)

    async def step(self, pump: Pump) -> Step:
        """Brings a pump one event further, if there is one.

        Raises:
            JournalUnavailableError: What comes next cannot be read now.
        """
        task_id = pump.key.task_id
        if pump.attempts and await self._desk.find(pump.key) is None:
            return Step.LOST
        if not pump.is_known:
            pump.look_back(await self._desk.read_before(task_id, pump.position))
        if not pump.buffer:
            pump.is_rung = False
            pump.buffer.extend(await self._desk.read(task_id, pump.position))
        due = pump.next()
        if due is None:
            return Step.NOTHING
        if due.event is None:
            return Step.PASSED
        event = await self._event_of(pump, due, due.event)
        try:
            body = body_of(event)
        except UnencodableError:
            logger.exception('Event %s/%d cannot be written as JSON, and is sent to no webhook', task_id, due.seq)
            pump.pass_by(due.seq)
            return Step.PASSED
        return await self._attempt(pump, event, body)

    async def _event_of(self, pump: Pump, due: Due, event: Shown) -> Shown:
        if not due.is_whole:
            return event
        task = await self._desk.task_as_of(pump.key.task_id, due.seq)
        return event if task is None else whole(task, due.seq)

    async def _attempt(self, pump: Pump, event: Shown, body: bytes) -> Step:
        clock = self._desk.clock
        try:
            config = self._webhooks.opened(pump.config)
        except SettingsError as no_key:
            return self._wait_for_a_key(pump, no_key)
        attempt, began = pump.attempts + 1, clock.monotonic()
        sent = outgoing(config, event, body, attempt=attempt, sent_at=clock.now(), trace=pump.trace)
        answer, error = await self._post(sent)
        seconds = clock.monotonic() - began
        verdict = _verdict(answer, error)
        self._counters.note(seconds, delivered=verdict is Verdict.DELIVERED)
        if verdict is Verdict.DELIVERED and event.seq is not None:
            pump.is_slow = seconds > SLOW
            pump.deliver(event.seq)
            return Step.DELIVERED
        pump.fail(_reason(answer, error), clock.now())
        if verdict is Verdict.SUSPENDED or await self._is_over(pump):
            return self._suspend(pump)
        self._put_off(pump, answer)
        return Step.FAILED

    def _wait_for_a_key(self, pump: Pump, error: SettingsError) -> Step:
        """Notes a secret that cannot be opened: not the receiver's fault, so it is never suspended for that."""
        pump.fail(str(error), self._desk.clock.now())
        logger.warning('Webhook %s of task %s is not called: %s', pump.key.config_id, pump.key.task_id, error)
        self._put_off(pump, None)
        return Step.FAILED

    def stumble(self, pump: Pump, error: Exception) -> None:
        """Notes a fault of ours as a failed attempt, so that it is not met again at once."""
        pump.fail(f'internal error ({type(error).__name__})', self._desk.clock.now())
        self._put_off(pump, None)

    def _put_off(self, pump: Pump, answer: Answer | None) -> None:
        pause = self._schedule.pause(pump.attempts, self._webhooks.chance(), answer)
        pump.next_attempt_at = self._desk.clock.now() + int(pause * MICROS)

    async def _post(self, sent: Outgoing) -> tuple[Answer | None, DeliveryFailedError | None]:
        try:
            sent = self._webhooks.signed(sent)
            async with asyncio.timeout(self._desk.settings.webhook_timeout):
                return await self._poster.post(sent), None
        except DeliveryFailedError as error:
            return None, error
        except TimeoutError:
            return None, DeliveryFailedError('no answer in time')
        except Exception as error:
            logger.exception('Event %s could not be sent', sent.event_id)
            return None, DeliveryFailedError(f'internal error ({type(error).__name__})')

    async def _is_over(self, pump: Pump) -> bool:
        """Whether a receiver has failed for so long that it is called no more."""
        assert pump.failing_since is not None
        now = self._desk.clock.now()
        if not self._schedule.is_over(pump.failing_since, now, has_ended=False):
            return False
        found = await self._desk.find(pump.key)
        has_ended = found is not None and found.task_state in TERMINAL
        return self._schedule.is_over(pump.failing_since, now, has_ended=has_ended)

    def _suspend(self, pump: Pump) -> Step:
        pump.suspend()
        self._counters.suspended += 1
        logger.warning('Webhook %s of task %s is suspended: %s', pump.key.config_id, pump.key.task_id, pump.last_error)
        return Step.SUSPENDED


def _reason(answer: Answer | None, error: DeliveryFailedError | None) -> str:
    if answer is not None:
        return f'HTTP {answer.status}'
    return 'no answer' if error is None else error.reason


def _verdict(answer: Answer | None, error: DeliveryFailedError | None) -> Verdict:
    if answer is not None:
        return verdict_of(answer.status)
    return Verdict.SUSPENDED if error is not None and error.is_final else Verdict.AGAIN
