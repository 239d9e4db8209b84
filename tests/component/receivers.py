"""Webhooks without a network: a poster that keeps what it is to carry, and answers as a test wants it to."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from a2a_scribe.clock import Clock
from a2a_scribe.protocol.types import TaskPushNotificationConfig
from a2a_scribe.push.delivery import Answer, DeliveryFailedError, Outgoing
from a2a_scribe.push.webhooks import Webhooks
from a2a_scribe.settings import Settings

Reply = int | Answer | DeliveryFailedError
URL = 'https://hooks.example/hook'


class Receivers:
    """All receivers of a test; `answer` decides by what is sent."""

    def __init__(self, *replies: Reply, chance: float = 1.0) -> None:
        """Answers with `replies` first, and then with 200."""
        self.calls: list[Outgoing] = []
        """All attempts, in the order in which they began."""
        self.replies = list(replies)
        self.answer: Callable[[Outgoing], Reply] = lambda _: 200
        """What calls are answered with when `replies` are used up."""
        self.gates: dict[str, asyncio.Event] = {}
        """Where calls of a URL wait for their answer."""
        self.deaf = False
        """For `answer` to look at."""
        self.abandoned = 0
        self.running = self.most_running = 0
        self.is_closed = False
        self.options = Webhooks(make_poster=self._open, chance=lambda: chance)

    def _open(self, settings: Settings, clock: Clock) -> 'Receivers':
        self.is_closed = False
        return self

    def shut(self, url: str = URL) -> None:
        """Lets calls of a URL wait until `open`."""
        self.gates[url] = asyncio.Event()

    def open(self, url: str = URL) -> None:
        """Lets calls of a URL have their answer."""
        self.gates.pop(url).set()

    async def post(self, outgoing: Outgoing) -> Answer:
        """Keeps a call and answers it."""
        self.calls.append(outgoing)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if outgoing.url in self.gates:
                await self.gates[outgoing.url].wait()
        except asyncio.CancelledError:
            self.abandoned += 1
            raise
        finally:
            self.running -= 1
        reply = self.replies.pop(0) if self.replies else self.answer(outgoing)
        if isinstance(reply, DeliveryFailedError):
            raise reply
        return reply if isinstance(reply, Answer) else Answer(reply)

    async def aclose(self) -> None:
        """Notes that it was closed."""
        self.is_closed = True

    def of(self, url: str = URL) -> list[Outgoing]:
        """The calls of one URL."""
        return [call for call in self.calls if call.url == url]

    def states(self, url: str = URL) -> list[str]:
        """What the calls of a URL say, shortly."""
        return [said(call) for call in self.of(url)]


def event_of(call: Outgoing) -> dict[str, Any]:
    """The event of a call."""
    event: dict[str, Any] = json.loads(call.body)
    return event


def said(call: Outgoing) -> str:
    """The state of an event, or the text of a piece of an artifact."""
    ((kind, value),) = event_of(call).items()
    if kind == 'artifactUpdate':
        return ''.join(part.get('text', '') for part in value['artifact']['parts'])
    return str(value['status']['state'].removeprefix('TASK_STATE_'))


def seqs(calls: Sequence[Outgoing]) -> list[int]:
    """The places of events in the journal."""
    return [int(call.event_id.rpartition('/')[2]) for call in calls]


def config(url: str = URL, **given: Any) -> TaskPushNotificationConfig:
    """A push config."""
    return TaskPushNotificationConfig(url=url, **given)
