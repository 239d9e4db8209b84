"""How JSON becomes single values in protobuf's binary form: scalars, enums and timestamps.

A decoder takes one JSON value and returns a whole field, tag included. It raises `InvalidJsonError` without a path;
whoever called it adds the name.
"""

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable
from datetime import datetime
from typing import Final

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from a2a_scribe.protocol.codec.descriptors import NUMBERS
from a2a_scribe.protocol.codec.errors import InvalidJsonError
from a2a_scribe.protocol.codec.wire import DELIMITED, SMALL, VARINT, delimited, tag, varint

Decoder = Callable[[object], bytes]

NUMBER: Final = re.compile(r'-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?')
LONGEST_NUMBER: Final = 400
TIME: Final = re.compile(
    r'([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})'
)
EPOCH: Final = datetime.fromisoformat('1970-01-01T00:00:00+00:00')
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
URL_SAFE: Final = str.maketrans('-_', '+/')


def scalar_decoder(field: FieldDescriptor) -> Decoder:
    """Returns the decoder of a field's single values."""
    head = varint(tag(field.number, VARINT if field.type in NUMBERS else DELIMITED))
    if field.enum_type is not None:
        return enum_decoder(head, field.enum_type)
    kinds: dict[int, Callable[[bytes], Decoder]] = {
        FieldDescriptor.TYPE_STRING: text_decoder,
        FieldDescriptor.TYPE_BYTES: bytes_decoder,
        FieldDescriptor.TYPE_BOOL: bool_decoder,
        FieldDescriptor.TYPE_INT32: int32_decoder,
    }
    return kinds[field.type](head)


def utf8(text: str) -> bytes:
    """Returns the bytes of a text.

    Raises:
        InvalidJsonError: A surrogate stands alone.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidJsonError('', 'must not contain a lone surrogate') from None


def text_decoder(head: bytes) -> Decoder:
    """Returns a decoder of strings."""

    def decode(value: object) -> bytes:
        if not isinstance(value, str):
            raise InvalidJsonError('', 'must be a string')
        body = utf8(value)
        size = len(body)
        return head + (SMALL[size] if size < 128 else varint(size)) + body

    return decode


def bytes_decoder(head: bytes) -> Decoder:
    """Returns a decoder of base64: both alphabets, padded or not, broken into lines or not."""

    def decode(value: object) -> bytes:
        if not isinstance(value, str):
            raise InvalidJsonError('', 'must be a base64 string')
        return delimited(head, _from_base64(value))

    return decode


def _from_base64(text: str) -> bytes:
    text = ''.join(text.translate(URL_SAFE).split()).rstrip('=')
    try:
        return a2b_base64(text + '=' * (-len(text) % 4), strict_mode=True)
    except (Base64Error, ValueError):
        raise InvalidJsonError('', 'must be a base64 string') from None


def bool_decoder(head: bytes) -> Decoder:
    """Returns a decoder of booleans."""
    yes, no = head + b'\1', head + b'\0'

    def decode(value: object) -> bytes:
        if value is True:
            return yes
        if value is False:
            return no
        raise InvalidJsonError('', 'must be true or false')

    return decode


def enum_decoder(head: bytes, enum: EnumDescriptor) -> Decoder:
    """Returns a decoder of an enum: the name or the number of a value that is known."""
    known: dict[object, bytes] = {value.name: head + varint(value.number) for value in enum.values}
    known |= {value.number: head + varint(value.number) for value in enum.values}
    reason = f'must be one of {", ".join(value.name for value in enum.values)}'

    def decode(value: object) -> bytes:
        if type(value) not in (str, int) or (made := known.get(value)) is None:
            raise InvalidJsonError('', reason)
        return made

    return decode


def int32_decoder(head: bytes) -> Decoder:
    """Returns a decoder of integers: numbers without a fraction, and strings of such."""

    def decode(value: object) -> bytes:
        number = value if type(value) is int else _whole(value)
        if not -(2**31) <= number < 2**31:
            raise InvalidJsonError('', 'must be between -2147483648 and 2147483647')
        return head + varint(number)

    return decode


def _whole(value: object) -> int:
    match value:
        case float() if value.is_integer():
            return int(value)
        case str() if len(value) <= LONGEST_NUMBER and (found := NUMBER.fullmatch(value)):
            if not (found[1] or found[2]):
                return int(value)
            if (number := float(value)).is_integer():
                return int(number)
    raise InvalidJsonError('', 'must be an integer')


def timestamp_body(value: object) -> bytes:
    """Returns the message of a RFC 3339 time with any offset and up to nine digits.

    Raises:
        InvalidJsonError: It is not one, or outside the years 1 to 9999 in UTC.
    """
    found = TIME.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise InvalidJsonError('', 'must be an RFC 3339 timestamp')
    try:
        moment = datetime.fromisoformat(found[1] + found[3]) - EPOCH
    except ValueError:
        raise InvalidJsonError('', 'must be an RFC 3339 timestamp') from None
    seconds = moment.days * 86400 + moment.seconds
    if not FIRST_SECOND <= seconds <= LAST_SECOND:
        raise InvalidJsonError('', 'must be between the years 1 and 9999')
    return b'\x08' + varint(seconds) + b'\x10' + varint(int((found[2] or '').ljust(9, '0')))
