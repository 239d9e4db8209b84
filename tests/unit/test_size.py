"""How many values a request may have: counted right, and quickly whatever the bytes are."""

import json
import time
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Message, Part, SendMessageRequest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_scribe.protocol.codec.wire import DELIMITED, delimited, tag, varint
from a2a_scribe.protocol.faults import TooLargeError
from a2a_scribe.protocol.json import from_dict
from a2a_scribe.protocol.size import check_binary, check_json
from a2a_scribe.transport.asgi import EDGE_STATUSES

LIMIT = 1_000
LARGE = 5_000_000
"""Bytes of hostile requests."""
SECONDS = 2.0
"""Of processor time for one of them, many times what it takes."""

texts = st.text(alphabet='a,:[{}]"\\/\n\u00fc\U0001f701')
leaves = st.none() | st.booleans() | st.integers(0, 9) | texts
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=30)


def count(value: Any) -> int:
    """Values, and names of members."""
    if isinstance(value, dict):
        return 1 + sum(1 + count(member) for member in value.values())
    return 1 + (sum(map(count, value)) if isinstance(value, list) else 0)


def is_refused(text: bytes, limit: int) -> bool:
    try:
        check_json(text, limit)
    except TooLargeError:
        return True
    return False


@settings(max_examples=300, deadline=None)
@given(value=values, indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_what_is_counted_are_values_and_names(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    assert not is_refused(text, 2 * count(value)), 'lists and objects count twice at most'
    padded = text + b' ' * 1000
    limit = count(value) - 2
    assert limit < 0 or is_refused(padded, limit)


@pytest.mark.parametrize('piece', [b',', b'[{', b':,', b'\\",', b'\\\\,', b'\\\\\\",', b'\\u005b,', b',\xc3\xbc'])
def test_a_text_may_have_as_many_separators_as_it_likes(piece: bytes) -> None:
    text = b'["' + piece * 100_000 + b'"]'
    json.loads(text)
    check_json(text, LIMIT)
    with pytest.raises(TooLargeError, match=f'{LIMIT} values'):
        check_json(text[:-1] + b',1' * LIMIT + b']', LIMIT)


HOSTILE = {
    'numbers': (b'[', b'1,'),
    'numbers far apart': (b'[', b'1 , '),
    'objects': (b'[', b'{"a":{}},'),
    'parts': (b'[', b'{"text":""},'),
    'names': (b'{', b'"":1,'),
    'depth': (b'', b'['),
    'depth of objects': (b'', b'{"":'),
    'texts': (b'[', b'"",'),
    'texts of separators': (b'[', b'",",'),
    'texts that end in a backslash': (b'[', b'"\\\\",'),
    'after a long text': (b'["' + b'\\"' * 1_000_000 + b'",', b'1,'),
    'backslashes outside': (b'', b'"\\\\"\\\\,'),
}
HARMLESS = {
    'quotes': (b'', b'"'),
    'quotes in a text': (b'"', b'\\"'),
    'separators and quotes in a text': (b'"', b',\\"'),
    'other escapes in a text': (b'"', b',\\u00fc'),
    'backslashes': (b'"', b'\\'),
    'backslashes after separators': (b'"' + b',' * 2 * LIMIT, b'\\'),
    'no end': (b'["', b','),
}


def filled(head: bytes, piece: bytes) -> bytes:
    return head + piece * (LARGE // len(piece))


@pytest.mark.parametrize('name', HOSTILE)
def test_what_has_too_many_values_is_refused_quickly(name: str) -> None:
    text = filled(*HOSTILE[name])
    started = time.process_time()
    assert is_refused(text, LIMIT)
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize('name', HARMLESS)
def test_what_has_not_is_let_through_quickly(name: str) -> None:
    text = filled(*HARMLESS[name])
    started = time.process_time()
    assert not is_refused(text, LIMIT)
    assert time.process_time() - started < SECONDS


def test_the_error_is_http_s_own() -> None:
    assert EDGE_STATUSES[TooLargeError] == 413


# Protobuf


def inside(*numbers: int, body: bytes) -> bytes:
    """A field in fields that are messages."""
    for number in reversed(numbers):
        body = delimited(varint(tag(number, DELIMITED)), body)
    return body


MESSAGE = SendMessageRequest.DESCRIPTOR.fields_by_name['message'].number
METADATA = SendMessageRequest.DESCRIPTOR.fields_by_name['metadata'].number
PARTS = Message.DESCRIPTOR.fields_by_name['parts'].number
PART = inside(PARTS, body=Part(text='').SerializeToString())


@settings(max_examples=100, deadline=None)
@given(value=st.dictionaries(texts, values))
def test_a_request_that_json_may_say_may_be_said_in_protobuf(value: Any) -> None:
    request = from_dict({'metadata': value}, SendMessageRequest)
    check_binary(request.SerializeToString(), SendMessageRequest, count(value) + 2)


LARGE_MESSAGES = {
    'parts': inside(MESSAGE, body=filled(b'', PART)),
    'messages': filled(b'', inside(MESSAGE, body=PART)),
    'numbers': inside(MESSAGE, body=filled(b'', b'\x20\x01')),
    'members': inside(METADATA, body=filled(b'', b'\x0a\x00')),
    'unknown': filled(b'', b'\xf8\x01\x01'),
    'unknown of 32 bits': filled(b'', b'\xfd\x01abcd'),
    'unknown of 64 bits': filled(b'', b'\xf9\x01abcdefgh'),
}
NO_MESSAGES = {
    'number': filled(b'\x08', b'\xff'),
    'numbers': filled(b'', b'\xff'),
    'messages beyond their end': filled(b'', b'\x12\x80\x80\x80\x01'),
    'groups': filled(b'', b'\x0b'),
    'cut off': inside(MESSAGE, body=PART * LIMIT)[:-1],
    'number cut off': inside(MESSAGE, body=b'\x12\x7f' + b'\x00' * (4 * LIMIT)) + b'\x12\xff',
}


@pytest.mark.parametrize('name', LARGE_MESSAGES)
def test_too_many_fields_are_refused_quickly(name: str) -> None:
    started = time.process_time()
    with pytest.raises(TooLargeError, match='fields'):
        check_binary(LARGE_MESSAGES[name], SendMessageRequest, LIMIT)
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize('name', NO_MESSAGES)
def test_what_is_no_message_is_refused_quickly(name: str) -> None:
    started = time.process_time()
    with pytest.raises(DecodeError):
        check_binary(NO_MESSAGES[name], SendMessageRequest, LIMIT)
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize('body', [b'', b'x' * LARGE], ids=['small', 'large'])
def test_a_message_of_few_fields_may_have_many_bytes(body: bytes) -> None:
    request = SendMessageRequest(message=Message(message_id='m', parts=[Part(raw=body)]))
    check_binary(request.SerializeToString(), SendMessageRequest, LIMIT)
