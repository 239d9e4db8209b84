"""A server signs what it delivers, and a receiver on loopback verifies it; keys and secrets change."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, Part
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from a2a_scribe import Settings, create_app
from a2a_scribe.clock import SystemClock
from a2a_scribe.push.signing_keys import Algorithm, KeyRing, new_key, read_ring, rotated
from a2a_scribe.webhooks.keys import Fetch, fetch_bytes
from a2a_scribe.webhooks.names import TOKEN
from a2a_scribe.webhooks.verify import Delivery, DeliveryRefusedError, HmacVerifier, JwtVerifier
from tests.conformance.site import serving_http

pytestmark = pytest.mark.anyio

ISSUER: Final = 'https://agent.test'
SECRETS: Final = tuple(f'whsec_{base64.b64encode(bytes([n]) * 32).decode()}' for n in (1, 2))
CARD: Final = AgentCard(name='agent', capabilities=AgentCapabilities(push_notifications=True, streaming=True))
LONG_ENOUGH: Final = 30.0


class Counting(AgentExecutor):
    """Says numbers, and ends."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        for number in range(5):
            await updater.add_artifact([Part(text=str(number))], artifact_id='numbers', append=number > 0)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


class QuickClock(SystemClock):
    """Lets a verifier ask for keys again soon."""

    def monotonic(self) -> float:
        return 100 * super().monotonic()


@dataclass
class Receiver:
    """Verifies by either kind of signature, and loses some answers."""

    hmac: HmacVerifier
    fetch: Fetch
    jwt: JwtVerifier = field(init=False)
    url: str = ''
    handled: list[Delivery] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    refused: list[DeliveryRefusedError] = field(default_factory=list)
    kids: set[str] = field(default_factory=set)
    failures: int = 0
    """How many calls are handled and then answered with 503."""
    new: asyncio.Event = field(default_factory=asyncio.Event)

    def listens(self, url: str) -> None:
        self.url = f'{url}/hook'
        self.jwt = JwtVerifier(
            'https://agent.test/keys',
            issuer=ISSUER,
            audience=self.url,
            fetch=lambda _: self.fetch(''),
            clock=QuickClock(),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await request.body()
        status = 204
        try:
            with self.hmac.verify(request.headers, body):
                async with self.jwt.verify(request.headers, body) as delivery:
                    self.take(delivery)
        except DeliveryRefusedError as refused:
            self.refused.append(refused)
            status = refused.status
        head = request.headers[TOKEN].partition('.')[0]
        self.kids.add(json.loads(base64.urlsafe_b64decode(head + '=='))['kid'])
        if self.failures:
            self.failures -= 1
            status = 503
        await Response(status_code=status)(scope, receive, send)

    def take(self, delivery: Delivery) -> None:
        if delivery.is_duplicate:
            self.duplicates.append(delivery.event_id)
        else:
            self.handled.append(delivery)
        self.new.set()

    async def until_end_of(self, task_id: str) -> list[dict[str, Any]]:
        """Waits until a task's end has come; returns its events."""
        async with asyncio.timeout(LONG_ENOUGH):
            while True:
                self.new.clear()
                events = [json.loads(each.body) for each in self.handled if each.task_id == task_id]
                if any(state_of(event) == 'TASK_STATE_COMPLETED' for event in events):
                    return events
                await self.new.wait()


def state_of(event: dict[str, Any]) -> str:
    return str(event.get('statusUpdate', event.get('task', {})).get('status', {}).get('state', ''))


@asynccontextmanager
async def serving(database: Path, keys: Path, secrets: Sequence[str] = SECRETS[:1]) -> AsyncIterator[str]:
    settings = Settings(
        webhook_allow=('127.0.0.1',),
        webhook_first_pause=0.05,
        poll_interval=0.05,
        webhook_hmac_secrets=tuple(secrets),
        webhook_signing_keys_file=str(keys),
        webhook_issuer=ISSUER,
    )
    app = create_app(Counting(), CARD, f'sqlite+aiosqlite:///{database}', settings=settings)
    async with app.router.lifespan_context(app), serving_http(app) as url:
        yield url


async def send(url: str, hook: str) -> str:
    """Sends a message with a webhook; returns the task."""
    async with httpx.AsyncClient(trust_env=False, headers={'A2A-Version': '1.0'}, timeout=LONG_ENOUGH) as http:
        message = {'messageId': 'm', 'role': 'ROLE_USER', 'parts': [{'text': 'count'}]}
        configuration = {'taskPushNotificationConfig': {'url': hook}}
        answer = await http.post(f'{url}/message:send', json={'message': message, 'configuration': configuration})
        return str(answer.raise_for_status().json()['task']['id'])


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    file = tmp_path / 'keys.json'
    now = int(time.time())
    write(file, KeyRing((new_key(Algorithm.EDDSA, now, now),)))
    return file


def write(file: Path, ring: KeyRing) -> None:
    file.write_bytes(ring.stored())


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async def nothing(_: str) -> bytes:
        raise OSError

    receiver = Receiver(HmacVerifier(SECRETS), nothing)
    async with serving_http(receiver) as url:
        receiver.listens(url)
        yield receiver


def published_at(url: str) -> Fetch:
    return lambda _: fetch_bytes(f'{url}/.well-known/jwks.json')


async def test_every_event_is_signed_and_lost_answers_are_duplicates(
    tmp_path: Path, keys: Path, receiver: Receiver
) -> None:
    async with serving(tmp_path / 'tasks.db', keys) as url:
        receiver.fetch = published_at(url)
        receiver.failures = 2
        task = await send(url, receiver.url)
        events = await receiver.until_end_of(task)
    assert len(events) == 8, 'the task, at work, five chunks, its end'
    seqs = [each.seq for each in receiver.handled]
    assert seqs == sorted(set(seqs))
    assert receiver.duplicates
    assert {type(each).__name__ for each in receiver.refused} <= {'ReplayedDeliveryError'}


async def test_changing_keys_and_secrets_loses_nothing(tmp_path: Path, keys: Path, receiver: Receiver) -> None:
    """Three starts of the server: before, published but not signing, and signing with the new ones."""
    ring = read_ring(keys)
    now = int(time.time())
    new = new_key(Algorithm.ES256, now, now)
    stages = (
        (ring, SECRETS[:1]),
        (rotated(ring, replace(new, signs_from=now + 3600), now, keep=3600), SECRETS),
        (rotated(ring, new, now, keep=3600), SECRETS[1:]),
    )
    for number, (stored, secrets) in enumerate(stages):
        file = keys.with_name(f'keys {number}')
        write(file, stored)
        async with serving(tmp_path / 'tasks.db', file, secrets) as url:
            receiver.fetch = published_at(url)
            assert len(await receiver.until_end_of(await send(url, receiver.url))) == 8
    assert receiver.kids == {ring.keys[0].kid, new.kid}
    assert {refused.status for refused in receiver.refused} <= {409, 503}
