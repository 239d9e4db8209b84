"""Who may call: `serve` with API keys and with bearer tokens, on three bindings, right and wrong."""

import asyncio
import itertools
import json
import os
import random
import socket
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from a2a.client import (
    AuthInterceptor,
    ClientCallContext,
    ClientCallInterceptor,
    ClientConfig,
    ClientFactory,
    CredentialService,
)
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest, TaskState
from typer.testing import CliRunner

from a2a_scribe.cli.commands import app
from a2a_scribe.transport.grpc import SERVICE
from a2a_scribe.transport.old.operations import CALLS
from a2a_scribe.transport.old.operations import SERVICE as OLD_SERVICE
from a2a_scribe.transport.operations import OPERATIONS
from tests.acceptance.guarded import Output, Server, run, serving
from tests.conformance.kit import request_of, requests_about
from tests.conformance.old import old_params, old_request
from tests.conformance.wire import Pairs, Wire
from tests.fuzz.http_client import HttpConnection
from tests.support.issuer import (
    AUDIENCE,
    ISSUER,
    Publisher,
    jwk,
    key_set,
    pem,
    signed_with_public_key,
    token,
    unsigned,
)

pytestmark = pytest.mark.anyio

REFUSED, SERVED = ['UNAUTHENTICATED'] * 3, ['ok'] * 3
runner = CliRunner()
SECRETS: list[str] = []
"""Every credential that these tests have shown."""


def bearing(text: str) -> Pairs:
    SECRETS.append(text)
    return (('Authorization', f'Bearer {text}'),)


def showing(key: str) -> Pairs:
    SECRETS.append(key)
    return (('X-API-Key', key),)


def now() -> float:
    return time.time()


@pytest.fixture
def output() -> Iterator[Output]:
    """What servers have written: never a credential, nor a traceback."""
    output = Output()
    yield output
    assert [secret for secret in SECRETS if len(secret) > 10 and secret in output.text] == []
    assert 'Traceback' not in output.text


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    publisher = Publisher()
    publisher.answer = key_set(jwk('k1', 'RS256'), jwk('k2'))
    with publisher.running():
        yield publisher


def tokens(keys: str) -> list[str]:
    return ['--jwt-issuer', ISSUER, '--jwt-audience', AUDIENCE, '--jwt-keys', keys]


async def eventually(wanted: Callable[[], Any], expected: Any) -> None:
    """Asks until the answer is as expected."""
    async with asyncio.timeout(30):
        while await wanted() != expected:
            await asyncio.sleep(0)


# Bearer tokens

WRONG: dict[str, Callable[[], str]] = {
    'expired': lambda: token(now(), 'k1', 'RS256', exp=int(now()) - 31),
    'not yet valid': lambda: token(now(), 'k1', 'RS256', nbf=int(now()) + 120),
    'another audience': lambda: token(now(), 'k1', 'RS256', aud='others'),
    'another issuer': lambda: token(now(), 'k1', 'RS256', iss='https://other.test'),
    'another key': lambda: token(now(), 'k9', 'RS256', header={'kid': 'k1'}),
    'a key of another kind': lambda: token(now(), 'k2', 'ES256', header={'kid': 'k1'}),
    'an unknown key': lambda: token(now(), 'k8'),
    'none as its algorithm': lambda: unsigned(now()) + 'x',
    'none, without a signature': lambda: unsigned(now()),
    'a public key as its secret': lambda: signed_with_public_key(now(), pem('k1', 'RS256')),
    'a public key set as its secret': lambda: signed_with_public_key(now(), key_set(jwk('k1', 'RS256'), jwk('k2'))),
    'no owner': lambda: token(now(), 'k1', 'RS256', sub=None),
    'an unusable owner': lambda: token(now(), 'k1', 'RS256', sub='a\nb'),
    'nothing but text': lambda: 'secret-text',
}


