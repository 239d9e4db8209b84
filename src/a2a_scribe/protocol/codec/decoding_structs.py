"""How free JSON becomes Struct, Value and ListValue in protobuf's binary form.

Only here JSON nests without end. Protobuf reads 100 levels of messages; an object in a Value takes three of them, an
array two. The bound leaves ten for the messages around it, so that what is accepted can be read back from any message
that may hold it.
"""

import struct

from a2a_scribe.protocol.codec.decoding_values import utf8
from a2a_scribe.protocol.codec.errors import InvalidJsonError
from a2a_scribe.protocol.codec.wire import SMALL, delimited, varint

ROOM = 90
OBJECT_LEVELS, ARRAY_LEVELS = 3, 2
SHOWN_KEY = 64

ITEM, KEY, INNER = b'\x0a', b'\x0a', b'\x12'
NULL, FALSE, TRUE = b'\x08\x00', b'\x20\x00', b'\x20\x01'
NUMBER, TEXT, OBJECT, ARRAY = b'\x11', b'\x1a', b'\x2a', b'\x32'

double = struct.Struct('<d').pack


def value_body(value: object, room: int = ROOM) -> bytes:
    """Returns the Value message of any JSON.

    Raises:
        InvalidJsonError: It is nested too deeply, has a number that is not finite or a lone surrogate.
    """
    if isinstance(value, str):
        body = utf8(value)
        size = len(body)
        return TEXT + (SMALL[size] if size < 128 else varint(size)) + body
    if value is None:
        return NULL
    if value is True:
        return TRUE
    if value is False:
        return FALSE
    if isinstance(value, (int, float)):
        return NUMBER + _number(value)
    if isinstance(value, dict):
        return delimited(OBJECT, struct_body(value, room - OBJECT_LEVELS))
    return delimited(ARRAY, list_body(value, room - ARRAY_LEVELS))


def _number(value: float) -> bytes:
    try:
        if value - value == 0:
            return double(float(value))
    except OverflowError:
        pass
    raise InvalidJsonError('', 'must be a finite number')


def struct_body(value: object, room: int = ROOM) -> bytes:
    """Returns the Struct message of a JSON object.

    Raises:
        InvalidJsonError: As for `value_body`.
    """
    if not isinstance(value, dict):
        raise InvalidJsonError('', 'must be an object')
    if room < 0:
        raise InvalidJsonError('', 'is nested too deeply')
    made, key = [], None
    try:
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InvalidJsonError('', 'must have a string as its name')
            entry = delimited(KEY, utf8(key)) + delimited(INNER, value_body(inner, room))
            made.append(delimited(ITEM, entry))
    except InvalidJsonError as error:
        raise error.within(shown(key)) from None
    return b''.join(made)


def shown(key: object) -> str:
    """Returns a caller's key as an error may show it."""
    return key if isinstance(key, str) and len(key) <= SHOWN_KEY and key.isprintable() else '?'


def list_body(value: object, room: int = ROOM) -> bytes:
    """Returns the ListValue message of a JSON array.

    Raises:
        InvalidJsonError: As for `value_body`.
    """
    if not isinstance(value, (list, tuple)):
        raise InvalidJsonError('', 'must be an array')
    if room < 0:
        raise InvalidJsonError('', 'is nested too deeply')
    made = []
    for index, item in enumerate(value):
        try:
            made.append(delimited(ITEM, value_body(item, room)))
        except InvalidJsonError as error:
            raise error.within(f'[{index}]') from None
    return b''.join(made)
