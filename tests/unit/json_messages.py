"""Random messages of every A2A type, made from the descriptors alone."""

from collections.abc import Callable
from typing import Any

from a2a.types import a2a_pb2
from google.protobuf import struct_pb2, timestamp_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from a2a_scribe.protocol.codec.descriptors import is_repeated, map_entry

MESSAGES: list[type[Message]] = [
    *(GetMessageClass(found) for found in a2a_pb2.DESCRIPTOR.message_types_by_name.values()),
    struct_pb2.Struct,
    struct_pb2.Value,
    struct_pb2.ListValue,
    timestamp_pb2.Timestamp,
]

REQUESTS: list[type[Message]] = [
    a2a_pb2.SendMessageRequest,
    a2a_pb2.GetTaskRequest,
    a2a_pb2.ListTasksRequest,
    a2a_pb2.CancelTaskRequest,
    a2a_pb2.SubscribeToTaskRequest,
    a2a_pb2.TaskPushNotificationConfig,
    a2a_pb2.GetTaskPushNotificationConfigRequest,
    a2a_pb2.ListTaskPushNotificationConfigsRequest,
    a2a_pb2.DeleteTaskPushNotificationConfigRequest,
    a2a_pb2.GetExtendedAgentCardRequest,
]

FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799

texts = st.one_of(
    st.sampled_from(['', 'a', 'nul\0', 'ü', '𝄞', '"\\\n', 'x' * 127, 'ü' * 100, 'y' * 20_000]), st.text(max_size=8)
)
numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e300, -1e-300, 5e-324, 2.0**53, 2.0**63, 1.7976931348623157e308]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**53), 2**53).map(float),
)
free_values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
nanos = st.one_of(
    st.just(0),
    st.integers(0, 999).map(lambda count: count * 1_000_000),
    st.integers(0, 999_999).map(lambda count: count * 1_000),
    st.integers(0, 999_999_999),
)
seconds = st.one_of(
    st.sampled_from([0, 1, -1, FIRST_SECOND, LAST_SECOND, 1_750_000_000]), st.integers(FIRST_SECOND, LAST_SECOND)
)
timestamps = st.builds(lambda when, rest: timestamp_pb2.Timestamp(seconds=when, nanos=rest), seconds, nanos)


def value_of(free: Any) -> struct_pb2.Value:
    """Makes a Value as a program would, field by field."""
    made = struct_pb2.Value()
    match free:
        case None:
            made.null_value = struct_pb2.NULL_VALUE
        case bool():
            made.bool_value = free
        case float():
            made.number_value = free
        case str():
            made.string_value = free
        case list():
            made.list_value.CopyFrom(list_of(free))
        case dict():
            made.struct_value.CopyFrom(struct_of(free))
    return made


def list_of(free: list[Any]) -> struct_pb2.ListValue:
    """Makes a ListValue."""
    return struct_pb2.ListValue(values=[value_of(item) for item in free])


def struct_of(free: dict[str, Any]) -> struct_pb2.Struct:
    """Makes a Struct."""
    made = struct_pb2.Struct()
    for key, item in free.items():
        made.fields[key].CopyFrom(value_of(item))
    return made


values = st.one_of(st.just(struct_pb2.Value()), free_values.map(value_of))
WELL_KNOWN: dict[str, st.SearchStrategy[Any]] = {
    'google.protobuf.Struct': st.dictionaries(texts, free_values, max_size=3).map(struct_of),
    'google.protobuf.Value': values,
    'google.protobuf.ListValue': st.lists(free_values, max_size=3).map(list_of),
    'google.protobuf.Timestamp': timestamps,
}
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: texts,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=40),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: st.one_of(
        st.sampled_from([0, 1, -1, 127, 128, 2**31 - 1, -(2**31)]), st.integers(-(2**31), 2**31 - 1)
    ),
}
UNKNOWN_NUMBERS = st.sampled_from([99, -1, 2**31 - 1, -(2**31)])


