"""One call of a webhook out of turn, for an operator who wants to know whether its receiver answers."""

from a2a_scribe.clock import Clock
from a2a_scribe.journal.deliveries import DeliveryKey
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.tasks import OPERATOR
from a2a_scribe.push.delivery import Answer, Poster
from a2a_scribe.push.notifications import body_of, outgoing, whole
from a2a_scribe.push.webhooks import Webhooks

TEST_ATTEMPT = 0
"""The number of an attempt that is none: nothing that a receiver answers to it changes the config."""


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
    config = webhooks.opened(delivery.config)
    sent = outgoing(config, event, body_of(event), attempt=TEST_ATTEMPT, sent_at=clock.now(), trace='')
    return await poster.post(webhooks.signed(sent))
