"""The receivers of `docs/webhooks-receiving.md`, run as they stand there, take what we sign and nothing else."""

import asyncio
import base64
import itertools
import json
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import httpx
import jwt
import pytest
from a2a.types.a2a_pb2 import AgentCard
from cryptography.hazmat.primitives import serialization

from a2a_scribe import Settings, create_app
from a2a_scribe.push.delivery import Outgoing, Signer
from a2a_scribe.push.signing import HmacSigner, TokenSigner, read_secrets, signers_of
from a2a_scribe.push.signing_keys import Algorithm, KeyRing, new_key, read_ring
from a2a_scribe.webhooks.names import TOKEN
from tests.acceptance.clients.tools import find_node
from tests.conformance.actor import Actor
from tests.conformance.site import serving_http

pytestmark = pytest.mark.anyio

PAGE: Final = Path(__file__).resolve().parents[2] / 'docs' / 'webhooks-receiving.md'
SECRET, OTHER_SECRET = (f'whsec_{base64.b64encode(bytes([n]) * 32).decode()}' for n in (1, 2))
ISSUER: Final = 'https://agent.test'
HOOK: Final = 'https://receiver.test/hook'
"""As it is registered; receivers stand behind something that speaks TLS."""
BODY: Final = b'{"statusUpdate":{"taskId":"task"}}'
LONG_ENOUGH: Final = 30.0


def blocks(language: str) -> list[str]:
    return re.findall(rf'```{language}\n(.*?)```', PAGE.read_text(encoding='utf-8'), re.DOTALL)


@dataclass
class Receiver:
    """A receiver that listens."""

    http: httpx.AsyncClient
    url: str
    next_handled: Callable[[], Awaitable[str]]
    """Waits for the next event that it handles."""

    async def post(self, headers: Mapping[str, str], body: bytes = BODY) -> int:
        answer = await self.http.post(self.url, headers=headers, content=body)
        return answer.status_code


@dataclass
class Sender:
    """What signs, and how somebody else would."""

    signer: Signer
    keys_url: str
    ring: KeyRing
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def outgoing(self, event: str = '', *, ago: int = 0, attempt: int = 1) -> Outgoing:
        sent_at = time.time_ns() // 1000 - ago * 1_000_000
        return Outgoing(HOOK, 'task', event or f'task/{next(self.ids)}', attempt, sent_at, {}, BODY)

    def signed(self, one: Outgoing | None = None) -> dict[str, str]:
        return dict(self.signer.sign(one or self.outgoing()))


HMAC: Final = 'hmac'
with_keys = pytest.mark.parametrize('kind', Algorithm, indirect=True)


@pytest.fixture(params=[HMAC, *Algorithm])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def sender(kind: str, tmp_path: Path) -> AsyncIterator[Sender]:
    """An agent's server, which publishes its keys."""
    now = int(time.time())
    file = tmp_path / 'keys.json'
    algorithm = Algorithm.EDDSA if kind == HMAC else Algorithm(kind)
    file.write_bytes(KeyRing((new_key(algorithm, now, now),)).stored())
    settings = Settings(
        webhook_signing_keys_file=None if kind == HMAC else str(file),
        webhook_hmac_secrets=(SECRET,) if kind == HMAC else (),
        webhook_issuer=ISSUER,
    )
    app = create_app(Actor(), AgentCard(name='agent'), 'memory', settings=settings)
    async with serving_http(app) as url:
        (signer,) = signers_of(settings)
        yield Sender(signer, f'{url}/.well-known/jwks.json', read_ring(file))


@pytest.fixture(params=['python', 'javascript'])
async def receiver(
    request: pytest.FixtureRequest, kind: str, sender: Sender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Receiver]:
    environment = {
        'WEBHOOK_SECRETS': SECRET,
        'KEYS_URL': sender.keys_url,
        'ISSUER': ISSUER,
        'HOOK_URL': HOOK,
        'PORT': '0',
    }
    running = python_receiver if request.param == 'python' else javascript_receiver
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    async with httpx.AsyncClient(trust_env=False) as http, running(kind, http, tmp_path) as receiver:
        yield receiver


@asynccontextmanager
async def python_receiver(kind: str, http: httpx.AsyncClient, _: Path) -> AsyncIterator[Receiver]:
    """In this process; what it prints is taken from it."""
    (program,) = [block for block in blocks('python') if ('HmacVerifier' if kind == HMAC else 'JwtVerifier') in block]
    printed: asyncio.Queue[str] = asyncio.Queue()
    names: dict[str, Any] = {'print': lambda *words: printed.put_nowait(' '.join(map(str, words)))}
    exec(program, names)
    async with serving_http(names['app']) as url:
        yield Receiver(http, f'{url}/hook', printed.get)


