"""The operations of A2A as one table (A2A 1.0, section 5.3): what each takes, whom it calls, what it answers with.

All bindings read it, so that they offer the same operations with the same results.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message as ProtoMessage

from a2a_scribe.core.records import Shown
from a2a_scribe.handler.handler import DefaultRequestHandler
from a2a_scribe.protocol.codec.wire import DELIMITED, delimited, tag, varint
from a2a_scribe.protocol.faults import UnauthenticatedError
from a2a_scribe.protocol.json import UnencodableError, to_bytes, to_dict
from a2a_scribe.protocol.required import show_required
from a2a_scribe.transport.authentication import challenges_of
from a2a_scribe.transport.events import to_stream_response

logger = logging.getLogger(__name__)

Presence = Callable[[], Awaitable[bool]]
Result = Any
"""A message of the protocol, `None` where there is nothing to say."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation that is answered once, or by a stream."""

    name: str
    request: type[ProtoMessage]
    call: Callable[[DefaultRequestHandler, Any, ServerCallContext, Presence], Awaitable[Result]] | None
    """Answers; `None` for a stream."""
    open: Callable[[DefaultRequestHandler, Any, ServerCallContext, int | None], AsyncGenerator[list[Shown], None]]
    """Opens the stream, after an event that the client has seen."""
    starts_at_once: bool = False
    """Whether the stream's first batch, though it may be empty, says that the request was accepted."""
    read: Callable[[Any], Any] = lambda request: request
    """Makes what the handler is asked of a request as it came."""
    from_json: Callable[[object], Any] | None = None
    """The same of parsed JSON, if that is no JSON of `request`."""
    to_json: Callable[[Result, Any], bytes] = lambda result, _: to_bytes(result)
    to_binary: Callable[[Result], bytes] = lambda result: result.SerializeToString()
    event_to_json: Callable[[Shown, bool], bytes] | None = None
    """Writes an event, with its place in its metadata or without; `None` for `StreamResponse` as it is now."""
    event_to_binary: Callable[[Shown, bool], bytes] = lambda item, sequenced: to_stream_response(
        item, sequenced=sequenced
    )

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream."""
        return self.call is None


def _no_stream(*_: object) -> AsyncGenerator[list[Shown], None]:
    raise AssertionError('the operation has no stream')


def _once(name: str, request: type[ProtoMessage], method: str, **more: Any) -> Operation:
    """Returns an operation of the handler that takes a request and a context."""

    async def call(handler: DefaultRequestHandler, params: Any, context: ServerCallContext, _: Presence) -> Result:
        return await getattr(handler, method)(params, context)

    return Operation(name, request, call, _no_stream, **more)


async def _send(
    handler: DefaultRequestHandler, params: Any, context: ServerCallContext, is_present: Presence
) -> Result:
    return await handler.answer_message(params, context, is_present)


async def _extended_card(
    handler: DefaultRequestHandler, params: Any, context: ServerCallContext, _: Presence
) -> Result:
    """Answers those who are authenticated by a scheme of the card, if it declares any (section 13.3)."""
    declares = handler.agent_card.security_schemes
    if handler.extended_agent_card is not None and declares and not context.user.is_authenticated:
        raise UnauthenticatedError(challenges=challenges_of(handler.agent_card))
    return await handler.on_get_extended_agent_card(params, context)


def _answer_to_json(result: Result, _: object) -> bytes:
    member = b'{"task":' if isinstance(result, a2a_pb2.Task) else b'{"message":'
    return member + to_bytes(result) + b'}'


def _answer_to_binary(result: Result) -> bytes:
    member = 'task' if isinstance(result, a2a_pb2.Task) else 'message'
    number = a2a_pb2.SendMessageResponse.DESCRIPTOR.fields_by_name[member].number
    return delimited(varint(tag(number, DELIMITED)), result.SerializeToString())


def _tasks_to_json(result: Result, params: a2a_pb2.ListTasksRequest) -> bytes:
    """Returns a page of tasks: its own fields always, the tasks' artifacts if they were asked for (section 3.1.4).

    A task that cannot be said in JSON, which only a store of a user's can have, is left out: the others would be out of
    reach with it.
    """
    try:
        page = to_dict(result, defaults='own')
    except UnencodableError:
        _leave_out_unencodable(result.tasks)
        page = to_dict(result, defaults='own')
    if params.include_artifacts:
        for task in page['tasks']:
            task.setdefault('artifacts', [])
    return orjson.dumps(page)


def _leave_out_unencodable(tasks: Any) -> None:
    for index in reversed(range(len(tasks))):
        try:
            to_dict(tasks[index])
        except UnencodableError as error:
            logger.error('Task %s is left out of a list: %s', tasks[index].id, error)  # noqa: TRY400 - it says all
            del tasks[index]


def card_to_json(card: a2a_pb2.AgentCard) -> bytes:
    """Returns a card with all its required fields (section 8.4.1)."""
    return orjson.dumps(show_required(to_dict(card), a2a_pb2.AgentCard))


def _configs_to_json(result: Result, _: object) -> bytes:
    page = to_dict(result)
    page.setdefault('configs', [])
    return orjson.dumps(page)


ALL: Final = (
    Operation(
        'SendMessage',
        a2a_pb2.SendMessageRequest,
        _send,
        _no_stream,
        to_json=_answer_to_json,
        to_binary=_answer_to_binary,
    ),
    Operation(
        'SendStreamingMessage',
        a2a_pb2.SendMessageRequest,
        None,
        lambda handler, params, context, _: handler.stream_message(params, context),
    ),
    _once('GetTask', a2a_pb2.GetTaskRequest, 'on_get_task'),
    _once('ListTasks', a2a_pb2.ListTasksRequest, 'on_list_tasks', to_json=_tasks_to_json),
    _once('CancelTask', a2a_pb2.CancelTaskRequest, 'on_cancel_task'),
    Operation(
        'SubscribeToTask',
        a2a_pb2.SubscribeToTaskRequest,
        None,
        lambda handler, params, context, after: handler.follow_task(params, context, after),
        starts_at_once=True,
    ),
    _once(
        'CreateTaskPushNotificationConfig',
        a2a_pb2.TaskPushNotificationConfig,
        'on_create_task_push_notification_config',
    ),
    _once(
        'GetTaskPushNotificationConfig',
        a2a_pb2.GetTaskPushNotificationConfigRequest,
        'on_get_task_push_notification_config',
    ),
    _once(
        'ListTaskPushNotificationConfigs',
        a2a_pb2.ListTaskPushNotificationConfigsRequest,
        'on_list_task_push_notification_configs',
        to_json=_configs_to_json,
    ),
    _once(
        'DeleteTaskPushNotificationConfig',
        a2a_pb2.DeleteTaskPushNotificationConfigRequest,
        'on_delete_task_push_notification_config',
        to_json=lambda *_: b'{}',
        to_binary=lambda _: Empty().SerializeToString(),
    ),
    Operation(
        'GetExtendedAgentCard',
        a2a_pb2.GetExtendedAgentCardRequest,
        _extended_card,
        _no_stream,
        to_json=lambda card, _: card_to_json(card),
    ),
)
OPERATIONS: Final[Mapping[str, Operation]] = {operation.name: operation for operation in ALL}
