"""What clients of version 0.3 say is read, or refused by name; what they are told, they can read."""

import base64
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, get_args

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old_pb2
from a2a.compat.v0_3 import conversions, types
from a2a.types.a2a_pb2 import (
    Artifact,
    ListTaskPushNotificationConfigsResponse,
    Message,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (
    A2AError,
    ExtensionSupportRequiredError,
    InternalError,
    InvalidParamsError,
    TaskNotFoundError,
    VersionNotSupportedError,
)
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from a2a_scribe.core.records import EventKind, Shown
from a2a_scribe.protocol.faults import (
    FAULTS,
    BusyError,
    InvalidFieldsError,
    PermissionDeniedError,
    UnauthenticatedError,
    fault_of,
)
from a2a_scribe.protocol.states import KNOWN, name_of
from a2a_scribe.transport.dialects import CURRENT, LATER, OLD
from a2a_scribe.transport.old import writing
from a2a_scribe.transport.old.operations import CALLS, METHODS
from tests.unit.strategies import tasks

Json = dict[str, Any]
URI = 'urn:a2a-scribe:extension:sequence:1'


def read(method: str, params: object) -> Any:
    """What the handler is asked by JSON-RPC."""
    reader = METHODS[method].from_json
    assert reader is not None
    return reader(params)


def call(name: str, request: Any) -> Any:
    """What the handler is asked by gRPC, and over HTTP."""
    return CALLS[name].read(request)


def params_of(*parts: Json, configuration: Json | None = None, **fields: Any) -> Json:
    message = {'messageId': 'm', 'role': 'user', 'parts': list(parts) or [{'kind': 'text', 'text': 'hi'}], **fields}
    return {'message': message} if configuration is None else {'message': message, 'configuration': configuration}


# Requests


def test_message_is_read() -> None:
    request = read(
        'message/send',
        {
            **params_of(
                {'kind': 'text', 'text': 'hi', 'metadata': {'a': 1}},
                {'kind': 'data', 'data': {'b': [True, None]}},
                {'kind': 'file', 'file': {'uri': 'https://file.test/', 'mimeType': 'text/plain', 'name': 'n'}},
                {'kind': 'file', 'file': {'bytes': base64.b64encode(b'\xff\x00').decode()}},
                kind='message',
                contextId='c',
                taskId='t',
                referenceTaskIds=['r'],
                extensions=['urn:x'],
                metadata={'m': 'n'},
            ),
            'metadata': {'of': 'the request'},
        },
    )
    wanted = {
        'message': {
            'messageId': 'm',
            'contextId': 'c',
            'taskId': 't',
            'role': 'ROLE_USER',
            'referenceTaskIds': ['r'],
            'extensions': ['urn:x'],
            'metadata': {'m': 'n'},
            'parts': [
                {'text': 'hi', 'metadata': {'a': 1}},
                {'data': {'b': [True, None]}},
                {'url': 'https://file.test/', 'mediaType': 'text/plain', 'filename': 'n'},
                {'raw': '/wA='},
            ],
        },
        'metadata': {'of': 'the request'},
    }
    assert request == json_format.ParseDict(wanted, SendMessageRequest())


@pytest.mark.parametrize(
    ('configuration', 'immediately'),
    [(None, False), ({}, False), ({'blocking': True}, False), ({'blocking': False}, True), ({'blocking': None}, False)],
)
def test_sender_waits_unless_it_says_otherwise(configuration: Json | None, immediately: bool) -> None:
    request = read('message/send', params_of(configuration=configuration))
    assert request.configuration.return_immediately is immediately


def test_history_of_length_0_is_all_of_it() -> None:
    assert not read('tasks/get', {'id': 't', 'historyLength': 0}).HasField('history_length')
    assert read('tasks/get', {'id': 't', 'historyLength': 2}).history_length == 2
    assert not call('GetTask', old_pb2.GetTaskRequest(name='tasks/t')).HasField('history_length')
    for length, is_set in ((0, False), (2, True)):
        sent = read('message/send', params_of(configuration={'historyLength': length}))
        assert sent.configuration.HasField('history_length') is is_set


def test_config_without_an_id_has_that_of_its_task() -> None:
    for made in (
        read('tasks/pushNotificationConfig/set', {'taskId': 't', 'pushNotificationConfig': {'url': 'https://h.test/'}}),
        call(
            'CreateTaskPushNotificationConfig',
            json_format.ParseDict(
                {'parent': 'tasks/t', 'config': {'pushNotificationConfig': {'url': 'https://h.test/'}}},
                old_pb2.CreateTaskPushNotificationConfigRequest(),
            ),
        ),
    ):
        assert made == TaskPushNotificationConfig(task_id='t', id='t', url='https://h.test/')


def test_id_of_a_config_may_stand_beside_it() -> None:
    request = old_pb2.CreateTaskPushNotificationConfigRequest(parent='tasks/t', config_id='c')
    assert call('CreateTaskPushNotificationConfig', request).id == 'c'


@pytest.mark.parametrize('task_id', ['t', 'a/b', 'a\nb', 'tasks/t', 'a/pushNotificationConfigs'])
def test_name_is_read_to_its_end(task_id: str) -> None:
    assert call('GetTask', old_pb2.GetTaskRequest(name=f'tasks/{task_id}')).id == task_id
    name = f'tasks/{task_id}/pushNotificationConfigs/c'
    found = call('GetTaskPushNotificationConfig', old_pb2.GetTaskPushNotificationConfigRequest(name=name))
    assert (found.task_id, found.id) == (task_id, 'c')


@pytest.mark.parametrize('name', ['', 't', 'tasks/', 'a/tasks/t', '/tasks/t', 'task/t'])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidParamsError, match='must be tasks'):
        call('CancelTask', old_pb2.CancelTaskRequest(name=name))
    with pytest.raises(InvalidParamsError, match='must be tasks'):
        call(
            'DeleteTaskPushNotificationConfig', old_pb2.DeleteTaskPushNotificationConfigRequest(name=f'tasks/t/{name}')
        )


