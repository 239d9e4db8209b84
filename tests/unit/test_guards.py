"""Checks of requests: each refusal is the specification's, and names the field."""

import pytest
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentSkill, AuthenticationInfo, SendMessageConfiguration
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    UnsupportedOperationError,
)

from a2a_scribe.errors import (
    AgentFault,
    CallerError,
    JournalBusyError,
    JournalRefusedError,
    JournalUnavailableError,
    OperatorError,
    ScribeError,
    TaskConflictError,
)
from a2a_scribe.handler import guards
from a2a_scribe.handler.faults import a2a_errors, as_a2a_error
from a2a_scribe.protocol.types import (
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    TaskPushNotificationConfig,
)
from a2a_scribe.push.targets import Targets

pytestmark = pytest.mark.anyio


def new_request(**changes: object) -> SendMessageRequest:
    fields: dict[str, object] = {'message_id': 'm', 'role': Role.ROLE_USER, 'parts': [Part(text='hi')], **changes}
    return SendMessageRequest(message=Message(**fields))  # type: ignore[arg-type]


@pytest.mark.parametrize('value', ['a', 'x' * 255, 'ünï-✓', 'with space', '\u200b', '\u2028'])
def test_ids_that_pass(value: str) -> None:
    guards.check_id('field', value)


@pytest.mark.parametrize('value', ['', 'x' * 256, 'line\nbreak', 'nul\0', '\x7f', 'tab\t', '\x85', 'half \ud83d'])
def test_ids_that_do_not_pass(value: str) -> None:
    with pytest.raises(InvalidParamsError, match='some field'):
        guards.check_id('some field', value)


def test_a_good_message_passes_and_is_not_changed() -> None:
    request = new_request(task_id='t', context_id='c')
    before = request.SerializeToString()
    guards.check_send(request)
    assert request.SerializeToString() == before


BAD_SENDS = {
    'nothing': (SendMessageRequest(), 'message'),
    'no message id': (new_request(message_id=''), 'message'),
    'no role': (new_request(role=Role.ROLE_UNSPECIFIED), 'role'),
    'no parts': (new_request(parts=[]), 'parts'),
    'a long message id': (new_request(message_id='x' * 256), 'messageId'),
    'a task id with a line break': (new_request(task_id='a\nb'), 'taskId'),
    'a context id with a NUL': (new_request(context_id='\0'), 'contextId'),
}


@pytest.mark.parametrize(('request_', 'field'), BAD_SENDS.values(), ids=BAD_SENDS)
def test_a_bad_message_is_refused(request_: SendMessageRequest, field: str) -> None:
    with pytest.raises(InvalidParamsError) as caught:
        guards.check_send(request_)
    assert field in f'{caught.value} {caught.value.data}'


def test_a_part_without_content_is_refused() -> None:
    with pytest.raises(InvalidParamsError):
        guards.check_send(new_request(parts=[Part(text='hi'), Part()]))


def test_a_negative_history_length_is_refused() -> None:
    request = new_request()
    request.configuration.CopyFrom(SendMessageConfiguration(history_length=-1))
    with pytest.raises(InvalidParamsError, match='historyLength'):
        guards.check_send(request)


@pytest.mark.parametrize('size', [0, -1, 101])
def test_a_page_size_out_of_bounds_is_refused(size: int) -> None:
    with pytest.raises(InvalidParamsError, match='pageSize'):
        guards.check_list(ListTasksRequest(page_size=size))


@pytest.mark.parametrize('size', [1, 50, 100])
def test_a_page_size_within_bounds_passes(size: int) -> None:
    guards.check_list(ListTasksRequest(page_size=size))
    guards.check_list(ListTasksRequest())


def test_a_negative_history_length_of_a_list_is_refused() -> None:
    with pytest.raises(InvalidParamsError, match='historyLength'):
        guards.check_list(ListTasksRequest(history_length=-1))


def test_capabilities_that_the_card_does_not_declare() -> None:
    able = AgentCard(capabilities=AgentCapabilities(streaming=True, push_notifications=True))
    guards.check_streaming(able)
    guards.check_push(able)
    with pytest.raises(UnsupportedOperationError):
        guards.check_streaming(AgentCard())
    with pytest.raises(PushNotificationNotSupportedError):
        guards.check_push(AgentCard())


