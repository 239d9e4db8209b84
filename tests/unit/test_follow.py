"""The resuming reader, on a client that plays what it is told: each item of a connection is an event or an error."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest
from a2a.client import A2AClientError, A2AClientTimeoutError, ClientCallContext
from a2a.client.client import Client
from a2a.types.a2a_pb2 import (
    AgentCard,
    GetTaskRequest,
    Message,
    Part,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from a2a_scribe.client import Backoff, Followed, NotResumableError, StreamEndedError, follow
from a2a_scribe.protocol.extensions import SEQUENCE_URI
from a2a_scribe.protocol.states import (
    AUTH_REQUIRED,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    SUBMITTED,
    WORKING,
)

pytestmark = pytest.mark.anyio

Item = StreamResponse | Exception
Connection = Sequence[Item]


@dataclass
class Call:
    """What the reader asked for."""

    method: str
    request: Any
    parameters: dict[str, str]
    is_closed: bool = False

    @property
    def last_event_id(self) -> str | None:
        return self.parameters.get('Last-Event-ID')


@dataclass
class Played(Client):
    """A client whose streams are written down beforehand."""

    connections: list[Connection]
    task: Task | Exception = field(default_factory=Task)
    calls: list[Call] = field(default_factory=list)
    contexts: list[ClientCallContext] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connections = list(self.connections)
        super().__init__()

    async def _play(
        self, method: str, request: Any, context: ClientCallContext | None
    ) -> AsyncIterator[StreamResponse]:
        call = self._note(method, request, context)
        try:
            assert self.connections, f'a connection too many: {call}'
            for item in self.connections.pop(0):
                await asyncio.sleep(0)
                if isinstance(item, Exception):
                    raise item
                copy = StreamResponse()
                copy.CopyFrom(item)
                yield copy
        finally:
            call.is_closed = True

    def _note(self, method: str, request: Any, context: ClientCallContext | None) -> Call:
        assert context is not None
        self.contexts.append(context)
        self.calls.append(Call(method, request, dict(context.service_parameters or {})))
        return self.calls[-1]

    def send_message(
        self, request: SendMessageRequest, *, context: ClientCallContext | None = None
    ) -> AsyncIterator[StreamResponse]:
        return self._play('send', request, context)

    def subscribe(
        self, request: SubscribeToTaskRequest, *, context: ClientCallContext | None = None
    ) -> AsyncIterator[StreamResponse]:
        return self._play('subscribe', request, context)

    async def get_task(self, request: GetTaskRequest, *, context: ClientCallContext | None = None) -> Task:
        self._note('get', request, context)
        if isinstance(self.task, Exception):
            raise self.task
        return self.task

    async def list_tasks(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def cancel_task(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def create_task_push_notification_config(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def get_task_push_notification_config(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def list_task_push_notification_configs(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def delete_task_push_notification_config(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def get_extended_agent_card(self, *_: Any, **__: Any) -> AgentCard:
        raise NotImplementedError

    async def close(self) -> None:
        """Has nothing to close."""


# Events


def numbered(response: StreamResponse, seq: int | None) -> StreamResponse:
    event = getattr(response, response.WhichOneof('payload') or '')
    if seq is not None:
        event.metadata[SEQUENCE_URI] = seq
    return response


def task(seq: int | None, state: TaskState = SUBMITTED) -> StreamResponse:
    return numbered(StreamResponse(task=Task(id='t', status=TaskStatus(state=state))), seq)


def status(seq: int | None, state: TaskState = WORKING) -> StreamResponse:
    event = TaskStatusUpdateEvent(task_id='t', status=TaskStatus(state=state))
    return numbered(StreamResponse(status_update=event), seq)


def chunk(seq: int | None) -> StreamResponse:
    return numbered(StreamResponse(artifact_update=TaskArtifactUpdateEvent(task_id='t')), seq)


def message() -> StreamResponse:
    return StreamResponse(message=Message(message_id='m', parts=[Part(text='hi')]))


def request(**fields: Any) -> SendMessageRequest:
    return SendMessageRequest(message=Message(message_id='q', parts=[Part(text='go')], **fields))


# Errors, as the transports of `a2a-sdk` make them


def caused(error: A2AError, cause: Exception) -> A2AError:
    error.__cause__ = cause
    return error


def broken() -> A2AError:
    return caused(A2AClientError('Network communication error'), httpx.ReadError('cut'))


def timed_out(kind: type[httpx.TimeoutException] = httpx.ReadTimeout) -> A2AError:
    return caused(A2AClientTimeoutError('Client Request timed out'), kind('too long'))


def http(status: int, error: A2AError | None = None) -> A2AError:
    response = httpx.Response(status, request=httpx.Request('POST', 'http://x'))
    answer = httpx.HTTPStatusError('refused', request=response.request, response=response)
    return caused(error or A2AClientError(f'HTTP Error {status}'), answer)


class RpcError(Exception):
    """Looks like gRPC's."""

    def __init__(self, code: str) -> None:
        self._code = code

    def code(self) -> Any:
        return type('Code', (), {'name': self._code})


