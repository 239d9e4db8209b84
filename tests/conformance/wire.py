"""What the three bindings have in common, seen from outside: calls, streams, and their answers.

Requests and results are JSON objects in the protocol's own form on every binding; nothing here is a client's library.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tests.conformance.errors import INVALID_PARAMS, Error, Fault, Json

if TYPE_CHECKING:
    from tests.conformance.site import Service

Pairs = Sequence[tuple[str, str]]
"""Headers, query parameters or metadata."""

VERSION = 'A2A-Version'
EXTENSIONS = 'A2A-Extensions'


class Binding(StrEnum):
    """The bindings, by the names that ids of tests have."""

    JSONRPC = 'jsonrpc'
    REST = 'rest'
    GRPC = 'grpc'


ALL = tuple(Binding)
HTTP = (Binding.JSONRPC, Binding.REST)
JSONRPC, REST, GRPC = ((binding,) for binding in Binding)


class Refused(Exception):
    """An answer is an error, and a result was asked for."""

    def __init__(self, error: Error) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True)
class Answer:
    """What one call was answered with."""

    result: Json | None
    error: Error | None
    headers: Mapping[str, str]
    """Headers or initial metadata, names in lower case."""

    def ok(self) -> Json:
        """The result."""
        if self.error is not None:
            raise Refused(self.error)
        assert self.result is not None
        return self.result

    def refused(self, fault: Fault) -> Error:
        """The error, which has to be this one."""
        assert self.error is not None, f'{fault.reason} was expected, not {self.result}'
        return self.error.must_be(fault)

    def invalid(self, *fields: str) -> Error:
        """The validation error, which has to name these fields and no others."""
        error = self.refused(INVALID_PARAMS)
        assert sorted(error.fields) == sorted(fields), error
        return error


@dataclass(frozen=True)
class Event:
    """One event of a stream."""

    data: Json
    id: str | None = None

    @property
    def kind(self) -> str:
        """Which member of `StreamResponse` it is; there is exactly one."""
        (kind,) = self.data
        return kind

    @property
    def value(self) -> Json:
        """The member."""
        value: Json = self.data[self.kind]
        return value

    @property
    def state(self) -> str | None:
        """The state that it shows."""
        status = self.value.get('status')
        return None if status is None else str(status['state']).removeprefix('TASK_STATE_')

    @property
    def text(self) -> str:
        """The text of an artifact update."""
        return ''.join(part.get('text', '') for part in self.value['artifact']['parts'])


class Stream(ABC):
    """A stream that is being read; `headers` are there once it has begun."""

    headers: Mapping[str, str]

    @abstractmethod
    async def next(self) -> Event | None:
        """The next event, `None` at the end. Raises: Refused."""

    async def rest(self) -> list[Event]:
        """All further events to the end."""
        events = []
        while event := await self.next():
            events.append(event)
        return events

    async def until(self, wanted: Callable[[Event], bool]) -> list[Event]:
        """Further events up to one that is wanted."""
        events = []
        while event := await self.next():
            events.append(event)
            if wanted(event):
                return events
        raise AssertionError(f'the stream has ended: {events}')

    async def until_state(self, state: str) -> list[Event]:
        """Further events up to a state."""
        return await self.until(lambda event: event.state == state)


@dataclass
class Collected:
    """A stream that was read to its end."""

    events: list[Event] = field(default_factory=list)
    headers: Mapping[str, str] = field(default_factory=dict)
    error: Error | None = None

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    @property
    def states(self) -> list[str]:
        return [event.state for event in self.events if event.state is not None]

    def ok(self) -> list[Event]:
        if self.error is not None:
            raise Refused(self.error)
        return self.events

    def refused(self, fault: Fault) -> Error:
        """The error, which has to be this one and to have come before any event."""
        assert self.error is not None, f'{fault.reason} was expected, not {self.events}'
        assert self.events == []
        return self.error.must_be(fault)

    def invalid(self, *fields: str) -> Error:
        error = self.refused(INVALID_PARAMS)
        assert sorted(error.fields) == sorted(fields), error
        return error


class Wire(ABC):
    """One binding, connected to a service."""

    binding: ClassVar[Binding]

    def __init__(self, service: 'Service') -> None:
        self.service = service

    def at(self, service: 'Service') -> Self:
        """The same binding, connected to another service."""
        return type(self)(service)

    @property
    def is_grpc(self) -> bool:
        return self.binding is Binding.GRPC

    @property
    def is_rest(self) -> bool:
        return self.binding is Binding.REST

    @abstractmethod
    async def call(
        self, operation: str, params: Json | None = None, *, version: str | None = '1.0', headers: Pairs = ()
    ) -> Answer:
        """Calls an operation that is answered once."""

    @abstractmethod
    def open(
        self, operation: str, params: Json, *, version: str | None = '1.0', headers: Pairs = ()
    ) -> AbstractAsyncContextManager[Stream]:
        """Opens a stream, and leaves it at the end of the context. Raises: Refused, now or at the first event."""

    async def collect(self, operation: str, params: Json, **options: Any) -> Collected:
        """Reads a stream to its end; an error is part of what is returned."""
        collected = Collected()
        try:
            async with self.open(operation, params, **options) as stream:
                while event := await stream.next():
                    collected.events.append(event)
                collected.headers = stream.headers
        except Refused as refusal:
            collected.error = refusal.error
        return collected

    async def ask(self, operation: str, params: Json, **options: Any) -> Answer | Collected:
        """Calls an operation of either kind."""
        if operation in STREAMS:
            return await self.collect(operation, params, **options)
        return await self.call(operation, params, **options)


STREAMS = ('SendStreamingMessage', 'SubscribeToTask')
TASK_OPERATIONS = ('GetTask', 'CancelTask', 'SubscribeToTask')
PUSH_OPERATIONS = (
    'CreateTaskPushNotificationConfig',
    'GetTaskPushNotificationConfig',
    'ListTaskPushNotificationConfigs',
    'DeleteTaskPushNotificationConfig',
)


def with_version(version: str | None, headers: Pairs) -> list[tuple[str, str]]:
    return [*([] if version is None else [(VERSION, version)]), *headers]


@asynccontextmanager
async def background(work: Any) -> AsyncIterator['asyncio.Task[Any]']:
    """Lets work go on beside a test; what is left of it at the end is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
