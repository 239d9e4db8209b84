"""What the descriptors of protobuf 5 to 7 say, asked in one way."""

from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

STRUCT: Final = 'google.protobuf.Struct'
VALUE: Final = 'google.protobuf.Value'
LIST_VALUE: Final = 'google.protobuf.ListValue'
TIMESTAMP: Final = 'google.protobuf.Timestamp'

NUMBERS: Final = frozenset({FieldDescriptor.TYPE_BOOL, FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_ENUM})
SIZED: Final = frozenset({FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE})


def is_repeated(field: FieldDescriptor) -> bool:
    """Whether a field is a list or a map; `is_repeated` is new in protobuf 6, `label` is gone from 7."""
    repeated = getattr(field, 'is_repeated', None)
    return bool(getattr(field, 'label', 0) == FieldDescriptor.LABEL_REPEATED if repeated is None else repeated)


def map_entry(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor] | None:
    """Returns the key and the value of a map field, `None` for any other."""
    if field.message_type is None or not field.message_type.GetOptions().map_entry:
        return None
    members = field.message_type.fields_by_name
    return members['key'], members['value']


def is_foreign(descriptor: Descriptor) -> bool:
    """Whether a message has what A2A has no use for: other well-known types, other numbers, lists and keys of numbers.

    Such a message is left to `json_format`, so that a new one in a later A2A is slow, but right.
    """
    return descriptor.file.name.startswith('google/protobuf/') or not all(map(_is_ours, descriptor.fields))


def _is_ours(field: FieldDescriptor) -> bool:
    if entry := map_entry(field):
        key, value = entry
        return key.type == FieldDescriptor.TYPE_STRING and value.type in NUMBERS | SIZED
    return field.type in SIZED or (field.type in NUMBERS and not is_repeated(field))
