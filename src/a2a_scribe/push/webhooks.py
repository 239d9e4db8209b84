"""How webhooks are delivered: the one place where what carries, signs and opens them is put together."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from a2a_scribe.clock import Clock
from a2a_scribe.protocol.types import TaskPushNotificationConfig
from a2a_scribe.push.delivery import Outgoing, Poster, Signer
from a2a_scribe.push.posting import poster_of
from a2a_scribe.push.sealing import box_of, open_config
from a2a_scribe.push.signing import signer_of
from a2a_scribe.settings import Settings, WebhookEvents

MakePoster = Callable[[Settings, Clock], Poster]
EventsOf = Callable[[TaskPushNotificationConfig], WebhookEvents]
"""Returns which events a webhook is sent, always the same for the same config; must not block."""
OpenConfig = Callable[[TaskPushNotificationConfig], TaskPushNotificationConfig]


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """What a handler delivers webhooks with; what is not given here is as the settings say."""

    make_poster: MakePoster = poster_of
    """Makes what carries events, once for each event loop. Another one has to guard its targets itself."""
    signer: Signer | None = None
    """Adds headers to each attempt."""
    open_config: OpenConfig | None = None
    """Returns a config with its secrets readable, for one attempt."""
    events_of: EventsOf | None = None
    """Chooses the events of each config, where it is not to be as the setting `webhook_events` says."""
    chance: Callable[[], float] = field(default=random.random)
    """Where numbers from 0 to 1 come from."""

    def opened(self, config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        """Returns a config with its secrets readable. Raises: SettingsError."""
        return config if self.open_config is None else self.open_config(config)

    def signed(self, sent: Outgoing) -> Outgoing:
        """Returns an attempt with the headers that prove who makes it."""
        if self.signer is None:
            return sent
        return replace(sent, headers={**sent.headers, **self.signer.sign(sent)})

    def completed(self, settings: Settings) -> 'Webhooks':
        """Returns them with all that the settings say.

        Raises:
            SettingsError: A key, a secret or a list of hosts cannot be used.
        """
        box = box_of(settings)
        opened = self.open_config or (lambda config: open_config(config, box))
        return replace(self, signer=self.signer or signer_of(settings), open_config=opened)