async def test_tokens_get_what_they_should_on_every_binding(output: Output, publisher: Publisher) -> None:
    async with serving(output, *tokens(publisher.url)) as server:
        assert await server.outcomes(()) == REFUSED
        assert publisher.asked == 0
        for name, algorithm in (('k1', 'RS256'), ('k2', 'ES256')):
            assert await server.outcomes(bearing(token(now(), name, algorithm))) == SERVED
        for name, made in WRONG.items():
            assert await server.outcomes(bearing(made())) == REFUSED, name
        right = token(now(), 'k1', 'RS256')
        assert await server.outcomes((*bearing(right), *bearing(right))) == REFUSED
        await tasks_are_their_owners(server, *(bearing(token(now(), 'k2', sub=sub)) for sub in ('ann', 'ben')))


async def tasks_are_their_owners(server: Server, ann: Pairs, ben: Pairs) -> None:
    """Each sees what they made, on whichever binding, and nothing else."""
    made = []
    for wire in server.wires:
        task = (await wire.call('SendMessage', request_of('complete'), headers=ann)).ok()['task']
        made.append(task['id'])
    for wire in server.wires:
        assert len((await wire.call('ListTasks', {}, headers=ann)).ok()['tasks']) == 3
        assert (await wire.call('ListTasks', {}, headers=ben)).ok().get('tasks', []) == []
        for task_id in made:
            assert (await wire.call('GetTask', {'id': task_id}, headers=ann)).ok()['id'] == task_id
            error = (await wire.call('GetTask', {'id': task_id}, headers=ben)).error
            assert error is not None
            assert error.reason == 'TASK_NOT_FOUND'


async def test_key_that_is_rotated_is_found(output: Output, publisher: Publisher) -> None:
    async with serving(output, *tokens(publisher.url)) as server:
        old, new = bearing(token(now(), 'k1', 'RS256')), bearing(token(now(), 'k3'))
        assert await server.outcomes(old) == SERVED
        assert await server.outcomes(new) == REFUSED
        publisher.answer = key_set(jwk('k3'))
        assert await server.outcomes(new) == SERVED
        assert await server.outcomes(old) == REFUSED


async def test_known_keys_go_on_while_their_host_is_away(output: Output) -> None:
    publisher = Publisher()
    publisher.answer = key_set(jwk('k1', 'RS256'))
    with publisher.running():
        pass  # the place is known, and nobody is there
    async with serving(output, *tokens(publisher.url)) as server:
        first, second = (bearing(token(now(), 'k1', 'RS256', sub=sub)) for sub in ('ann', 'ben'))
        response = await server.http.get(f'{server.url}/tasks', headers=list(first))
        assert (response.status_code, response.headers['retry-after']) == (503, '1')
        assert await server.outcomes(()) == REFUSED
        with publisher.running():
            await eventually(lambda: server.outcomes(first), SERVED)
        assert await server.outcomes(first) == SERVED
        assert await server.outcomes(second) == SERVED
        assert await server.outcomes(bearing(token(now(), 'k9'))) == REFUSED
    assert 'cannot be had from 127.0.0.1' in output.text


async def test_many_strangers_do_not_make_the_server_ask_often(output: Output, publisher: Publisher) -> None:
    async with serving(output, *tokens(publisher.url)) as server:
        for number in range(30):
            assert await server.outcomes(bearing(token(now(), 'k9', header={'kid': f'x{number}'}))) == REFUSED
        assert await server.outcomes(bearing(token(now(), 'k2'))) == SERVED
    assert publisher.asked < 10


