"""`a2a-scribe webhooks test`: calls a webhook once as a server with this environment would, and says what came of it.

The event is of a task that does not exist, and says in its metadata that it is a test.
"""

from dataclasses import dataclass, replace

from a2a_scribe.cli.operator.databases import DONE, FOUND, Place, opened
from a2a_scribe.cli.operator.output import print_fields, print_json
from a2a_scribe.cli.operator.webhooks import no_webhook, shown_url
from a2a_scribe.clock import SystemClock
from a2a_scribe.core.records import Shown
from a2a_scribe.ids import UuidSource
from a2a_scribe.journal.deliveries import DeliveryKey
from a2a_scribe.protocol.states import WORKING
from a2a_scribe.protocol.types import TaskPushNotificationConfig, TaskStatusUpdateEvent
from a2a_scribe.push.delivery import DeliveryFailedError, Outgoing
from a2a_scribe.push.notifications import body_of, outgoing
from a2a_scribe.push.posting import poster_of
from a2a_scribe.push.sealing import box_of, open_config
from a2a_scribe.push.signing import signer_of
from a2a_scribe.settings import Settings

CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of a call: a status, or why there was none."""

    status: int | None
    reason: str | None
    seconds: float
    signed: tuple[str, ...]
    """Headers with signatures."""


async def try_webhook(place: Place, task_id: str, config_id: str, *, as_json: bool) -> int:
    """Calls the webhook of a push config, with its token and credentials."""
    settings = Settings.from_environment()
    async with opened(place) as site:
        found = await site.journal.read_delivery(DeliveryKey(task_id, config_id))
    if found is None:
        return no_webhook(task_id, config_id)
    return await _try(open_config(found.config, box_of(settings)), settings, as_json=as_json)


async def try_url(url: str, *, as_json: bool) -> int:
    """Calls whatever is at a URL."""
    return await _try(TaskPushNotificationConfig(url=url), Settings.from_environment(), as_json=as_json)


async def _try(config: TaskPushNotificationConfig, settings: Settings, *, as_json: bool) -> int:
    event = _event_for(config)
    probe = await _call(event, settings)
    values = {
        'url': shown_url(config.url),
        'event': event.event_id,
        'signed': list(probe.signed),
        'status': probe.status,
        'error': probe.reason,
        'seconds': round(probe.seconds, 3),
    }
    if as_json:
        print_json(values)
    else:
        signed = ', '.join(probe.signed) or 'no'
        print_fields(values | {'signed': signed, 'status': probe.status or 'no answer'})
    return DONE if probe.status is not None and 200 <= probe.status < 300 else FOUND


async def _call(event: Outgoing, settings: Settings) -> Probe:
    signer = signer_of(settings)
    signatures = {} if signer is None else signer.sign(event)
    signed = replace(event, headers={**event.headers, **signatures})
    poster = poster_of(settings, CLOCK)
    started = CLOCK.monotonic()
    status = reason = None
    try:
        status = (await poster.post(signed)).status
    except DeliveryFailedError as error:
        reason = error.reason
    finally:
        seconds = CLOCK.monotonic() - started
        await poster.aclose()
    return Probe(status, reason, seconds, tuple(signatures))


def _event_for(config: TaskPushNotificationConfig) -> Outgoing:
    now = CLOCK.now()
    tested = TaskPushNotificationConfig()
    tested.CopyFrom(config)
    tested.task_id = f'test-{UuidSource().new()}'
    update = TaskStatusUpdateEvent(task_id=tested.task_id, context_id=tested.task_id)
    update.status.state = WORKING
    update.status.timestamp.FromMicroseconds(now)
    update.metadata['test'] = True
    event = Shown(1, 'status_update', update.SerializeToString())
    return outgoing(tested, event, body_of(event), attempt=1, sent_at=now, trace='')
