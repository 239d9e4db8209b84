"""Bytes of a message that no program of ours wrote: what protobuf accepts, the codec writes as protobuf would."""

import json
import random

import pytest
from a2a.types import a2a_pb2
from google.protobuf import json_format, struct_pb2
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_scribe.protocol.json import UnencodableError, to_bytes
from tests.fuzz.grpc_requests import garbled_fields
from tests.unit.json_messages import REQUESTS, messages

KINDS: list[type[ProtoMessage]] = [*REQUESTS, a2a_pb2.Task, a2a_pb2.StreamResponse, struct_pb2.Struct, struct_pb2.Value]

KEY, VALUE, TEXT = b'\x0a\x01k', b'\x12\x03\x1a\x01v', b'\x1a\x01t'
ENTRIES = {
    'nothing': b'',
    'a key': KEY,
    'a value': VALUE,
    'both': KEY + VALUE,
    'both, turned around': VALUE + KEY,
    'a key twice': KEY + b'\x0a\x01l' + VALUE,
    'a value twice': KEY + VALUE + b'\x12\x03\x1a\x01w',
    'an unknown field': TEXT,
    'an unknown field that looks like a value': b'\x1a\x03\x1a\x01\xf0',
    'an unknown field before': TEXT + KEY + VALUE,
    'an unknown field between': KEY + TEXT + VALUE,
    'an unknown field behind': KEY + VALUE + TEXT,
    'an unknown field behind the key': KEY + TEXT,
    'a key of another type': b'\x08\x01' + VALUE,
    'a value of another type': KEY + b'\x10\x01',
    'an unknown number': KEY + VALUE + b'\x20\x01',
    'an unknown group': KEY + b'\x1b\x1c' + VALUE,
}


def assert_written_as_protobuf_would(message: ProtoMessage) -> None:
    """Both write the same, or both refuse."""
    try:
        expected = json.dumps(json_format.MessageToDict(message), allow_nan=False)
    except (ValueError, json_format.Error):
        with pytest.raises(UnencodableError):
            to_bytes(message)
        return
    assert json.loads(to_bytes(message)) == json.loads(expected)


@pytest.mark.parametrize('entry', ENTRIES.values(), ids=ENTRIES)
def test_entries_of_a_struct(entry: bytes) -> None:
    before, behind = b'\x0a\x0a\x0a\x01a\x12\x05\x1a\x03one', b'\x0a\x0a\x0a\x01b\x12\x05\x1a\x03two'
    made = struct_pb2.Struct.FromString(before + b'\x0a' + bytes([len(entry)]) + entry + behind)
    assert_written_as_protobuf_would(made)
    assert_written_as_protobuf_would(a2a_pb2.Message(message_id='m', metadata=made))


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(KINDS), data=st.data(), seed=st.integers(0, 2**32))
def test_messages_with_garbled_fields(kind: type[ProtoMessage], data: st.DataObject, seed: int) -> None:
    given_bytes = data.draw(messages(kind)).SerializeToString()
    try:
        made = kind.FromString(garbled_fields(given_bytes, random.Random(seed)))
    except DecodeError:
        return
    assert_written_as_protobuf_would(made)
