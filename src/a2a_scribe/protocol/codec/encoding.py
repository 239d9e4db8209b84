"""From a message to plain dictionaries, equal to `json_format.MessageToDict`.

Each message type becomes one closure over a table of its fields, made at its first use, which reads the binary form
that protobuf writes of a message: every field once, except lists and maps, and none that holds its default.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, Literal

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_scribe.protocol.codec.descriptors import (
    LIST_VALUE,
    NUMBERS,
    STRUCT,
    TIMESTAMP,
    VALUE,
    is_foreign,
    is_repeated,
    map_entry,
)
from a2a_scribe.protocol.codec.encoding_values import (
    Reader,
    enum_reader,
    read_bytes,
    read_list,
    read_struct,
    read_text,
    read_timestamp,
    read_value,
)
from a2a_scribe.protocol.codec.errors import UnencodableError
from a2a_scribe.protocol.codec.wire import DELIMITED, VARINT, read_varint, signed, skip, tag, varint

Defaults = Literal['omit', 'own', 'all']
"""Which fields without presence are written although they hold their default: none, the outermost message's own
(ListTasks and its REQUIRED fields), or those of all messages (`always_print_fields_with_no_presence`)."""

WELL_KNOWN: Final[dict[str, Reader]] = {
    STRUCT: read_struct,
    VALUE: read_value,
    LIST_VALUE: read_list,
    TIMESTAMP: read_timestamp,
}

ONE, NUMBER, MAP, MANY = range(4)
"""How a field's values are put together; numbers come alone, and what is repeated comes in runs."""


Convert = Callable[..., Any]
"""From a number, or from data and bounds."""
Field = tuple[str, int, Convert | None]
"""Name, shape and conversion; the last is `None` for text, which most fields are. A plain tuple is the quickest to
take apart."""
Table = dict[int, Field]
"""Fields by the tags that stand in front of them."""
Made = dict[Descriptor, Reader]
Absent = Sequence[tuple[str, Callable[[], object]]]
"""Name and default of each field without presence."""


@cache
def reader(descriptor: Descriptor, defaults: Defaults = 'omit') -> Reader:
    """Returns the function that makes dictionaries of a type's messages in binary form."""
    read = _reader(descriptor, {}, full=defaults == 'all')
    if defaults == 'own' and descriptor.full_name not in WELL_KNOWN and not is_foreign(descriptor):
        return _full_reader(read, _absent(descriptor))
    return read


def _reader(descriptor: Descriptor, made: Made, *, full: bool) -> Reader:
    """Returns a type's reader; `made` holds those of this call, so that a type may contain itself."""
    if known := WELL_KNOWN.get(descriptor.full_name):
        return known
    if is_foreign(descriptor):
        return _foreign_reader(descriptor, full=full)
    if descriptor not in made:
        table: Table = {}
        plain = _plain_reader(table)
        made[descriptor] = _full_reader(plain, _absent(descriptor)) if full else plain
        table.update(_field(field, made, full=full) for field in descriptor.fields)
    return made[descriptor]