async def test_keys_may_be_in_a_file(output: Output, tmp_path: Path) -> None:
    path = tmp_path / 'keys.pem'
    path.write_bytes(pem('k1', 'RS256'))
    options = ['--jwt-algorithms', 'RS256', '--jwt-owner-claim', 'email', '--jwt-scopes', 'a2a', '--jwt-leeway', '5']
    async with serving(output, *tokens(str(path)), *options) as server:
        right: dict[str, Any] = {'email': 'ann@test', 'scope': 'a2a more'}
        assert await server.outcomes(bearing(token(now(), 'k1', 'RS256', **right))) == SERVED
        assert await server.outcomes(bearing(token(now(), 'k1', 'RS256', scope='a2a'))) == REFUSED
        late = token(now(), 'k1', 'RS256', **right, exp=int(now()) - 10)
        assert await server.outcomes(bearing(late)) == REFUSED
        powerless = bearing(token(now(), 'k1', 'RS256', email='ann@test'))
        assert await server.outcomes(powerless) == ['PERMISSION_DENIED'] * 3
        path.write_bytes(pem('k3', 'RS256'))
        await eventually(lambda: server.outcomes(bearing(token(now(), 'k3', 'RS256', **right))), SERVED)


async def test_card_says_how_to_be_known(output: Output, publisher: Publisher, tmp_path: Path) -> None:
    keys = tmp_path / 'keys'
    new_key(keys, 'ann')
    async with serving(output, *tokens(publisher.url), '--api-keys', str(keys)) as server:
        card = (await server.http.get(f'{server.url}/.well-known/agent-card.json')).json()
        assert card['securitySchemes'] == {
            'apiKey': {'apiKeySecurityScheme': {'location': 'header', 'name': 'X-API-Key'}},
            'bearer': {'httpAuthSecurityScheme': {'scheme': 'Bearer', 'bearerFormat': 'JWT'}},
        }
        assert card['securityRequirements'] == [{'schemes': {'apiKey': {}}}, {'schemes': {'bearer': {}}}]
        challenges = (await server.http.get(f'{server.url}/tasks')).headers.get_list('www-authenticate')
        assert sorted(challenges) == ['ApiKey realm="a2a", in="header", name="X-API-Key"', 'Bearer realm="a2a"']


# API keys


def new_key(path: Path, owner: str, *more: str) -> str:
    """Makes a key by the command."""
    made = run('keys', 'new', str(path), '--owner', owner, *more)
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    SECRETS.append(key)
    assert key not in made.stderr
    return key


def listed(path: Path) -> list[dict[str, Any]]:
    shown = run('keys', 'list', str(path), '--json')
    assert shown.returncode == 0, shown.stderr
    return [json.loads(line) for line in shown.stdout.splitlines()]


async def test_keys_are_made_used_and_revoked(output: Output, tmp_path: Path) -> None:
    path = tmp_path / 'keys'
    first = new_key(path, 'ann')
    async with serving(output, '--api-keys', str(path)) as server:
        ann = showing(first)
        assert await server.outcomes(()) == REFUSED
        assert await server.outcomes(ann) == SERVED
        ben = showing(new_key(path, 'ben', '--expires', '90d', '--scope', 'a'))
        await eventually(lambda: server.outcomes(ben), SERVED)
        await tasks_are_their_owners(server, ann, ben)
        for wrong in (first[:-1], first + 'x', first[:-1] + ('A' if first[-1] != 'A' else 'B'), 'x', 'a2as_x_y'):
            assert await server.outcomes(showing(wrong)) == REFUSED
        assert await server.outcomes((*ann, *ann)) == REFUSED
        assert await server.outcomes((*ann, *ben)) == REFUSED
        assert await server.outcomes((('Authorization', f'Bearer {first}'),)) == REFUSED
        assert run('keys', 'revoke', str(path), listed(path)[0]['id']).returncode == 0
        await eventually(lambda: server.outcomes(ann), REFUSED)
        assert await server.outcomes(ben) == SERVED
    assert [(key['owner'], key['state'], key['scopes']) for key in listed(path)] == [
        ('ann', 'revoked', ''),
        ('ben', 'valid', 'a'),
    ]


async def test_either_kind_of_credentials_is_enough_and_both_are_too_many(
    output: Output, publisher: Publisher, tmp_path: Path
) -> None:
    path = tmp_path / 'keys'
    key = showing(new_key(path, 'ann'))
    async with serving(output, *tokens(publisher.url), '--api-keys', str(path)) as server:
        right, wrong = bearing(token(now(), 'k2')), bearing(WRONG['expired']())
        assert await server.outcomes(key) == await server.outcomes(right) == SERVED
        for headers in ((*key, *right), (*key, *wrong), (*showing('x'), *right)):
            assert await server.outcomes(headers) == REFUSED


