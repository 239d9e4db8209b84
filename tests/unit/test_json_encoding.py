"""The codec writes exactly what protobuf's own would."""

import json
from typing import Any

import pytest
from a2a.types import a2a_pb2
from google.protobuf import duration_pb2, json_format, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_scribe.protocol.json import UnencodableError, to_bytes, to_dict
from tests.unit.json_messages import MESSAGES, messages, texts, value_of, values

thorough = settings(max_examples=20, deadline=None)
every_type = pytest.mark.parametrize('kind', MESSAGES, ids=lambda kind: kind.DESCRIPTOR.name)


@every_type
@thorough
@given(data=st.data())
def test_equal_to_json_format(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(kind))
    expected = json_format.MessageToDict(message)
    assert exact(to_dict(message)) == exact(expected)
    assert json.loads(to_bytes(message)) == json.loads(json.dumps(expected))


@every_type
@thorough
@given(data=st.data())
def test_equal_with_all_defaults(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(kind))
    expected = json_format.MessageToDict(message, always_print_fields_with_no_presence=True)
    assert exact(to_dict(message, defaults='all')) == exact(expected)


def exact(found: Any) -> str:
    """Tells 1 from 1.0 and from true."""
    return repr(json.loads(json.dumps(found, sort_keys=True)))


def test_own_defaults_are_those_of_the_outermost_message() -> None:
    response = a2a_pb2.ListTasksResponse(tasks=[a2a_pb2.Task(id='t')])
    assert to_dict(response, defaults='own') == {
        'tasks': [{'id': 't'}], 'nextPageToken': '', 'pageSize': 0, 'totalSize': 0,
    }  # fmt: skip
    assert to_dict(a2a_pb2.ListTasksResponse(), defaults='own')['tasks'] == []
    assert to_dict(a2a_pb2.Message(), defaults='own')['role'] == 'ROLE_UNSPECIFIED'
    assert to_dict(struct_pb2.Struct(), defaults='own') == {}


def test_defaults_are_not_shared() -> None:
    to_dict(a2a_pb2.ListTasksResponse(), defaults='own')['tasks'].append('mine')
    assert to_dict(a2a_pb2.ListTasksResponse(), defaults='own')['tasks'] == []


def test_fields_follow_each_other_as_in_the_proto_file() -> None:
    event = a2a_pb2.TaskArtifactUpdateEvent(last_chunk=True, artifact={'name': 'n', 'artifact_id': 'a'}, task_id='t')
    assert to_bytes(event) == b'{"taskId":"t","artifact":{"artifactId":"a","name":"n"},"lastChunk":true}'


@given(values, texts)
def test_fields_of_a_later_version_are_passed_over(value: struct_pb2.Value, text: str) -> None:
    late = b''.join(
        [
            *(b'\xf8\x01\x96\x01', b'\xf9\x01' + b'\xff' * 8, b'\xfd\x01' + b'\xff' * 4),  # number 31, each wire type
            b'\xfa\x01' + bytes([len(raw := text.encode()[:100])]) + raw,
            b'\xfb\x01' + b'\xfb\x01\x08\x01\xfc\x01' + b'\xfc\x01',
            b'\x7d' + b'\xff' * 4,  # number 15, four bytes
        ]
    )
    part = a2a_pb2.Part.FromString(late + a2a_pb2.Part(data=value, filename=text).SerializeToString() + late)
    part.data.MergeFromString(late)
    part.metadata.MergeFromString(late)
    status = a2a_pb2.TaskStatus(timestamp=timestamp_pb2.Timestamp.FromString(late + b'\x08\x01' + late))
    assert to_dict(part) == json_format.MessageToDict(part)
    assert to_dict(status) == json_format.MessageToDict(status) == {'timestamp': '1970-01-01T00:00:01Z'}
    values_list = struct_pb2.ListValue.FromString(
        late + struct_pb2.ListValue(values=[value]).SerializeToString() + late
    )
    assert to_dict(values_list) == json_format.MessageToDict(values_list)


@pytest.mark.parametrize('number', [float('nan'), float('inf'), float('-inf')])
def test_no_word_for_a_number(number: float) -> None:
    part = a2a_pb2.Part(data=value_of({'a': [number]}))
    with pytest.raises(json_format.SerializeToJsonError):
        json_format.MessageToDict(part)
    with pytest.raises(UnencodableError, match='NaN or infinite'):
        to_dict(part)


@pytest.mark.parametrize(
    ('seconds', 'nanos'), [(253_402_300_800, 0), (-62_135_596_801, 0), (2**63 - 1, 0), (0, -1), (0, 10**9)]
)
def test_no_such_time(seconds: int, nanos: int) -> None:
    status = a2a_pb2.TaskStatus(timestamp=timestamp_pb2.Timestamp(seconds=seconds, nanos=nanos))
    with pytest.raises(json_format.SerializeToJsonError):
        json_format.MessageToDict(status)
    with pytest.raises(UnencodableError, match='timestamp'):
        to_dict(status)


@pytest.mark.parametrize('depth', [300, 5000])
def test_endless_nesting_is_an_error_of_its_own(depth: int) -> None:
    value = inner = struct_pb2.Value()
    for _ in range(depth):
        inner = inner.list_value.values.add()
    with pytest.raises(UnencodableError, match='nested too deeply'):
        to_bytes(value)


def test_types_that_a2a_does_not_use() -> None:
    assert to_dict(duration_pb2.Duration(seconds=1, nanos=500_000_000)) == '1.500s'
    assert to_dict(wrappers_pb2.Int64Value(value=7), defaults='own') == '7'
    with pytest.raises(UnencodableError, match='Duration'):
        to_dict(duration_pb2.Duration(seconds=2**60))
