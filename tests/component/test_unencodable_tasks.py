"""Tasks of a user's store that JSON cannot express: what they are in goes out without them."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import a2a_pb2_grpc
from a2a.types.a2a_pb2 import Artifact, ListTasksRequest, Message, Part, Task, TaskState, TaskStatus
from google.protobuf.struct_pb2 import Struct, Value
from starlette.applications import Starlette

from a2a_scribe import Settings, create_app
from a2a_scribe.server import serve_grpc
from a2a_scribe.testing.agents import ScriptedAgent
from a2a_scribe.transport import audit, operations
from tests.component.kit import DEADLINE, new_card

pytestmark = pytest.mark.anyio


def task_of(task_id: str, **fields: Any) -> Task:
    return Task(id=task_id, context_id='c', status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED), **fields)


def metadata(number: float) -> Struct:
    made = Struct()
    made['x'] = number
    return made


STRANGE = [
    task_of('nan', metadata=metadata(float('nan'))),
    task_of('infinite', metadata=metadata(float('-inf'))),
    task_of('in the history', history=[Message(message_id='m', metadata=metadata(float('nan')))]),
]
IN_AN_ARTIFACT = task_of('in an artifact', artifacts=[Artifact(parts=[Part(data=Value(number_value=float('inf')))])])
GOOD = [task_of('one'), task_of('two', metadata=metadata(1.5))]
ALL = [*STRANGE, IN_AN_ARTIFACT, *GOOD]


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[tuple[Starlette, httpx.AsyncClient]]:
    store = InMemoryTaskStore()
    for task in ALL:
        await store.save(task, ServerCallContext())
    app = create_app(ScriptedAgent(), new_card(), store, **options)
    transport, headers = httpx.ASGITransport(app), {'A2A-Version': '1.0'}
    async with (
        asyncio.timeout(DEADLINE),
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url='http://agent.test', headers=headers) as http,
    ):
        yield app, http


@pytest.mark.parametrize('artifacts', [False, True])
async def test_a_list_is_answered_without_them(artifacts: bool, caplog: pytest.LogCaptureFixture) -> None:
    left_out = [*STRANGE, IN_AN_ARTIFACT] if artifacts else STRANGE
    async with serving() as (_, http):
        rest = (await http.get('/tasks', params={'includeArtifacts': str(artifacts).lower()})).json()
        body = {'jsonrpc': '2.0', 'id': 1, 'method': 'ListTasks', 'params': {'includeArtifacts': artifacts}}
        rpc = (await http.post('/', json=body)).json()['result']
    for page in (rest, rpc):
        shown = {task['id'] for task in page['tasks']}
        assert shown == {task.id for task in ALL if task not in left_out}
        assert all(('artifacts' in task) == artifacts for task in page['tasks'])
        assert (page['totalSize'], page['nextPageToken']) == (len(ALL), '')
    told = [entry for entry in caplog.records if entry.name == operations.__name__]
    for task in left_out:
        assert sum(f'Task {task.id} is' in entry.getMessage() for entry in told) == 2, 'once for each list'
    assert {entry.levelno for entry in told} == {logging.ERROR}


async def test_each_by_itself_is_an_error_of_ours() -> None:
    async with serving() as (_, http):
        assert {(await http.get(f'/tasks/{task.id}')).status_code for task in STRANGE} == {500}
        assert {(await http.get(f'/tasks/{task.id}')).status_code for task in GOOD} == {200}


async def test_the_audit_log_tells_the_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, audit.logger.name)
    async with serving(settings=Settings(audit_log=True)) as (_, http):
        for task in (STRANGE[0], GOOD[0]):
            await http.get(f'/tasks/{task.id}')
            await http.post('/', json={'jsonrpc': '2.0', 'id': 1, 'method': 'GetTask', 'params': {'id': task.id}})
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == audit.logger.name]
    assert [(line['task'], line['outcome']) for line in lines] == [
        *[(STRANGE[0].id, 'INTERNAL_ERROR')] * 2,
        *[(GOOD[0].id, 'OK')] * 2,
    ]


async def test_protobuf_has_them_all() -> None:
    async with (
        serving() as (app, _),
        serve_grpc(app) as port,
        grpc.aio.insecure_channel(f'127.0.0.1:{port}') as channel,
    ):
        stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
        page = await stub.ListTasks(ListTasksRequest(), metadata=[('a2a-version', '1.0')])
    assert {task.id for task in page.tasks} == {task.id for task in ALL}
