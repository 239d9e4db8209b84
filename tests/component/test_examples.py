"""The examples do what their docstrings say, and those of `docs/serving.md` what the page says."""

import re
import runpy
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import AgentCard, Message, Part, Role, SendMessageRequest, StreamResponse, Task, TaskState
from google.protobuf import json_format
from starlette.applications import Starlette

from a2a_scribe.protocol.required import missing_fields
from a2a_scribe.testing.agents import ScriptedAgent, emit, message

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).resolve().parents[2] / 'examples'
PAGE = EXAMPLES.parent / 'docs' / 'serving.md'
URL = 'http://127.0.0.1:8000'


def app_of(example: str) -> Callable[..., Starlette]:
    """What the example offers to an ASGI server."""
    make_app: Callable[..., Starlette] = runpy.run_path(str(EXAMPLES / f'{example}.py'))['make_app']
    return make_app


@asynccontextmanager
async def client_of(app: Starlette) -> AsyncIterator[Client]:
    """A client that found its way by the example's card."""
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http,
    ):
        yield await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(URL)


async def say(client: Client, text: str, task: Task | None = None) -> list[StreamResponse]:
    """All that comes back for a message."""
    message = Message(role=Role.ROLE_USER, message_id='m', parts=[Part(text=text)])
    if task is not None:
        message.task_id, message.context_id = task.id, task.context_id
    return [event async for event in client.send_message(SendMessageRequest(message=message))]


async def test_echo_says_it_back(sqlite_url: str) -> None:
    async with client_of(app_of('echo')(sqlite_url)) as client:
        [event] = await say(client, 'hello')
    assert [part.text for part in event.message.parts] == ['hello']


async def test_streaming_reads_word_by_word(sqlite_url: str) -> None:
    async with client_of(app_of('streaming')(sqlite_url, pace=0)) as client:
        events = await say(client, 'one two three')
    assert events[0].HasField('task')
    words = [event.artifact_update.artifact.parts[0].text for event in events if event.HasField('artifact_update')]
    assert words == ['one ', 'two ', 'three ']
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED


async def test_input_required_waits_in_the_database(sqlite_url: str) -> None:
    """The answer reaches a server that was started after the question."""
    async with client_of(app_of('input_required')(sqlite_url)) as client:
        events = await say(client, 'a shirt, please')
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    async with client_of(app_of('input_required')(sqlite_url)) as client:
        answers = await say(client, 'M', events[0].task)
    shirts = [event.artifact_update.artifact.parts[0].text for event in answers if event.HasField('artifact_update')]
    assert shirts == ['A shirt in size M.']
    assert answers[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED


@pytest.mark.parametrize('example', sorted(path.stem for path in EXAMPLES.glob('*.py')))
def test_every_example_is_tested(example: str) -> None:
    """A new one needs a test here."""
    assert f"app_of('{example}')" in Path(__file__).read_text(encoding='utf-8')


def printed(kind: str, text: str) -> str:
    """The example of the page that has `text` in it."""
    examples = re.findall(rf'```{kind}\n(.*?)```', PAGE.read_text(encoding='utf-8'), re.DOTALL)
    return str(next(example for example in examples if text in example))


async def test_the_program_of_the_page_serves_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = ModuleType('agent')
    agent.MyExecutor = lambda: ScriptedAgent([emit(message('hello'))])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, 'agent', agent)
    monkeypatch.chdir(tmp_path)
    program = tmp_path / 'mine.py'
    program.write_text(printed('python', 'def app():'), encoding='utf-8')
    names = runpy.run_path(str(program))
    assert missing_fields(names['card']) == ['supportedInterfaces']
    async with client_of(names['app']()) as client:
        [event] = await say(client, 'hello')
    assert [part.text for part in event.message.parts] == ['hello']


def test_the_card_of_the_page_lacks_nothing_but_interfaces() -> None:
    card = json_format.Parse(printed('json', 'skills'), AgentCard())
    assert missing_fields(card) == ['supportedInterfaces']