def grpc(code: str, error: A2AError | None = None) -> A2AError:
    return caused(error or A2AClientError(f'gRPC Error {code}'), RpcError(code))


# Reading


@dataclass
class Naps:
    """A back-off that takes no time, and remembers how much it should have taken."""

    taken: list[float] = field(default_factory=list)

    async def _sleep(self, seconds: float) -> None:
        self.taken.append(seconds)

    @property
    def backoff(self) -> Backoff:
        return Backoff(chance=lambda: 0.0, sleep=self._sleep)


async def read(client: Played, what: SendMessageRequest | str = 't', **options: Any) -> list[Followed]:
    async with aclosing(follow(client, what, **({'backoff': Naps().backoff} | options))) as events:
        return [followed async for followed in events]


async def seqs(client: Played, what: SendMessageRequest | str = 't', **options: Any) -> list[int | None]:
    return [followed.seq for followed in await read(client, what, **options)]


async def test_a_message_is_followed_over_breaks_to_the_end() -> None:
    client = Played(
        [
            [task(2), status(3), broken()],
            [chunk(4), chunk(5), broken()],
            [chunk(7), status(8, COMPLETED)],
        ]
    )
    assert await seqs(client, request()) == [2, 3, 4, 5, 7, 8]
    assert [(call.method, call.last_event_id) for call in client.calls] == [
        ('send', None),
        ('subscribe', '3'),
        ('subscribe', '5'),
    ]
    assert all(call.request.id == 't' for call in client.calls[1:])


async def test_a_task_is_followed_from_what_it_is_now() -> None:
    client = Played([[broken()], [task(9, WORKING), broken()], [status(10, COMPLETED)]])
    assert await seqs(client) == [9, 10]
    assert [call.last_event_id for call in client.calls] == [None, None, '9']


@pytest.mark.parametrize('after', [0, 7])
async def test_a_task_is_followed_from_what_was_seen(after: int) -> None:
    client = Played([[broken()], [chunk(8), status(9, COMPLETED)]])
    assert await seqs(client, after=after) == [8, 9]
    assert [call.last_event_id for call in client.calls] == [str(after)] * 2


async def test_nothing_is_yielded_twice() -> None:
    client = Played([[task(2), chunk(3), broken()], [task(2), chunk(3), chunk(4), chunk(4)], [status(5, COMPLETED)]])
    assert await seqs(client, request()) == [2, 3, 4, 5]


async def test_a_stream_that_ends_before_its_task_is_continued() -> None:
    client = Played([[task(2), status(3, WORKING)], [], [status(4, COMPLETED)]])
    assert await seqs(client, request()) == [2, 3, 4]
    assert [call.last_event_id for call in client.calls] == [None, '3', '3']


async def test_the_callers_see_the_agents_metadata_only() -> None:
    own = task(2)
    own.task.metadata['mine'] = 'kept'
    client = Played([[own, chunk(3), status(4, COMPLETED)]])
    first, second, _ = [followed.response for followed in await read(client, request())]
    assert dict(first.task.metadata) == {'mine': 'kept'}
    assert not second.artifact_update.HasField('metadata')


# Where it ends


@pytest.mark.parametrize('state', [COMPLETED, FAILED, CANCELED, REJECTED, INPUT_REQUIRED])
@pytest.mark.parametrize('event', [task, status])
async def test_it_ends_at(event: Callable[..., StreamResponse], state: TaskState) -> None:
    client = Played([[event(2, state), chunk(3)]])
    assert await seqs(client) == [2]
    assert client.calls[0].is_closed


async def test_it_goes_on_after_a_wait_for_credentials() -> None:
    client = Played([[task(2), status(3, AUTH_REQUIRED)], [status(4, WORKING), status(5, COMPLETED)]])
    assert await seqs(client, request()) == [2, 3, 4, 5]


