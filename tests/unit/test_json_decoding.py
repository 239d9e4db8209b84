"""The codec reads what protobuf's own would, and refuses what A2A says to refuse, by name."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from a2a.types.a2a_pb2 import (
    AgentCard,
    ListTasksRequest,
    Message,
    Part,
    SendMessageRequest,
    TaskStatus,
)
from google.protobuf import duration_pb2, json_format, message
from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_scribe.protocol.json import InvalidJsonError, from_bytes, from_dict, to_bytes, to_dict
from tests.unit.json_messages import MESSAGES, REQUESTS, damaged, messages

thorough = settings(max_examples=15, deadline=None)
every_type = pytest.mark.parametrize('kind', MESSAGES, ids=lambda kind: kind.DESCRIPTOR.name)
every_request = pytest.mark.parametrize('kind', REQUESTS, ids=lambda kind: kind.DESCRIPTOR.name)


def attempt(read: Callable[[], message.Message]) -> message.Message | None:
    """Returns what is read, nothing if it is refused in words that can be sent."""
    try:
        return read()
    except InvalidJsonError as error:
        str(error).encode()
        return None


@every_type
@thorough
@given(data=st.data())
def test_equal_to_json_format(kind: type[message.Message], data: st.DataObject) -> None:
    given_json = json_format.MessageToDict(data.draw(messages(kind, known_enums=True)))
    expected = json_format.ParseDict(given_json, kind())
    assert from_dict(given_json, kind) == expected
    assert from_bytes(json.dumps(given_json).encode(), kind) == expected


@every_type
@thorough
@given(data=st.data())
def test_proto_names_are_names_too(kind: type[message.Message], data: st.DataObject) -> None:
    made = data.draw(messages(kind, known_enums=True))
    given_json = json_format.MessageToDict(made, preserving_proto_field_name=True)
    assert from_dict(given_json, kind) == json_format.ParseDict(given_json, kind())


@every_request
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_what_is_accepted_means_what_json_format_says(kind: type[message.Message], data: st.DataObject) -> None:
    given_json = data.draw(damaged(to_dict(data.draw(messages(kind, known_enums=True)))))
    found = attempt(lambda: from_dict(given_json, kind))
    assert found is None or found == json_format.ParseDict(given_json, kind(), ignore_unknown_fields=True)


@given(st.binary(max_size=30) | st.text(max_size=30).map(lambda text: f'{{"message":{text}}}'.encode()))
def test_bytes_that_are_not_json(data: bytes) -> None:
    attempt(lambda: from_bytes(data, SendMessageRequest))


MESSAGE = 'message'
REFUSED: list[tuple[type[message.Message], Any, str, str]] = [
    (SendMessageRequest, None, '', 'must be an object'),
    (SendMessageRequest, [], '', 'must be an object'),
    (SendMessageRequest, {MESSAGE: 'text'}, 'message', 'must be an object'),
    (SendMessageRequest, {MESSAGE: {'parts': {}}}, 'message.parts', 'must be an array'),
    (SendMessageRequest, {MESSAGE: {'parts': [{}, None]}}, 'message.parts[1]', 'must be an object'),
    (SendMessageRequest, {MESSAGE: {'parts': [{'text': 1}]}}, 'message.parts[0].text', 'must be a string'),
    (SendMessageRequest, {MESSAGE: {'message_id': 1}}, 'message.messageId', 'must be a string'),
    (SendMessageRequest, {MESSAGE: {'extensions': ['a', 2]}}, 'message.extensions[1]', 'must be a string'),
    (SendMessageRequest, {MESSAGE: {'extensions': [None]}}, 'message.extensions[0]', 'must be a string'),
    (SendMessageRequest, {'metadata': []}, 'metadata', 'must be an object'),
    (SendMessageRequest, {'configuration': {'historyLength': '1.5'}}, 'configuration.historyLength', 'an integer'),
    (SendMessageRequest, {'configuration': {'returnImmediately': 1}}, 'configuration.returnImmediately', 'true or'),
    (ListTasksRequest, {'includeArtifacts': 'true'}, 'includeArtifacts', 'must be true or false'),
    (ListTasksRequest, {'status': 'TASK_STATE_RUNNING'}, 'status', 'must be one of TASK_STATE_UNSPECIFIED'),
    (ListTasksRequest, {'status': 'task_state_working'}, 'status', 'must be one of'),
    (ListTasksRequest, {'status': '2'}, 'status', 'must be one of'),
    (ListTasksRequest, {'status': 99}, 'status', 'must be one of'),
    (ListTasksRequest, {'status': True}, 'status', 'must be one of'),
    (ListTasksRequest, {'status': 2.0}, 'status', 'must be one of'),
    (ListTasksRequest, {'status': ['TASK_STATE_WORKING']}, 'status', 'must be one of'),
    (ListTasksRequest, {'pageSize': 2**31}, 'pageSize', 'between'),
    (ListTasksRequest, {'pageSize': -(2**31) - 1}, 'pageSize', 'between'),
    (ListTasksRequest, {'pageSize': '9' * 5000}, 'pageSize', 'integer'),
    (ListTasksRequest, {'pageSize': '9' * 300}, 'pageSize', 'between'),
    (ListTasksRequest, {'pageSize': '1e999999999'}, 'pageSize', 'integer'),
    (ListTasksRequest, {'pageSize': 1e300}, 'pageSize', 'between'),
    (ListTasksRequest, {'pageSize': float('nan')}, 'pageSize', 'integer'),
    (ListTasksRequest, {'pageSize': True}, 'pageSize', 'integer'),
    (ListTasksRequest, {'pageSize': ' 1'}, 'pageSize', 'integer'),
    (ListTasksRequest, {'pageSize': '1_0'}, 'pageSize', 'integer'),
    (ListTasksRequest, {'pageSize': '\u0661'}, 'pageSize', 'integer'),
    (ListTasksRequest, {'contextId': 'a', 'context_id': 'a'}, 'contextId', 'must not be given twice'),
    (ListTasksRequest, {'tenant': '\ud800'}, 'tenant', 'lone surrogate'),
    (ListTasksRequest, {'statusTimestampAfter': 1}, 'statusTimestampAfter', 'RFC 3339'),
    (Part, {'text': 'a', 'url': 'b'}, 'url', 'must not be given together with text'),
    (Part, {'data': None, 'text': 'a'}, 'text', 'must not be given together with data'),
    (Part, {'raw': 'Y'}, 'raw', 'base64'),
    (Part, {'raw': 'YQ*='}, 'raw', 'base64'),
    (Part, {'raw': 'YQ=YQ'}, 'raw', 'base64'),
    (Part, {'raw': 'é'}, 'raw', 'base64'),
    (Part, {'raw': '\ud800'}, 'raw', 'base64'),
    (Part, {'raw': 1}, 'raw', 'base64'),
    (Part, {'metadata': {'a': [1, {'b': '\ud800'}]}}, 'metadata.a[1].b', 'lone surrogate'),
    (Part, {'metadata': {'a': float('nan')}}, 'metadata.a', 'finite'),
    (Part, {'metadata': {'a': 10**400}}, 'metadata.a', 'finite'),
    (Part, {'metadata': {'a': b''}}, 'metadata.a', 'array'),
    (Part, {'metadata': {'\ud800': 1}}, 'metadata.?', 'lone surrogate'),
    (Part, {'metadata': {'k' * 65: float('inf')}}, 'metadata.?', 'finite'),
    (Part, {'metadata': {1: 1}}, 'metadata.?', 'string as its name'),
    (AgentCard, {'securitySchemes': {'a': None}}, 'securitySchemes.a', 'must be an object'),
    (AgentCard, {'securitySchemes': []}, 'securitySchemes', 'must be an object'),
    (
        AgentCard,
        {'securitySchemes': {'a': {'apiKeySecurityScheme': {}, 'mtlsSecurityScheme': {}}}},
        'securitySchemes.a.mtlsSecurityScheme',
        'must not be given together with apiKeySecurityScheme',
    ),
    (Timestamp, 'now', '', 'RFC 3339'),
    (duration_pb2.Duration, 'now', '', 'must be a valid Duration'),
]


@pytest.mark.parametrize(('kind', 'value', 'field', 'reason'), REFUSED)
def test_refused(kind: type[message.Message], value: Any, field: str, reason: str) -> None:
    with pytest.raises(InvalidJsonError) as caught:
        from_dict(value, kind)
    assert caught.value.field == field
    assert reason in caught.value.reason
    assert str(caught.value) == (f'{field}: {caught.value.reason}' if field else caught.value.reason)


ACCEPTED: list[tuple[type[message.Message], Any, message.Message]] = [
    (SendMessageRequest, {}, SendMessageRequest()),
    (SendMessageRequest, {'unknown': {'a': '\ud800'}, 'message': None}, SendMessageRequest()),
    (SendMessageRequest, {'message': {'unknown': 1, '': 2, 'x' * 300: 3}}, SendMessageRequest(message=Message())),
    (ListTasksRequest, {'pageSize': '7'}, ListTasksRequest(page_size=7)),
    (ListTasksRequest, {'pageSize': 7.0}, ListTasksRequest(page_size=7)),
    (ListTasksRequest, {'pageSize': '7e1'}, ListTasksRequest(page_size=70)),
    (ListTasksRequest, {'pageSize': 0}, ListTasksRequest(page_size=0)),
    (ListTasksRequest, {'pageSize': None, 'status': None, 'includeArtifacts': None}, ListTasksRequest()),
    (ListTasksRequest, {'status': 2}, ListTasksRequest(status='TASK_STATE_WORKING')),
    (ListTasksRequest, {'includeArtifacts': False}, ListTasksRequest(include_artifacts=False)),
    (ListTasksRequest, {'page_size': 3}, ListTasksRequest(page_size=3)),
    (Part, {'text': '', 'url': None}, Part(text='')),
    (Part, {'text': 'nul\0'}, Part(text='nul\0')),
    (Part, {'data': None}, Part(data=Value(null_value=NULL_VALUE))),
    (Part, {'raw': 'YQ=='}, Part(raw=b'a')),
    (Part, {'raw': 'YQ'}, Part(raw=b'a')),
    (Part, {'raw': 'Y\r\nQ==\n'}, Part(raw=b'a')),
    (Part, {'raw': '-_-_'}, Part(raw=b'\xfb\xff\xbf')),
    (Part, {'raw': '+/-_'}, Part(raw=b'\xfb\xff\xbf')),
    (Part, {'raw': ''}, Part(raw=b'')),
    (duration_pb2.Duration, '1s', duration_pb2.Duration(seconds=1)),
]  # fmt: skip


@pytest.mark.parametrize(('kind', 'value', 'expected'), ACCEPTED)
def test_accepted(kind: type[message.Message], value: Any, expected: message.Message) -> None:
    assert from_dict(value, kind) == expected


@pytest.mark.parametrize(
    ('text', 'seconds', 'nanos'),
    [
        ('1970-01-01T00:00:00Z', 0, 0),
        ('1970-01-01T01:00:00.5+01:00', 0, 500_000_000),
        ('1969-12-31T19:00:00.000000001-05:00', 0, 1),
        ('0001-01-01T00:00:00Z', -62_135_596_800, 0),
        ('9999-12-31T23:59:59.999999999Z', 253_402_300_799, 999_999_999),
        ('2024-02-29T12:00:00-00:00', 1_709_208_000, 0),
    ],
)
def test_times(text: str, seconds: int, nanos: int) -> None:
    expected = TaskStatus(timestamp=Timestamp(seconds=seconds, nanos=nanos))
    assert from_dict({'timestamp': text}, TaskStatus) == expected
    assert json_format.ParseDict({'timestamp': text}, TaskStatus()) == expected


@pytest.mark.parametrize(
    'text',
    [
        '',
        '2025-01-01',
        '2025-01-01T00:00:00',
        '2025-01-01 00:00:00Z',
        '2025-01-01T00:00Z',
        '2025-02-30T00:00:00Z',
        '2025-01-01T24:00:00Z',
        '2025-01-01T00:00:60Z',
        '2025-01-01T00:00:00.Z',
        '2025-01-01T00:00:00.1234567890Z',
        '2025-01-01T00:00:00+24:00',
        '2025-01-01T00:00:00+0100',
        '2025-01-01T00:00:00Z\n',
        '2025-01-01T00:00:00ZZ',
        '\u0662025-01-01T00:00:00Z',
        '0001-01-01T00:00:00+00:01',
        '9999-12-31T23:59:59-00:01',
        '0000-01-01T00:00:00Z',
    ],
)
def test_no_times(text: str) -> None:
    with pytest.raises(InvalidJsonError) as caught:
        from_dict({'timestamp': text}, TaskStatus)
    assert caught.value.field == 'timestamp'


def nested(depth: int, wrap: str) -> Any:
    """Makes objects in objects or arrays in arrays."""
    made: Any = 'x'
    for _ in range(depth):
        made = [made] if wrap == 'array' else {'a': made}
    return made


@pytest.mark.parametrize(('wrap', 'deepest'), [('array', 45), ('object', 30)])
def test_nesting_is_bounded_by_what_can_be_read_back(wrap: str, deepest: int) -> None:
    request = from_dict({'message': {'parts': [{'data': nested(deepest, wrap)}]}}, SendMessageRequest)
    assert SendMessageRequest.FromString(request.SerializeToString()) == request
    assert to_dict(request)['message']['parts'][0]['data'] == nested(deepest, wrap)
    for depth in (deepest + 1, 1000, 100_000):
        with pytest.raises(InvalidJsonError) as caught:
            from_dict({'message': {'parts': [{'data': nested(depth, wrap)}]}}, SendMessageRequest)
        assert caught.value.reason == 'is nested too deeply'
        assert caught.value.field.startswith('message.parts[0].data')


@pytest.mark.parametrize('kind', [Struct, ListValue, Value])
def test_text_that_nests_without_end(kind: type[message.Message]) -> None:
    for text in (b'[' * 900 + b']' * 900, b'[' * 100_000, b'{"a":' * 100_000):
        with pytest.raises(InvalidJsonError):
            from_bytes(text, kind)


def test_lone_surrogates_in_text() -> None:
    with pytest.raises(InvalidJsonError, match='must be JSON'):
        from_bytes(b'{"message":{"messageId":"\\ud800"}}', SendMessageRequest)


@every_type
@thorough
@given(data=st.data())
def test_there_and_back(kind: type[message.Message], data: st.DataObject) -> None:
    made = data.draw(messages(kind, known_enums=True))
    assert to_dict(from_bytes(to_bytes(made), kind)) == to_dict(made)
