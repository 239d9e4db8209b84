"""`a2a-scribe webhooks test`: calls a webhook as a server with this environment would, and says what came of it."""

from contextlib import aclosing

from a2a_scribe.cli.operator.databases import DONE, FOUND, Place, opened
from a2a_scribe.cli.operator.output import print_fields, print_json
from a2a_scribe.cli.operator.webhooks import no_webhook, shown_url
from a2a_scribe.clock import SystemClock
from a2a_scribe.ids import UuidSource
from a2a_scribe.journal.deliveries import DeliveryKey
from a2a_scribe.protocol.types import TaskPushNotificationConfig
from a2a_scribe.push.probing import try_out
from a2a_scribe.push.webhooks import Webhooks
from a2a_scribe.settings import Settings


async def try_webhook(place: Place, task_id: str, config_id: str, *, as_json: bool) -> int:
    """Calls the webhook of a push config, with its token and credentials."""
    settings = Settings.from_environment()
    async with opened(place) as site:
        found = await site.journal.read_delivery(DeliveryKey(task_id, config_id))
    if found is None:
        return no_webhook(task_id, config_id)
    return await _try(found.config, settings, as_json=as_json)


async def try_url(url: str, *, as_json: bool) -> int:
    """Calls whatever is at a URL."""
    return await _try(TaskPushNotificationConfig(url=url), Settings.from_environment(), as_json=as_json)


async def _try(config: TaskPushNotificationConfig, settings: Settings, *, as_json: bool) -> int:
    webhooks, clock = Webhooks().completed(settings), SystemClock()
    async with aclosing(webhooks.make_poster(settings, clock)) as poster:
        trial = await try_out(config, webhooks, poster, clock, UuidSource())
    values = {
        'url': shown_url(config.url),
        'event': trial.event_id,
        'signed': list(trial.signed),
        'status': trial.status,
        'error': trial.reason,
        'seconds': round(trial.seconds, 3),
    }
    if as_json:
        print_json(values)
    else:
        signed = ', '.join(trial.signed) or 'no'
        print_fields(values | {'signed': signed, 'status': trial.status or 'no answer'})
    return DONE if trial.is_taken else FOUND
