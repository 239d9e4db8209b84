"""Conversations with `ordered_agent.py` of which each operation goes to any one of several servers.

What a conversation is told does not depend on how many servers there are, nor on which of them was asked: a `Story` has
it without the ids and times that differ from run to run.
"""

import asyncio
import json
import random
import re
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import pytest
from a2a.client import Client, ClientCallContext
from a2a.client.service_parameters import with_a2a_extensions
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError
from google.protobuf.json_format import MessageToDict

from a2a_scribe.client.reader import take_sequence
from a2a_scribe.ids import UuidSource
from a2a_scribe.protocol.extensions import SEQUENCE_URI
from a2a_scribe.protocol.service_parameters import LAST_EVENT_ID
from a2a_scribe.protocol.states import CANCELED
from tests.support.proxy import wait_for_seconds

IDS: Final = UuidSource()
VARIES: Final = frozenset({'id', 'taskId', 'contextId', 'messageId', 'timestamp', 'metadata'})
GATE: Final = re.compile(r'gate:\S+')
BORN: Final = 2
"""The seq of the task in its own journal; the turn's start is before it."""
LOOK: Final = 0.01


class Server(NamedTuple):
    """How one server is reached."""

    plain: Client
    """Waits for answers."""
    streaming: Client
    process: int
    """Its process; 0 where several answer on one port."""


class Event(NamedTuple):
    """What a stream showed."""

    seq: int
    says: str
    """Without ids and times."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One stream, from its beginning to the end that the server gave it."""

    name: str
    whole: Task | None
    """The task that it began with."""
    events: list[Event]


@dataclass(slots=True)
class Measures:
    """Seconds that things took."""

    delays: list[float] = field(default_factory=list)
    """From the emission of a chunk to its arrival by way of another process."""
    cancels: list[float] = field(default_factory=list)
    """From asking for a cancel to the agent."""
    processes: set[int] = field(default_factory=set)
    """Those that emitted something."""
    since: float = 0.0
    """Nothing counts that was emitted before."""


@dataclass(slots=True)
class Story:
    """What a conversation was told."""

    answers: list[str] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    """Where each stream ended."""
    journal: list[Event] = field(default_factory=list)
    final: str = ''


def said(message: Any) -> str:
    """Returns what a message says, without what differs from run to run."""
    return GATE.sub('gate', json.dumps(_without_varying(MessageToDict(message)), sort_keys=True))


def _without_varying(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_varying(each) for name, each in value.items() if name not in VARIES}
    return [_without_varying(each) for each in value] if isinstance(value, list) else value


def chunks(task: Task) -> list[str]:
    """Returns the numbers that the agent has emitted."""
    return [part.text for artifact in task.artifacts if artifact.artifact_id == 'chunks' for part in artifact.parts]


def origin(part: Part) -> tuple[float, int]:
    """Returns when a part was made, and by which process."""
    made_at, process = (part.metadata.fields[name].number_value for name in ('at', 'process'))
    return made_at, int(process)


def with_place(after: int | None = None) -> ClientCallContext:
    """Asks for the places of events, and for those after `after` only."""
    parameters: dict[str, str] = {} if after is None else {LAST_EVENT_ID: str(after)}
    with_a2a_extensions([SEQUENCE_URI])(parameters)
    return ClientCallContext(service_parameters=parameters)


class Gate:
    """Where the agent waits for the client."""

    def __init__(self, path: Path) -> None:
        """Is closed."""
        self.word = f'gate:{path}'
        self._reached, self._open = (path.with_name(f'{path.name}.{end}') for end in ('reached', 'open'))

    async def wait(self) -> None:
        """Waits until the agent is there."""
        while not self._reached.exists():
            await wait_for_seconds(LOOK)

    def open(self) -> None:
        """Lets the agent go on."""
        self._open.touch()


