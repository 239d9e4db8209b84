"""Errors on the three bindings: one table, the same details, whatever data an agent gives its error."""

import json
import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from a2a.utils import errors as sdk
from a2a.utils.errors import A2AError, InternalError, InvalidParamsError, TaskNotFoundError, UnsupportedOperationError
from google.protobuf import json_format
from google.rpc import code_pb2, error_details_pb2, status_pb2

from a2a_scribe.protocol.codec.errors import UnencodableError
from a2a_scribe.protocol.faults import (
    BusyError,
    InvalidFieldError,
    InvalidFieldsError,
    PermissionDeniedError,
    TemporaryError,
    TooLargeError,
    UnauthenticatedError,
    Violation,
)
from a2a_scribe.transport.asgi import MediaTypeError, NotAllowedError
from a2a_scribe.transport.faults import (
    as_a2a_error,
    details_of,
    error_headers,
    retry_after,
    to_grpc_status,
    to_rpc,
    to_status,
)

TABLE: dict[type[A2AError], tuple[int, int, str, str]] = {
    sdk.TaskNotFoundError: (-32001, 404, 'NOT_FOUND', 'TASK_NOT_FOUND'),
    sdk.TaskNotCancelableError: (-32002, 400, 'FAILED_PRECONDITION', 'TASK_NOT_CANCELABLE'),
    sdk.PushNotificationNotSupportedError: (-32003, 400, 'FAILED_PRECONDITION', 'PUSH_NOTIFICATION_NOT_SUPPORTED'),
    sdk.UnsupportedOperationError: (-32004, 400, 'FAILED_PRECONDITION', 'UNSUPPORTED_OPERATION'),
    sdk.ContentTypeNotSupportedError: (-32005, 400, 'INVALID_ARGUMENT', 'CONTENT_TYPE_NOT_SUPPORTED'),
    sdk.InvalidAgentResponseError: (-32006, 500, 'INTERNAL', 'INVALID_AGENT_RESPONSE'),
    sdk.ExtendedAgentCardNotConfiguredError: (-32007, 400, 'FAILED_PRECONDITION', 'EXTENDED_AGENT_CARD_NOT_CONFIGURED'),
    sdk.ExtensionSupportRequiredError: (-32008, 400, 'FAILED_PRECONDITION', 'EXTENSION_SUPPORT_REQUIRED'),
    sdk.VersionNotSupportedError: (-32009, 400, 'FAILED_PRECONDITION', 'VERSION_NOT_SUPPORTED'),
    sdk.JSONParseError: (-32700, 400, 'INVALID_ARGUMENT', 'PARSE_ERROR'),
    sdk.InvalidRequestError: (-32600, 400, 'INVALID_ARGUMENT', 'INVALID_REQUEST'),
    sdk.MethodNotFoundError: (-32601, 404, 'UNIMPLEMENTED', 'METHOD_NOT_FOUND'),
    sdk.InvalidParamsError: (-32602, 400, 'INVALID_ARGUMENT', 'INVALID_PARAMS'),
    sdk.InternalError: (-32603, 500, 'INTERNAL', 'INTERNAL_ERROR'),
}
"""Sections 5.4 and 3.3.2 of A2A 1.0.1."""

KINDS: Mapping[str, Any] = {
    f'type.googleapis.com/google.rpc.{kind.DESCRIPTOR.name}': kind
    for kind in (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo)
}


class AgentsOwnError(UnsupportedOperationError):
    """What an agent derives from an error of the protocol."""

    message = 'Not on Sundays'


class AgentsWholeOwnError(A2AError):
    """What an agent derives from no error of the protocol in particular."""


def details_as_messages(details: list[dict[str, Any]]) -> list[Any]:
    """Reads ProtoJSON details, strictly."""
    return [
        json_format.ParseDict(
            {name: value for name, value in detail.items() if name != '@type'}, KINDS[detail['@type']]()
        )
        for detail in details
    ]


def unpacked(status: status_pb2.Status) -> list[Any]:
    """Reads gRPC's details."""
    made = []
    for packed in status.details:
        message = KINDS[packed.type_url]()
        assert packed.Unpack(message)
        made.append(message)
    return made


def check_bindings(error: A2AError) -> list[Any]:
    """Asserts that all bindings can write an error and say the same; returns its details."""
    rpc, rest, grpc = to_rpc(error), to_status(error), to_grpc_status(error)
    written = json.loads(orjson.dumps([rpc, rest]))
    assert written == [rpc, rest]
    assert rpc.keys() == {'code', 'message', 'data'}
    assert rest['error'].keys() == {'code', 'status', 'message', 'details'}
    assert rpc['message'] == rest['error']['message'] == grpc.message
    assert rpc['data'] == rest['error']['details'] == details_of(error)
    assert rest['error']['status'] == code_pb2.Code.Name(grpc.code)
    assert details_as_messages(rpc['data']) == unpacked(status_pb2.Status.FromString(grpc.SerializeToString()))
    return unpacked(grpc)