async def test_it_ends_at_a_direct_message() -> None:
    client = Played([[message()]])
    assert await read(client, request()) == [Followed(None, message())]


async def test_it_ends_where_the_caller_says() -> None:
    client = Played([[task(2), chunk(3), chunk(4)]])
    assert await seqs(client, until=lambda response: response.HasField('artifact_update')) == [2, 3]
    assert client.calls[0].is_closed


async def test_an_error_of_the_caller_is_no_break() -> None:
    def fail(_: StreamResponse) -> bool:
        raise A2AClientError('mine')

    client = Played([[task(2), chunk(3)]])
    with pytest.raises(A2AClientError, match='mine'):
        await read(client, until=fail)
    assert len(client.calls) == 1


async def test_the_answer_to_a_follow_up_does_not_end_at_the_question_it_answers() -> None:
    client = Played([[task(5, INPUT_REQUIRED), status(6), broken()], [status(7, INPUT_REQUIRED)]])
    assert await seqs(client, request(task_id='t')) == [5, 6, 7]


async def test_a_follow_up_without_an_effect_ends_with_its_stream() -> None:
    client = Played([[task(5, INPUT_REQUIRED)]])
    assert await seqs(client, request(task_id='t')) == [5]


async def test_a_follow_up_is_answered_by_a_status_at_once() -> None:
    client = Played([[status(5, INPUT_REQUIRED), chunk(6)]])
    assert await seqs(client, request(task_id='t')) == [5]


async def test_after_a_question_it_can_be_followed_on() -> None:
    client = Played([[status(6, WORKING), status(7, COMPLETED)]])
    assert await seqs(client, after=5) == [6, 7]


async def test_a_task_that_has_ended_is_all_there_is() -> None:
    ended = Task(id='t', status=TaskStatus(state=COMPLETED))
    client = Played([[UnsupportedOperationError()]], task=ended)
    assert await read(client) == [Followed(None, StreamResponse(task=ended))]
    assert client.calls[-1].method == 'get'


async def test_a_task_that_has_ended_is_asked_for_until_the_server_answers() -> None:
    client = Played([[UnsupportedOperationError()], [UnsupportedOperationError()]], task=broken())
    naps = Naps()
    with pytest.raises(A2AClientError):
        await read(client, backoff=naps.backoff, attempts=2)
    assert [call.method for call in client.calls] == ['subscribe', 'get'] * 2
    assert len(naps.taken) == 1


@pytest.mark.parametrize(
    ('what', 'options', 'state'), [('t', {}, WORKING), ('t', {'after': 3}, COMPLETED), (request(), {}, COMPLETED)]
)
async def test_what_is_not_supported_is_raised(
    what: SendMessageRequest | str, options: dict[str, Any], state: TaskState
) -> None:
    """A server without streams, or one that knows nothing of places; no excuse to read the task instead."""
    client = Played([[UnsupportedOperationError()]], task=Task(status=TaskStatus(state=state)))
    with pytest.raises(UnsupportedOperationError):
        await read(client, what, **options)


# What cannot be continued


async def test_a_message_is_never_sent_twice() -> None:
    error = broken()
    client = Played([[error]])
    with pytest.raises(A2AClientError) as caught:
        await read(client, request())
    assert caught.value is error
    assert len(client.calls) == 1


async def test_a_message_whose_stream_ends_at_once_is_not_sent_twice() -> None:
    client = Played([[]])
    with pytest.raises(StreamEndedError):
        await read(client, request())


async def test_events_without_places_are_passed_on_while_the_connection_holds() -> None:
    client = Played([[task(None), chunk(None), status(None, COMPLETED)]])
    assert await seqs(client, request()) == [None, None, None]


@pytest.mark.parametrize('end', [[broken()], [timed_out()], []])
async def test_events_without_places_cannot_be_continued(end: list[Exception]) -> None:
    client = Played([[task(None), chunk(None), *end]])
    with pytest.raises(NotResumableError, match='GetTask') as caught:
        await read(client, request())
    assert isinstance(caught.value.__cause__, end[0].__class__ if end else StreamEndedError)
    assert len(client.calls) == 1


async def test_a_server_that_takes_no_notice_of_the_place_repeats_nothing() -> None:
    events = follow(Played([[task(2), chunk(3), broken()], [task(None), chunk(None)]]), 't', backoff=Naps().backoff)
    assert [(await anext(events)).seq for _ in range(2)] == [2, 3]
    with pytest.raises(NotResumableError):
        await anext(events)
    with pytest.raises(NotResumableError):
        await read(Played([[task(None)]]), after=3)


