"""Microsoft's Agent Framework: `A2AExecutor` around a chat agent with a scripted model."""

# mypy: disable-error-code="import-not-found, import-untyped, misc, untyped-decorator"

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Task
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    Message,
    ResponseStream,
)
from agent_framework_a2a import A2AExecutor

from tests.frameworks.calls import Client, artifacts_of, chunks_in, serving, state_of, states_in, text, words_of

pytestmark = pytest.mark.anyio


class ScriptedModel(BaseChatClient):
    """Says what it was told, word by word when it streams; breaks or waits when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = asyncio.Event()
        self.was_interrupted = asyncio.Event()

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse] | ResponseStream:
        words = messages[-1].text
        return self._build_response_stream(self.speak(words)) if stream else self.answer(words)

    async def answer(self, words: str) -> ChatResponse:
        await self.obey(words)
        return ChatResponse(messages=[Message(role='assistant', contents=[f'you said {words}'])])

    async def speak(self, words: str) -> AsyncIterator[ChatResponseUpdate]:
        for word in ('you ', 'said ', words):
            yield ChatResponseUpdate(role='assistant', contents=[Content.from_text(word)])
        await self.obey(words)

    async def obey(self, words: str) -> None:
        if 'break' in words:
            raise ConnectionError('the model is down')
        if 'wait' in words:
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.was_interrupted.set()


@pytest.fixture
def anyio_backend() -> str:
    return 'asyncio'


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def client(model: ScriptedModel, tmp_path: Path) -> AsyncIterator[Client]:
    async with serving(A2AExecutor(Agent(client=model, name='echo')), tmp_path) as client:
        yield client


@pytest.fixture
async def streaming_client(model: ScriptedModel, tmp_path: Path) -> AsyncIterator[Client]:
    async with serving(A2AExecutor(Agent(client=model, name='echo'), stream=True), tmp_path) as client:
        yield client


async def test_a_task_is_completed(client: Client) -> None:
    answer = await client.send(text('hello'))
    assert state_of(answer) == 'COMPLETED'
    assert [words_of(message) for message in answer.history] == ['hello', 'you said hello']
    assert await client.stored(answer) == answer


async def test_a_stream_shows_every_chunk(streaming_client: Client) -> None:
    events = await streaming_client.stream(text('hello'))
    assert isinstance(events[0], Task)
    assert states_in(events) == ['SUBMITTED', 'WORKING', 'COMPLETED']
    assert chunks_in(events) == ['you ', 'said ', 'hello']
    assert artifacts_of(await streaming_client.stored(events[0])) == ['you said hello']


async def test_a_blocking_caller_gets_the_streamed_artifact(streaming_client: Client) -> None:
    answer = await streaming_client.send(text('hello'))
    assert (state_of(answer), artifacts_of(answer)) == ('COMPLETED', ['you said hello'])


async def test_a_failing_model_fails_the_task(client: Client) -> None:
    answer = await client.send(text('break'))
    assert state_of(answer) == 'FAILED'
    assert words_of(answer.status.message) == 'the model is down'
    assert await client.stored(answer) == answer


async def test_a_failing_model_ends_the_stream_with_the_failure(streaming_client: Client) -> None:
    events = await streaming_client.stream(text('break'))
    assert states_in(events) == ['SUBMITTED', 'WORKING', 'FAILED']
    stored = await streaming_client.stored(next(event for event in events if isinstance(event, Task)))
    assert (state_of(stored), artifacts_of(stored)) == ('FAILED', ['you said break'])


async def test_a_running_task_is_cancelled(client: Client, model: ScriptedModel) -> None:
    await cancel_while_it_runs(client, model)


async def test_a_running_stream_is_cancelled(streaming_client: Client, model: ScriptedModel) -> None:
    await cancel_while_it_runs(streaming_client, model)


async def cancel_while_it_runs(client: Client, model: ScriptedModel) -> None:
    task = await client.start(text('wait'))
    await model.waiting.wait()
    assert state_of(await client.cancel(task)) == 'CANCELED'
    await model.was_interrupted.wait()
    assert state_of(await client.stored(task)) == 'CANCELED'
