"""What the poster reaches, on real sockets: screened addresses only, under the right name, in bounded time."""

import asyncio
import datetime as dt
import gc
import ipaddress
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from a2a_scribe import Settings
from a2a_scribe.clock import SystemClock
from a2a_scribe.errors import SettingsError
from a2a_scribe.push import links
from a2a_scribe.push import posting as posting_module
from a2a_scribe.push.delivery import Answer, DeliveryFailedError, Outgoing, Poster
from a2a_scribe.push.posting import GuardedPoster, poster_of, retry_after_of
from a2a_scribe.push.resolving import SystemResolver
from a2a_scribe.testing.clock import FakeClock
from tests.unit.test_targets import INSIDE, NOT_A_WEBHOOK

pytestmark = pytest.mark.anyio

SECRET = 'the-secret-of-a-config'
OK = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
Respond = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Receiver:
    """Keeps every connection and request that comes to it, and answers with bytes."""

    answer: bytes | Respond = OK
    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while head := await reader.readuntil(b'\r\n\r\n'):
            length = next(int(line[15:]) for line in head.split(b'\r\n') if line.lower().startswith(b'content-length'))
            self.requests.append(head + await reader.readexactly(length))
            if isinstance(self.answer, bytes):
                writer.write(self.answer)
                await writer.drain()
            else:
                await self.answer(writer)


@asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serves connections on a port of loopback; at the end, those that are left are given up."""
    serving: set[asyncio.Task[Any] | None] = set()

    async def watched(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        try:
            await serve(reader, writer)
        except (asyncio.CancelledError, asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(watched, '127.0.0.1', 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        left = [task for task in serving if task is not None]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(0)


@asynccontextmanager
async def receiving(answer: bytes | Respond = OK, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver(answer)
    async with listening(receiver.serve, tls) as receiver.port:
        yield receiver


@dataclass
class Names:
    """A name server: each time it is asked for a name, it gives the next of its answers, the last one for ever."""

    answers: dict[str, list[list[str]]]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        answers = self.answers.get(host)
        if not answers:
            raise OSError('no such name')
        return answers.pop(0) if len(answers) > 1 else answers[0]


@asynccontextmanager
async def posting(resolve: Names | None = None, **settings: Any) -> AsyncIterator[Poster]:
    poster = poster_of(Settings(**{'webhook_timeout': 5.0, **settings}), SystemClock(), resolve)
    try:
        yield poster
    finally:
        await poster.aclose()


def outgoing(url: str, body: bytes = b'{}', headers: Mapping[str, str] | None = None) -> Outgoing:
    given = {'Content-Type': 'application/a2a+json', 'Authorization': f'Bearer {SECRET}', **(headers or {})}
    return Outgoing(url, 't', 't/1', 1, 0, given, body)


async def failure(poster: Poster, url: str, **headers: str) -> DeliveryFailedError:
    with pytest.raises(DeliveryFailedError) as caught:
        await poster.post(outgoing(url, headers=headers))
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None, 'what it was caused by may repeat a header'
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return caught.value


def open_links() -> list[links.Link]:
    return [each for each in gc.get_objects() if isinstance(each, links.Link) and not each.ended.done()]


LOOPBACK: dict[str, Any] = {'webhook_allow': ('127.0.0.1',)}


# What arrives


async def test_a_request_arrives_as_it_was_made() -> None:
    async with receiving() as receiver, posting(**LOOPBACK) as poster:
        url = f'http://127.0.0.1:{receiver.port}/hook/%2F?a=b'
        assert await poster.post(outgoing(url, b'{"a": 1}', {'X-A2A-Event-Id': 't/1', 'Host': 'evil'})) == Answer(200)
        await poster.post(outgoing(url))
    head, _, body = receiver.requests[0].partition(b'\r\n\r\n')
    first, *headers = head.decode().split('\r\n')
    assert first == 'POST /hook/%2F?a=b HTTP/1.1'
    assert sorted(headers) == [
        f'Authorization: Bearer {SECRET}',
        'Content-Length: 8',
        'Content-Type: application/a2a+json',
        f'Host: 127.0.0.1:{receiver.port}',
        'X-A2A-Event-Id: t/1',
    ]
    assert body == b'{"a": 1}'
    assert (len(receiver.requests), receiver.connections) == (2, 1), 'the connection is used again'


async def test_text_beyond_ascii_arrives_in_utf_8() -> None:
    async with receiving() as receiver, posting(**LOOPBACK) as poster:
        await poster.post(outgoing(f'http://127.0.0.1:{receiver.port}/', headers={'X-Token': 'gr\u00fc\u00df\u2713'}))
    assert 'gr\u00fc\u00df\u2713'.encode() in receiver.requests[0]


@pytest.mark.parametrize('status', [204, 301, 302, 303, 307, 308, 400, 401, 404, 410, 429, 500, 503])
async def test_every_status_is_an_answer_and_redirects_are_not_followed(status: int) -> None:
    async with receiving() as elsewhere:
        head = f'HTTP/1.1 {status} X\r\nLocation: http://127.0.0.1:{elsewhere.port}/\r\n'
        async with (
            receiving(f'{head}Content-Length: 0\r\nSet-Cookie: a=b\r\n\r\n'.encode()) as receiver,
            posting(**LOOPBACK) as poster,
        ):
            url = f'http://127.0.0.1:{receiver.port}/'
            assert [await poster.post(outgoing(url)) for _ in range(2)] == [Answer(status)] * 2
        assert elsewhere.connections == 0
    assert b'cookie' not in receiver.requests[1].lower(), 'cookies are not kept'


async def test_what_the_receiver_asks_for_is_handed_on() -> None:
    head = b'HTTP/1.1 503 X\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n'
    async with receiving(head) as receiver, posting(**LOOPBACK) as poster:
        assert await poster.post(outgoing(f'http://127.0.0.1:{receiver.port}/')) == Answer(503, 120.0)


NOW = 1_750_000_000
"""Sun, 15 Jun 2025 15:06:40 GMT."""


@pytest.mark.parametrize(
    ('value', 'seconds'),
    [
        (b'0', 0.0),
        (b' 7 ', 7.0),
        (b'9' * 1000, 31_536_000.0),
        (b'Sun, 15 Jun 2025 15:07:40 GMT', 60.0),
        (b'Sunday, 15-Jun-25 15:07:40 GMT', 60.0),
        (b'Sun, 15 Jun 2025 15:07:40', 60.0),
        (b'Sun Jun 15 15:07:40 2025', 60.0),
        (b'Sun, 15 Jun 2025 15:00:00 GMT', 0.0),
        (b'Sun, 15 Jun 9999 15:00:00 GMT', 31_536_000.0),
        (b'', None),
        (b'-1', None),
        (b'1.5', None),
        (b'soon', None),
        (b'\xb2', None),
        (b'\xff\xfe', None),
        (b'Sun, 99 Jun 2025 15:07:40 GMT', None),
    ],
)
def test_a_pause_is_read_in_seconds_or_as_a_date(value: bytes, seconds: float | None) -> None:
    assert retry_after_of([(b'Date', b'x'), (b'retry-after', value)], NOW * 1_000_000) == seconds
    assert retry_after_of([(b'Date', value)], NOW * 1_000_000) is None


# What is not reached


async def test_no_hostile_url_is_reached() -> None:
    names = Names({})
    async with posting(names, webhook_http=True) as poster:
        for url in (*INSIDE, *(url for url in NOT_A_WEBHOOK if not url.lower().startswith('http:'))):
            assert (await failure(poster, url)).is_final, url
    assert names.asked == [], 'it did not even come to a question'


@pytest.mark.parametrize(
    'addresses',
    [
        ['127.0.0.1'],
        ['8.8.8.8', '127.0.0.1'],
        ['::1'],
        ['::ffff:127.0.0.1'],
        ['64:ff9b::7f00:1'],
        ['0.0.0.0'],
        ['10.0.0.1'],
        ['169.254.169.254'],
        ['fd00:ec2::254'],
        ['fe80::1%lo'],
    ],
)
async def test_a_name_that_leads_inside_is_not_reached(addresses: list[str]) -> None:
    names = Names({'hook.test': [addresses]})
    async with receiving() as receiver, posting(names, webhook_http=True) as poster:
        refused = await failure(poster, f'http://hook.test:{receiver.port}/')
    assert 'not public' in refused.reason
    assert not refused.is_final, 'a name may lead elsewhere tomorrow'
    assert receiver.connections == 0


async def test_a_name_is_asked_for_once_per_connection() -> None:
    """What a second question would be answered with is what nobody looked at."""
    names = Names({'hook.test': [['127.0.0.2'], ['127.0.0.1']]})
    async with (
        receiving() as inside,
        posting(names, webhook_http=True, webhook_allow=('127.0.0.2',), webhook_timeout=0.5) as poster,
    ):
        url = f'http://hook.test:{inside.port}/'
        assert 'no connection' in (await failure(poster, url)).reason, 'nobody listens at the address that was screened'
        assert names.asked == ['hook.test']
        assert 'not public' in (await failure(poster, url)).reason
        assert inside.connections == 0


async def test_a_name_that_is_rebound_leads_to_no_second_host() -> None:
    names = Names({'hook.test': [['127.0.0.1'], ['127.0.0.2']]})
    closing = b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'
    async with (
        receiving(closing) as receiver,
        posting(names, webhook_http=True, webhook_allow=('127.0.0.1',)) as poster,
    ):
        url = f'http://hook.test:{receiver.port}/'
        assert await poster.post(outgoing(url)) == Answer(200)
        assert f'Host: hook.test:{receiver.port}'.encode() in receiver.requests[0]
        assert 'not public' in (await failure(poster, url)).reason
        assert receiver.connections == 1


async def test_a_name_that_is_allowed_may_lead_inside() -> None:
    names = Names({'hook.internal': [['127.0.0.1']]})
    async with receiving() as receiver, posting(names, webhook_allow=('hook.internal',)) as poster:
        assert await poster.post(outgoing(f'http://hook.internal:{receiver.port}/')) == Answer(200)


async def test_the_next_address_is_tried_if_one_does_not_answer() -> None:
    names = Names({'hook.internal': [['127.0.0.2', '127.0.0.1']]})
    async with receiving() as receiver, posting(names, webhook_allow=('hook.internal',)) as poster:
        assert await poster.post(outgoing(f'http://hook.internal:{receiver.port}/')) == Answer(200)


async def test_a_name_that_nobody_knows_is_no_refusal() -> None:
    async with posting(Names({})) as poster:
        failed = await failure(poster, 'https://hook.test/')
    assert (failed.reason, failed.is_final) == ('the host has no address that is known', False)


async def test_the_system_knows_localhost() -> None:
    resolve = SystemResolver()
    assert '127.0.0.1' in await resolve('localhost')
    with pytest.raises(OSError):  # noqa: PT011 - which one it is depends on the system
        await resolve('a' * 64)


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as proxy, receiving() as receiver:
        for name in ('http_proxy', 'https_proxy', 'all_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'):
            monkeypatch.setenv(name, f'http://127.0.0.1:{proxy.port}')
        async with posting(**LOOPBACK) as poster:
            await poster.post(outgoing(f'http://127.0.0.1:{receiver.port}/'))
    assert (proxy.connections, receiver.connections) == (0, 1)


@dataclass
class Proxy:
    """Connects whoever asks to one port, whatever they ask for."""

    target: int
    answer: bytes = b'HTTP/1.1 200 OK\r\nX: y\r\n\r\n'
    heads: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b'\r\n\r\n'))
        writer.write(self.answer)
        await writer.drain()
        if b' 200 ' in self.answer:
            there, back = await asyncio.open_connection('127.0.0.1', self.target)
            try:
                await asyncio.gather(self.copy(reader, back), self.copy(there, writer))
            finally:
                back.transport.abort()

    async def copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(10_000):
            writer.write(data)
        raise ConnectionError


@asynccontextmanager
async def proxying(proxy: Proxy) -> AsyncIterator[str]:
    async with listening(proxy.serve) as port:
        yield f'http://user:w%3Ard@127.0.0.1:{port}'


@pytest.mark.parametrize('scheme', ['http', 'https'])
async def test_a_proxy_of_the_settings_is_used(scheme: str, tmp_path: Path) -> None:
    authority = new_authority(tmp_path, 'hook.test')
    async with receiving(tls=authority.server if scheme == 'https' else None) as receiver:
        proxy = Proxy(receiver.port)
        async with (
            proxying(proxy) as url,
            posting(webhook_http=True, webhook_proxy=url, webhook_ca_file=authority.ca_file) as poster,
        ):
            for _ in range(2):
                assert await poster.post(outgoing(f'{scheme}://hook.test/x')) == Answer(200)
            assert (await failure(poster, f'{scheme}://10.0.0.1/')).is_final, 'addresses are refused all the same'
    port = b'443' if scheme == 'https' else b'80'
    (head,) = proxy.heads
    assert head.startswith(b'CONNECT hook.test:%b HTTP/1.1\r\nHost: hook.test:%b\r\n' % (port, port))
    assert b'\r\nProxy-Authorization: Basic dXNlcjp3OnJk\r\n' in head
    assert SECRET.encode() not in head
    assert len(receiver.requests) == 2
    assert all(b'Proxy' not in request for request in receiver.requests)


@pytest.mark.parametrize(
    ('answer', 'reason'),
    [
        (b'HTTP/1.1 407 X\r\n\r\n', 'the proxy answered 407'),
        (b'SSH-2.0\r\n\r\n', 'the proxy answered nothing that is HTTP'),
        (b'', 'the proxy has hung up'),
    ],
)
async def test_a_proxy_that_refuses_is_named(answer: bytes, reason: str) -> None:
    async with proxying(Proxy(0, answer)) as url, posting(webhook_proxy=url) as poster:
        assert (await failure(poster, 'https://hook.test/')).reason == reason


async def test_names_behind_a_proxy_are_checked_in_certificates(tmp_path: Path) -> None:
    authority = new_authority(tmp_path, 'hook.test')
    async with (
        receiving(tls=authority.server) as receiver,
        proxying(Proxy(receiver.port)) as url,
        posting(webhook_proxy=url, webhook_ca_file=authority.ca_file) as poster,
    ):
        assert 'Hostname mismatch' in (await failure(poster, 'https://other.test/')).reason
    assert receiver.requests == []


@pytest.mark.parametrize('url', ['proxy', 'socks5://proxy', 'http://', 'http://[', 'http://user:word@:8080'])
def test_a_proxy_that_is_none_is_no_setting(url: str) -> None:
    with pytest.raises(SettingsError, match='webhook_proxy') as caught:
        poster_of(Settings(webhook_proxy=url), SystemClock())
    assert 'word' not in str(caught.value)


async def test_a_connection_that_the_receiver_has_closed_is_made_anew() -> None:
    async with posting(**LOOPBACK) as poster:
        gone = asyncio.Event()

        async def once(writer: asyncio.StreamWriter) -> None:
            writer.write(OK)
            await gone.wait()
            raise ConnectionError

        async with receiving(once) as receiver:
            url = f'http://127.0.0.1:{receiver.port}/'
            assert await poster.post(outgoing(url)) == Answer(200)
            gone.set()
            assert await poster.post(outgoing(url)) == Answer(200)
    assert receiver.connections == 2


async def test_what_nobody_has_asked_for_is_no_answer() -> None:
    async def twice(writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b'HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n')

    async with receiving(twice) as receiver, posting(**LOOPBACK) as poster:
        url = f'http://127.0.0.1:{receiver.port}/'
        assert [await poster.post(outgoing(url)) for _ in range(3)] == [Answer(200)] * 3
    assert receiver.connections == 3


@pytest.mark.parametrize(
    'answer', [b'HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n', b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n']
)
async def test_a_receiver_may_close_after_each_call(answer: bytes) -> None:
    async def closing(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        raise ConnectionError

    async with receiving(closing) as receiver, posting(**LOOPBACK) as poster:
        url = f'http://127.0.0.1:{receiver.port}/'
        assert [await poster.post(outgoing(url)) for _ in range(3)] == [Answer(200)] * 3
    assert receiver.connections == 3


async def test_chunks_and_hints_are_understood() -> None:
    async def chunked(writer: asyncio.StreamWriter) -> None:
        writer.write(
            b'HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
        )
        for piece in (b'2\r\no', b'k\r\n0\r\n', b'X: y\r\n\r\n'):
            await writer.drain()
            writer.write(piece)

    async with receiving(chunked) as receiver, posting(**LOOPBACK) as poster:
        url = f'http://127.0.0.1:{receiver.port}/'
        assert await poster.post(outgoing(url)) == Answer(202)
        (link,) = open_links()
        while not link.was_used:
            await asyncio.sleep(0)
        assert await poster.post(outgoing(url)) == Answer(202)
    assert receiver.connections == 1


async def test_as_many_connections_as_calls_but_only_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting_module, 'IDLE_LINKS', 2)
    gate = asyncio.Event()

    async def together(writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        writer.write(OK)

    async with receiving(together) as receiver, posting(**LOOPBACK) as poster:
        calls = [asyncio.create_task(poster.post(outgoing(f'http://127.0.0.1:{receiver.port}/'))) for _ in range(5)]
        while len(receiver.requests) < 5:
            await asyncio.sleep(0)
        gate.set()
        assert await asyncio.gather(*calls) == [Answer(200)] * 5
        while len(open_links()) > 2:
            await asyncio.sleep(0)
    assert open_links() == []


# Bounds


@pytest.mark.parametrize('lines', [b'', b'Content-Length: 999999999\r\n', b'Transfer-Encoding: chunked\r\n'])
async def test_a_big_answer_is_cut_off(lines: bytes) -> None:
    sent, gone = 0, asyncio.Event()

    async def for_ever(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b'HTTP/1.1 200 OK\r\n' + lines + b'\r\n')
        piece = b'8000\r\n' + b'x' * 0x8000 + b'\r\n' if b'chunked' in lines else b'x' * 0x8000
        try:
            while True:
                writer.write(piece)
                await writer.drain()
                sent += len(piece)
        finally:
            gone.set()

    async with receiving(for_ever) as receiver, posting(**LOOPBACK) as poster:
        assert await poster.post(outgoing(f'http://127.0.0.1:{receiver.port}/')) == Answer(200)
        await gone.wait()
    assert sent < links.BODY_BYTES + 20_000_000, 'buffers of the system aside'


async def test_a_slow_body_does_not_take_the_answer_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, 'BODY_SECONDS', 0.05)
    gone = asyncio.Event()

    async def slowly(writer: asyncio.StreamWriter) -> None:
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx')
        await gone.wait()

    async with receiving(slowly) as receiver, posting(**LOOPBACK) as poster:
        assert await poster.post(outgoing(f'http://127.0.0.1:{receiver.port}/')) == Answer(200)
        (link,) = open_links()
        async with asyncio.timeout(5):
            await link.ended
        gone.set()


@pytest.mark.parametrize('begin', [b'', b'HTTP/1.1 100 Continue\r\n\r\n', b'HTTP/1.1 200 OK\r\nX: '], ids=repr)
async def test_an_answer_that_does_not_come_is_not_waited_for(begin: bytes) -> None:
    gone = asyncio.Event()

    async def slowly(writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        await gone.wait()

    async with receiving(slowly) as receiver, posting(**LOOPBACK, webhook_timeout=0.05) as poster:
        failed = await failure(poster, f'http://127.0.0.1:{receiver.port}/')
        gone.set()
    assert (failed.reason, failed.is_final) == ('no answer within 0.05 s', False)


async def test_a_name_server_that_does_not_answer_is_not_waited_for() -> None:
    class Silent(Names):
        async def __call__(self, host: str) -> Sequence[str]:
            await asyncio.Event().wait()
            return []

    async with posting(Silent({}), webhook_timeout=0.05) as poster:
        assert 'no answer within' in (await failure(poster, 'https://hook.test/')).reason


@pytest.mark.parametrize(
    'answer',
    [b'', b'SSH-2.0-OpenSSH_9.6\r\n', b'HTTP/1.1 200 OK\r\n' + b'X: ' + b'x' * 1_000_000, b'HTTP/1.1 99999 X\r\n\r\n'],
    ids=['nothing', 'another protocol', 'endless headers', 'no status'],
)
async def test_what_is_no_http_is_no_answer(answer: bytes) -> None:
    async def broken(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        raise ConnectionError

    async with receiving(broken) as receiver, posting(**LOOPBACK) as poster:
        failed = await failure(poster, f'http://127.0.0.1:{receiver.port}/')
    assert 'connection broke' in failed.reason


async def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        async with posting(**LOOPBACK) as poster:
            failed = await failure(poster, f'http://127.0.0.1:{taken.getsockname()[1]}/')
    assert failed.reason == 'there is no connection to the host'


@pytest.mark.parametrize('value', ['a\r\nX: y', 'a\nb', ' a', 'a\0', 'a\x7f', 'half \ud83d'], ids=repr)
async def test_a_header_that_cannot_be_sent_is_not_repeated(value: str) -> None:
    async with receiving() as receiver, posting(**LOOPBACK) as poster:
        url = f'http://127.0.0.1:{receiver.port}/'
        failed = await failure(poster, url, Authorization=f'{value}{SECRET}')
        assert (failed.reason, failed.is_final) == ('a header cannot be sent as it is', True)
        assert await poster.post(outgoing(url)) == Answer(200)
    assert len(receiver.requests) == 1


# TLS


CRITICAL = (x509.BasicConstraints, x509.KeyUsage)


@dataclass(frozen=True)
class Authority:
    """A certificate authority of a test, and a server certificate of it."""

    ca_file: str
    server: ssl.SSLContext


def new_authority(folder: Path, *names: str) -> Authority:
    """Makes an authority that has signed a certificate for some names and addresses."""
    begin = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)

    def certificate(name: str, key: Any, issuer: str, signer: Any, *extensions: x509.ExtensionType) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + dt.timedelta(days=365 * 30))
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, CRITICAL))
        return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    root, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    identifier = x509.SubjectKeyIdentifier.from_public_key(root.public_key())
    ca = certificate('ca', root, 'ca', root, x509.BasicConstraints(ca=True, path_length=None), usage, identifier)
    general = [
        x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name) for name in names
    ]
    own = certificate(
        'server', key, 'ca', root,
        x509.SubjectAlternativeName(general),
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
    )  # fmt: skip
    (folder / 'ca.pem').write_bytes(ca)
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / 'server.pem').write_bytes(pem + own)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / 'server.pem')
    return Authority(str(folder / 'ca.pem'), context)


async def test_certificates_are_checked_against_the_name(tmp_path: Path) -> None:
    authority = new_authority(tmp_path, 'hook.test')
    names = Names({'hook.test': [['127.0.0.1']], 'other.test': [['127.0.0.1']]})
    async with (
        receiving(tls=authority.server) as receiver,
        posting(names, webhook_allow=('127.0.0.1',), webhook_ca_file=authority.ca_file) as poster,
    ):
        assert await poster.post(outgoing(f'https://hook.test:{receiver.port}/')) == Answer(200)
        failed = await failure(poster, f'https://other.test:{receiver.port}/')
        assert 'the certificate was not accepted: Hostname mismatch' in failed.reason
        failed = await failure(poster, f'https://127.0.0.1:{receiver.port}/')
        assert 'the certificate was not accepted: IP address mismatch' in failed.reason
    assert len(receiver.requests) == 1, 'nothing was said to the others'


async def test_certificates_of_addresses_are_accepted(tmp_path: Path) -> None:
    authority = new_authority(tmp_path, '127.0.0.1')
    async with (
        receiving(tls=authority.server) as receiver,
        posting(webhook_allow=('127.0.0.1',), webhook_ca_file=authority.ca_file) as poster,
    ):
        assert await poster.post(outgoing(f'https://127.0.0.1:{receiver.port}/')) == Answer(200)


async def test_a_certificate_that_nobody_vouches_for_is_not_accepted(tmp_path: Path) -> None:
    authority = new_authority(tmp_path, '127.0.0.1')
    async with receiving(tls=authority.server) as receiver, posting(**LOOPBACK) as poster:
        failed = await failure(poster, f'https://127.0.0.1:{receiver.port}/')
    assert 'the certificate was not accepted: unable to get local issuer certificate' in failed.reason
    assert receiver.requests == []


async def test_what_speaks_no_tls_is_told_nothing() -> None:
    async with receiving() as receiver, posting(**LOOPBACK, webhook_timeout=0.2) as poster:
        await failure(poster, f'https://127.0.0.1:{receiver.port}/')
    assert receiver.requests == []


async def test_a_handshake_that_is_given_up_leaves_no_connection() -> None:
    gone = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(1000):
                pass
        finally:
            gone.set()

    async with listening(silent) as port, posting(**LOOPBACK, webhook_timeout=0.05) as poster:
        await failure(poster, f'https://127.0.0.1:{port}/')
        async with asyncio.timeout(5):
            await gone.wait()


def test_a_file_without_certificates_is_no_setting(tmp_path: Path) -> None:
    (tmp_path / 'empty').touch()
    for path in (tmp_path / 'empty', tmp_path / 'missing'):
        with pytest.raises(SettingsError, match='webhook_ca_file'):
            poster_of(Settings(webhook_ca_file=str(path)), FakeClock())


# Logs


async def test_logs_have_no_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with receiving() as receiver, posting(**LOOPBACK, webhook_timeout=0.2) as poster:
        assert isinstance(poster, GuardedPoster)
        url = f'http://127.0.0.1:{receiver.port}/path-{SECRET}?q={SECRET}'
        await poster.post(outgoing(url, SECRET.encode()))
        await failure(poster, url, Authorization=f'\n{SECRET}')
        receiver.answer = b'no http\r\n\r\n'
        await failure(poster, f'http://127.0.0.1:{receiver.port}/{SECRET}')
    assert SECRET not in caplog.text
    assert SECRET not in repr(poster)