async def test_a_place_and_a_message_do_not_go_together() -> None:
    with pytest.raises(ValueError, match='after'):
        await read(Played([]), request(), after=3)


# What is tried again

RETRIED: dict[str, A2AError | httpx.TransportError] = {
    'a cut': broken(),
    'no cause': A2AClientError('it says no more'),
    'a time-out': timed_out(),
    'no connection': caused(A2AClientError('Network communication error'), httpx.ConnectError('refused')),
    'no connection in time': timed_out(httpx.ConnectTimeout),
    'a proxy without server': http(502),
    'a request that took too long': http(408),
    'too many requests': http(429),
    'grpc: away': grpc('UNAVAILABLE'),
    'grpc: reset': grpc('INTERNAL'),
    'grpc: stopped': grpc('CANCELLED'),
    'a server that says so': InternalError('later', data={'retryable': 'true'}),
    'a server that is not available': http(503, InternalError('later')),
    'grpc: a server that is not available': grpc('UNAVAILABLE', InternalError('later')),
    'an interceptor that reads a token': httpx.ConnectError('refused'),
}
RAISED: dict[str, Exception] = {
    'a gone task': TaskNotFoundError(),
    'a wrong place': http(400, InvalidParamsError()),
    'a server that failed': http(500, InternalError()),
    'a server that failed and says no more': InternalError('oops', data={}),
    'no credentials': http(401),
    'no right': http(403),
    'no path': http(404),
    'grpc: no credentials': grpc('UNAUTHENTICATED'),
    'grpc: no right': grpc('PERMISSION_DENIED'),
    'grpc: no service': grpc('UNIMPLEMENTED'),
    'what nobody thought of': RuntimeError('a fault of the client'),
}


@pytest.mark.parametrize('error', RETRIED.values(), ids=RETRIED)
async def test_it_connects_again_after(error: Exception) -> None:
    client = Played([[task(2), error], [error], [chunk(3), error], [status(4, COMPLETED)]])
    assert await seqs(client) == [2, 3, 4]


@pytest.mark.parametrize('error', RAISED.values(), ids=RAISED)
async def test_it_gives_up_at_once_after(error: Exception) -> None:
    client = Played([[task(2), broken()], [error]])
    with pytest.raises(type(error)) as caught:
        await read(client)
    assert caught.value is error


async def test_the_last_error_is_raised_after_so_many_in_a_row() -> None:
    errors = [broken() for _ in range(7)]
    client = Played([[task(2), errors[0]], [errors[1]], [errors[2]], [chunk(3), errors[3]], *([e] for e in errors[4:])])
    naps = Naps()
    with pytest.raises(A2AClientError) as caught:
        await read(client, backoff=naps.backoff, attempts=3)
    assert caught.value is errors[6]
    assert naps.taken == pytest.approx([0.1, 0.2, 0.4, 0.1, 0.2, 0.4])


async def test_streams_that_bring_nothing_are_failures() -> None:
    client = Played([[task(2), broken()], [], [task(2)], [chunk(1)]])
    with pytest.raises(StreamEndedError):
        await read(client, attempts=3)


async def test_a_server_that_was_never_there_is_given_up() -> None:
    client = Played([[timed_out()], [timed_out()]])
    with pytest.raises(A2AClientTimeoutError):
        await read(client, attempts=2)


async def test_it_can_be_tried_for_ever() -> None:
    naps = Naps()
    client = Played([*([broken()] for _ in range(2_000)), [status(2, COMPLETED)]])
    assert await seqs(client, attempts=None, backoff=naps.backoff) == [2]
    assert max(naps.taken) == 5


async def test_a_silent_agent_is_waited_for() -> None:
    """Time-outs of the client say that nothing came, not that nobody is there; a connection that failed says that."""
    naps = Naps()
    silence = [timed_out()]
    client = Played([[task(2), *silence], *[silence] * 50, [status(3, COMPLETED)]])
    assert await seqs(client, attempts=3, backoff=naps.backoff) == [2, 3]
    assert set(naps.taken) == {0.1}
    assert await seqs(Played([*[silence] * 50, [status(3, COMPLETED)]]), after=2, attempts=3) == [3]
    unreachable = [timed_out(httpx.ConnectTimeout)]
    with pytest.raises(A2AClientTimeoutError):
        await read(Played([[task(2), *unreachable], *[unreachable] * 3]), attempts=3)