def test_challenges_are_fit_for_headers() -> None:
    error = UnauthenticatedError('x', ['Own realm="ä"\r\nSet-Cookie: a=b', 'Other'])
    assert error_headers(error) == [
        ('www-authenticate', 'Own realm=""Set-Cookie: a=b'),
        ('www-authenticate', 'Other'),
    ]


@pytest.mark.parametrize(
    ('error', 'row'),
    [
        (UnauthenticatedError(), (-32000, 401, 'UNAUTHENTICATED', 'UNAUTHENTICATED')),
        (PermissionDeniedError(), (-32000, 403, 'PERMISSION_DENIED', 'PERMISSION_DENIED')),
    ],
)
def test_callers_who_are_not_let_in_are_told_alike(error: A2AError, row: tuple[int, int, str, str]) -> None:
    (info,) = check_bindings(error)
    rest = to_status(error)['error']
    assert (to_rpc(error)['code'], rest['code'], rest['status'], info.reason) == row


# The table


def test_the_table_has_every_error_of_the_protocol() -> None:
    known = {kind for kind in vars(sdk).values() if isinstance(kind, type) and issubclass(kind, A2AError)}
    assert known - {A2AError} == set(TABLE)


@pytest.mark.parametrize('kind', TABLE, ids=lambda kind: kind.__name__)
def test_each_error_has_its_codes(kind: type[A2AError]) -> None:
    error = kind('it went wrong')
    code, http, grpc, reason = TABLE[kind]
    (info,) = check_bindings(error)
    assert (info.reason, info.domain, dict(info.metadata)) == (reason, 'a2a-protocol.org', {})
    assert to_rpc(error)['code'] == code
    assert (to_status(error)['error']['code'], to_status(error)['error']['status']) == (http, grpc)
    assert to_grpc_status(error).code == code_pb2.Code.Value(grpc)
    assert to_rpc(error)['message'] == 'it went wrong'
    assert error_headers(error) == []


@pytest.mark.parametrize('kind', TABLE, ids=lambda kind: kind.__name__)
def test_an_error_without_a_text_has_that_of_its_class(kind: type[A2AError]) -> None:
    check_bindings(kind())
    assert to_rpc(kind())['message'] == kind.message


def test_an_agents_own_error_is_told_as_what_it_derives_from() -> None:
    (info,) = check_bindings(AgentsOwnError())
    assert info.reason == 'UNSUPPORTED_OPERATION'
    assert to_rpc(AgentsOwnError())['message'] == 'Not on Sundays'
    (info,) = check_bindings(AgentsWholeOwnError())
    assert info.reason == 'INTERNAL_ERROR'
    assert to_status(AgentsWholeOwnError())['error']['code'] == 500


# Ours


def test_fields_at_fault_are_named() -> None:
    violations = [Violation('message.parts[0].text', 'is required'), Violation('', 'must be an object')]
    error = InvalidFieldsError(violations)
    info, request = check_bindings(error)
    assert info.reason == 'INVALID_PARAMS'
    assert dict(info.metadata) == {}
    assert [(each.field, each.description) for each in request.field_violations] == violations
    assert to_rpc(error)['message'] == 'message.parts[0].text is required; must be an object'


@pytest.mark.parametrize(
    ('error', 'status', 'seconds'), [(TemporaryError(), 'UNAVAILABLE', 1), (BusyError(), 'RESOURCE_EXHAUSTED', 2)]
)
def test_temporary_errors_say_when_to_try_again(error: TemporaryError, status: str, seconds: int) -> None:
    info, retry = check_bindings(error)
    assert (info.reason, dict(info.metadata)) == ('INTERNAL_ERROR', {'retryable': 'true'})
    assert retry.retry_delay.ToSeconds() == error.retry_after == retry_after(error) == seconds
    assert to_rpc(error)['code'] == -32603
    assert (to_status(error)['error']['code'], to_status(error)['error']['status']) == (503, status)
    assert to_grpc_status(error).code == code_pb2.Code.Value(status)
    assert error_headers(error) == [('retry-after', str(seconds))]


@pytest.mark.parametrize(
    ('error', 'status', 'reason'),
    [
        (TooLargeError(), 413, 'INVALID_REQUEST'),
        (MediaTypeError(), 415, 'INVALID_REQUEST'),
        (NotAllowedError(['GET', 'HEAD']), 405, 'METHOD_NOT_FOUND'),
    ],
)
def test_errors_of_http_itself_have_a_status_of_their_own(error: A2AError, status: int, reason: str) -> None:
    (info,) = check_bindings(error)
    assert info.reason == reason
    assert to_status(error, status)['error']['code'] == status


def test_a_method_that_is_not_allowed_comes_with_those_that_are() -> None:
    assert error_headers(NotAllowedError(['GET', 'HEAD'])) == [('allow', 'GET, HEAD')]


# What is no error of the protocol


