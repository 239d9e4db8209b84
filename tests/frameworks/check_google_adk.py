"""Google's ADK: `A2aAgentExecutor`, in both of its implementations, around an agent with a scripted model."""

# mypy: disable-error-code="import-not-found, import-untyped, misc, untyped-decorator"

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest
from a2a.types.a2a_pb2 import Part, Task
from google.adk.a2a.executor.a2a_agent_executor import A2aAgentExecutor
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import LongRunningFunctionTool
from google.genai import types
from google.protobuf.json_format import MessageToDict, ParseDict

from tests.frameworks.calls import Client, artifacts_of, chunks_in, serving, state_of, states_in, text, words_of

pytestmark = pytest.mark.anyio


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


@pytest.fixture
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
