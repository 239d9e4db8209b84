"""`a2a-scribe webhooks list`, `show`, `suspend`, `resume` and `replay`: webhooks, and how far each has come.

The commands write to the database only; the servers of the task's agent notice at their next look, within
`poll_interval`.
"""

import base64
import json
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import urlsplit

from a2a_scribe.cli.operator.databases import DONE, FOUND, Place, Site, complain, opened
from a2a_scribe.cli.operator.output import count_text, print_fields, print_json, print_table, state_text, time_text
from a2a_scribe.errors import SettingsError
from a2a_scribe.journal.deliveries import Delivery, DeliveryKey, DeliveryQuery, DeliveryState
from a2a_scribe.protocol.types import TaskPushNotificationConfig

PORTION = 500
"""Configs that are read at once."""


async def list_webhooks(place: Place, wanted: DeliveryQuery, *, page: str, as_json: bool) -> int:
    """Lists webhooks in the order of their tasks."""
    after = _position(page) if page else DeliveryKey('', '')
    async with opened(place) as site:
        found = await site.journal.list_deliveries(replace(wanted, after=after, limit=wanted.limit + 1))
    shown = found[: wanted.limit]
    if as_json:
        for each in shown:
            print_json(_values(each))
    else:
        columns = ('task', 'webhook', 'state', 'delivered', 'attempts', 'failing since', 'last error', 'URL')
        print_table(columns, [_row(each) for each in shown])
    if len(found) > wanted.limit:
        complain(f'{len(shown)} webhooks; for those that follow: --page {_token(shown[-1].key)}')
    return DONE


async def show(place: Place, task_id: str, config_id: str | None, *, as_json: bool) -> int:
    """Shows the webhooks of a task."""
    async with opened(place) as site:
        found = await _webhooks_of(site, task_id, config_id)
    for number, each in enumerate(found):
        if as_json:
            print_json(_values(each))
        else:
            if number:
                print()
            print_fields(_fields(each))
    return DONE if found else no_webhook(task_id, config_id)


async def set_state(
    place: Place, task_id: str, config_id: str | None, state: Literal['active', 'suspended'], *, as_json: bool
) -> int:
    """Suspends or resumes webhooks of a task."""
    async with opened(place) as site:
        keys = [each.key for each in await _webhooks_of(site, task_id, config_id)]
        done = [key for key in keys if await site.journal.set_delivery(key, state)]
    for key in done:
        _tell(key, state, as_json=as_json)
    return DONE if done else no_webhook(task_id, config_id)


async def resume_all(place: Place, agent: str | None, *, as_json: bool) -> int:
    """Resumes all that are suspended."""
    count = 0
    wanted = DeliveryQuery(agent, 'suspended', limit=PORTION)
    async with opened(place) as site:
        while found := await site.journal.list_deliveries(wanted):
            for each in found:
                if await site.journal.set_delivery(each.key, 'active'):
                    count += 1
                    if as_json:
                        _tell(each.key, 'active', as_json=True)
            wanted = replace(wanted, after=found[-1].key)
    if not as_json:
        print(f'{count_text(count, "webhook")} resumed')
    return DONE


async def replay(place: Place, task_id: str, config_id: str, since: int, *, as_json: bool) -> int:
    """Has a webhook go on at a record of its task."""
    async with opened(place) as site:
        found = await site.journal.read_delivery(DeliveryKey(task_id, config_id))
        if found is None:
            return no_webhook(task_id, config_id)
        if since > found.seq:
            return complain(f'the task has {count_text(found.seq, "record")}: there is nothing from {since} on', FOUND)
        if not await site.journal.set_delivery(found.key, 'active', since - 1):
            return no_webhook(task_id, config_id)
    if as_json:
        print_json({'task': task_id, 'webhook': config_id, 'state': 'active', 'from': since})
    else:
        print(f'webhook {config_id} of task {task_id} goes on at record {since}')
    return DONE


