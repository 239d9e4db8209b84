"""Protobuf messages to JSON and back: the front of the codec.

Equal to `google.protobuf.json_format` with its default options on the way out. On the way in it is stricter, as A2A
asks: an enum value must be known, nothing is given twice, and every error names its field. Transports and webhooks call
it.
"""

import re
from typing import Any, TypeVar

import orjson
from google.protobuf.message import DecodeError, EncodeError, Message

from a2a_scribe.protocol.codec.decoding import Body, decoder
from a2a_scribe.protocol.codec.encoding import Defaults, reader
from a2a_scribe.protocol.codec.encoding_values import Reader
from a2a_scribe.protocol.codec.errors import InvalidJsonError, UnencodableError

AnyMessage = TypeVar('AnyMessage', bound=Message)


MAYBE_NOT_FINITE = re.compile(rb'\x11.{6}[\xf0-\xff][\x7f\xff]', re.DOTALL)
"""A `Value` with a number whose exponent has all bits set; other bytes may look like one."""


class _Readers(dict[type[Message], Reader]):
    """The encoders used so far, by the class of messages: quicker to ask than for its descriptor."""

    def __missing__(self, kind: type[Message]) -> Reader:
        made = self[kind] = reader(kind.DESCRIPTOR)
        return made


class _Decoders(dict[type[Message], Body]):
    """The decoders used so far."""

    def __missing__(self, kind: type[Message]) -> Body:
        made = self[kind] = decoder(kind.DESCRIPTOR)
        return made


READERS, DECODERS = _Readers(), _Decoders()


def to_dict(message: Message, *, defaults: Defaults = 'omit') -> Any:
    """Returns a message as plain dictionaries and lists.

    Raises:
        UnencodableError: It holds a number or a timestamp that JSON cannot express, or is nested too deeply.
    """
    try:
        data = message.SerializeToString()
        read = READERS[type(message)] if defaults == 'omit' else reader(message.DESCRIPTOR, defaults)
        return read(data, 0, len(data))
    except (EncodeError, RecursionError):
        raise UnencodableError('The message is nested too deeply.') from None


def to_bytes(message: Message, *, defaults: Defaults = 'omit') -> bytes:
    """Returns a message as JSON text.

    Raises:
        UnencodableError: As for `to_dict`.
    """
    try:
        return orjson.dumps(to_dict(message, defaults=defaults))
    except orjson.JSONEncodeError:
        raise UnencodableError('The message is nested too deeply.') from None


def transcode(data: bytes, kind: type[Message]) -> bytes:
    """Returns as JSON text what is a message of `kind` in binary form, without making the message.

    Raises:
        UnencodableError: As for `to_dict`.
    """
    try:
        return orjson.dumps(READERS[kind](data, 0, len(data)))
    except (orjson.JSONEncodeError, RecursionError):
        raise UnencodableError('The message is nested too deeply.') from None


def may_hold_unwritable_number(data: bytes) -> bool:
    """Whether `check_numbers` has to look at a message in binary form, whatever stands before it."""
    return MAYBE_NOT_FINITE.search(data) is not None


def check_numbers(data: bytes, kind: type[Message]) -> None:
    """Refuses a message in binary form that holds a number which JSON cannot express: NaN, or an infinity.

    Raises:
        UnencodableError: It does.
    """
    if MAYBE_NOT_FINITE.search(data):
        transcode(data, kind)


def from_dict(value: object, kind: type[AnyMessage]) -> AnyMessage:
    """Returns the message that parsed JSON describes.

    Raises:
        InvalidJsonError: It does not describe one.
    """
    try:
        return kind.FromString(DECODERS[kind](value))
    except (DecodeError, RecursionError):
        raise InvalidJsonError('', 'is nested too deeply') from None


def from_bytes(text: bytes | bytearray | memoryview | str, kind: type[AnyMessage]) -> AnyMessage:
    """Returns the message that JSON text describes.

    Raises:
        InvalidJsonError: The text is not JSON or does not describe one.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidJsonError('', f'must be JSON: {error}') from None
    return from_dict(value, kind)


__all__ = [
    'Defaults',
    'InvalidJsonError',
    'UnencodableError',
    'check_numbers',
    'from_bytes',
    'from_dict',
    'may_hold_unwritable_number',
    'to_bytes',
    'to_dict',
    'transcode',
]