def _plain_reader(table: Table) -> Reader:
    def read(data: bytes, pos: int, end: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        while pos < end:
            start, head = pos, data[pos]
            if head > 127:
                head, pos = read_varint(data, pos)
                pos -= 1
            try:
                name, shape, convert = table[head]
            except KeyError:
                pos = skip(data, start)
                continue
            if shape == MANY and convert is not None:
                pos = convert(data, start, end, made.setdefault(name, []))
                continue
            size = data[pos + 1]
            pos += 2
            if size > 127:
                size, pos = read_varint(data, pos - 1)
            if convert is None:
                value = data[pos : pos + size].decode()
                pos += size
            elif shape == NUMBER:
                value = convert(size)
            else:
                value = convert(data, pos, pos + size)
                pos += size
            if shape <= NUMBER:
                made[name] = value
            else:
                made.setdefault(name, {})[value[0]] = value[1]
        return made

    return read


def _run_reader(head: bytes, convert: Convert, texts: dict[int, str]) -> Convert:
    """Returns the function that reads what is repeated, one after the other; short texts are the most common.

    It takes where the first begins and the list that they go into, and returns where something else begins.
    """
    first, width = head[0], len(head)

    def read(data: bytes, pos: int, end: int, items: list[Any]) -> int:
        while pos < end and data[pos] == first and (width == 1 or data.startswith(head, pos)):
            pos += width + 1
            size = data[pos - 1]
            if size > 127:
                size, pos = read_varint(data, pos - 1)
            stop = pos + size
            if 2 <= size < 130 and data[pos + 1] == size - 2 and data[pos] in texts:
                items.append({texts[data[pos]]: data[pos + 2 : stop].decode()})
            else:
                items.append(convert(data, pos, stop))
            pos = stop
        return pos

    return read


def _texts(repeated: FieldDescriptor, *, full: bool) -> dict[int, str]:
    """Returns the fields of repeated messages that are one text, which may be all that such a message has."""
    descriptor = repeated.message_type
    if full or descriptor is None or descriptor.full_name in WELL_KNOWN or is_foreign(descriptor):
        return {}
    return {
        tag(field.number, DELIMITED): field.json_name
        for field in descriptor.fields
        if field.type == FieldDescriptor.TYPE_STRING and not is_repeated(field) and field.number < 16
    }


def _full_reader(plain: Reader, absent: Absent) -> Reader:
    def read(data: bytes, pos: int, end: int) -> dict[str, Any]:
        made: dict[str, Any] = plain(data, pos, end)
        for name, default in absent:
            if name not in made:
                made[name] = default()
        return made

    return read


def _absent(descriptor: Descriptor) -> Absent:
    return [(field.json_name, _default(field)) for field in descriptor.fields if not field.has_presence]


def _default(field: FieldDescriptor) -> Callable[[], object]:
    if is_repeated(field):
        return dict if map_entry(field) else list
    value = _scalar_default(field)
    return lambda: value


def _scalar_default(field: FieldDescriptor) -> object:
    if field.enum_type is not None:
        return enum_reader(field.enum_type)(field.default_value)
    return '' if field.type == FieldDescriptor.TYPE_BYTES else field.default_value


def _field(field: FieldDescriptor, made: Made, *, full: bool) -> tuple[int, Field]:
    head = tag(field.number, VARINT if field.type in NUMBERS else DELIMITED)
    if entry := map_entry(field):
        return head, (field.json_name, MAP, _entry_reader(*entry, made, full=full))
    convert = _convert(field, made, full=full)
    if is_repeated(field):
        return head, (field.json_name, MANY, _run_reader(varint(head), convert or read_text, _texts(field, full=full)))
    return head, (field.json_name, NUMBER if field.type in NUMBERS else ONE, convert)


def _convert(field: FieldDescriptor, made: Made, *, full: bool) -> Convert | None:
    if field.message_type is not None:
        return _reader(field.message_type, made, full=full)
    if field.enum_type is not None:
        return enum_reader(field.enum_type)
    kinds: dict[int, Convert] = {
        FieldDescriptor.TYPE_BOOL: bool,
        FieldDescriptor.TYPE_INT32: signed,
        FieldDescriptor.TYPE_BYTES: read_bytes,
    }
    return kinds.get(field.type)


def _entry_reader(key: FieldDescriptor, value: FieldDescriptor, made: Made, *, full: bool) -> Reader:
    """Returns the reader of a map's entries; either half may be missing, which means its default."""
    plain = _plain_reader(dict(_field(each, made, full=full) for each in (key, value)))
    is_message = value.message_type is not None
    convert = _convert(value, made, full=full)

    def read(data: bytes, pos: int, end: int) -> tuple[str, Any]:
        entry = plain(data, pos, end)
        if 'value' not in entry:
            entry['value'] = convert(b'', 0, 0) if is_message and convert else _scalar_default(value)
        return entry.get('key', ''), entry['value']

    return read


def _foreign_reader(descriptor: Descriptor, *, full: bool) -> Reader:
    kind = GetMessageClass(descriptor)
    return lambda data, pos, end: _to_dict(kind.FromString(data[pos:end]), full=full)


def _to_dict(message: Message, *, full: bool) -> Any:
    try:
        return json_format.MessageToDict(message, always_print_fields_with_no_presence=full)
    except (json_format.Error, ValueError, TypeError) as error:
        raise UnencodableError(f'A {message.DESCRIPTOR.name} cannot be written as JSON.') from error
