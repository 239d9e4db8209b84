"""Protobuf's binary form, as far as the codec reads and writes it.

The codec goes through bytes in both directions: protobuf makes bytes of a tree of messages, or a tree of bytes, in one
call, where each message that Python touches costs more than its bytes do.
"""

from typing import Final

VARINT, FIXED64, DELIMITED, START_GROUP, END_GROUP, FIXED32 = range(6)
"""Wire types."""

SMALL: Final = tuple(bytes([number]) for number in range(128))


def varint(number: int) -> bytes:
    """Returns a number in protobuf's variable length, a negative one as 64 bits."""
    if 0 <= number < 128:
        return SMALL[number]
    if 128 <= number < 16384:
        return bytes((number & 127 | 128, number >> 7))
    if number < 0:
        number += 1 << 64
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)


def tag(number: int, wire_type: int) -> int:
    """Returns the number that stands in front of a field."""
    return number << 3 | wire_type


def delimited(tag: bytes, body: bytes) -> bytes:
    """Returns a field of a string, bytes or a message."""
    size = len(body)
    return tag + (SMALL[size] if size < 128 else varint(size)) + body


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """Returns the number at a position, as unsigned 64 bits, and the position after it."""
    number = shift = 0
    while (byte := data[pos]) > 127:
        number |= (byte & 127) << shift
        shift += 7
        pos += 1
    return number | byte << shift, pos + 1


def signed(number: int) -> int:
    """Returns what a number read as unsigned 64 bits is with its sign."""
    return number - (1 << 64) if number >> 63 else number


def skip(data: bytes, pos: int) -> int:
    """Returns the position after the field that starts at `pos`; how fields that nobody knows are passed over."""
    found, pos = read_varint(data, pos)
    match found & 7:
        case 0:
            return read_varint(data, pos)[1]
        case 2:
            size, pos = read_varint(data, pos)
            return pos + size
        case 3:
            while read_varint(data, pos)[0] != found + 1:
                pos = skip(data, pos)
            return read_varint(data, pos)[1]
    return pos + (8 if found & 7 == FIXED64 else 4)
