"""What is known of frames that are only passed on, however the bytes come."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_scribe.transport.http2 import (
    ACK,
    CONTINUATION,
    DATA,
    END_STREAM,
    GOAWAY,
    HEADERS,
    LONGEST,
    MOST_FIELDS,
    NO_SETTINGS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    Incoming,
    Outgoing,
    goaway,
)

PING = 6


def frame(kind: int, flags: int, stream: int, payload: bytes = b'') -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


ACKNOWLEDGED = frame(SETTINGS, ACK, 0)
GREETING = PREFACE + frame(SETTINGS, 0, 0, b'x' * 6)
SAID = [
    frame(HEADERS, 4, 1, b'first'),
    frame(DATA, END_STREAM, 1, b'body'),
    ACKNOWLEDGED,
    frame(PING, 0, 0, b'12345678'),
    frame(HEADERS, 4, 3, b'second'),
    frame(DATA, 0, 3, b''),
    ACKNOWLEDGED,
    frame(HEADERS, 5, 3, b'trailers'),
    frame(RST_STREAM, 0, 1, b'0000'),
    frame(HEADERS, 4, 0x8000_0005, b'third'),
]


def passed_on(pieces: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
    """Lets every request in, and returns what was passed on and the requests."""
    incoming, passed, requests = Incoming(), b'', []
    for piece in pieces:
        incoming.feed(piece)
        passed += incoming.take()
        while (request := incoming.request()) is not None:
            requests.append(request)
            incoming.let_in()
            passed += incoming.take()
    return passed, requests


@given(st.lists(st.integers(0, len(GREETING) + sum(map(len, SAID))), max_size=30))
def test_however_it_is_cut_the_same_is_passed_on(cuts: list[int]) -> None:
    said = GREETING + b''.join(SAID)
    ends = [*sorted(cuts), len(said)]
    pieces = [said[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    passed, requests = passed_on(pieces)
    assert passed == GREETING + b''.join(each for place, each in enumerate(SAID) if place != 2)
    assert requests == [b'first', b'second', b'third']


def test_nothing_passes_a_request_that_waits() -> None:
    incoming = Incoming()
    incoming.feed(GREETING + b''.join(SAID))
    assert incoming.request() == b'first', 'known before anything is passed on'
    assert incoming.take() == GREETING
    assert incoming.take() == b''
    incoming.feed(frame(PING, 0, 0, b'12345678'))
    assert incoming.take() == b''
    incoming.let_in()
    assert incoming.take() == SAID[0] + SAID[1] + SAID[3]
    assert (incoming.request(), incoming.newest, incoming.unanswered) == (b'second', 1, {1})


@pytest.mark.parametrize('length', range(len(SAID[0])))
def test_a_request_is_known_when_its_fields_are_there(length: int) -> None:
    incoming = Incoming()
    incoming.feed(GREETING + SAID[0][:length])
    assert incoming.request() is None
    incoming.feed(SAID[0][length:])
    assert incoming.request() == b'first'


def test_of_fields_that_are_too_long_the_beginning_is_enough() -> None:
    incoming = Incoming()
    incoming.feed(GREETING + frame(HEADERS, 4, 1, b'f' * 100_000)[: 9 + LONGEST])
    assert incoming.request() == b'f' * LONGEST
    incoming.let_in()
    incoming.feed(b'f' * (100_000 - LONGEST) + SAID[4])
    assert incoming.request() == b'second'


def test_fields_may_have_an_end_but_not_be_too_long() -> None:
    incoming = Incoming()
    part, parts = frame(CONTINUATION, 0, 1, b'f' * 16_000), MOST_FIELDS // 16_000
    incoming.feed(GREETING + frame(HEADERS, 0, 1, b'first') + part * (parts - 1) + frame(HEADERS, 4, 3))
    incoming.let_in()
    assert not incoming.is_too_long
    incoming.let_in()
    incoming.feed(part * parts)
    assert not incoming.is_too_long, 'each request is counted by itself'
    incoming.feed(part)
    assert incoming.is_too_long


@pytest.mark.parametrize('length', range(len(PREFACE) + 9))
def test_it_begins_with_the_first_frame(length: int) -> None:
    incoming = Incoming()
    incoming.feed(GREETING[:length])
    assert not incoming.has_begun
    incoming.feed(GREETING[length:])
    assert incoming.has_begun


def test_what_was_answered_or_given_up_goes_on_no_more() -> None:
    incoming, outgoing = Incoming(), Outgoing()
    incoming.feed(GREETING + b''.join(frame(HEADERS, 4, stream) for stream in (1, 3, 5, 7)))
    for _ in range(4):
        incoming.let_in()
    assert incoming.unanswered == {1, 3, 5, 7}
    incoming.feed(frame(RST_STREAM, 0, 5, b'0000'))
    assert incoming.unanswered == {1, 3, 7}
    answers = [
        frame(HEADERS, 4, 1),
        frame(DATA, 0, 1, b'body'),
        frame(SETTINGS, ACK, 0),
        frame(HEADERS, 4 | END_STREAM, 1, b'trailers'),
        frame(RST_STREAM, 0, 3, b'0000'),
        frame(DATA, END_STREAM, 7),
    ]
    said = b''.join(answers)
    assert Outgoing().ended(said) == [1, 3, 7]
    found = [stream for place in range(len(said)) for stream in outgoing.ended(said[place : place + 1])]
    assert found == [1, 3, 7]
    assert outgoing.is_between_frames


@pytest.mark.parametrize('length', range(1, 20))
def test_one_knows_where_a_frame_may_be_put_in(length: int) -> None:
    outgoing = Outgoing()
    outgoing.ended(frame(DATA, 0, 1, b'0123456789')[:length])
    assert outgoing.is_between_frames == (length == 19)


def test_the_frames_that_are_ours() -> None:
    assert frame(SETTINGS, 0, 0) == NO_SETTINGS
    assert goaway(7) == frame(GOAWAY, 0, 0, (7).to_bytes(4) + bytes(4))
