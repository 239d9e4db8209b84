"""Keys that are published at a URL: asked for rarely, by one at a time, and known while the URL is away."""

import asyncio
import logging
from collections.abc import Callable

import httpx
import pytest

from a2a_scribe.auth.key_sources import BURST, MAX_AGE, MAX_BYTES, PAUSE, UrlOfKeys
from a2a_scribe.errors import SettingsError
from a2a_scribe.testing.clock import FakeClock
from tests.support.issuer import jwk, key_set

pytestmark = pytest.mark.anyio

URL = 'https://user:a-password@issuer.test/keys'


class Issuer(httpx.AsyncBaseTransport):
    """A server of keys that answers when it may, and counts."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: bytes | Exception = key_set(jwk('k1'))
        self.status = 200
        self.open = asyncio.Event()
        self.open.set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        await self.open.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return httpx.Response(self.status, content=self.answer, headers={'location': 'https://elsewhere.test/'})


@pytest.fixture
async def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def source(issuer: Issuer, clock: FakeClock) -> UrlOfKeys:
    return UrlOfKeys(URL, clock, issuer)


def names(source: UrlOfKeys) -> list[str | None]:
    found = source.known()
    return [] if found is None else [key.id for key in found.keys]


async def settle(wanted: Callable[[], bool]) -> None:
    while not wanted():
        await asyncio.sleep(0)


async def test_nothing_is_known_before_somebody_asks(source: UrlOfKeys, issuer: Issuer) -> None:
    assert source.known() is None
    assert issuer.asked == 0
    found = await source.renewed()
    assert found is source.known() is not None
    assert names(source) == ['k1']


async def test_many_ask_at_once_and_the_url_is_asked_once(source: UrlOfKeys, issuer: Issuer) -> None:
    issuer.open.clear()
    asking = [asyncio.ensure_future(source.renewed()) for _ in range(50)]
    await settle(lambda: issuer.asked > 0)
    asking[0].cancel()
    issuer.open.set()
    found = await asyncio.gather(*asking[1:])
    assert {id(each) for each in found} == {id(source.known())}
    assert issuer.asked == 1


async def test_url_is_not_asked_more_often_than_it_may_be(source: UrlOfKeys, issuer: Issuer, clock: FakeClock) -> None:
    for _ in range(3 * BURST):
        await source.renewed()
    assert issuer.asked == BURST
    clock.advance(PAUSE)
    for _ in range(3):
        await source.renewed()
    assert issuer.asked == BURST + 1
    clock.advance(1000 * PAUSE)
    for _ in range(3 * BURST):
        await source.renewed()
    assert issuer.asked == 2 * BURST + 1


async def test_keys_that_have_not_changed_are_the_same_object(source: UrlOfKeys, issuer: Issuer) -> None:
    first = await source.renewed()
    assert await source.renewed() is first
    issuer.answer = key_set(jwk('k2'))
    assert await source.renewed() is not first
    assert names(source) == ['k2']


async def test_old_keys_are_renewed_beside(source: UrlOfKeys, issuer: Issuer, clock: FakeClock) -> None:
    await source.renewed()
    issuer.answer = key_set(jwk('k2'))
    clock.advance(MAX_AGE)
    assert names(source) == ['k1']
    assert issuer.asked == 1
    clock.advance(1)
    issuer.open.clear()
    assert names(source) == names(source) == ['k1']  # nobody waits
    await settle(lambda: issuer.asked == 2)
    issuer.open.set()
    await settle(lambda: names(source) == ['k2'])
    assert issuer.asked == 2


@pytest.mark.parametrize(
    'trouble',
    [
        httpx.ConnectError('refused'),
        httpx.ReadTimeout('slow'),
        b'',
        b'<html>',
        b'{"keys":[]}',
        b'x' * (MAX_BYTES + 1),
    ],
    ids=['refused', 'slow', 'empty', 'page', 'no keys', 'large'],
)
async def test_keys_stay_while_the_url_is_away(
    source: UrlOfKeys, issuer: Issuer, clock: FakeClock, trouble: bytes | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.answer, right = trouble, issuer.answer
    assert await source.renewed() is None
    issuer.answer = right
    known = await source.renewed()
    issuer.answer = trouble
    clock.advance(MAX_AGE + 1)
    assert source.known() is await source.renewed() is known
    issuer.answer = key_set(jwk('k2'))
    await source.renewed()
    assert names(source) == ['k2']
    assert {record.levelno for record in caplog.records if record.name.startswith('a2a_scribe')} == {logging.WARNING}
    assert 'a-password' not in caplog.text.replace(URL, '')


@pytest.mark.parametrize('status', [204, 302, 404, 500])
async def test_other_answers_are_none(source: UrlOfKeys, issuer: Issuer, status: int) -> None:
    issuer.status = status
    assert await source.renewed() is None
    assert issuer.asked == 1


async def test_source_works_on_the_next_loop_too(issuer: Issuer, clock: FakeClock) -> None:
    source = UrlOfKeys(URL, clock, issuer)
    issuer.open = asyncio.Event()

    async def give_up() -> None:
        asking = asyncio.ensure_future(source.renewed())
        await settle(lambda: issuer.asked > 0)
        asking.cancel()

    await asyncio.to_thread(asyncio.run, give_up())
    issuer.open = asyncio.Event()
    issuer.open.set()
    assert await source.renewed() is not None


def test_plain_http_is_warned_of(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    for url in ('http://127.0.0.1:1/keys', 'http://localhost/keys', 'https://issuer.test/'):
        UrlOfKeys(url, clock)
    assert caplog.records == []
    UrlOfKeys('http://issuer.test/keys', clock)
    assert 'unencrypted' in caplog.text


@pytest.mark.parametrize('url', ['', 'issuer.test', 'ftp://issuer.test', 'https://', 'http://x:y/'])
def test_url_has_to_be_one(clock: FakeClock, url: str) -> None:
    with pytest.raises(SettingsError):
        UrlOfKeys(url, clock)