@asynccontextmanager
async def javascript_receiver(kind: str, http: httpx.AsyncClient, folder: Path) -> AsyncIterator[Receiver]:
    """In a process of its own."""
    for block in blocks('javascript'):
        name = block.partition('\n')[0].removeprefix('// ')
        (folder / name).write_text(
            block if kind == HMAC else block.replace("'./hmac.mjs'", "'./jwt.mjs'"), encoding='utf-8'
        )
    process = await asyncio.create_subprocess_exec(
        find_node().command, 'receiver.mjs', cwd=folder, env={**os.environ}, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    output = process.stdout

    async def line() -> str:
        return (await asyncio.wait_for(output.readline(), LONG_ENOUGH)).decode().rstrip()

    try:
        listening = await line()
        assert listening.startswith('listening '), listening
        yield Receiver(http, f'http://127.0.0.1:{listening.split()[1]}/hook', line)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def handled(receiver: Receiver) -> str:
    return (await asyncio.wait_for(receiver.next_handled(), LONG_ENOUGH)).removeprefix('handled ')


async def test_what_is_signed_is_handled_once(sender: Sender, receiver: Receiver) -> None:
    assert await receiver.post(sender.signed(sender.outgoing('first/1'))) == 204
    assert await receiver.post(sender.signed(sender.outgoing('first/1', ago=5, attempt=2))) == 204, 'a duplicate'
    assert await receiver.post(sender.signed(sender.outgoing('a task.ü/2'))) == 204
    assert [await handled(receiver), await handled(receiver)] == ['first/1', 'a task.ü/2']


async def test_a_replay_is_refused(sender: Sender, receiver: Receiver) -> None:
    headers = sender.signed()
    assert await receiver.post(headers) == 204
    assert await receiver.post(headers) == 409


async def test_what_is_not_right_is_refused(kind: str, sender: Sender, receiver: Receiver) -> None:
    assert await receiver.post({}) == 401
    assert await receiver.post(sender.signed(), BODY.replace(b'task"', b'tosk"')) == 401
    assert await receiver.post(sender.signed(sender.outgoing(ago=400))) == 401
    assert await receiver.post(sender.signed(sender.outgoing(ago=-400))) == 401
    for headers in (forged_hmac if kind == HMAC else forged_tokens)(sender):
        assert await receiver.post(headers) == 401, headers
    assert await receiver.post(sender.signed(sender.outgoing('last/1'))) == 204
    assert await handled(receiver) == 'last/1', 'nothing else was handled'


def forged_hmac(sender: Sender) -> Iterator[Mapping[str, str]]:
    yield HmacSigner(read_secrets([OTHER_SECRET])).sign(sender.outgoing())
    good = sender.signed()
    yield {**good, 'webhook-id': 'task/999'}
    yield {**good, 'webhook-timestamp': str(int(good['webhook-timestamp']) - 1)}
    yield {**good, 'webhook-signature': good['webhook-signature'].removeprefix('v1,')}
    yield {**good, 'webhook-signature': 'v1,'}


def forged_tokens(sender: Sender) -> Iterator[Mapping[str, str]]:
    key = sender.ring.keys[0]
    stranger = new_key(key.algorithm, 0, 0)
    yield TokenSigner(KeyRing((replace(stranger, kid=key.kid),)), ISSUER).sign(sender.outgoing())
    yield TokenSigner(sender.ring, 'https://other.test').sign(sender.outgoing())
    yield sender.signed(replace(sender.outgoing(), url='https://other.test/hook'))
    claims = jwt.decode(sender.signed()[TOKEN], options={'verify_signature': False})
    yield {TOKEN: jwt.encode(claims, key.private, key.algorithm, {'kid': key.kid, 'typ': 'JWT'})}
    pem = key.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for alg in ('none', 'HS256'):
        head = encoded(json.dumps({'alg': alg, 'kid': key.kid, 'typ': 'a2a-webhook+jwt'}).encode())
        content = f'{head}.{encoded(json.dumps(claims).encode())}'
        hmac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
        signature = hmac.sign(content.encode(), pem)
        yield {TOKEN: f'{content}.{encoded(signature)}'}
        yield {TOKEN: f'{content}.'}


def encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b'=').decode()


@with_keys
async def test_a_key_that_is_not_known_is_asked_to_come_later(sender: Sender, receiver: Receiver) -> None:
    assert await receiver.post(sender.signed()) == 204
    unknown = TokenSigner(KeyRing((new_key(Algorithm.EDDSA, 0, 0),)), ISSUER)
    assert await receiver.post(unknown.sign(sender.outgoing())) == 503


@pytest.mark.parametrize('kind', [HMAC], indirect=True)
async def test_without_signing_keys_there_is_no_route_of_keys(sender: Sender) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        assert (await http.get(sender.keys_url)).status_code == 404


@with_keys
async def test_the_route_of_the_keys(sender: Sender) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.get(sender.keys_url)
        assert answer.status_code == 200
        assert answer.headers['content-type'] == 'application/jwk-set+json'
        assert answer.headers['cache-control'] == 'public, max-age=300'
        assert [set(key) & {'d', 'k'} for key in answer.json()['keys']] == [set()]
        again = await http.get(sender.keys_url, headers={'If-None-Match': answer.headers['etag']})
        assert again.status_code == 304
        assert (await http.post(sender.keys_url)).status_code == 405