def test_commands_say_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / 'keys'
    for arguments, problem in (
        (['list', str(path)], 'there is no file'),
        (['revoke', str(path), 'x'], 'has no key'),
        (['new', str(path), '--owner', ''], 'the owner of a key'),
        (['new', str(path), '--owner', 'ann', '--expires', 'soon'], 'neither a time'),
        (['new', str(path), '--owner', 'ann', '--expires', '2001-01-01'], 'is over'),
        (['new', str(tmp_path / 'nowhere' / 'keys'), '--owner', 'ann'], 'cannot be written'),
    ):
        found = runner.invoke(app, ['keys', *arguments])
        assert (found.exit_code, found.stdout) == (2, ''), arguments
        assert problem in found.stderr
        assert len(found.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_list_shows_people_a_table(tmp_path: Path) -> None:
    path = tmp_path / 'keys'
    key = new_key(path, 'ann', '--expires', '2099-01-31')
    shown = run('keys', 'list', str(path)).stdout
    assert all(text in shown for text in ('ann', 'valid', '2099-01-31T00:00:00Z', key.split('_')[1]))
    assert key.split('_', 2)[2] not in shown


# A client of a2a-sdk, which reads the card


class Known(CredentialService):
    """Credentials by the names of schemes."""

    def __init__(self, credentials: Mapping[str, str]) -> None:
        self._credentials = credentials

    async def get_credentials(self, security_scheme_name: str, context: ClientCallContext | None) -> str | None:
        return self._credentials.get(security_scheme_name)


async def test_client_of_the_sdk_does_as_the_card_says(output: Output, publisher: Publisher, tmp_path: Path) -> None:
    path = tmp_path / 'keys'
    credentials = {'apiKey': new_key(path, 'ann'), 'bearer': token(now(), 'k2')}
    SECRETS.append(credentials['bearer'])
    options = ['--api-keys', str(path), '--grpc-in-card']
    async with serving(output, *tokens(publisher.url), *options) as server:
        seen = set()
        for name, binding in itertools.product(credentials, ('JSONRPC', 'HTTP+JSON', 'GRPC')):
            config = ClientConfig(
                streaming=False,
                httpx_client=server.http,
                grpc_channel_factory=lambda _: server.channel,
                supported_protocol_bindings=[binding],
            )
            interceptors: list[ClientCallInterceptor] = [AuthInterceptor(Known({name: credentials[name]}))]
            client = await ClientFactory(config).create_from_url(server.url, interceptors=interceptors)
            message = Message(role=Role.ROLE_USER, message_id='m', parts=[Part(text='complete')])
            [event] = [each async for each in client.send_message(SendMessageRequest(message=message))]
            assert event.task.status.state == TaskState.TASK_STATE_COMPLETED
            seen.add(event.task.id)
        page = (await server.wires[0].call('ListTasks', {}, headers=showing(credentials['apiKey']))).ok()
        assert {task['id'] for task in page['tasks']} == seen


# Options that cannot work


def test_serve_refuses_what_would_not_protect(tmp_path: Path) -> None:
    bad = tmp_path / 'bad'
    bad.write_text('{}')
    for arguments, problem in (
        (['--api-keys', str(tmp_path / 'none')], 'cannot be read'),
        (['--api-keys', str(bad)], 'is no file of API keys'),
        (['--jwt-issuer', ISSUER], 'need --jwt-audience, --jwt-keys too'),
        (['--jwt-algorithms', 'RS256'], 'need --jwt-issuer, --jwt-audience, --jwt-keys too'),
        (tokens(str(bad)), 'cannot be used'),
        ([*tokens('https://issuer.test/keys'), '--jwt-algorithms', 'none'], "'none' is not one of"),
        ([*tokens('https://issuer.test/keys'), '--jwt-algorithms', 'HS256'], 'need a file'),
        ([*tokens('https://issuer.test/keys'), '--jwt-algorithms', ''], 'must be a collection of names'),
    ):
        serve = ['serve', 'tests.conformance.actor:Actor', '--port', '0', '--database', 'memory', *arguments]
        found = runner.invoke(app, serve)
        assert (found.exit_code, found.stdout) == (2, ''), arguments
        assert problem in found.stderr
        assert len(found.stderr.splitlines()) == 1, found.stderr


async def test_open_server_is_warned_of(output: Output, tmp_path: Path) -> None:
    async with serving(output):
        pass
    assert output.text == ''
    async with serving(output, '--host', '0.0.0.0'):
        pass
    assert 'Listening on 0.0.0.0 without authentication' in output.text
    path = tmp_path / 'keys'
    new_key(path, 'ann')
    guarded = Output()
    async with serving(guarded, '--host', '0.0.0.0', '--api-keys', str(path)):
        pass
    assert guarded.text == ''


# Credentials that are none

PIECES = [
    b'Bearer',
    b'bearer',
    b'Basic',
    b'ApiKey',
    b'',
    b' ',
    b'  ',
    b'\t',
    b',',
    b'"',
    b'=',
    b'.',
    b'..',
    b'...',
    b'\xff',
]
NAMES = [b'Authorization', b'authorization', b'X-API-Key', b'x-api-key', b'X-Api-Key ', b'Proxy-Authorization']


def damaged(chance: random.Random, right: list[bytes]) -> bytes:
    """Headers with credentials that are missing, doubled, or not as they must be."""
    lines = []
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3, 30))):
        value = chance.choice(right)
        for _ in range(chance.randrange(4)):
            place = chance.randrange(len(value) + 1)
            piece = chance.choice([*PIECES, bytes([chance.randrange(256)]), chance.choice(right)])
            value = value[:place] + piece + value[place + chance.choice((0, 0, 1, 5, 500)) :]
        value = value.replace(b'\r', b'').replace(b'\n', b'').replace(b'\0', b'')
        lines.append(b'%b: %b\r\n' % (chance.choice(NAMES), value * chance.choice((1, 1, 1, 1, 40))))
    return b''.join(lines)


