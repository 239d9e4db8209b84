"""Our handler behind a2a-sdk's own route factories, called by a2a-sdk's own client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from a2a.client import ClientCallContext, ClientConfig, ClientFactory
from a2a.client.client import Client
from a2a.server.request_handlers import RequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.types.a2a_pb2 import (
    AgentCard,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    StreamResponse,
    Task,
)
from a2a.utils.errors import TaskNotFoundError
from starlette.applications import Starlette

from tests.dropin.kit import PEER, Asking, Echo, Failing, artifacts_of, new_card, request, serving, state_of

pytestmark = pytest.mark.anyio


@pytest.fixture(params=['JSONRPC', 'HTTP+JSON'])
def binding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def mount(handler: RequestHandler, card: AgentCard) -> httpx.AsyncClient:
    routes = [
        *create_agent_card_routes(card),
        *create_jsonrpc_routes(handler, '/rpc'),
        *create_rest_routes(handler, path_prefix='/rest'),
    ]
    transport = httpx.ASGITransport(Starlette(routes=routes))
    return httpx.AsyncClient(transport=transport, base_url='http://agent.test')


@asynccontextmanager
async def connected(executor: Any, binding: str, streaming: bool = False, **options: Any) -> AsyncIterator[Client]:
    card = new_card()
    async with serving(executor, card=card, **options) as handler, mount(handler, card) as http:
        config = ClientConfig(streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding])
        async with await ClientFactory(config).create_from_url('http://agent.test') as client:
            yield client


async def responses(client: Client, message: SendMessageRequest) -> list[StreamResponse]:
    return [response async for response in client.send_message(message)]


async def ask(client: Client, *texts: str, task: Task | None = None) -> Task:
    answers = await responses(client, request(*texts, task=task))
    assert [answer.WhichOneof('payload') for answer in answers] == ['task']
    return answers[0].task


async def test_a_task_is_completed_and_read_again(binding: str) -> None:
    async with connected(Echo(), binding) as client:
        answer = await ask(client, 'hi')
        assert (state_of(answer), artifacts_of(answer)) == ('COMPLETED', {'echo': 'you said hi'})
        assert await client.get_task(GetTaskRequest(id=answer.id)) == answer
        listed = await client.list_tasks(ListTasksRequest(include_artifacts=True))
        assert [task.id for task in listed.tasks] == [answer.id]


async def test_a_stream_begins_with_the_task_and_ends_with_its_end(binding: str) -> None:
    async with connected(Echo(), binding, streaming=True) as client:
        kinds = [answer.WhichOneof('payload') for answer in await responses(client, request('hi'))]
    assert kinds == ['task', 'status_update', 'artifact_update', 'status_update']


async def test_a_question_is_answered(binding: str) -> None:
    async with connected(Asking(), binding) as client:
        question = await ask(client, 'hi')
        assert state_of(question) == 'INPUT_REQUIRED'
        answer = await ask(client, 'Ann', task=question)
        assert (answer.id, state_of(answer)) == (question.id, 'COMPLETED')


async def test_an_unknown_task_is_not_found(binding: str) -> None:
    async with connected(Echo(), binding) as client:
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id='unknown'))


async def test_the_extended_card_is_served(binding: str) -> None:
    async with connected(Echo(), binding, extended_agent_card=new_card(name='extended')) as client:
        card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
    assert card.name == 'extended'


@pytest.mark.skipif(PEER, reason='a2a-sdk knows no keys')
async def test_a_message_that_is_sent_again_under_its_key_is_executed_once(binding: str) -> None:
    message, context = request('hi'), ClientCallContext(service_parameters={'Idempotency-Key': 'k'})
    async with connected(Echo(), binding) as client:
        answers = [each for _ in range(2) async for each in client.send_message(message, context=context)]
        assert answers[0] == answers[1]
        assert len((await client.list_tasks(ListTasksRequest())).tasks) == 1


@pytest.mark.skipif(PEER, reason='a2a-sdk answers with an error')
async def test_a_failed_task_is_an_answer_without_the_agents_secrets(binding: str) -> None:
    async with connected(Failing(), binding, failure_answer='task') as client:
        answer = await ask(client, 'hi')
    assert state_of(answer) == 'FAILED'
    assert 'secret' not in str(answer)


@pytest.mark.skipif(PEER, reason='a2a-sdk ends the stream with an error')
async def test_a_failed_task_ends_its_stream_with_the_status(binding: str) -> None:
    async with connected(Failing(), binding, streaming=True) as client:
        answers = await responses(client, request('hi'))
    assert [answer.WhichOneof('payload') for answer in answers] == ['task', 'status_update', 'status_update']
    assert 'secret' not in str(answers)
