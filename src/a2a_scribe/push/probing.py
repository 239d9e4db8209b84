"""One call of a webhook out of turn, for an operator who wants to know whether its receiver answers."""

from dataclasses import dataclass

from a2a_scribe.clock import Clock
from a2a_scribe.core.records import Shown
from a2a_scribe.ids import IdSource
from a2a_scribe.journal.deliveries import DeliveryKey
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.tasks import OPERATOR
from a2a_scribe.protocol.states import WORKING
from a2a_scribe.protocol.types import TaskPushNotificationConfig, TaskStatusUpdateEvent
from a2a_scribe.push.delivery import Answer, DeliveryFailedError, Outgoing, Poster
from a2a_scribe.push.notifications import body_of, outgoing, whole
from a2a_scribe.push.webhooks import Webhooks

TEST_ATTEMPT = 0
"""The number of an attempt that is none: nothing that a receiver answers to it changes the config."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a call: a status, or the reason why there was none."""

    event_id: str
    signed: tuple[str, ...]
    """Headers with signatures."""
    status: int | None
    reason: str | None
    seconds: float

    @property
    def is_taken(self) -> bool:
        """Whether the receiver has taken the event."""
        return self.status is not None and 200 <= self.status < 300


async def probe(journal: Journal, key: DeliveryKey, webhooks: Webhooks, poster: Poster, clock: Clock) -> Answer | None:
    """Sends a config's task as it is now to its receiver; returns the answer, or `None` if there is no such config.

    Raises:
        DeliveryFailedError: No answer came.
        JournalUnavailableError: The journal cannot be read.
    """
    delivery = await journal.read_delivery(key)
    stored = None if delivery is None else await journal.read_task(key.task_id, OPERATOR)
    if delivery is None or stored is None:
        return None
    event = whole(stored.projection.to_task(), stored.row.seq)
    return await poster.post(webhooks.signed(_sent(webhooks.opened(delivery.config), event, TEST_ATTEMPT, clock)))


async def try_out(
    config: TaskPushNotificationConfig, webhooks: Webhooks, poster: Poster, clock: Clock, ids: IdSource
) -> Trial:
    """Calls a webhook, stored or not, with an event that says that it is a test, of a task that does not exist.

    Raises:
        SettingsError: The secrets of the config are sealed, and no key opens them.
    """
    opened = TaskPushNotificationConfig()
    opened.CopyFrom(webhooks.opened(config))
    opened.task_id = f'test-{ids.new()}'
    sent = _sent(opened, _test_event(opened.task_id, clock.now()), 1, clock)
    signed = webhooks.signed(sent)
    names = tuple(name for name in signed.headers if name not in sent.headers)
    started = clock.monotonic()
    status = reason = None
    try:
        status = (await poster.post(signed)).status
    except DeliveryFailedError as error:
        reason = error.reason
    seconds = clock.monotonic() - started
    return Trial(sent.event_id, names, status, reason, seconds)


def _test_event(task_id: str, now: int) -> Shown:
    update = TaskStatusUpdateEvent(task_id=task_id, context_id=task_id)
    update.status.state = WORKING
    update.status.timestamp.FromMicroseconds(now)
    update.metadata['test'] = True
    return Shown(1, 'status_update', update.SerializeToString())


def _sent(config: TaskPushNotificationConfig, event: Shown, attempt: int, clock: Clock) -> Outgoing:
    return outgoing(config, event, body_of(event), attempt=attempt, sent_at=clock.now(), trace='')
