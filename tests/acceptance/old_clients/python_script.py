"""The scenarios, over the client of a2a-sdk 0.3: run by a Python that has it, and not this project.

    python python_script.py URL BINDING

Prints one line of JSON for each scenario: its name, and an error if it failed.
"""

# mypy: ignore-errors
# It is written for an a2a-sdk whose types have the names of others in the one that is installed here.

import asyncio
import base64
import json
import sys
import traceback
import uuid
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientHTTPError, A2AClientJSONRPCError
from a2a.types import (
    DataPart,
    FilePart,
    FileWithBytes,
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationAuthenticationInfo,
    PushNotificationConfig,
    Role,
    Task,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TaskState,
    TextPart,
)

DEADLINE = 30.0
NO_TASK = 'a-task-that-does-not-exist'
EXTENDED = 'obedient to those it knows'


class Caller:
    """Clients of one binding: one that waits, one that does not, one that streams."""

    def __init__(self, http: httpx.AsyncClient, url: str, binding: str) -> None:
        self.http, self.url, self.binding = http, url, binding

    async def connect(self) -> None:
        self.waiting = await self.client(streaming=False)
        self.polling = await self.client(streaming=False, polling=True)
        self.streaming = await self.client(streaming=True)

    async def client(self, **options: Any) -> Any:
        config = ClientConfig(
            httpx_client=self.http,
            grpc_channel_factory=grpc.aio.insecure_channel,
            supported_transports=[self.binding],
            **options,
        )
        return await ClientFactory.connect(self.url, config)

    def message(self, script: str, *more: Part, **fields: Any) -> Message:
        parts = [Part(root=TextPart(text=script)), *more]
        return Message(message_id=str(uuid.uuid4()), role=Role.user, parts=parts, **fields)

    async def answer(self, client: Any, script: str, *more: Part, **fields: Any) -> Any:
        [answer] = [each async for each in client.send_message(self.message(script, *more, **fields))]
        return answer

    async def task(self, script: str, *more: Part, **fields: Any) -> Task:
        task, _ = await self.answer(self.waiting, script, *more, **fields)
        return task

    async def begin(self, script: str) -> Task:
        task, _ = await self.answer(self.polling, script)
        return task

    async def open(self, gate: str) -> None:
        await self.answer(self.waiting, f'open:{gate} message:opened')

    def stream(self, script: str) -> AsyncIterator[Any]:
        return self.streaming.send_message(self.message(script))

    async def get(self, task_id: str, **more: Any) -> Task:
        return await self.waiting.get_task(TaskQueryParams(id=task_id, **more))


def shown(updates: list[Any]) -> list[str]:
    return [
        each.status.state.value if each.kind == 'status-update' else each.artifact.parts[0].root.text
        for each in updates
    ]


def finals(updates: list[Any]) -> list[bool]:
    return [each.final for each in updates if each.kind == 'status-update']


def texts(task: Task) -> dict[str, str]:
    return {each.artifact_id: each.parts[0].root.text for each in task.artifacts or []}


async def card(caller: Caller) -> None:
    resolver = A2ACardResolver(caller.http, caller.url)
    found = await resolver.get_agent_card()
    assert (found.name, found.protocol_version) == ('obedient', '0.3')
    oldest = await resolver.get_agent_card(relative_card_path='/.well-known/agent.json')
    assert (oldest.url, oldest.skills) == (found.url, found.skills)
    assert (await caller.waiting.get_card()).name == EXTENDED


async def send(caller: Caller) -> None:
    task = await caller.task('work artifact:a complete')
    assert task.status.state == TaskState.completed
    assert texts(task) == {'a': 'text of a'}
    assert task.history[0].role == Role.user
    assert task.history[0].parts[0].root.text == 'work artifact:a complete'


async def send_without_waiting(caller: Caller) -> None:
    gate = str(uuid.uuid4())
    begun = await caller.begin(f'work hold:{gate} artifact:a complete')
    assert begun.status.state in {TaskState.submitted, TaskState.working}
    await caller.open(gate)
    while (task := await caller.get(begun.id)).status.state != TaskState.completed:
        pass
    assert texts(task) == {'a': 'text of a'}


async def stream(caller: Caller) -> None:
    events = [event async for event in caller.stream('work chunks:3 complete')]
    assert events[0][1] is None
    updates = [update for _, update in events[1:]]
    assert shown(updates) == ['working', '0 ', '1 ', '2 ', 'completed']
    assert finals(updates) == [False, True]
    assert {update.task_id for update in updates} == {events[0][0].id}


