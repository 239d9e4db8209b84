"""Google's ADK on both sides of the wire.

`A2aAgentExecutor`, in both of its implementations, around an agent with a scripted model; and `RemoteA2aAgent`, which
converses with a server made by `serve` and is given nothing but the address of its card.
"""

# mypy: disable-error-code="import-not-found, import-untyped, misc, untyped-decorator"

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from a2a.types.a2a_pb2 import Part, Task
from google.adk.a2a.executor.a2a_agent_executor import A2aAgentExecutor
from google.adk.agents import LlmAgent
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import LongRunningFunctionTool
from google.genai import types
from google.protobuf.json_format import MessageToDict, ParseDict

from tests.frameworks.calls import Client, artifacts_of, chunks_in, serving, state_of, states_in, text, words_of

pytestmark = pytest.mark.anyio

SERVED = Path(__file__).parent / 'served_agent.py'
SOON = 30.0


class ScriptedModel(BaseLlm):
    """Answers the last words of the conversation: with text, by calling a slow tool, or not at all."""

    model: str = 'scripted'

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = llm_request.contents[-1].parts[-1]
        if last.function_response is not None:
            part = types.Part(text=f'decided: {last.function_response.response["decision"]}')
        elif 'refund' in last.text:
            part = types.Part(function_call=types.FunctionCall(id='call-1', name='ask_a_person', args={'amount': 7}))
        elif 'break' in last.text:
            raise ConnectionError('the model is down')
        else:
            part = types.Part(text=f'you said {last.text}')
        yield LlmResponse(content=types.Content(role='model', parts=[part]))


def ask_a_person(amount: int) -> None:
    """Ask a person whether the amount may be paid back; the answer comes later."""


@pytest.fixture(scope='session')
def anyio_backend() -> str:
    return 'asyncio'


@pytest.fixture(params=['legacy', 'new'])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    tools = [LongRunningFunctionTool(func=ask_a_person)]
    agent = LlmAgent(name='clerk', model=ScriptedModel(), tools=tools)
    runner = InMemoryRunner(agent=agent, app_name='clerk')
    executor = A2aAgentExecutor(runner=runner, force_new_version=request.param == 'new')
    async with serving(executor, tmp_path) as client:
        yield client


def answer_to(question: Task, decision: str) -> Part:
    """The part that answers the function call which the task is waiting for."""
    call = next(part for part in question.status.message.parts if part.HasField('data'))
    data = MessageToDict(call.data)
    answer = {'id': data['id'], 'name': data['name'], 'response': {'decision': decision}}
    return ParseDict({'data': answer, 'metadata': {'adk_type': 'function_response'}}, Part())


async def test_a_task_is_completed(client: Client) -> None:
    answer = await client.send(text('hello'))
    assert state_of(answer) == 'COMPLETED'
    assert artifacts_of(answer) == ['you said hello']
    assert answer.metadata['adk_app_name'] == 'clerk'
    assert await client.stored(answer) == answer


async def test_a_stream_shows_the_work_and_its_end(client: Client) -> None:
    events = await client.stream(text('hello'))
    assert isinstance(events[0], Task)
    assert states_in(events) == ['SUBMITTED', 'WORKING', 'COMPLETED']
    assert ''.join(chunks_in(events)) == 'you said hello'
    assert state_of(await client.stored(events[0])) == 'COMPLETED'


async def test_a_long_running_tool_waits_for_its_answer(client: Client) -> None:
    question = await client.send(text('a refund, please'))
    assert state_of(question) == 'INPUT_REQUIRED'
    answer = await client.send(answer_to(question, 'granted'), task=question)
    assert answer.id == question.id
    assert state_of(answer) == 'COMPLETED'
    assert artifacts_of(answer)[-1] == 'decided: granted'


async def test_the_answer_can_be_streamed(client: Client) -> None:
    question = await client.send(text('a refund, please'))
    events = await client.stream(answer_to(question, 'granted'), task=question)
    assert states_in(events)[-2:] == ['WORKING', 'COMPLETED']
    assert chunks_in(events)[-1] == 'decided: granted'


async def test_a_parked_task_can_be_cancelled(client: Client) -> None:
    question = await client.send(text('a refund, please'))
    assert state_of(await client.cancel(question)) == 'CANCELED'
    assert state_of(await client.stored(question)) == 'CANCELED'


async def test_a_failing_model_fails_the_task(client: Client) -> None:
    answer = await client.send(text('break'))
    assert state_of(answer) == 'FAILED'
    assert 'the model is down' in words_of(answer.status.message)
    assert await client.stored(answer) == answer


