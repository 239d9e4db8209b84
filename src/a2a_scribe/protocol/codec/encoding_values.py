"""How single values in protobuf's binary form become JSON: enums, bytes, timestamps, Struct and Value.

A reader takes the data and the bounds of a value in it. Fields that it does not know may stand anywhere.
"""

import struct
from binascii import b2a_base64
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct

from a2a_scribe.protocol.codec.errors import UnencodableError
from a2a_scribe.protocol.codec.wire import read_varint, signed, skip

Reader = Callable[[bytes, int, int], Any]

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  only its text is used
EPOCH_TEXT: Final = EPOCH.isoformat()
THREE_DIGITS: Final = tuple(f'{number:03d}' for number in range(1000))
SECONDS, NANOS = 0x08, 0x10
NULL, NUMBER, TEXT, BOOL, OBJECT, ARRAY = 0x08, 0x11, 0x1A, 0x20, 0x2A, 0x32
ITEM, KEY, MEMBER = 0x0A, 0x0A, 0x12

double = struct.Struct('<d').unpack_from


class _Names(dict[int, str | int]):
    """Names by number, as it is read from the wire; a number without a name stays one."""

    def __missing__(self, number: int) -> int:
        return signed(number)


def enum_reader(enum: EnumDescriptor) -> Callable[[int], str | int]:
    """Returns the function that names an enum's values."""
    return _Names({number % (1 << 64): value.name for number, value in enum.values_by_number.items()}).__getitem__


def read_text(data: bytes, pos: int, end: int) -> str:
    """Returns text."""
    return data[pos:end].decode()


def read_bytes(data: bytes, pos: int, end: int) -> str:
    """Returns base64 with padding."""
    return b2a_base64(data[pos:end], newline=False).decode('ascii')


def read_timestamp(data: bytes, pos: int, end: int) -> str:
    """Returns RFC 3339 in UTC with 0, 3, 6 or 9 digits.

    Raises:
        UnencodableError: The timestamp is not valid.
    """
    second, fraction = EPOCH_TEXT, ''
    while pos < end:
        kind, start = data[pos], pos + 1
        if kind == SECONDS:
            pos = start
            while data[pos] > 127:
                pos += 1
            pos += 1
            second = _second(data[start:pos])
        elif kind == NANOS:
            nanos, pos = read_varint(data, start)
            fraction = _fraction(nanos)
        else:
            pos = skip(data, pos)
    return f'{second}{fraction}Z'


@lru_cache(1024)
def _second(seconds: bytes) -> str:
    """Returns a time without its zone; events of one second share it."""
    try:
        return (EPOCH + timedelta(0, signed(read_varint(seconds, 0)[0]))).isoformat()
    except OverflowError:
        raise UnencodableError('A timestamp is outside the years 1 to 9999.') from None


def _fraction(nanos: int) -> str:
    if nanos > 999_999_999:
        raise UnencodableError('The nanoseconds of a timestamp are not between 0 and 999,999,999.')
    millis, rest = divmod(nanos, 1_000_000)
    if not rest:
        return f'.{THREE_DIGITS[millis]}'
    micros, rest = divmod(rest, 1000)
    return f'.{THREE_DIGITS[millis]}{THREE_DIGITS[micros]}{THREE_DIGITS[rest] if rest else ""}'


def read_value(data: bytes, pos: int, end: int) -> Any:
    """Returns what a Value holds; one that holds nothing is null.

    Raises:
        UnencodableError: A number is NaN or infinite.
    """
    found: Any = None
    while pos < end:
        kind, size = data[pos], data[pos + 1]
        if kind == TEXT or kind == OBJECT or kind == ARRAY:  # noqa: PLR1714, SIM109  a tuple is made each time
            pos += 2
            if size > 127:
                size, pos = read_varint(data, pos - 1)
            stop = pos + size
            if kind == TEXT:
                found = data[pos:stop].decode()
            else:
                found = (read_struct if kind == OBJECT else read_list)(data, pos, stop)
            pos = stop
        elif kind == NUMBER:
            found = _finite(*double(data, pos + 1))
            pos += 9
        elif size < 128 and kind in (BOOL, NULL):
            found = size == 1 if kind == BOOL else None
            pos += 2
        else:
            pos = skip(data, pos)
    return found


def _finite(number: float) -> float:
    if number - number != 0:
        raise UnencodableError('A number in a Struct or Value is NaN or infinite, which JSON cannot express.')
    return number


def read_struct(data: bytes, pos: int, end: int) -> dict[str, Any]:
    """Returns what a Struct holds.

    Raises:
        UnencodableError: A number is NaN or infinite.
    """
    made: dict[str, Any] = {}
    begin = pos
    while pos < end:
        if data[pos] != ITEM:
            pos = skip(data, pos)
            continue
        size = data[pos + 1]
        pos += 2
        if size > 127:
            size, pos = read_varint(data, pos - 1)
        stop = pos + size
        key, value = '', None
        if pos < stop and data[pos] == KEY:
            size = data[pos + 1]
            pos += 2
            if size > 127:
                size, pos = read_varint(data, pos - 1)
            key = data[pos : pos + size].decode()
            pos += size
        if pos < stop:
            size, start = data[pos + 1], pos + 2
            if size > 127:
                size, start = read_varint(data, pos + 1)
            if data[pos] != MEMBER or start + size != stop:
                return _read_unusual_struct(data[begin:end])
            value = read_value(data, start, stop)
        pos = stop
        made[key] = value
    return made


def _read_unusual_struct(data: bytes) -> dict[str, Any]:
    """Returns what a Struct holds whose entries nobody writes so, but protobuf takes."""
    try:
        found: dict[str, Any] = json_format.MessageToDict(Struct.FromString(data))
    except (DecodeError, json_format.Error, ValueError) as error:
        raise UnencodableError('A Struct cannot be written as JSON.') from error
    return found


def read_list(data: bytes, pos: int, end: int) -> list[Any]:
    """Returns what a ListValue holds."""
    made = []
    while pos < end:
        if data[pos] != ITEM:
            pos = skip(data, pos)
            continue
        size = data[pos + 1]
        pos += 2
        if size > 127:
            size, pos = read_varint(data, pos - 1)
        stop = pos + size
        made.append(read_value(data, pos, stop))
        pos = stop
    return made
