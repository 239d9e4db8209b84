"""The client of a2a-sdk, and what its scenarios have in common."""

import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import grpc.aio
import httpx
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types.a2a_pb2 import (
    AgentCard,
    Artifact,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
    TaskStatusUpdateEvent,
)

from tests.acceptance.clients.scenarios import SEQUENCE
from tests.acceptance.clients.site import LONG_ENOUGH, Site

JSON_RPC, REST, GRPC = BINDINGS = ('JSONRPC', 'HTTP+JSON', 'GRPC')
CHANNEL: Final = (
    ('grpc.use_local_subchannel_pool', 1),
    ('grpc.enable_http_proxy', 0),
    ('grpc.max_receive_message_length', -1),
)
Events = AsyncGenerator[StreamResponse, None]


class Lost(httpx.AsyncBaseTransport):
    """Sends calls to a method that does not exist, whatever the client asks for."""

    def __init__(self, site: Site, binding: str) -> None:
        self._site = site
        self._binding = binding
        self._network = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith('/agent-card.json'):
            request = await self._lose(request)
        return await self._network.handle_async_request(request)

    async def _lose(self, request: httpx.Request) -> httpx.Request:
        headers = {'A2A-Version': request.headers['A2A-Version']}
        if self._binding == REST:
            return httpx.Request('GET', f'{self._site.rest_url}/no/such/path', headers=headers)
        body = json.loads(await request.aread()) | {'method': 'NoSuchMethod'}
        return httpx.Request('POST', request.url, json=body, headers=headers)

    async def aclose(self) -> None:
        await self._network.aclose()


class LostCalls(grpc.aio.UnaryUnaryClientInterceptor):
    """The same for gRPC."""

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return await continuation(details._replace(method=b'/lf.a2a.v1.A2AService/NoSuchMethod'), request)


@dataclass(frozen=True, slots=True)
class Caller:
    """A client of one binding."""

    site: Site
    binding: str
    card: AgentCard
    streaming: Client
    blocking: Client
    """Calls without a stream."""
    headers: list[httpx.Headers]
    """Of all answers over HTTP."""

    async def send(self, script: str, second: str | None = None, **options: Any) -> StreamResponse:
        (answer,) = [event async for event in self.blocking.send_message(request_of(script, second, **options))]
        return answer

    async def task(self, script: str, second: str | None = None, **options: Any) -> Task:
        return task_in(await self.send(script, second, **options))

    async def begin(self, script: str, **options: Any) -> Task:
        return await self.task(script, return_immediately=True, **options)

    def stream(
        self, script: str, second: str | None = None, *, context: ClientCallContext | None = None, **options: Any
    ) -> Events:
        return cast('Events', self.streaming.send_message(request_of(script, second, **options), context=context))

    def subscribe(self, task_id: str, context: ClientCallContext | None = None) -> Events:
        return cast('Events', self.streaming.subscribe(SubscribeToTaskRequest(id=task_id), context=context))

    async def get(self, task_id: str, **options: Any) -> Task:
        return await self.blocking.get_task(GetTaskRequest(id=task_id, **options))

    async def list(self, **options: Any) -> ListTasksResponse:
        return await self.blocking.list_tasks(ListTasksRequest(**options))

    async def cancel(self, task_id: str) -> Task:
        return await self.blocking.cancel_task(CancelTaskRequest(id=task_id))

    async def open(self, gate: str) -> None:
        """Lets the tasks go on that are held there."""
        assert text_of((await self.send(f'open:{gate} message:opened')).message) == 'opened'

    async def ended(self, task_id: str) -> Task:
        """Polls."""
        while state_of(task := await self.get(task_id)) in {'SUBMITTED', 'WORKING'}:
            pass
        return task


@asynccontextmanager
async def calling(site: Site, binding: str, *, lost: bool = False) -> AsyncIterator[Caller]:
    """Connects as programs do: by the URL of the card. A lost caller reaches no method."""
    headers: list[httpx.Headers] = []
    channels: list[grpc.aio.Channel] = []

    async def note(response: httpx.Response) -> None:
        headers.append(response.headers)

    def new_channel(target: str) -> grpc.aio.Channel:
        interceptors = [LostCalls()] if lost else []
        channels.append(grpc.aio.insecure_channel(target, options=CHANNEL, interceptors=interceptors))
        return channels[-1]

    async with httpx.AsyncClient(
        trust_env=False,
        timeout=LONG_ENOUGH,
        event_hooks={'response': [note]},
        transport=Lost(site, binding) if lost else None,
    ) as http:
        config = ClientConfig(
            httpx_client=http, grpc_channel_factory=new_channel, supported_protocol_bindings=[binding]
        )
        card = await A2ACardResolver(http, site.url).get_agent_card()
        streaming = ClientFactory(config).create(card)
        blocking = ClientFactory(replace(config, streaming=False)).create(card)
        try:
            yield Caller(site, binding, card, streaming, blocking, headers)
        finally:
            for channel in channels:
                await channel.close()


# Requests and what is in answers


def request_of(
    script: str, second: str | None = None, *, task_id: str = '', context_id: str = '', tenant: str = '', **options: Any
) -> SendMessageRequest:
    """The options are those of the configuration."""
    parts = [Part(text=text) for text in (script, second) if text is not None]
    message = Message(
        message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=parts, task_id=task_id, context_id=context_id
    )
    return SendMessageRequest(tenant=tenant, message=message, configuration=SendMessageConfiguration(**options))


def state_of(shown: Task | TaskStatusUpdateEvent) -> str:
    return TaskState.Name(shown.status.state).removeprefix('TASK_STATE_')


def text_of(shown: Message | Artifact) -> str:
    return ''.join(part.text for part in shown.parts)


def artifacts_of(task: Task) -> dict[str, str]:
    return {artifact.artifact_id: text_of(artifact) for artifact in task.artifacts}


def task_in(answer: StreamResponse) -> Task:
    assert answer.HasField('task')
    return answer.task


def shown_in(event: StreamResponse) -> Any:
    return getattr(event, event.WhichOneof('payload') or '')


def summary(events: Sequence[StreamResponse]) -> list[str]:
    """What a stream shows, in short: states, and texts of artifacts."""

    def of(event: StreamResponse) -> str:
        if event.HasField('artifact_update'):
            return text_of(event.artifact_update.artifact)
        return f'message {text_of(event.message)}' if event.HasField('message') else state_of(shown_in(event))

    return [of(event) for event in events]


def seqs_of(events: Sequence[StreamResponse]) -> list[int]:
    """The sequences that events carry."""
    metadata = [dict(shown_in(event).metadata) for event in events]
    return [int(each[SEQUENCE]) for each in metadata if SEQUENCE in each]


async def collect(events: Events) -> list[StreamResponse]:
    return [event async for event in events]


WITH_SEQUENCE: Final = ServiceParametersFactory.create([with_a2a_extensions([SEQUENCE])])


def context_of(**parameters: str) -> ClientCallContext:
    return ClientCallContext(service_parameters={**WITH_SEQUENCE, **parameters})
