"""Required fields (A2A 1.0, section 5.7), as the protocol's own descriptors mark them.

Requests are refused that lack one; what is answered shows them although they hold their default.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from google.api import field_behavior_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from a2a_scribe.protocol.codec.descriptors import is_repeated, map_entry

MISSING: Final = 'is required'
OURS: Final = 'lf.a2a.'
"""What the names of A2A's own types begin with."""

Check = Callable[[Message, str, list[str]], None]
"""Adds the paths of what a message lacks, which stands at a path itself."""


def missing_fields(message: Message) -> list[str]:
    """Returns the paths of the required fields that a message lacks."""
    missing: list[str] = []
    _check(message.DESCRIPTOR)(message, '', missing)
    return missing


@cache
def _check(descriptor: Descriptor) -> Check:
    required = [(field.name, field.json_name, _is_absent(field)) for field in descriptor.fields if is_required(field)]
    inner = [
        (field.name, field.json_name, is_repeated(field), field.message_type)
        for field in descriptor.fields
        if field.message_type is not None
        and not map_entry(field)
        and _reaches_required(field.message_type, frozenset())
    ]

    def check(message: Message, path: str, missing: list[str]) -> None:
        for name, shown, is_absent in required:
            if is_absent(message, name):
                missing.append(path + shown)
        for name, shown, repeated, kind in inner:
            if repeated:
                for index, item in enumerate(getattr(message, name)):
                    _check(kind)(item, f'{path}{shown}[{index}].', missing)
            elif message.HasField(name):
                _check(kind)(getattr(message, name), f'{path}{shown}.', missing)

    return check


def is_required(field: FieldDescriptor) -> bool:
    """Whether the protocol marks a field as required."""
    return field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]


def _is_absent(field: FieldDescriptor) -> Callable[[Message, str], bool]:
    if field.has_presence:
        return lambda message, name: not message.HasField(name)
    return lambda message, name: not getattr(message, name)


def _reaches_required(descriptor: Descriptor, seen: frozenset[Descriptor]) -> bool:
    """Whether a type, or one within it, has required fields."""
    if descriptor in seen:
        return False
    return any(
        is_required(field) or (field.message_type and _reaches_required(field.message_type, seen | {descriptor}))
        for field in descriptor.fields
    )


def show_required(value: dict[str, Any], kind: type[Message]) -> dict[str, Any]:
    """Adds to a message's JSON the required fields that it leaves out, at every depth. Changes and returns `value`."""
    return _show(value, kind.DESCRIPTOR)


def _show(value: dict[str, Any], descriptor: Any) -> dict[str, Any]:
    for field in descriptor.fields:
        name = field.json_name
        if is_required(field) and not field.has_presence and field.enum_type is None:
            value.setdefault(name, [] if is_repeated(field) else field.default_value)
        entry = map_entry(field)
        kind = field.message_type if entry is None else entry[1].message_type
        if kind is None or name not in value or not kind.full_name.startswith(OURS):
            continue
        held = value[name]
        for each in held if is_repeated(field) and entry is None else [held] if entry is None else held.values():
            _show(each, kind)
    return value