def rpc_body(method: str, **params: Any) -> bytes:
    return json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}).encode()


REQUESTS: list[tuple[bytes, bytes]] = [
    (b'POST /', b'{}'),
    (b'POST /', b'['),
    (b'POST /', rpc_body('GetTask', id='x')),
    (b'POST /', rpc_body('SendStreamingMessage', **request_of('work complete'))),
    (b'POST /', rpc_body('SubscribeToTask', id='x')),
    (b'POST /', b'[%b,%b]' % (rpc_body('ListTasks'), rpc_body('tasks/get', id='x'))),
    (b'POST /', rpc_body('tasks/get', id='x')),
    (b'POST /', rpc_body('tasks/resubscribe', id='x')),
    (b'POST /', rpc_body('message/stream', **old_params('work complete'))),
    (b'POST /', rpc_body('agent/getAuthenticatedExtendedCard')),
    (b'GET /tasks', b''),
    (b'GET /tasks/x', b''),
    (b'POST /message:send', json.dumps(request_of('complete')).encode()),
    (b'POST /message:stream', b'{"message":'),
    (b'GET /extendedAgentCard', b''),
    (b'GET /tasks/x:subscribe', b''),
    (b'GET /v1/tasks/x', b''),
    (b'GET /v1/card', b''),
    (b'POST /v1/message:send', json.dumps(old_request('complete')).encode()),
    (b'POST /v1/message:stream', json.dumps(old_request('work complete')).encode()),
    (b'DELETE /v1/tasks/x/pushNotificationConfigs/y', b''),
    (b'GET /healthz/tasks', b''),
    (b'OPTIONS /', b''),
]
VERSIONS = [b'A2A-Version: 1.0\r\n', b'A2A-Version: 1.0\r\n', b'', b'A2A-Version: 0.3\r\n', b'A2A-Version: 9\r\n']


