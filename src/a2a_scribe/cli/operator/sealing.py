"""`a2a-scribe db reseal`: the secrets of push configs, encrypted with the newest key."""

from a2a_scribe.cli.operator.databases import DONE, FOUND, Place, complain, opened
from a2a_scribe.cli.operator.output import count_text, print_json
from a2a_scribe.errors import SettingsError
from a2a_scribe.journal.sql.rewriting import rewrite_configs
from a2a_scribe.protocol.types import TaskPushNotificationConfig
from a2a_scribe.push.sealing import FernetBox, box_of, renew_config
from a2a_scribe.settings import Settings


async def reseal(place: Place, *, as_json: bool) -> int:
    """Seals what is not sealed with the newest key; says which configs no key opens."""
    box = box_of(Settings.from_environment())
    if not isinstance(box, FernetBox):
        raise SettingsError('there is no key: set A2A_SCRIBE_WEBHOOK_KEYS or A2A_SCRIBE_WEBHOOK_KEYS_FILE')
    unopened: list[TaskPushNotificationConfig] = []

    def renewed(config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        try:
            return renew_config(config, box)
        except SettingsError:
            unopened.append(config)
            return config

    configs = rewritten = 0
    async with opened(place) as site:
        async for read, changed in rewrite_configs(site.engine, renewed, prefix=place.prefix):
            configs, rewritten = configs + read, rewritten + changed
    for config in unopened:
        complain(f'no key opens the secrets of task {config.task_id}, push config {config.id}')
    if as_json:
        print_json({'push_configs': configs, 'resealed': rewritten, 'unopened': len(unopened)})
    else:
        print(f'{count_text(configs, "push config")}, {rewritten:,} sealed anew')
    return FOUND if unopened else DONE