@pytest.mark.parametrize('content', [b'', b'plain bytes', b'\xff\xfe', b'YQ==', 'é'.encode()])
def test_bytes_of_a_file_are_base64_or_the_file_itself(content: bytes) -> None:
    message = old_pb2.Message(message_id='m', role=old_pb2.Role.ROLE_USER)
    message.content.add().file.file_with_bytes = base64.b64encode(content)
    message.content.add().file.file_with_bytes = b'\xff' + content
    parts = call('SendMessage', old_pb2.SendMessageRequest(request=message)).message.parts
    assert [part.raw for part in parts] == [content, b'\xff' + content]


@pytest.mark.parametrize(
    ('params', 'field'),
    [
        ({}, 'message'),
        ({'message': {}}, 'message.messageId'),
        ({'message': 1}, 'message'),
        (params_of(role='nobody'), 'message.role'),
        (params_of({'kind': 'text'}), 'message.parts[0].text'),
        (params_of({'kind': 'file', 'file': {'bytes': 1}}), 'message.parts[0].file.bytes'),
        (params_of(configuration={'blocking': 'maybe'}), 'configuration.blocking'),
        (params_of(metadata=[]), 'message.metadata'),
        ([], ''),
        ('x', ''),
    ],
)
def test_error_names_the_field(params: object, field: str) -> None:
    with pytest.raises(InvalidFieldsError) as raised:
        read('message/send', params)
    assert field in [violation.field for violation in raised.value.violations]


@pytest.mark.parametrize(
    'params',
    [
        params_of({'kind': 'file', 'file': {'bytes': 'a'}}),
        params_of({'kind': 'data', 'data': {}, 'metadata': {'data_part_compat': True}}),
        params_of(configuration={'historyLength': 2**40}),
        params_of(metadata=json.loads('{"a":' * 200 + '1' + '}' * 200)),
    ],
)
def test_content_that_cannot_be_converted_is_the_clients_fault(params: object) -> None:
    with pytest.raises(InvalidParamsError):
        read('message/send', params)


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
WHOLE: Json = {
    'message': {
        'messageId': 'm',
        'role': 'user',
        'kind': 'message',
        'taskId': 't',
        'parts': [{'kind': 'text', 'text': 'a', 'metadata': {}}, {'kind': 'file', 'file': {'bytes': 'YQ=='}}],
    },
    'configuration': {'historyLength': 1, 'pushNotificationConfig': {'url': 'u', 'authentication': {'schemes': ['a']}}},
    'id': 't',
    'taskId': 't',
    'pushNotificationConfigId': 'c',
    'pushNotificationConfig': {'url': 'u', 'token': 't'},
    'metadata': {'a': 1},
}


@st.composite
def spoilt(draw: st.DrawFn) -> object:
    """Parameters of any method with one place that holds something else."""
    whole = json.loads(json.dumps(WHOLE))
    holder: Any = whole
    while True:
        place = draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        if not holder[place] or not isinstance(holder[place], dict | list) or draw(st.booleans()):
            holder[place] = draw(values)
            return whole
        holder = holder[place]


@given(st.sampled_from(sorted(METHODS)), spoilt() | values)
def test_whatever_is_sent_is_read_or_refused(method: str, params: object) -> None:
    with suppress(InvalidParamsError):
        read(method, params)


# Answers


def shown(kind: EventKind, event: Any, seq: int = 7) -> Shown:
    return Shown(seq, kind, event.SerializeToString())


def status_event(state: TaskState) -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task_id='t', context_id='c', status=TaskStatus(state=state))


@given(tasks())
def test_task_can_be_read(task: Task) -> None:
    old = types.Task.model_validate_json(writing.to_json(writing.to_old(task)))
    assert conversions.to_core_task(old).status.state == task.status.state
    assert [each.artifact_id for each in old.artifacts or []] == [each.artifact_id for each in task.artifacts]
    json_format.Parse(CALLS['GetTask'].to_json(task, None), old_pb2.Task())
    old_pb2.Task.FromString(CALLS['GetTask'].to_binary(task))


