"""How many values a request may have: each costs many times the memory and the time of its bytes.

They are counted before anything is made of them, in a time that grows with the bytes only, whatever these are. A
request that has too few bytes for too many values, as nearly every one has, is not looked at.
"""

import re
from functools import cache
from typing import Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from a2a_scribe.protocol.codec.wire import DELIMITED, read_varint
from a2a_scribe.protocol.faults import TooLargeError

SEPARATORS: Final = b',:[{'
"""What every value in JSON begins with or follows, as does the name of a member; but for the first of all."""

STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A string in JSON, to the end of the text if it has none of its own. Nothing is tried twice."""

FIELDS_PER_VALUE: Final = 2
"""Fields of protobuf that stand for one value in JSON, at most."""
FIELD_BYTES: Final = 2
"""The smallest field."""
VARINT_BYTES: Final = 10
"""The longest number."""


def check_json(text: bytes, limit: int) -> None:
    """Refuses a text in which JSON has more than `limit` values before its first mistake.

    Raises:
        TooLargeError: It has.
    """
    if len(text) <= limit or _separators(text) <= limit:
        return
    bare, strings = STRING.subn(b'', text, count=limit + 1)
    if strings > limit or _separators(bare) > limit:
        raise TooLargeError(f'The request has more than {limit} values (request_values)')


def _separators(text: bytes) -> int:
    return len(text) - len(text.translate(None, SEPARATORS))


def check_binary(data: bytes, kind: type[Message], limit: int) -> None:
    """Refuses a message in binary form that has more fields than `limit` values need.

    Raises:
        TooLargeError: It has.
        DecodeError: It is large, and no message.
    """
    most = limit * FIELDS_PER_VALUE
    if len(data) <= most * FIELD_BYTES:
        return
    try:
        few = _has_at_most(most, data, _members(kind.DESCRIPTOR))
    except IndexError:
        raise DecodeError from None
    if not few:
        raise TooLargeError(f'The request has more fields than {limit} values need (request_values)')


def _has_at_most(most: int, data: bytes, members: dict[int, Descriptor]) -> bool:
    """Walks through the fields, into those that are messages, to the end or until there are too many."""
    pos, end = 0, len(data)
    outer: list[tuple[int, dict[int, Descriptor]]] = []
    for _ in range(most + 1):
        while pos == end:
            if not outer:
                return True
            end, members = outer.pop()
        found, pos = _number(data, pos)
        size, pos = _size(data, pos, found & 7)
        if pos + size > end:
            raise DecodeError
        inner = members.get(found >> 3) if found & 7 == DELIMITED else None
        if inner is None:
            pos += size
        else:
            outer.append((end, members))
            end, members = pos + size, _members(inner)
    return False


def _size(data: bytes, pos: int, wire_type: int) -> tuple[int, int]:
    """Returns the size of what a field holds, and where that begins; A2A has no groups."""
    match wire_type:
        case 0:
            return 0, _number(data, pos)[1]
        case 1:
            return 8, pos
        case 2:
            return _number(data, pos)
        case 5:
            return 4, pos
    raise DecodeError


def _number(data: bytes, pos: int) -> tuple[int, int]:
    if data[pos] > 127 and min(data[pos : pos + VARINT_BYTES]) > 127:
        raise DecodeError
    return read_varint(data, pos)


@cache
def _members(descriptor: Descriptor) -> dict[int, Descriptor]:
    """Returns the fields of a message that are messages themselves."""
    return {field.number: field.message_type for field in descriptor.fields if field.message_type is not None}