@pytest.mark.parametrize(
    'error', [RuntimeError('secret'), ValueError('secret'), UnencodableError('secret'), KeyError('secret')]
)
def test_others_become_internal_errors_that_say_nothing(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        told = as_a2a_error(error)
    assert type(told) is InternalError
    check_bindings(told)
    assert 'secret' not in json.dumps(to_rpc(told))
    assert 'secret' in caplog.text


def test_errors_of_the_protocol_are_told_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    error = TaskNotFoundError('gone')
    assert as_a2a_error(error) is error
    assert caplog.text == ''


# Data of agents' errors


class Unprintable:
    """What cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError('no')

    __repr__ = __str__


ODD_DATA: dict[str, tuple[Any, dict[str, str]]] = {
    'nothing': (None, {}),
    'empty': ({}, {}),
    'text': ({'a': 'b'}, {'a': 'b'}),
    'values of JSON': (
        {'none': None, 'yes': True, 'number': 1.5, 'list': [1, 'x'], 'object': {'a': {'b': []}}},
        {'none': 'null', 'yes': 'true', 'number': '1.5', 'list': '[1,"x"]', 'object': '{"a":{"b":[]}}'},
    ),
    'names that are no text': ({1: 'a', None: 'b', (2, 3): 'c'}, {'1': 'a', 'None': 'b', '(2, 3)': 'c'}),
    'values that JSON does not have': ({'set': {1}, 'large': 2**70}, {'set': '{1}', 'large': str(2**70)}),
    'bytes': ({'bytes': b'\xff'}, {'bytes': "b'\\xff'"}),
    'not a number': ({'nan': float('nan')}, {'nan': 'null'}),
    'a list': (['a', 'b'], {}),
    'a text': ('text', {}),
    'a number': (5, {}),
    'a NUL': ({'\0': '\0'}, {'\0': '\0'}),
    'long': ({'x' * 100: 'y' * 1000}, {'x' * 100: 'y' * 1000}),
}  # fmt: skip


@pytest.mark.parametrize('name', ODD_DATA)
def test_data_of_any_kind_becomes_a_map_of_texts(name: str) -> None:
    data, expected = ODD_DATA[name]
    (info,) = check_bindings(UnsupportedOperationError('no', data=data))
    assert dict(info.metadata) == expected


@pytest.mark.parametrize(
    ('errors', 'expected'),
    [
        (None, []),
        ('text', []),
        ({}, []),
        ([], []),
        (['text', 5, None], []),
        ([{}], [('', '')]),
        ([{'field': 'a'}], [('a', '')]),
        ([{'field': 'a.b', 'message': 'must be c', 'more': 1}, 'text'], [('a.b', 'must be c')]),
        ([{'field': 5, 'message': ['x']}], [('5', "['x']")]),
        ([{'field': None, 'message': None}], [('None', 'None')]),
    ],
)
def test_errors_of_a2a_sdks_own_form_are_violations(errors: Any, expected: list[tuple[str, str]]) -> None:
    details = check_bindings(InvalidParamsError('no', data={'errors': errors, 'more': 'x'}))
    assert dict(details[0].metadata) == {'more': 'x'}
    found = [(each.field, each.description) for request in details[1:] for each in request.field_violations]
    assert found == expected


@pytest.mark.parametrize(
    'error',
    [
        UnsupportedOperationError('x' * 100_000),
        UnsupportedOperationError('𝄞' * 5_000),
        UnsupportedOperationError('no', data={'x': 'y' * 100_000}),
        InvalidFieldsError([Violation(f'message.parts[{number}].text', 'is required') for number in range(2_000)]),
    ],
    ids=['text', 'characters of four bytes', 'data', 'violations'],
)
def test_what_grpc_carries_beside_an_answer_is_small(error: A2AError) -> None:
    """Clients take 8 KiB of metadata, and else tell their users of a broken connection in place of the error."""
    status = to_grpc_status(error)
    (info, *_) = unpacked(status)
    assert info.reason == to_rpc(error)['data'][0]['reason']
    assert status.message
    assert len(quote(status.message, safe=' ')) + status.ByteSize() < 8_000


HALF = 'half \ud83d of one'


@pytest.mark.parametrize(
    'error',
    [
        UnsupportedOperationError(HALF),
        UnsupportedOperationError('no', data={'text': HALF}),
        UnsupportedOperationError('no', data={HALF: 'text'}),
        UnsupportedOperationError('no', data={'list': [HALF]}),
        InvalidParamsError('no', data={'errors': [{'field': HALF, 'message': HALF}]}),
        InvalidFieldError(HALF, HALF),
        UnsupportedOperationError('no', data={'odd': Unprintable()}),
        UnsupportedOperationError('no', data={Unprintable(): 'odd'}),
        UnsupportedOperationError(5),  # type: ignore[arg-type]
    ],
    ids=lambda error: str(type(error).__name__),
)
def test_what_no_binding_can_write_is_written_as_well_as_can_be(error: A2AError) -> None:
    """Half a character, an object that fails when it is shown, a text that is none: the client gets an answer."""
    check_bindings(error)
