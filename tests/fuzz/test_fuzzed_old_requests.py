"""Requests of version 0.3 that nobody should send: each is answered, and none is the server's fault."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest
from a2a.utils.errors import A2AError
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2a_scribe import create_app
from a2a_scribe.protocol.faults import fault_of
from a2a_scribe.protocol.json import UnencodableError, to_dict
from a2a_scribe.protocol.states import COMPLETED
from a2a_scribe.testing.agents import ScriptedAgent, emit, status
from a2a_scribe.transport.old.operations import CALLS, METHODS
from tests.component.kit import new_card
from tests.fuzz.texts import to_text
from tests.unit.json_messages import damaged, messages

EXAMPLES = int(os.environ.get('A2A_FUZZ_REQUESTS', '5000')) // 25
PATHS = {
    'SendMessage': ('POST', '/v1/message:send'),
    'SendStreamingMessage': ('POST', '/v1/message:stream'),
    'GetTask': ('GET', '/v1/tasks/{id}'),
    'CancelTask': ('POST', '/v1/tasks/{id}:cancel'),
    'TaskSubscription': ('POST', '/v1/tasks/{id}:subscribe'),
    'CreateTaskPushNotificationConfig': ('POST', '/v1/tasks/{id}/pushNotificationConfigs'),
    'GetTaskPushNotificationConfig': ('GET', '/v1/tasks/{id}/pushNotificationConfigs/{id}'),
    'DeleteTaskPushNotificationConfig': ('DELETE', '/v1/tasks/{id}/pushNotificationConfigs/{id}'),
}
TEXTS = ('t', 'no-such-task', 'ü', '\x00', 'user', 'agent', 'text', 'YQ==', 'https://example.com/', '')
thorough = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))

texts = st.sampled_from(TEXTS) | st.text(max_size=10)
parts = st.fixed_dictionaries(
    {'kind': st.sampled_from(['text', 'data', 'file'])},
    optional={
        'text': texts,
        'data': st.dictionaries(texts, texts | st.none() | st.floats(allow_nan=False), max_size=3),
        'file': st.fixed_dictionaries({}, optional={'bytes': texts, 'uri': texts, 'mimeType': texts, 'name': texts}),
        'metadata': st.dictionaries(texts | st.just('data_part_compat'), st.booleans() | texts, max_size=2),
    },
)
params = st.fixed_dictionaries(
    {
        'message': st.fixed_dictionaries(
            {'messageId': texts, 'role': st.sampled_from(['user', 'agent']), 'parts': st.lists(parts, max_size=3)},
            optional={'taskId': texts, 'contextId': texts, 'referenceTaskIds': st.lists(texts, max_size=2)},
        ),
        'id': texts,
    },
    optional={
        'taskId': texts,
        'historyLength': st.integers(),
        'pushNotificationConfigId': texts,
        'pushNotificationConfig': st.fixed_dictionaries({'url': texts}, optional={'id': texts, 'token': texts}),
        'configuration': st.fixed_dictionaries(
            {},
            optional={
                'blocking': st.booleans(),
                'historyLength': st.integers(),
                'pushNotificationConfig': st.fixed_dictionaries({'url': texts}),
            },
        ),
    },
)


Send = Callable[[str, str, bytes | None], None]


@asynccontextmanager
async def serving() -> AsyncIterator[httpx.AsyncClient]:
    agent = ScriptedAgent([emit(status(COMPLETED))])
    app = create_app(agent, new_card(streaming=True, push_notifications=True), 'memory', enable_v0_3_compat=True)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url='http://agent.test') as http,
    ):
        yield http


@pytest.fixture(scope='module')
def send() -> Iterator[Send]:
    """Sends a request, and checks that the answer is not the server's fault."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving()) as http:

        def send_and_check(method: str, path: str, content: bytes | None) -> None:
            response = portal.call(partial(http.request, method, path, content=content))
            assert response.status_code < 500, response.text
            assert '-32603' not in response.text, response.text

        yield send_and_check


@thorough
@given(method=st.sampled_from(sorted(METHODS)), value=params | params.flatmap(damaged), escaped=st.booleans())
def test_json_rpc(send: Send, method: str, value: Any, escaped: bool) -> None:
    body = to_text({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': value}, escaped=escaped)
    send('POST', '/', body)


@st.composite
def json_of(draw: st.DrawFn, name: str) -> Any:
    """The JSON of a random request, often with junk in it."""
    try:
        made = to_dict(draw(messages(CALLS[name].request, known_enums=True)))
    except UnencodableError:
        made = {}
    return draw(damaged(made)) if draw(st.booleans()) else made


@thorough
@given(data=st.data(), name=st.sampled_from(sorted(PATHS)), task_id=st.sampled_from(['t', '%00', 'a%2Fb', '%C3%BC']))
def test_http_json(send: Send, data: st.DataObject, name: str, task_id: str) -> None:
    method, path = PATHS[name]
    body = to_text(data.draw(json_of(name)), escaped=False) if method == 'POST' else None
    send(method, path.replace('{id}', task_id), body)


@thorough
@given(data=st.data(), name=st.sampled_from(sorted(set(CALLS) - {'GetAgentCard'})))
def test_protobuf(data: st.DataObject, name: str) -> None:
    request = data.draw(messages(CALLS[name].request))
    code = -32602
    try:
        CALLS[name].read(request).SerializeToString()
    except A2AError as error:
        code = fault_of(error).code
    assert code == -32602