def test_media_types() -> None:
    message = Message(parts=[Part(text='hi', media_type='text/plain'), Part(text='no type')])
    skill = AgentSkill(input_modes=['text/plain'])
    guards.check_input_modes(message, AgentCard())
    guards.check_input_modes(message, AgentCard(default_input_modes=['image/png'], skills=[skill]))
    with pytest.raises(ContentTypeNotSupportedError, match='text/plain'):
        guards.check_input_modes(message, AgentCard(default_input_modes=['image/png']))


URL = 'https://hooks.example'
BAD_CONFIGS = {
    'no url': (TaskPushNotificationConfig(), 'url'),
    'no real url': (TaskPushNotificationConfig(url='not a url'), 'url'),
    'a url without a host': (TaskPushNotificationConfig(url='http:///path'), 'url'),
    'a url of a file': (TaskPushNotificationConfig(url='file:///etc/passwd'), 'url'),
    'a broken address': (TaskPushNotificationConfig(url='http://[::1'), 'url'),
    'a long id': (TaskPushNotificationConfig(url=URL, id='x' * 256), 'id'),
    'a line break in the url': (TaskPushNotificationConfig(url=f'{URL}\r\nHost: x'), 'url'),
    'a line break in the token': (TaskPushNotificationConfig(url=URL, token='a\r\nX: y'), 'token'),
    'a line break in the credentials': (
        TaskPushNotificationConfig(url=URL, authentication=AuthenticationInfo(scheme='Bearer', credentials='a\nb')),
        'credentials',
    ),
    'a space before the token': (TaskPushNotificationConfig(url=URL, token=' t'), 'token'),
    'an address of the inside': (TaskPushNotificationConfig(url='https://192.168.0.1/'), 'url'),
    'no TLS': (TaskPushNotificationConfig(url='http://hooks.example'), 'url'),
    'no scheme': (
        TaskPushNotificationConfig(url=URL, authentication=AuthenticationInfo(credentials='a')),
        'scheme',
    ),
}


@pytest.mark.parametrize(('config', 'field'), BAD_CONFIGS.values(), ids=BAD_CONFIGS)
async def test_a_bad_push_config_is_refused(config: TaskPushNotificationConfig, field: str) -> None:
    with pytest.raises(InvalidParamsError, match=field):
        await guards.check_config('', config, Targets(), None)


async def test_the_users_validator_has_the_last_word_on_urls() -> None:
    async def only_ours(url: str) -> bool:
        return url == URL

    await guards.check_config('', TaskPushNotificationConfig(url=URL), Targets(), only_ours)
    with pytest.raises(InvalidParamsError, match=r'at\.url'):
        await guards.check_config('at.', TaskPushNotificationConfig(url='https://theirs.example'), Targets(), only_ours)


async def test_the_users_validator_cannot_let_in_what_the_guard_refuses() -> None:
    async def anything(_: str) -> bool:
        return True

    with pytest.raises(InvalidParamsError, match=r'at\.url is at an address that is not public'):
        await guards.check_config('at.', TaskPushNotificationConfig(url='https://10.0.0.1/'), Targets(), anything)


SECRET = 'postgresql://user:secret@host'


@pytest.mark.parametrize(
    ('error', 'kind', 'retryable'),
    [
        (JournalUnavailableError(SECRET), InternalError, True),
        (JournalBusyError(SECRET), InternalError, True),
        (JournalRefusedError(SECRET), InternalError, False),
        (OperatorError(SECRET), InternalError, False),
        (AgentFault(SECRET), InternalError, False),
        (TaskConflictError('busy'), UnsupportedOperationError, False),
        (CallerError('wrong'), InvalidParamsError, False),
    ],
)
def test_our_errors_reach_clients_as_those_of_the_specification(
    error: ScribeError, kind: type[A2AError], retryable: bool
) -> None:
    told = as_a2a_error(error)
    assert isinstance(told, kind)
    assert 'secret' not in str(told)
    assert bool(told.data and told.data.get('retryable')) == retryable
    with pytest.raises(kind) as caught, a2a_errors():
        raise error
    assert caught.value.__cause__ is error