def messages(kind: type[Message], *, known_enums: bool = False) -> st.SearchStrategy[Any]:
    """Returns a strategy for messages of a type; enums hold unknown numbers too, unless told otherwise."""
    known = WELL_KNOWN.get(kind.DESCRIPTOR.full_name)
    return known if known is not None else _messages(kind.DESCRIPTOR, known_enums)


@st.composite
def _messages(draw: st.DrawFn, descriptor: Any, known_enums: bool) -> Message:
    made = GetMessageClass(descriptor)()
    fields = draw(st.lists(st.sampled_from(list(descriptor.fields)), max_size=6, unique_by=lambda field: field.number))
    for field in fields:
        _fill(draw, made, field, known_enums)
    return made


def _fill(draw: st.DrawFn, message: Message, field: FieldDescriptor, known_enums: bool) -> None:
    if entry := map_entry(field):
        _fill_map(draw, getattr(message, field.name), entry[1], known_enums)
        return
    single = _single(field, known_enums)
    if is_repeated(field):
        getattr(message, field.name).extend(draw(st.lists(single, max_size=2)))
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(draw(single))
    else:
        setattr(message, field.name, draw(single))


def _fill_map(draw: st.DrawFn, entries: Any, value: FieldDescriptor, known_enums: bool) -> None:
    for key, item in draw(st.dictionaries(texts, _single(value, known_enums), max_size=2)).items():
        if value.message_type is not None:
            entries[key].CopyFrom(item)
        else:
            entries[key] = item


def _single(field: FieldDescriptor, known_enums: bool) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return messages(GetMessageClass(field.message_type), known_enums=known_enums)
    if field.enum_type is not None:
        known = st.sampled_from([value.number for value in field.enum_type.values])
        return known if known_enums else st.one_of(known, UNKNOWN_NUMBERS)
    return SCALARS[field.type]


JUNK = st.one_of(
    free_values,
    st.sampled_from(
        [
            True, 0, 1, -1, 1.0, 1.5, 2**31, 10**30, '1', '-7', '1.5', '01', ' 1', '1_0', 'true', [], {}, [None], [[]],
            {'': None}, '2025-01-01T00:00:00Z', '2025-01-01T00:00:00.1+23:59', '2025-1-1T0:0:0Z',
            '2025-02-30T00:00:00Z', '0001-01-01T00:00:00+00:01', '2025-01-01T00:00:60Z', 'YQ==', 'YQ', 'Y', '-_', 'a b',
            'YQ=YQ', 'ROLE_USER', 'TASK_STATE_WORKING', 'TASK_STATE_RUNNING', 'role_user', float('inf'),
            float('nan'), '\ud800', 'é',
        ]
    ),
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, json: Any) -> Any:
    """Puts junk, renamed and unknown members into JSON."""
    goes_deeper = bool(json) and draw(st.sampled_from([True, True, True, False]))
    if goes_deeper and isinstance(json, dict):
        name = draw(st.sampled_from(sorted(json)))
        change = draw(st.sampled_from(CHANGES))
        return change(draw, json, name)
    if goes_deeper and isinstance(json, list):
        index = draw(st.sampled_from(range(len(json))))
        return [*json[:index], draw(damaged(json[index])), *json[index + 1 :]]
    return draw(JUNK)


def _deeper(draw: st.DrawFn, json: dict[str, Any], name: str) -> dict[str, Any]:
    return {**json, name: draw(damaged(json[name]))}


def _renamed(_: st.DrawFn, json: dict[str, Any], name: str) -> dict[str, Any]:
    return {snake(each) if each == name else each: item for each, item in json.items()}


def _added(draw: st.DrawFn, json: dict[str, Any], _: str) -> dict[str, Any]:
    names = ['text', 'raw', 'url', 'data', 'metadata', 'taskId', 'task_id', 'id', 'unknown', 'status', 'list', 'task']
    return {**json, draw(st.sampled_from(names)): draw(JUNK)}


CHANGES: list[Callable[[st.DrawFn, dict[str, Any], str], dict[str, Any]]] = [_deeper, _deeper, _renamed, _added]


def snake(name: str) -> str:
    """Returns a camelCase name as the proto file has it."""
    return ''.join(f'_{letter.lower()}' if letter.isupper() else letter for letter in name)
