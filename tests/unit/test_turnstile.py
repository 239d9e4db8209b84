"""New connections are heard a few at a time; whoever was heard once never waits again."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from a2a_scribe.transport.turnstile import AT_ONCE, CROWD, Turnstile, in_turn

pytestmark = pytest.mark.anyio


class FakeTransport(asyncio.Transport):
    """Notes whether it is being read from."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = True
        self.closing = False

    def pause_reading(self) -> None:
        assert self.reads
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self.closing


class Listening(asyncio.Protocol):
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.events: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.events.append('made')

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append('lost')


def connect(
    count: int, on_crowd: Callable[[], None] = lambda: None
) -> tuple[Sequence[Listening], Sequence[FakeTransport]]:
    new = in_turn(Listening, Turnstile(on_crowd))
    protocols, transports = [new() for _ in range(count)], [FakeTransport() for _ in range(count)]
    for protocol, transport in zip(protocols, transports, strict=True):
        protocol.connection_made(transport)
        assert isinstance(protocol, Listening)
    return [each for each in protocols if isinstance(each, Listening)], transports


def heard(protocols: Sequence[Listening]) -> int:
    return sum(bool(protocol.heard) for protocol in protocols)


async def test_a_few_are_heard_in_each_round_the_newest_first() -> None:
    protocols, transports = connect(5 * AT_ONCE)
    for protocol in protocols:
        protocol.data_received(b'hello')
    at_once, waiting = protocols[:AT_ONCE], protocols[AT_ONCE:]
    for rounds in range(5):
        assert heard(at_once) == AT_ONCE
        assert heard(waiting[len(waiting) - rounds * AT_ONCE :]) == heard(waiting) == rounds * AT_ONCE
        await asyncio.sleep(0)
    assert all(transport.reads for transport in transports)
    assert {tuple(protocol.heard) for protocol in protocols} == {(b'hello',)}


async def test_who_comes_while_a_crowd_waits_is_heard_in_the_next_round() -> None:
    protocols, _ = connect(9 * AT_ONCE + 1)
    *crowd, last = protocols
    for protocol in crowd:
        protocol.data_received(b'hello')
    await asyncio.sleep(0)
    last.data_received(b'hello')
    assert (heard(crowd), last.heard) == (2 * AT_ONCE, [])
    await asyncio.sleep(0)
    assert last.heard == [b'hello']


async def test_who_was_heard_once_never_waits() -> None:
    protocols, _ = connect(3 * AT_ONCE)
    known, *crowd = protocols
    known.data_received(b'one')
    for protocol in crowd:
        protocol.data_received(b'hello')
    known.data_received(b'two')
    assert known.heard == [b'one', b'two']


async def test_a_few_at_a_time_never_wait() -> None:
    for _ in range(4):
        protocols, transports = connect(AT_ONCE)
        for protocol in protocols:
            protocol.data_received(b'hello')
        assert heard(protocols) == AT_ONCE
        assert all(transport.reads for transport in transports)


@pytest.mark.parametrize('closing', [False, True])
async def test_who_has_gone_is_not_heard_and_takes_nobodys_turn(closing: bool) -> None:
    protocols, transports = connect(2 * AT_ONCE)
    for protocol in protocols:
        protocol.data_received(b'hello')
    gone = protocols[-1]
    if closing:
        transports[-1].closing = True
    else:
        gone.connection_lost(None)
    await asyncio.sleep(0)
    assert gone.heard == []
    assert heard(protocols) == 2 * AT_ONCE - 1
    assert gone.events == ['made'] if closing else ['made', 'lost']


async def test_what_comes_while_a_connection_waits_is_heard_with_the_rest() -> None:
    protocols, _ = connect(AT_ONCE + 1)
    for protocol in protocols:
        protocol.data_received(b'hello')
    protocols[-1].data_received(b' world')
    await asyncio.sleep(0)
    assert protocols[-1].heard == [b'hello world']


@pytest.mark.parametrize('waiting', [CROWD - 1, CROWD, 3 * CROWD])
async def test_a_crowd_is_told_of(waiting: int) -> None:
    told: list[None] = []
    protocols, _ = connect(AT_ONCE + waiting, lambda: told.append(None))
    for protocol in protocols:
        protocol.data_received(b'hello')
    assert len(told) == max(0, waiting - CROWD + 1)
