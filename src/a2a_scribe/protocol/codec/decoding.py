"""From plain dictionaries to a message: `json_format.ParseDict`, where A2A does not ask for more.

Each message type becomes one closure over a table of its fields, made at its first use, which returns the message in
protobuf's binary form. Unknown members are ignored; null is an absent member, but a value for a field of type Value.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from a2a_scribe.protocol.codec.decoding_structs import list_body, shown, struct_body, value_body
from a2a_scribe.protocol.codec.decoding_values import Decoder, scalar_decoder, timestamp_body
from a2a_scribe.protocol.codec.descriptors import (
    LIST_VALUE,
    STRUCT,
    TIMESTAMP,
    VALUE,
    is_foreign,
    is_repeated,
    map_entry,
)
from a2a_scribe.protocol.codec.errors import InvalidJsonError
from a2a_scribe.protocol.codec.wire import DELIMITED, SMALL, delimited, tag, varint

Body = Callable[[Any], bytes]
"""From a JSON value to a message without tag and size."""
Made = dict[Descriptor, Body]

WELL_KNOWN: dict[str, Body] = {
    STRUCT: struct_body,
    VALUE: value_body,
    LIST_VALUE: list_body,
    TIMESTAMP: timestamp_body,
}


class _Names(NamedTuple):
    """How the members of an object may be called."""

    other: Mapping[str, str]
    """The names of the proto file that differ, with JSON's."""
    nullable: frozenset[str]
    """Those for which null is a value."""
    choices: Iterable[frozenset[str]]
    """Those of which one may be given."""


@cache
def decoder(descriptor: Descriptor) -> Body:
    """Returns the function that makes a type's binary messages."""
    return _message(descriptor, {})


def _message(descriptor: Descriptor, made: Made) -> Body:
    """Returns a type's function; `made` holds those of this call, so that a type may contain itself."""
    if known := WELL_KNOWN.get(descriptor.full_name):
        return known
    if is_foreign(descriptor):
        return _foreign(descriptor)
    if descriptor not in made:
        fields: dict[str, Decoder] = {}
        made[descriptor] = _object_body(fields, _names(descriptor))
        fields.update({field.json_name: _field(field, made) for field in descriptor.fields})
    return made[descriptor]


def _object_body(fields: Mapping[str, Decoder], names: _Names) -> Body:
    other, nullable, choices = names

    def body(value: object) -> bytes:
        if not isinstance(value, dict):
            raise InvalidJsonError('', 'must be an object')
        if not other.keys().isdisjoint(value):
            value = _renamed(value, other)
        for choice in choices:
            _check_choice(value, choice, nullable)
        made, name = [], ''
        try:
            for name, item in value.items():
                decode = fields.get(name)
                if decode and (item is not None or name in nullable):
                    made.append(decode(item))
        except InvalidJsonError as error:
            raise error.within(name) from None
        return b''.join(made)

    return body


def _names(descriptor: Descriptor) -> _Names:
    fields = descriptor.fields
    return _Names(
        {field.name: field.json_name for field in fields if field.name != field.json_name},
        frozenset(field.json_name for field in fields if _is_nullable(field)),
        [frozenset(field.json_name for field in one.fields) for one in descriptor.oneofs if len(one.fields) > 1],
    )


def _is_nullable(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name == VALUE and not is_repeated(field)


def _renamed(value: dict[str, Any], other: Mapping[str, str]) -> dict[str, Any]:
    """Returns an object with JSON's names.

    Raises:
        InvalidJsonError: A member is given under both of its names.
    """
    made: dict[str, Any] = {}
    for name, item in value.items():
        name = other.get(name, name)  # noqa: PLW2901
        if name in made:
            raise InvalidJsonError(name, 'must not be given twice')
        made[name] = item
    return made


def _check_choice(value: dict[str, Any], choice: frozenset[str], nullable: frozenset[str]) -> None:
    if choice.isdisjoint(value):
        return
    given = [name for name in value if name in choice and (value[name] is not None or name in nullable)]
    if len(given) > 1:
        raise InvalidJsonError(given[1], f'must not be given together with {given[0]}')


def _field(field: FieldDescriptor, made: Made) -> Decoder:
    if entry := map_entry(field):
        return _map_decoder(field, *entry, made)
    decode = _single(field, made)
    return _repeated_decoder(decode) if is_repeated(field) else decode


def _single(field: FieldDescriptor, made: Made) -> Decoder:
    """Returns the decoder of one value of a field."""
    if field.message_type is None:
        return scalar_decoder(field)
    return _nested_decoder(varint(tag(field.number, DELIMITED)), _message(field.message_type, made))


def _nested_decoder(head: bytes, body: Body) -> Decoder:
    def decode(value: object) -> bytes:
        made = body(value)
        size = len(made)
        return head + (SMALL[size] if size < 128 else varint(size)) + made

    return decode


def _repeated_decoder(decode: Decoder) -> Decoder:
    def decode_all(value: object) -> bytes:
        if not isinstance(value, (list, tuple)):
            raise InvalidJsonError('', 'must be an array')
        made = []
        for index, item in enumerate(value):
            try:
                made.append(decode(item))
            except InvalidJsonError as error:
                raise error.within(f'[{index}]') from None
        return b''.join(made)

    return decode_all


def _map_decoder(field: FieldDescriptor, key: FieldDescriptor, value: FieldDescriptor, made: Made) -> Decoder:
    head, decode_key, decode = varint(tag(field.number, DELIMITED)), scalar_decoder(key), _single(value, made)

    def decode_map(value: object) -> bytes:
        if not isinstance(value, dict):
            raise InvalidJsonError('', 'must be an object')
        entries, name = [], None
        try:
            for name, item in value.items():
                entries.append(delimited(head, decode_key(name) + decode(item)))
        except InvalidJsonError as error:
            raise error.within(shown(name)) from None
        return b''.join(entries)

    return decode_map


def _foreign(descriptor: Descriptor) -> Body:
    """Returns the function of a type that has what A2A does not use."""
    kind, reason = GetMessageClass(descriptor), f'must be a valid {descriptor.name}'

    def body(value: Any) -> bytes:
        try:
            return json_format.ParseDict(value, kind(), ignore_unknown_fields=True).SerializeToString()
        except (json_format.Error, ValueError, TypeError, AttributeError, KeyError):
            raise InvalidJsonError('', reason) from None

    return body