# What is said to the server


async def test_the_extension_is_asked_for_beside_those_of_the_caller() -> None:
    given = {'A2A-Extensions': 'urn:mine', 'Authorization': 'Bearer x', 'last-event-id': '99'}
    context = ClientCallContext(state={'key': 'value'}, timeout=3.0, service_parameters=given)
    client = Played([[task(2), broken()], [status(3, COMPLETED)]])
    await read(client, request(), context=context)
    for call in client.calls:
        assert set(call.parameters['A2A-Extensions'].split(',')) == {'urn:mine', SEQUENCE_URI}
        assert call.parameters['Authorization'] == 'Bearer x'
        assert 'last-event-id' not in call.parameters
    assert [call.last_event_id for call in client.calls] == [None, '2']
    assert all((each.state, each.timeout) == ({'key': 'value'}, 3.0) for each in client.contexts)
    assert context.service_parameters == given


@pytest.mark.parametrize(('own', 'given'), [('acme', ''), ('', 'acme')])
async def test_the_tenant_is_that_of_the_message_or_of_the_call(own: str, given: str) -> None:
    asked = request()
    asked.tenant = own
    client = Played([[task(2), broken()], [status(3, COMPLETED)]])
    await read(client, asked, tenant=given)
    assert [call.request.tenant for call in client.calls] == ['acme', 'acme']
    assert asked.tenant == own
    ended = Played([[UnsupportedOperationError()]], task=Task(status=TaskStatus(state=COMPLETED)))
    await read(ended, tenant='acme')
    assert [call.request.tenant for call in ended.calls] == ['acme', 'acme']


async def test_an_event_from_the_future_is_passed_over() -> None:
    client = Played([[task(2), StreamResponse(), status(3, COMPLETED)]])
    assert await seqs(client) == [2, 3]


@pytest.mark.parametrize('value', ['3', True, None])
async def test_a_place_is_a_number(value: str | bool | None) -> None:
    odd = task(None)
    odd.task.metadata[SEQUENCE_URI] = value
    client = Played([[odd, status(None, COMPLETED)]])
    assert await seqs(client) == [None, None]


async def test_who_stops_early_frees_the_connection() -> None:
    client = Played([[task(2), chunk(3), chunk(4)]])
    async with aclosing(follow(client, 't')) as events:
        async for _ in events:
            break
    assert client.calls[0].is_closed


async def test_a_client_of_ones_own_may_give_bare_iterators() -> None:
    class Bare:
        def __init__(self, stream: AsyncIterator[StreamResponse]) -> None:
            self.stream = stream

        def __aiter__(self) -> 'Bare':
            return self

        async def __anext__(self) -> StreamResponse:
            return await anext(self.stream)

    class Other(Played):
        def subscribe(
            self, request: SubscribeToTaskRequest, *, context: ClientCallContext | None = None
        ) -> AsyncIterator[StreamResponse]:
            return Bare(super().subscribe(request, context=context))

    assert await seqs(Other([[task(2), broken()], [status(3, COMPLETED)]])) == [2, 3]


# Delays


def test_delays_grow_to_a_limit() -> None:
    still = Backoff(chance=lambda: 0.0)
    assert [still.delay(failures) for failures in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert still.delay(100_000) == 5.0


def test_delays_differ_by_chance() -> None:
    certain = Backoff(chance=lambda: 1.0)
    assert certain.delay(0) == pytest.approx(0.05)
    assert replace(certain, jitter=1.0).delay(3) == 0
    assert replace(certain, jitter=0.0).delay(3) == pytest.approx(0.8)
    assert len({Backoff().delay(3) for _ in range(20)}) > 1


@pytest.mark.parametrize('cut', [[broken()], []], ids=['an error', 'an early end'])
async def test_a_message_with_a_key_is_sent_again_when_nobody_knows_whether_it_was_received(cut: Connection) -> None:
    context = ClientCallContext(service_parameters={'idempotency-key': 'k'})
    client = Played([cut, cut, [task(2, WORKING), status(3, COMPLETED)]])
    seen = [each.seq async for each in follow(client, request(), context=context, backoff=Backoff(first=0))]
    assert seen == [2, 3]
    assert [call.method for call in client.calls] == ['send'] * 3
    assert {call.parameters['idempotency-key'] for call in client.calls} == {'k'}