async def question(caller: Caller) -> None:
    events = [event async for event in caller.stream('work ask:which?')]
    updates = [update for _, update in events[1:]]
    assert shown(updates) == ['working', 'input-required']
    assert finals(updates) == [False, True]
    task = events[0][0]
    answered = await caller.task('artifact:a complete', task_id=task.id, context_id=task.context_id)
    assert (answered.id, answered.status.state) == (task.id, TaskState.completed)


async def get(caller: Caller) -> None:
    task = await caller.task('work ask:which?')
    assert (await caller.get(task.id)).status.message.parts[0].root.text == 'which?'
    await caller.task('complete', task_id=task.id)
    assert len((await caller.get(task.id, history_length=1)).history) == 1


async def cancel(caller: Caller) -> None:
    task = await caller.begin(f'work hold:{uuid.uuid4()} complete')
    canceled = await caller.waiting.cancel_task(TaskIdParams(id=task.id))
    assert canceled.status.state == TaskState.canceled


async def resubscribe(caller: Caller) -> None:
    gate = str(uuid.uuid4())
    task = await caller.begin(f'work hold:{gate} artifact:a complete')
    events = []
    async for event in caller.streaming.resubscribe(TaskIdParams(id=task.id)):
        events.append(event)
        if len(events) == 1:
            await caller.open(gate)
    assert events[0][0].id == task.id
    updates = [update for _, update in events if update is not None]
    assert shown(updates)[-2:] == ['text of a', 'completed']
    assert updates[-1].final


async def push_configs(caller: Caller) -> None:
    task = await caller.task('ask:which?')
    authentication = PushNotificationAuthenticationInfo(schemes=['Bearer'], credentials='c')
    config = PushNotificationConfig(id='c', url='https://example.com/1', token='t', authentication=authentication)
    made = await caller.waiting.set_task_callback(
        TaskPushNotificationConfig(task_id=task.id, push_notification_config=config)
    )
    assert (made.task_id, made.push_notification_config.url) == (task.id, config.url)
    found = await caller.waiting.get_task_callback(
        GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id='c')
    )
    assert found.push_notification_config.token == 't'
    assert found.push_notification_config.authentication.schemes == ['Bearer']


async def direct_message(caller: Caller) -> None:
    for client in (caller.waiting, caller.streaming):
        message = await caller.answer(client, 'message:hi')
        assert (message.kind, message.role, message.parts[0].root.text) == ('message', Role.agent, 'hi')


async def parts_of_all_kinds(caller: Caller) -> None:
    given = FileWithBytes(bytes=base64.b64encode('é bytes'.encode()).decode(), mime_type='text/plain', name='a.txt')
    task = await caller.task('complete', Part(root=FilePart(file=given)))
    assert task.history[0].parts[1].root.file == given
    data = {'a': [1, {'b': None}]}
    task = await caller.task('complete', Part(root=DataPart(data=data)))
    assert task.history[0].parts[1].root.data == data


async def failing_agent(caller: Caller) -> None:
    task = await caller.task('work crash')
    assert task.status.state == TaskState.failed
    assert 'a secret of the inside' not in task.model_dump_json()


async def errors(caller: Caller) -> None:
    client, missing = caller.waiting, TaskIdParams(id=NO_TASK)
    not_found = (-32001, 404, grpc.StatusCode.NOT_FOUND)
    await refused(client.get_task(TaskQueryParams(id=NO_TASK)), *not_found)
    await refused(client.cancel_task(missing), *not_found)
    events = caller.streaming.resubscribe(missing)
    await refused(anext(events), -32001, 400, grpc.StatusCode.NOT_FOUND)  # this client looks at no status of a stream
    task = await caller.task('complete')
    ended = client.cancel_task(TaskIdParams(id=task.id))
    await refused(ended, -32002, 400, grpc.StatusCode.FAILED_PRECONDITION)


async def refused(call: Any, code: int, status: int, grpc_status: Any) -> None:
    try:
        told = f'answered with {await call}'
    except A2AClientJSONRPCError as error:
        told = error.error.code
    except A2AClientHTTPError as error:
        told = error.status_code
    except grpc.aio.AioRpcError as error:
        told = error.code()
    assert told in {code, status, grpc_status}, told


SCENARIOS = (
    card,
    send,
    send_without_waiting,
    stream,
    question,
    get,
    cancel,
    resubscribe,
    push_configs,
    direct_message,
    parts_of_all_kinds,
    failing_agent,
    errors,
)


async def main(url: str, binding: str) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=DEADLINE) as http:
        caller = Caller(http, url, binding)
        await caller.connect()
        for scenario in SCENARIOS:
            problem = None
            try:
                async with asyncio.timeout(DEADLINE):
                    await scenario(caller)
            except Exception:
                problem = traceback.format_exc()
            print(json.dumps({'name': scenario.__name__, 'error': problem}), flush=True)


if __name__ == '__main__':
    asyncio.run(main(*sys.argv[1:]))