EMPTY = Message(message_id='m', role=Role.ROLE_AGENT, parts=[Part(), Part(metadata={'a': 1}), Part(text='b')])


@pytest.mark.parametrize(
    'message',
    [
        EMPTY,
        Task(id='t', context_id='c', history=[EMPTY]),
        Task(id='t', context_id='c', status=TaskStatus(message=EMPTY)),
        Task(id='t', context_id='c', artifacts=[Artifact(artifact_id='a', parts=EMPTY.parts)]),
    ],
    ids=['message', 'history', 'status', 'artifact'],
)
def test_part_without_content_is_an_empty_text(message: Any) -> None:
    before = message.SerializeToString()
    text = writing.to_json(writing.to_old(message)).decode()
    assert text.count('"text":""') == 2
    assert message.SerializeToString() == before


@pytest.mark.parametrize(
    ('kind', 'event'),
    [
        ('status_update', TaskStatusUpdateEvent(task_id='t', status=TaskStatus(message=EMPTY))),
        ('artifact_update', TaskArtifactUpdateEvent(task_id='t', artifact=Artifact(parts=EMPTY.parts))),
    ],
)
def test_nor_is_one_in_an_event(kind: EventKind, event: Any) -> None:
    old = writing.event_to_old(shown(kind, event), sequenced=False, ends_with_question=True)
    assert writing.to_json(old).count(b'"text":""') == 2


FINAL = {'COMPLETED', 'FAILED', 'CANCELED', 'REJECTED'}


@pytest.mark.parametrize('state', sorted(KNOWN))
def test_last_status_is_final(state: TaskState) -> None:
    """A question is the last of an answer, and not of a subscription."""
    name = name_of(state).removeprefix('TASK_STATE_')
    item = shown('status_update', status_event(state))
    for operations, one, many in ((METHODS, 'message/stream', 'tasks/resubscribe'), (CALLS, *STREAMS)):
        finals = [
            any(event.get('final', False) for event in (body, *filter(is_object, body.values())))
            for body in (json.loads(writer(operations, each)(item, False)) for each in (one, many))
        ]
        assert finals == [name in FINAL | {'INPUT_REQUIRED'}, name in FINAL]


STREAMS = ('SendStreamingMessage', 'TaskSubscription')


def is_object(value: object) -> bool:
    return isinstance(value, dict)


def writer(operations: Any, name: str) -> Callable[[Shown, bool], bytes]:
    write: Callable[[Shown, bool], bytes] = operations[name].event_to_json
    return write


def test_place_in_the_journal_is_told_if_asked_for() -> None:
    item = shown('status_update', status_event(TaskState.TASK_STATE_WORKING))
    assert json.loads(writer(METHODS, 'message/stream')(item, True))['metadata'] == {URI: 7}
    assert 'metadata' not in json.loads(writer(METHODS, 'message/stream')(item, False))
    binary = CALLS['TaskSubscription'].event_to_binary(item, True)
    assert old_pb2.StreamResponse.FromString(binary).status_update.metadata[URI] == 7


def test_text_does_not_cut_event_streams() -> None:
    message = Message(message_id='m', role=Role.ROLE_AGENT, parts=[Part(text='a\u2028b\u0085c\nd')])
    for operations, name in ((METHODS, 'message/stream'), (CALLS, 'SendStreamingMessage')):
        text = writer(operations, name)(shown('message', message), False)
        assert not {'\u2028', '\u0085', '\n'} & set(text.decode())
        assert b'a\\u2028b\\u0085c\\nd' in text


def test_configs_are_a_list() -> None:
    page = ListTaskPushNotificationConfigsResponse(configs=[TaskPushNotificationConfig(task_id='t', id='c', url='u')])
    assert json.loads(METHODS['tasks/pushNotificationConfig/list'].to_json(page, None)) == [
        {'taskId': 't', 'pushNotificationConfig': {'id': 'c', 'url': 'u'}}
    ]
    assert json.loads(CALLS['ListTaskPushNotificationConfig'].to_json(page, None)) == {
        'configs': [{'name': 'tasks/t/pushNotificationConfigs/c', 'pushNotificationConfig': {'id': 'c', 'url': 'u'}}]
    }


@pytest.mark.parametrize(
    ('error', 'code'),
    [
        (TaskNotFoundError(), -32001),
        (BusyError(), -32603),
        (InternalError(), -32603),
        (VersionNotSupportedError('no'), -32600),
        (ExtensionSupportRequiredError('no'), -32600),
    ],
)
def test_old_clients_are_told_errors_that_they_know(error: A2AError, code: int) -> None:
    told = OLD.told(error)
    assert (fault_of(told).code, told.message) == (code, error.message)
    assert CURRENT.told(error) is error


def test_these_are_all_errors_that_came_later() -> None:
    """Those that version 0.3 does not know by their code."""
    known = {kind.model_fields['code'].default for kind in get_args(types.A2AError.model_fields['root'].annotation)}
    later = {kind for kind, fault in FAULTS.items() if fault.code not in known}
    assert later - {UnauthenticatedError, PermissionDeniedError} == set(LATER), 'these two are told by HTTP and gRPC'