async def _webhooks_of(site: Site, task_id: str, config_id: str | None) -> list[Delivery]:
    if config_id is not None:
        found = await site.journal.read_delivery(DeliveryKey(task_id, config_id))
        return [] if found is None else [found]
    webhooks: list[Delivery] = []
    wanted = DeliveryQuery(task_id=task_id, limit=PORTION)
    while page := await site.journal.list_deliveries(wanted):
        webhooks += page
        wanted = replace(wanted, after=page[-1].key)
    return webhooks


def no_webhook(task_id: str, config_id: str | None) -> int:
    """Says that there is no such webhook; returns the exit code."""
    which = 'no webhook' if config_id is None else f'no webhook {config_id!r}'
    return complain(f'task {task_id!r} has {which}; one whose task has ended goes when all is delivered', FOUND)


def _tell(key: DeliveryKey, state: DeliveryState, *, as_json: bool) -> None:
    if as_json:
        print_json({'task': key.task_id, 'webhook': key.config_id, 'state': state})
    else:
        action = 'is resumed' if state == 'active' else 'is suspended'
        print(f'webhook {key.config_id} of task {key.task_id} {action}')


def _row(delivery: Delivery) -> tuple[object, ...]:
    return (
        delivery.key.task_id,
        delivery.key.config_id,
        delivery.state,
        f'{delivery.position} of {delivery.seq}',
        delivery.attempts or None,
        time_text(delivery.failing_since),
        delivery.last_error,
        shown_url(delivery.config.url),
    )


def _values(delivery: Delivery) -> dict[str, Any]:
    return {
        'task': delivery.key.task_id,
        'webhook': delivery.key.config_id,
        'url': shown_url(delivery.config.url),
        'state': delivery.state,
        'position': delivery.position,
        'records': delivery.seq,
        'attempts': delivery.attempts,
        'next_attempt_at': time_text(delivery.next_attempt_at),
        'failing_since': time_text(delivery.failing_since),
        'last_error': delivery.last_error,
        'node': delivery.node,
        'task_state': state_text(delivery.task_state),
        'agent': delivery.scope.agent,
        'owner': delivery.scope.owner,
        'tenant': delivery.scope.tenant,
    }


def _fields(delivery: Delivery) -> dict[str, object]:
    secrets = [name for name, value in _secrets_of(delivery.config) if value]
    return {
        'task': f'{delivery.key.task_id} ({state_text(delivery.task_state)})',
        'webhook': delivery.key.config_id,
        'URL': shown_url(delivery.config.url),
        'secrets': ', '.join(secrets) or 'none',
        'state': delivery.state,
        'delivered': f'{delivery.position} of {count_text(delivery.seq, "record")}',
        'attempts': f'{delivery.attempts} at the next event' if delivery.attempts else 'none has failed',
        'next attempt': time_text(delivery.next_attempt_at),
        'failing since': time_text(delivery.failing_since),
        'last error': delivery.last_error,
        'node': delivery.node or 'nobody delivers now',
        'agent': delivery.scope.agent,
        'owner': delivery.scope.owner,
        'tenant': delivery.scope.tenant,
    }


def _secrets_of(config: TaskPushNotificationConfig) -> list[tuple[str, bool]]:
    return [
        ('token', bool(config.token)),
        (f'credentials for {config.authentication.scheme}', config.HasField('authentication')),
    ]


def shown_url(url: str) -> str:
    """Returns where a webhook is, without what may be secret in its URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return 'a URL that cannot be read'
    query = '…' if parts.query else ''
    return parts._replace(netloc=parts.netloc.rpartition('@')[2], query=query).geturl()


def _token(key: DeliveryKey) -> str:
    return base64.urlsafe_b64encode(json.dumps(list(key)).encode()).decode()


def _position(token: str) -> DeliveryKey:
    try:
        task_id, config_id = json.loads(base64.urlsafe_b64decode(token))
    except ValueError:
        raise SettingsError(f'--page {token!r} is not what an earlier list has named') from None
    return DeliveryKey(str(task_id), str(config_id))