class Conversation:
    """One task, and all that is done with it."""

    def __init__(self, number: int, servers: Sequence[Server], directory: Path, measures: Measures) -> None:
        """Has not begun."""
        self.story = Story()
        self.chance = random.Random(f'plot {number}')
        self._route = random.Random(f'route {number}')
        self._servers = servers
        self.gate = Gate(directory / f'{number}')
        self._measures = measures
        self._seen: list[Seen] = []
        self._task = Task()
        self._emitted = 0

    @property
    def task_id(self) -> str:
        """The task's, empty before the first answer."""
        return self._task.id

    async def finish(self) -> Story:
        """Returns the story of an ended task, and checks what can be checked without another one."""
        task = await self.get()
        self.story.final = said(task)
        self.story.journal = (await self.subscribe('replay', after=BORN - 1)).events
        listed = await self._anywhere().plain.list_tasks(ListTasksRequest(context_id=task.context_id))
        assert [(each.id, each.status) for each in listed.tasks] == [(task.id, task.status)]
        assert chunks(task) == [f'{number}' for number in range(len(chunks(task)))]
        for seen in self._seen:
            self._check(seen)
        return self.story

    def _check(self, seen: Seen) -> None:
        """A stream shows the journal as it is from where it begins to where it ends, and leaves nothing out."""
        journal = self.story.journal
        first, last = seen.events[0].seq, seen.events[-1].seq
        expected = [event for event in journal if first <= event.seq <= last]
        if seen.whole is None:
            assert seen.events == expected, seen.name
        else:
            assert seen.events[1:] == [event for event in expected if event.seq > first], seen.name
            shown = sum(
                '"chunks"' in event.says and '"artifact"' in event.says for event in journal if event.seq <= first
            )
            assert len(chunks(seen.whole)) == shown, seen.name
        assert all(earlier.seq < later.seq for earlier, later in pairwise(seen.events))
        if seen.name.startswith('subscription'):
            assert last == journal[-1].seq, seen.name
        # A task that is shown whole has a place after that of the last event, if the turn had ended already.
        self.story.ends[seen.name] = max(event.seq for event in journal if event.seq <= last)

    # Operations, each at any server.

    async def send(self, words: str, *, immediately: bool = False) -> Task:
        """Sends a message and waits for the answer, or only until it is accepted."""
        (response,) = [each async for each in self._anywhere().plain.send_message(self._request(words, immediately))]
        self._task = response.task
        if not immediately:
            self.story.answers.append(said(response.task))
            assert (await self.get()).status == response.task.status
        return response.task

    async def stream(self, name: str, words: str, begun: asyncio.Event | None = None) -> Seen:
        """Sends a message and reads the stream of its answer."""
        server = self._anywhere()
        responses = server.streaming.send_message(self._request(words), context=with_place())
        return await self._read(name, server, responses, begun)

    async def subscribe(self, name: str, *, after: int | None = None, begun: asyncio.Event | None = None) -> Seen:
        """Follows the task to its end."""
        server = self._anywhere()
        request = SubscribeToTaskRequest(id=self._task.id)
        return await self._read(name, server, server.streaming.subscribe(request, context=with_place(after)), begun)

    async def has_recorded(self, count: int) -> None:
        """Waits until so many chunks can be read."""
        while len(chunks(await self.get())) < count:
            await wait_for_seconds(LOOK)

    async def cancel(self) -> None:
        """Cancels the task, and notes when the agent heard of it."""
        asked_at = time.monotonic()
        canceled = await self._anywhere().plain.cancel_task(CancelTaskRequest(id=self._task.id))
        assert canceled.status.state == CANCELED
        (heard_at,) = (origin(each.parts[0])[0] for each in canceled.artifacts if each.artifact_id == 'cancel')
        if asked_at >= self._measures.since:
            self._measures.cancels.append(heard_at - asked_at)
        self.story.answers.append(said(canceled))

    async def configure(self) -> None:
        """Makes, reads, lists and deletes push configs."""
        task_id = self._task.id
        for name in ('one', 'two'):
            config = TaskPushNotificationConfig(id=name, task_id=task_id, url=f'http://127.0.0.1:9/{name}')
            made = await self._anywhere().plain.create_task_push_notification_config(config)
            wanted = GetTaskPushNotificationConfigRequest(id=name, task_id=task_id)
            assert await self._anywhere().plain.get_task_push_notification_config(wanted) == made
        assert await self._configs() == ['one', 'two']
        for name in ('one', 'two'):
            unwanted = DeleteTaskPushNotificationConfigRequest(id=name, task_id=task_id)
            await self._anywhere().plain.delete_task_push_notification_config(unwanted)
            wanted = GetTaskPushNotificationConfigRequest(id=name, task_id=task_id)
            with pytest.raises(TaskNotFoundError):
                await self._anywhere().plain.get_task_push_notification_config(wanted)
        assert await self._configs() == []

    async def has_ended(self) -> None:
        """An ended task takes neither messages nor a cancel, wherever."""
        with pytest.raises(TaskNotCancelableError):
            await self._anywhere().plain.cancel_task(CancelTaskRequest(id=self._task.id))
        with pytest.raises(UnsupportedOperationError):
            await self.send('complete')

    async def _configs(self) -> list[str]:
        request = ListTaskPushNotificationConfigsRequest(task_id=self._task.id)
        listed = await self._anywhere().plain.list_task_push_notification_configs(request)
        return [config.id for config in listed.configs]

    async def get(self) -> Task:
        """Reads the task."""
        return await self._anywhere().plain.get_task(GetTaskRequest(id=self._task.id))

    async def _read(
        self,
        name: str,
        server: Server,
        responses: object,
        begun: asyncio.Event | None,
    ) -> Seen:
        whole, events, opened_at = None, list[Event](), 0.0
        async with aclosing(cast(AsyncGenerator[StreamResponse, None], responses)) as stream:
            async for response in stream:
                arrived_at = time.monotonic()
                opened_at = opened_at or arrived_at
                self._measure(response, server, opened_at, arrived_at)
                seq = take_sequence(getattr(response, response.WhichOneof('payload') or ''))
                assert seq is not None
                if not events and response.HasField('task'):
                    whole = response.task
                    self._task = whole
                events.append(Event(seq, said(response)))
                if begun is not None:
                    begun.set()
        seen = Seen(name, whole, events)
        if name != 'replay':
            self._seen.append(seen)
        return seen

    def _measure(self, response: StreamResponse, server: Server, opened_at: float, arrived_at: float) -> None:
        if not response.HasField('artifact_update'):
            return
        made_at, process = origin(response.artifact_update.artifact.parts[0])
        self._measures.processes.add(process)
        if process != server.process and made_at > max(opened_at, self._measures.since):
            self._measures.delays.append(arrived_at - made_at)

    def _request(self, words: str, immediately: bool = False) -> SendMessageRequest:
        message = Message(role=Role.ROLE_USER, message_id=IDS.new(), parts=[Part(text=words)], task_id=self._task.id)
        configuration = SendMessageConfiguration(return_immediately=immediately)
        return SendMessageRequest(message=message, configuration=configuration)

    def _anywhere(self) -> Server:
        return self._route.choice(self._servers)

    def more(self, least: int = 1) -> str:
        """Returns the order for some more chunks, at once or one by one."""
        count, pace = self.chance.randint(least, 12), self.chance.choice((0, 5, 20))
        first, self._emitted = self._emitted, self._emitted + count
        return f'emit:{first}:{count}:{pace}'
