"""What the checks of all sections share: messages, and the usual ways to make and to watch a task."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.conformance.errors import Json
from tests.conformance.site import Site
from tests.conformance.wire import EXTENSIONS, Answer, Collected, Event, Stream, Wire

TERMINAL = ('COMPLETED', 'FAILED', 'CANCELED', 'REJECTED')
NO_TASK = 'a-task-that-does-not-exist'
SEQUENCE = 'urn:a2a-scribe:extension:sequence:1'
ACTIVATED = [(EXTENSIONS, SEQUENCE)]
"""What a client sends who wants events to say their places."""


def message_of(script: str, **fields: Any) -> Json:
    """A message that tells the agent what to do."""
    return {'messageId': str(uuid.uuid4()), 'role': 'ROLE_USER', 'parts': [{'text': script}], **fields}


def request_of(
    script: str, *, configuration: Json | None = None, tenant: str = '', metadata: Json | None = None, **fields: Any
) -> Json:
    """The request that sends such a message; `fields` are those of the message."""
    params: Json = {'message': message_of(script, **fields)}
    if configuration is not None:
        params['configuration'] = configuration
    if tenant:
        params['tenant'] = tenant
    if metadata is not None:
        params['metadata'] = metadata
    return params


async def send(wire: Wire, script: str, *, options: Json | None = None, **fields: Any) -> Answer:
    """Sends a message; `options` are those of the wire, such as headers."""
    return await wire.call('SendMessage', request_of(script, **fields), **(options or {}))


async def stream(wire: Wire, script: str, *, options: Json | None = None, **fields: Any) -> Collected:
    """Sends a message and reads its stream to the end."""
    return await wire.collect('SendStreamingMessage', request_of(script, **fields), **(options or {}))


def streaming(wire: Wire, script: str, *, options: Json | None = None, **fields: Any) -> Any:
    """Sends a message and opens its stream."""
    return wire.open('SendStreamingMessage', request_of(script, **fields), **(options or {}))


def subscribing(wire: Wire, task_id: str, **options: Any) -> Any:
    """Opens a stream of a task that exists."""
    return wire.open('SubscribeToTask', {'id': task_id}, **options)


async def task_of(wire: Wire, script: str, **fields: Any) -> Json:
    """Sends a message and returns the task that answers it."""
    task: Json = (await send(wire, script, **fields)).ok()['task']
    return task


async def begun(wire: Wire, script: str, **fields: Any) -> Json:
    """Sends a message that is answered at once, and returns the task."""
    configuration = {**fields.pop('configuration', {}), 'returnImmediately': True}
    return await task_of(wire, script, configuration=configuration, **fields)


async def get(wire: Wire, task_id: str, **params: Any) -> Json:
    """Reads a task."""
    return (await wire.call('GetTask', {'id': task_id, **params})).ok()


async def found(wire: Wire, **params: Any) -> list[Json]:
    """Lists tasks."""
    tasks: list[Json] = (await wire.call('ListTasks', params)).ok().get('tasks', [])
    return tasks


async def ended(wire: Wire, task_id: str, **params: Any) -> Json:
    """Reads a task until it has ended."""
    return await came_to(wire, task_id, *TERMINAL, **params)


async def came_to(wire: Wire, task_id: str, *states: str, **params: Any) -> Json:
    """Reads a task until it is in one of these states."""
    while state_of(task := await get(wire, task_id, **params)) not in states:
        await asyncio.sleep(0)
    return task


@asynccontextmanager
async def held(
    wire: Wire, site: Site, before: str = 'work', after: str = 'complete', **fields: Any
) -> AsyncIterator['Held']:
    """Begins a task whose agent waits for the test between two lists of steps."""
    gate = site.unique('gate')
    task = await begun(wire, f'{before} hold:{gate} {after}', **fields)
    await wire.service.agent.reached(gate)
    try:
        yield Held(wire, gate, task)
    finally:
        wire.service.agent.open(gate)


class Held:
    """A task whose agent waits."""

    def __init__(self, wire: Wire, gate: str, task: Json) -> None:
        self.id: str = task['id']
        self.task = task
        self._wire = wire
        self._gate = gate

    def release(self) -> None:
        """Lets the agent go on."""
        self._wire.service.agent.open(self._gate)


def state_of(task: Json) -> str:
    return str(task['status']['state']).removeprefix('TASK_STATE_')


def text_of(message: Json) -> str:
    return ''.join(part.get('text', '') for part in message['parts'])


def texts_of(task: Json) -> list[str]:
    """The texts of a task's history."""
    return [text_of(message) for message in task.get('history', [])]


def artifacts_of(task: Json) -> dict[str, str]:
    """The texts of a task's artifacts by their ids, in order."""
    return {artifact['artifactId']: text_of(artifact) for artifact in task.get('artifacts', [])}


async def first_task(stream: Stream) -> Json:
    """Reads the first event of a stream, which has to be a task."""
    event = await stream.next()
    assert event is not None
    assert event.kind == 'task'
    return event.value


def place(event: Event) -> int:
    """The place of an event in its task, from its metadata."""
    number = event.value['metadata'][SEQUENCE]
    assert number == int(number)
    return int(number)


async def sequenced(wire: Wire, script: str, **fields: Any) -> list[Event]:
    """The events of a message, which say their places."""
    return (await stream(wire, script, options={'headers': ACTIVATED}, **fields)).ok()


def last_event_id(after: object) -> list[tuple[str, str]]:
    """What a client sends who has seen an event, and wants those after it with their places."""
    return [('Last-Event-ID', str(after)), *ACTIVATED]


def requests_about(task_id: str) -> list[tuple[str, Json]]:
    """One request of each operation that is about a task."""
    config = {'taskId': task_id, 'id': 'c'}
    return [
        ('SendMessage', request_of('complete', taskId=task_id)),
        ('SendStreamingMessage', request_of('complete', taskId=task_id)),
        ('GetTask', {'id': task_id}),
        ('CancelTask', {'id': task_id}),
        ('SubscribeToTask', {'id': task_id}),
        ('CreateTaskPushNotificationConfig', {**config, 'url': 'https://hook.test/'}),
        ('GetTaskPushNotificationConfig', config),
        ('ListTaskPushNotificationConfigs', {'taskId': task_id}),
        ('DeleteTaskPushNotificationConfig', config),
    ]


def requests_of_all_operations(task_id: str) -> list[tuple[str, Json]]:
    """One request of each operation there is."""
    return [*requests_about(task_id), ('ListTasks', {}), ('GetExtendedAgentCard', {})]