def any_request(chance: random.Random, right: list[bytes]) -> bytes:
    """A request of any version, with credentials that may be as they must."""
    head, body = chance.choice(REQUESTS)
    lines = b'Host: x\r\nContent-Length: %d\r\n' % len(body) + chance.choice(VERSIONS)
    return head + b' HTTP/1.1\r\n' + lines + damaged(chance, right) + b'\r\n' + body


@asynccontextmanager
async def with_both(output: Output, publisher: Publisher, tmp_path: Path) -> AsyncIterator[tuple[Server, list[str]]]:
    path = tmp_path / 'keys'
    key = new_key(path, 'ann')
    text = token(now(), 'k1', 'RS256')
    SECRETS.append(text)
    options = ('--api-keys', str(path), '--with-0.3', '--audit-log', '--cors-origin', 'https://app.example')
    async with serving(output, *tokens(publisher.url), *options) as server:
        assert await server.outcomes(bearing(text)) == SERVED
        yield server, [key, text]


async def test_no_credentials_harm_the_server(output: Output, publisher: Publisher, tmp_path: Path) -> None:
    count = 10_000 if os.environ.get('SCRIBE_FULL') else 600
    chance = random.Random('doors')
    async with with_both(output, publisher, tmp_path) as (server, (key, text)):
        right = [key.encode(), b'Bearer ' + text.encode(), text.encode(), unsigned(now()).encode(), b'']
        host, port = server.url.removeprefix('http://').split(':')
        http = HttpConnection(host, int(port))
        seen = set()
        for _ in range(count):
            request = any_request(chance, right)
            for response in await asyncio.to_thread(http.try_out, request):
                assert response.status in (200, 400, 401, 404, 405, 431), (request, response)
                assert response.status != 401 or 'www-authenticate' in response.headers
                assert response.status != 200 or key.encode() in request or text.encode() in request
                assert b'INTERNAL_ERROR' not in response.body, (request, response)
                seen.add(response.status)
        assert {200, 400, 401, 404} <= seen
        assert await server.outcomes(bearing(text)) == await server.outcomes(showing(key)) == SERVED
    assert 'The authenticator' not in output.text


async def test_no_metadata_harms_the_server(output: Output, publisher: Publisher, tmp_path: Path) -> None:
    count = 3_000 if os.environ.get('SCRIBE_FULL') else 200
    chance = random.Random('doors')
    async with with_both(output, publisher, tmp_path) as (server, (key, text)):
        right = [key, f'Bearer {text}', text, unsigned(now()), '']
        seen = set()
        for _ in range(count):
            headers = []
            for _ in range(chance.choice((0, 1, 1, 2, 3))):
                value = chance.choice(right)
                place = chance.randrange(len(value) + 1)
                value = value[:place] + chance.choice(['', ' ', '.', 'é', '=', 'Bearer ', 'x']) + value[place:]
                value = value.encode('ascii', 'ignore').decode().strip()
                headers.append((chance.choice(['authorization', 'x-api-key']), value))
            method: Any = server.channel.unary_stream(chance.choice(METHODS))
            call = method(b'', metadata=[*chance.choice(GRPC_VERSIONS), *headers])
            with suppress(grpc.aio.AioRpcError):
                [_ async for _ in call]
            seen.add((await call.code()).name)
        assert {'UNAUTHENTICATED', 'INVALID_ARGUMENT'} <= seen
        assert seen <= {'OK', 'UNAUTHENTICATED', 'INVALID_ARGUMENT', 'FAILED_PRECONDITION'}
        assert await server.outcomes(bearing(text)) == await server.outcomes(showing(key)) == SERVED
    assert 'The authenticator' not in output.text


