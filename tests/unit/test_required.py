"""Required fields: the same as `a2a-sdk` finds, by the names that JSON has; and shown in what is answered."""

import re
from typing import Any

import pytest
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    GetTaskRequest,
    ListTasksResponse,
    Message,
    OpenIdConnectSecurityScheme,
    Part,
    Role,
    SecurityScheme,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.message import Message as ProtoMessage
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_scribe.protocol.json import to_dict
from a2a_scribe.protocol.required import missing_fields, show_required
from tests.unit.json_messages import MESSAGES, messages

OURS: list[Any] = [kind for kind in MESSAGES if kind.DESCRIPTOR.full_name.startswith('lf.a2a.')]
IN_MAP = re.compile(r'schemes\[')
quick = settings(max_examples=100, deadline=None)
kinds = st.sampled_from(OURS)


def missing_for_sdk(message: ProtoMessage) -> list[str]:
    """Returns what `a2a-sdk` finds, by the names of the proto file."""
    try:
        validate_proto_required_fields(message)
    except InvalidParamsError as error:
        return [each['field'] for each in (error.data or {})['errors']]
    return []


def snake(path: str) -> str:
    return re.sub('[A-Z]', lambda found: f'_{found[0].lower()}', path)


@quick
@given(kind=kinds, data=st.data())
def test_the_same_as_a2a_sdk_finds(kind: type[ProtoMessage], data: st.DataObject) -> None:
    """But for what stands in a map, which only cards have."""
    message = data.draw(messages(kind))
    expected = [path for path in missing_for_sdk(message) if not IN_MAP.search(path)]
    assert sorted(snake(path) for path in missing_fields(message)) == sorted(expected)


@pytest.mark.parametrize(
    ('message', 'paths'),
    [
        (SendMessageRequest(), ['message']),
        (SendMessageRequest(message=Message()), ['message.messageId', 'message.role', 'message.parts']),
        (SendMessageRequest(message=Message(message_id='m', role=Role.ROLE_USER, parts=[Part()])), []),
        (GetTaskRequest(), ['id']),
        (GetTaskRequest(id='t'), []),
        (
            SendMessageRequest(
                message=Message(message_id='m', role=Role.ROLE_USER, parts=[Part()]),
                configuration=SendMessageConfiguration(task_push_notification_config=TaskPushNotificationConfig()),
            ),
            ['configuration.taskPushNotificationConfig.url'],
        ),
        (
            ListTasksResponse(tasks=[Task(id='t', context_id='c'), Task(id='u')], next_page_token='x'),
            ['pageSize', 'totalSize', 'tasks[0].status', 'tasks[1].status'],
        ),
    ],
)
def test_paths_are_those_of_json(message: ProtoMessage, paths: list[str]) -> None:
    assert sorted(missing_fields(message)) == sorted(paths)


# What is answered


def test_required_fields_are_shown_at_every_depth() -> None:
    card = AgentCard(
        supported_interfaces=[AgentInterface(url='https://a.example')],
        capabilities=AgentCapabilities(),
        skills=[AgentSkill(id='s')],
    )
    card.security_schemes['oidc'].CopyFrom(
        SecurityScheme(open_id_connect_security_scheme=OpenIdConnectSecurityScheme(description='d'))
    )
    assert show_required(to_dict(card), AgentCard) == {
        'name': '',
        'description': '',
        'version': '',
        'supportedInterfaces': [{'url': 'https://a.example', 'protocolBinding': '', 'protocolVersion': ''}],
        'capabilities': {},
        'defaultInputModes': [],
        'defaultOutputModes': [],
        'skills': [{'id': 's', 'name': '', 'description': '', 'tags': []}],
        'securitySchemes': {'oidc': {'openIdConnectSecurityScheme': {'description': 'd', 'openIdConnectUrl': ''}}},
    }


def test_a_message_that_is_absent_is_not_made_up() -> None:
    shown = show_required(to_dict(AgentCard()), AgentCard)
    assert 'capabilities' not in shown
    assert shown['skills'] == []


def test_what_is_shown_is_not_shared() -> None:
    show_required({}, AgentCard)['skills'].append('mine')
    assert show_required({}, AgentCard)['skills'] == []


@quick
@given(kind=kinds, data=st.data())
def test_nothing_else_changes(kind: type[ProtoMessage], data: st.DataObject) -> None:
    message = data.draw(messages(kind))
    shown = show_required(to_dict(message), kind)
    assert holds(shown, to_dict(message))


def holds(found: Any, expected: Any) -> bool:
    """Whether there is all that is expected, and maybe more members of objects."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            name in found and holds(found[name], expected[name]) for name in expected
        )
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(holds, found, expected))
    return bool(found == expected)
