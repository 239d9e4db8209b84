"""Query parameters become the JSON of a request: by the types of its fields, strictly."""

import pytest
from a2a.types.a2a_pb2 import (
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    SendMessageConfiguration,
    SendMessageRequest,
)
from a2a.utils.errors import InvalidParamsError
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from a2a_scribe.protocol.json import InvalidJsonError, from_dict
from a2a_scribe.transport.rest_query import read_query

NO_NUMBERS = ('ten', '1.0', '1e1', '+1', ' 1', '1_0', '0x1', '\u0663', '²', '9' * 11)
NO_BOOLEANS = ('maybe', 'True', '1', 'yes', ' true', 'null')


def read(text: str, request: type[Message] = ListTasksRequest) -> dict[str, object]:
    """Reads a query whose names and values have no encoded characters."""
    return read_query((pair.partition('=')[::2] for pair in text.split('&') if pair), request)


@pytest.mark.parametrize(
    ('query', 'found'),
    [
        ('', {}),
        ('pageSize=10', {'pageSize': 10}),
        ('page_size=10', {'pageSize': 10}),
        ('pageSize=-1', {'pageSize': -1}),
        ('pageSize=007', {'pageSize': 7}),
        ('pageSize=9999999999', {'pageSize': 9_999_999_999}),
        ('includeArtifacts=true', {'includeArtifacts': True}),
        ('include_artifacts=false', {'includeArtifacts': False}),
        ('contextId=c', {'contextId': 'c'}),
        ('contextId=a,b', {'contextId': 'a,b'}),
        ('contextId=', {'contextId': ''}),
        ('status=TASK_STATE_WORKING', {'status': 'TASK_STATE_WORKING'}),
        ('statusTimestampAfter=2025-01-01T00:00:00Z', {'statusTimestampAfter': '2025-01-01T00:00:00Z'}),
        ('pageToken=x&historyLength=0&tenant=t', {'pageToken': 'x', 'historyLength': 0, 'tenant': 't'}),
    ],
)
def test_values_have_the_types_of_their_fields(query: str, found: dict[str, object]) -> None:
    assert read(query) == found


@pytest.mark.parametrize(
    'query', ['unknown=1', '=1', 'pagesize=1', 'PAGESIZE=1', 'A2A-Version=1.0', 'unknown=1&unknown=2']
)
def test_names_that_are_no_fields_are_ignored(query: str) -> None:
    assert read(query) == {}


def test_fields_that_no_query_can_express_are_ignored() -> None:
    assert read('message=x&metadata=y&configuration={}', SendMessageRequest) == {}


@pytest.mark.parametrize('query', ['pageSize=', 'includeArtifacts=', 'status=', 'statusTimestampAfter=', 'pageSize'])
def test_an_empty_value_is_none_unless_the_field_is_a_text(query: str) -> None:
    assert read(query) == {}


@pytest.mark.parametrize(
    ('query', 'field'),
    [
        *((f'pageSize={value}', 'pageSize') for value in NO_NUMBERS),
        *((f'includeArtifacts={value}', 'includeArtifacts') for value in NO_BOOLEANS),
        ('pageSize=1&pageSize=1', 'pageSize'),
        ('pageSize=1&page_size=2', 'pageSize'),
        ('contextId=a&contextId=', 'contextId'),
        ('tenant=a&tenant=a', 'tenant'),
    ],
)  # fmt: skip
def test_other_forms_are_refused_by_name(query: str, field: str) -> None:
    with pytest.raises(InvalidParamsError) as caught:
        read(query)
    assert caught.value.data is not None
    assert [error['field'] for error in caught.value.data['errors']] == [field]


@pytest.mark.parametrize(
    'query', ['status=TASK_STATE_RUNNING', 'status=2x', 'statusTimestampAfter=yesterday', 'pageSize=9999999999']
)
def test_what_is_more_than_a_form_is_left_to_the_codec(query: str) -> None:
    with pytest.raises(InvalidJsonError):
        from_dict(read(query), ListTasksRequest)


@pytest.mark.parametrize(
    'query',
    [
        'acceptedOutputModes=a,b,c',
        'acceptedOutputModes=a&acceptedOutputModes=b&accepted_output_modes=c',
        'acceptedOutputModes=a,b&acceptedOutputModes=c',
    ],
)
def test_repeated_fields_are_repeated_or_comma_separated(query: str) -> None:
    assert read(query, SendMessageConfiguration) == {'acceptedOutputModes': ['a', 'b', 'c']}


@given(
    st.sampled_from([ListTasksRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest]),
    st.lists(st.tuples(st.text(max_size=12), st.text(max_size=5)), max_size=4),
)
def test_any_query_is_read_or_refused(request_type: type[Message], pairs: list[tuple[str, str]]) -> None:
    names = [field.json_name for field in request_type.DESCRIPTOR.fields]
    for query in (pairs, [(names[len(name) % len(names)], text) for name, text in pairs]):
        try:
            found = read_query(query, request_type)
        except InvalidParamsError:
            continue
        assert found.keys() <= set(names)