METHODS = [
    *[f'/{SERVICE}/{name}' for name in OPERATIONS],
    *[f'/{OLD_SERVICE}/{name}' for name in CALLS],
]
GRPC_VERSIONS = [(('a2a-version', '1.0'),), (('a2a-version', '1.0'),), (), (('a2a-version', '0.3'),)]


# How long an answer takes


@pytest.mark.skipif(not os.environ.get('SCRIBE_FULL'), reason='takes long, and a machine without other work')
async def test_answers_about_tasks_of_others_take_as_long_as_those_about_none(output: Output, tmp_path: Path) -> None:
    path = tmp_path / 'keys'
    ann, ben = [showing(new_key(path, owner)) for owner in ('ann', 'ben')]
    large = 'x' * 2_000_000
    scripts = {'live': 'work hold:gate complete', 'parked': f'ask {large}', 'finished': f'complete {large}'}
    configuration = {'returnImmediately': True}
    card = tmp_path / 'card.json'
    card.write_text(json.dumps({'name': 'a', 'capabilities': {'streaming': True, 'pushNotifications': True}}))
    options = ('--card', str(card), '--api-keys', str(path))
    async with serving(output, *options, database=f'sqlite+aiosqlite:///{tmp_path}/x.db') as server:
        names = {'00000000-0000-4000-8000-000000000000': 'unknown'}
        for name, script in scripts.items():
            request = request_of(script, configuration=configuration)
            task = (await server.wires[0].call('SendMessage', request, headers=ann)).ok()['task']
            names[task['id']] = name
        for wire in server.wires:
            for operation, _ in requests_about(''):
                found: dict[str, float] = {}
                for _ in range(3):  # what else the machine does is no difference that comes again
                    found = await times_of(wire, operation, names, ben)
                    if all(0.8 < each < 1.25 for each in found.values()):
                        break
                else:
                    pytest.fail(f'{wire.binding} {operation}: {found}')
                print(f'\n{wire.binding} {operation}: {found}', end='')


async def times_of(wire: Wire, operation: str, names: Mapping[str, str], headers: Pairs) -> dict[str, float]:
    """How long a stranger waits for the answer about each task, as a part of that about an unknown one."""
    chance = random.Random('doors')
    times: dict[str, list[float]] = {name: [] for name in names.values()}
    for _ in range(100):
        for task_id, name in chance.sample([*names.items()], len(names)):
            params = dict(requests_about(task_id))[operation]
            start = time.perf_counter()
            answer = await wire.ask(operation, params, headers=headers)
            times[name].append(time.perf_counter() - start)
            assert answer.error is not None
            assert answer.error.reason == 'TASK_NOT_FOUND'
    quick = {name: statistics.quantiles(taken, n=5)[0] for name, taken in times.items()}
    return {name: round(taken / quick['unknown'], 2) for name, taken in quick.items()}


@pytest.mark.skipif(not os.environ.get('SCRIBE_FULL'), reason='takes long, and a machine without other work')
async def test_tokens_take_little_of_the_processor(output: Output, publisher: Publisher) -> None:
    async with serving(output) as open_server, serving(output, *tokens(publisher.url)) as guarded:
        right = list(bearing(token(now(), 'k1', 'RS256', exp=int(now()) + 3600)))
        taken: dict[Server, list[float]] = {open_server: [], guarded: []}
        for _ in range(6):
            for server, costs in taken.items():
                before = server.cpu
                for _ in range(500):
                    (await server.wires[0].call('SendMessage', request_of('complete'), headers=right)).ok()
                costs.append(server.cpu - before)
        without, with_tokens = [statistics.median(costs[1:]) for costs in taken.values()]
        print(f'\nms of processor per small task: {without * 2:.3f}, with tokens {with_tokens * 2:.3f}')
        assert with_tokens < 1.15 * without


def test_nothing_is_left_that_listens() -> None:
    """The publisher of these tests gives its port back."""
    publisher = Publisher()
    with publisher.running():
        port = publisher.port
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(('127.0.0.1', port))
