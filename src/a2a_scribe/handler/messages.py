"""Sending messages: from a request to an order for the engine, and from a turn to an answer."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import AgentCard
from a2a.utils.errors import A2AError, InternalError, InvalidParamsError, UnsupportedOperationError

from a2a_scribe.core.records import Shown
from a2a_scribe.engine.capacity import Place
from a2a_scribe.engine.engine import Engine
from a2a_scribe.engine.observers import Presence, TurnObserver, always
from a2a_scribe.engine.orders import MessageKey, Order
from a2a_scribe.errors import DeadlineError, EnvironmentFault
from a2a_scribe.handler import bounds, guards
from a2a_scribe.handler.callers import Callers
from a2a_scribe.handler.context_building import ContextBuilding
from a2a_scribe.handler.faults import a2a_errors, as_a2a_error
from a2a_scribe.handler.keys import key_of
from a2a_scribe.handler.push_configs import PushConfigs
from a2a_scribe.journal.tasks import Caller, StoredTask
from a2a_scribe.protocol.faults import InvalidFieldError
from a2a_scribe.protocol.states import FAILED, TERMINAL, name_of
from a2a_scribe.protocol.types import (
    Message,
    SendMessageRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a_scribe.settings import FailureAnswer


class Messages:
    """The two send operations of one handler."""

    def __init__(
        self,
        engine: Engine,
        callers: Callers,
        card: AgentCard,
        build_context: ContextBuilding,
        push_configs: PushConfigs,
        *,
        validate_input_modes: bool,
        failure_answer: FailureAnswer,
    ) -> None:
        """Takes what the operations work with."""
        self._engine = engine
        self._callers = callers
        self._card = card
        self._build_context = build_context
        self._push_configs = push_configs
        self._validate_input_modes = validate_input_modes
        self._failure_answer = failure_answer

    async def send(
        self,
        params: SendMessageRequest,
        context: ServerCallContext,
        failure_answer: FailureAnswer | None = None,
        is_present: Presence = always,
    ) -> Task | Message:
        """Answers a message (A2A 1.0, section 3.1.1).

        Raises:
            A2AError: The request was refused.
            CallerGoneError: `is_present` said that nobody waits any more; the turn goes on.
            Exception: The executor's own, once FAILED is durable, if failures are to be raised.
        """
        immediately = params.configuration.return_immediately
        with a2a_errors():
            observer = await self._accept(params, context, wants_id=immediately, streams=False)
            try:
                answer = await (observer.first(is_present) if immediately else observer.answer(is_present))
            finally:
                self._engine.leave(observer)
        if isinstance(answer, Message):
            return answer
        if _is_refusal(observer):
            raise _refusal(observer)
        if not immediately:
            self._raise_failure(observer, answer, failure_answer or self._failure_answer)
        return bounds.shown(answer, self._engine.settings, _history_length(params))

    async def stream(self, params: SendMessageRequest, context: ServerCallContext) -> AsyncGenerator[list[Shown], None]:
        """Yields the events of an answer in batches (A2A 1.0, section 3.1.2); a failure is its last status.

        Raises:
            A2AError: The request was refused, or the executor raised it before any event.
        """
        guards.check_streaming(self._card)
        length = bounds.history_length(_history_length(params), self._engine.settings)
        with a2a_errors():
            observer = await self._accept(params, context, wants_id=True, streams=True)
            begun = False
            try:
                async with aclosing(observer.batches()) as batches:
                    async for batch in batches:
                        if batch and not begun and _is_refusal(observer):
                            raise _refusal(observer)
                        begun = begun or bool(batch)
                        yield batch if length is None else [bounds.shown_event(item, length) for item in batch]
            finally:
                self._engine.leave(observer)
            if observer.unanswered is not None:
                raise observer.unanswered

    async def _accept(
        self, params: SendMessageRequest, context: ServerCallContext, *, wants_id: bool, streams: bool
    ) -> TurnObserver:
        guards.check_size('message', params.message, self._engine.settings.event_bytes)
        bounds.check_message(params, self._engine.settings)
        guards.check_send(params)
        key = key_of(params, context, message_id_is_key=self._engine.settings.message_id_is_key)
        if self._validate_input_modes:
            guards.check_input_modes(params.message, self._card)
        caller = self._callers.of(params, context)
        place = await self._engine.take_place(caller)
        try:
            return await self._send(params, context, caller, place, key, wants_id=wants_id, streams=streams)
        finally:
            if not place.is_used:
                place.leave()

    async def _send(
        self,
        params: SendMessageRequest,
        context: ServerCallContext,
        caller: Caller,
        place: Place,
        key: MessageKey | None,
        *,
        wants_id: bool,
        streams: bool,
    ) -> TurnObserver:
        inline = await self._push_configs.check_inline(params)
        stored = await self._find(params.message, caller, may_have_ended=key is not None)
        request, request_context = await self._make_context(params, context, stored)
        order = Order(
            request=request,
            context=request_context,
            caller=caller,
            caller_record=self._callers.record(caller, context),
            stored=stored,
            configs=self._push_configs.for_journal(inline, request.message.task_id),
            wants_id=wants_id,
            streams=streams,
            place=place,
            key=key,
        )
        if stored is None:
            return await self._send_first(order, inline, context)
        observer = await self._engine.send(order)
        if inline is not None and not observer.is_repeat:
            await self._push_configs.put(inline, request.message.task_id, caller, context, stored.row.seq)
        return observer

    async def _send_first(
        self, order: Order, inline: TaskPushNotificationConfig | None, context: ServerCallContext
    ) -> TurnObserver:
        """Sends the first message of a task, whose config has to be there before the agent begins."""
        task_id = order.request.message.task_id
        config = await self._push_configs.store_elsewhere(inline, task_id, context)
        if order.key is None:
            return await self._engine.send(order)
        try:
            observer = await self._engine.send(order)
        except InvalidParamsError:
            await self._push_configs.drop_elsewhere(config, context)
            raise
        if observer.is_repeat and observer.task_id != task_id:
            await self._push_configs.drop_elsewhere(config, context)
        return observer

    async def _find(self, message: Message, caller: Caller, *, may_have_ended: bool) -> StoredTask | None:
        """Returns the task that a message continues, and refuses what cannot be continued.

        One that has ended may have done so because of this very message, if it is sent again.
        """
        if not message.task_id:
            return None
        stored = await self._engine.find(message.task_id, caller)
        if message.context_id and message.context_id != stored.row.context_id:
            raise InvalidFieldError('message.contextId', 'is not that of the task')
        if stored.row.state in TERMINAL and not may_have_ended:
            raise UnsupportedOperationError(f'Task {message.task_id} has ended as {name_of(stored.row.state)}')
        return stored

    async def _make_context(
        self, params: SendMessageRequest, context: ServerCallContext, stored: StoredTask | None
    ) -> tuple[SendMessageRequest, RequestContext]:
        """Returns the request with its ids, and the executor's context, which shares nothing with it."""
        given = _copy(params)
        if stored is not None:
            given.message.context_id = stored.row.context_id
        task = None if stored is None else stored.projection.to_task()
        request_context = await self._build_context(given, context, task)
        request = _copy(given)
        request.configuration.ClearField('task_push_notification_config')  # a config has its own place, and secrets
        request.message.task_id = request_context.task_id or given.message.task_id
        request.message.context_id = request_context.context_id or given.message.context_id
        guards.check_id('the task id of the request context', request.message.task_id)
        guards.check_id('the context id of the request context', request.message.context_id)
        return request, request_context

    def _raise_failure(self, observer: TurnObserver, answer: Task, failure_answer: FailureAnswer) -> None:
        if observer.unanswered is not None:
            raise observer.unanswered
        if failure_answer == 'raise' and observer.failure is not None and answer.status.state == FAILED:
            failure = observer.failure
            if isinstance(failure, EnvironmentFault | DeadlineError):
                raise as_a2a_error(failure) from failure
            if not isinstance(failure, Exception):
                raise InternalError('The agent was interrupted.') from failure
            raise failure


def _is_refusal(observer: TurnObserver) -> bool:
    """Whether the executor refused the message with an error of A2A before it emitted anything."""
    return isinstance(observer.failure, A2AError) and not observer.spoke


def _refusal(observer: TurnObserver) -> A2AError:
    assert isinstance(observer.failure, A2AError)
    return observer.failure


def _history_length(params: SendMessageRequest) -> int | None:
    configuration = params.configuration
    return configuration.history_length if configuration.HasField('history_length') else None


def _copy(request: SendMessageRequest) -> SendMessageRequest:
    copy = SendMessageRequest()
    copy.CopyFrom(request)
    return copy