async def test_a_failing_model_ends_the_stream_with_the_failure(client: Client) -> None:
    events = await client.stream(text('break'))
    assert isinstance(events[0], Task)
    assert states_in(events) == ['SUBMITTED', 'WORKING', 'FAILED']


# RemoteA2aAgent


@asynccontextmanager
async def serving_process(folder: Path, *options: str) -> AsyncIterator[str]:
    """Runs a server and gives the address of its card."""
    command = [sys.executable, str(SERVED), f'sqlite+aiosqlite:///{folder}/served.db', *options]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        url = await asyncio.wait_for(process.stdout.readline(), SOON)
        yield f'{url.decode().strip()}/.well-known/agent-card.json'
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), SOON)


@pytest.fixture(scope='module')
async def card_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with serving_process(tmp_path_factory.mktemp('served')) as url:
        yield url


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a user says to a remote agent, and the events that come of it."""

    runner: InMemoryRunner
    session: str

    async def say(self, part: types.Part) -> list[Event]:
        message = types.Content(role='user', parts=[part])
        async with asyncio.timeout(SOON):
            events = self.runner.run_async(user_id='user', session_id=self.session, new_message=message)
            return [event async for event in events]


@asynccontextmanager
async def conversing(card_url: str) -> AsyncIterator[Conversation]:
    agent = RemoteA2aAgent(name='remote', agent_card=card_url)
    runner = InMemoryRunner(agent=agent, app_name='app')
    session = await runner.session_service.create_session(app_name='app', user_id='user')
    try:
        yield Conversation(runner, session.id)
    finally:
        await agent.cleanup()


@pytest.fixture
async def conversation(card_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Conversation]:
    monkeypatch.setenv('NO_PROXY', '127.0.0.1')
    async with conversing(card_url) as begun:
        yield begun


def said_in(events: list[Event]) -> str:
    parts = [part for event in events if event.content for part in event.content.parts or []]
    return ''.join(part.text or '' for part in parts)


def errors_in(events: list[Event]) -> list[str]:
    return [event.error_message for event in events if event.error_message]


def states_of_tasks(events: list[Event]) -> list[str]:
    """The states of the remote task that ADK noted, without repetitions."""
    answers = [event.custom_metadata['a2a:response'] for event in events]
    states = [answer['status']['state'].removeprefix('TASK_STATE_') for answer in answers]
    return [state for place, state in enumerate(states) if states[place - 1 : place] != [state]]


async def test_a_served_card_is_accepted_and_the_agent_answers(conversation: Conversation) -> None:
    events = await conversation.say(types.Part(text='hello'))
    assert errors_in(events) == []
    assert said_in(events) == 'you said hello'
    assert states_of_tasks(events) == ['SUBMITTED', 'WORKING', 'COMPLETED']


async def test_a_served_agent_answers_without_a_task(conversation: Conversation) -> None:
    events = await conversation.say(types.Part(text='chat'))
    assert errors_in(events) == []
    assert said_in(events) == 'hello'


async def test_a_question_of_a_served_agent_is_answered(conversation: Conversation) -> None:
    events = await conversation.say(types.Part(text='ask'))
    assert states_of_tasks(events)[-1] == 'INPUT_REQUIRED'
    (question,) = [part.function_call for part in events[-1].content.parts]
    assert question.args == {'input_required': 'which one?'}
    answer = types.FunctionResponse(id=question.id, name=question.name, response={'result': 'the first'})
    more = await conversation.say(types.Part(function_response=answer))
    assert errors_in(more) == []
    assert said_in(more) == 'you said the first'
    assert states_of_tasks(more)[-1] == 'COMPLETED'
    assert {event.custom_metadata['a2a:task_id'] for event in [*events, *more]} == {
        events[0].custom_metadata['a2a:task_id']
    }


async def test_a_served_agent_that_fails(conversation: Conversation) -> None:
    events = await conversation.say(types.Part(text='break'))
    assert states_of_tasks(events)[-1] == 'FAILED'
    assert 'secret' not in str(events)


async def test_grpc_is_not_in_a_served_card(card_url: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        card = (await client.get(card_url)).json()
    assert [interface['protocolBinding'] for interface in card['supportedInterfaces']] == ['JSONRPC', 'HTTP+JSON']


async def test_a_card_with_grpc_in_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why it is not there by default; when this fails, ADK has learned to read such a card."""
    monkeypatch.setenv('NO_PROXY', '127.0.0.1')
    async with serving_process(tmp_path, '--grpc-in-card') as url, conversing(url) as conversation:
        (error,) = errors_in(await conversation.say(types.Part(text='hello')))
    assert 'Agent card RPC URL must use https' in error
