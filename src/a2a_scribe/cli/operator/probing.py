"""`a2a-scribe webhooks test`: calls a webhook once as a server with this environment would, and says what came of it.

The event is of a task that does not exist, and says in its metadata that it is a test.
"""

from dataclasses import dataclass, replace
from urllib.parse import urldefrag

import orjson

from a2a_scribe.cli.operator.databases import DONE, FOUND, Place, opened
from a2a_scribe.cli.operator.output import print_fields, print_json, time_text
from a2a_scribe.cli.operator.webhooks import no_webhook, shown_url
from a2a_scribe.clock import SystemClock
from a2a_scribe.ids import UuidSource
from a2a_scribe.journal.deliveries import DeliveryKey
from a2a_scribe.protocol.types import TaskPushNotificationConfig
from a2a_scribe.push.delivery import DeliveryFailedError, Outgoing
from a2a_scribe.push.posting import poster_of
from a2a_scribe.push.sealing import box_of, open_config
from a2a_scribe.push.signing import signers_of
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
    outgoing = _event_for(config)
    probe = await _call(outgoing, settings)
    values = {
        'url': shown_url(config.url),
        'event': outgoing.event_id,
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


async def _call(outgoing: Outgoing, settings: Settings) -> Probe:
    signatures = {name: value for signer in signers_of(settings) for name, value in signer.sign(outgoing).items()}
    signed = replace(outgoing, headers={**outgoing.headers, **signatures})
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
    task_id = f'test-{UuidSource().new()}'
    headers = {'Content-Type': 'application/a2a+json', 'X-A2A-Event-Id': f'{task_id}/1', 'X-A2A-Delivery-Attempt': '1'}
    if config.token:
        headers['X-A2A-Notification-Token'] = config.token
    if config.HasField('authentication'):
        headers['Authorization'] = f'{config.authentication.scheme} {config.authentication.credentials}'.strip()
    update = {
        'taskId': task_id,
        'contextId': task_id,
        'status': {'state': 'TASK_STATE_WORKING', 'timestamp': time_text(now)},
        'metadata': {'test': True},
    }
    body = orjson.dumps({'statusUpdate': update})
    return Outgoing(urldefrag(config.url)[0], task_id, f'{task_id}/1', 1, now, headers, body)
