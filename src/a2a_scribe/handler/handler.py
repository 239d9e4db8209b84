"""`DefaultRequestHandler`: the operations of `a2a-sdk`'s `RequestHandler`, on a journal.

It takes every argument of the class of that name in `a2a-sdk` and is used in its place; what it adds is keyword-only.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from a2a.server.agent_execution import AgentExecutor, RequestContextBuilder
from a2a.server.cluster import VersionedTaskStore
from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.tasks import PushNotificationConfigStore, PushNotificationSender, TaskStore
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import ExtendedAgentCardNotConfiguredError, UnsupportedOperationError

from a2a_scribe.clock import Clock
from a2a_scribe.core.records import Shown
from a2a_scribe.core.views import for_list
from a2a_scribe.engine.deadlines import DeadlinePolicy
from a2a_scribe.engine.engine import Engine
from a2a_scribe.engine.observers import Presence, always
from a2a_scribe.engine.orders import AfterCrash, Agent, CancelOrder
from a2a_scribe.handler import bounds, guards
from a2a_scribe.handler.callers import Callers
from a2a_scribe.handler.context_building import ContextBuilding, default_builder
from a2a_scribe.handler.faults import a2a_errors
from a2a_scribe.handler.messages import Messages
from a2a_scribe.handler.options import engine_settings, warn_of_unused
from a2a_scribe.handler.push_configs import PushConfigs
from a2a_scribe.ids import IdSource, UuidSource, process_name
from a2a_scribe.journal.opening import journal_of, owner_resolver_of
from a2a_scribe.push.desk import Desk
from a2a_scribe.push.dispatcher import Dispatcher
from a2a_scribe.push.metrics import DeliveryCounters
from a2a_scribe.push.sender_feed import SenderFeed
from a2a_scribe.push.webhooks import Webhooks
from a2a_scribe.settings import FailureAnswer, Settings, UnfinishedPolicy

logger = logging.getLogger(__name__)

CardModifier = Callable[[AgentCard, ServerCallContext], Awaitable[AgentCard]]


class DefaultRequestHandler(RequestHandler):
    """Serves one agent: every task that it starts ends in exactly one recorded outcome."""

    def __init__(  # noqa: PLR0913, PLR0917 - the signature of the class in whose place it stands
        self,
        agent_executor: AgentExecutor,
        task_store: TaskStore | VersionedTaskStore,
        agent_card: AgentCard,
        queue_manager: object | None = None,
        push_config_store: PushNotificationConfigStore | None = None,
        push_sender: PushNotificationSender | None = None,
        request_context_builder: RequestContextBuilder | None = None,
        extended_agent_card: AgentCard | None = None,
        extended_card_modifier: CardModifier | None = None,
        push_url_validator: guards.UrlValidator | None = None,
        validate_input_modes: bool = False,
        event_stream: object | None = None,
        interrupted_task_timeout: float | None = None,
        *,
        failure_answer: FailureAnswer = 'raise',
        unfinished: UnfinishedPolicy | None = None,
        after_crash: AfterCrash | None = None,
        deadlines: DeadlinePolicy | None = None,
        agent: str | None = None,
        owner_resolver: OwnerResolver | None = None,
        settings: Settings | None = None,
        webhooks: Webhooks | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        """Takes the agent, the place of its tasks, and its card.

        `failure_answer` says whether a blocking send raises the executor's exception (`raise`) or returns the FAILED
        task (`task`); `unfinished` what becomes of a task that `execute` leaves neither ended nor interrupted;
        `after_crash` decides for each turn whose server died whether its task fails or its message is executed again;
        `deadlines` chooses how long a turn may take, by its request context, where it shall not be as the settings say;
        `agent` is the name that separates the tasks of several agents in one database, by default the card's;
        `webhooks` says with what webhooks are delivered, where neither `push_sender` nor `push_config_store` is given;
        `clock` and `ids` are where time and new ids come from, for tests.

        Raises:
            ValueError: `interrupted_task_timeout` is not greater than 0.
            SettingsError: A setting cannot be used.
        """
        warn_of_unused(queue_manager, event_stream, interrupted_task_timeout)
        self.agent_executor = agent_executor
        self.task_store = task_store
        self.extended_agent_card = extended_agent_card
        self.extended_card_modifier = extended_card_modifier
        self._agent_card = agent_card
        agent_name = agent_card.name if agent is None else agent
        resolver = owner_resolver or owner_resolver_of(task_store) or resolve_user_scope
        own_settings = engine_settings(settings, unfinished)
        self._webhooks = (webhooks or Webhooks()).completed(own_settings)
        self._delivery_counters = DeliveryCounters()
        has_own_push = push_sender is not None or push_config_store is not None
        delivers = agent_card.capabilities.push_notifications and not has_own_push
        build_context = ContextBuilding(request_context_builder or default_builder(ids))
        self._engine = Engine(
            Agent(agent_executor, build_context, deadlines),
            journal_of(task_store, agent_name, clock),
            agent_name=agent_name,
            node_name=process_name(),
            settings=own_settings,
            clock=clock,
            ids=ids,
            after_crash=after_crash,
            deliver=self._deliver if delivers else None,
        )
        if push_sender is not None:
            self._engine.on_turn = SenderFeed(push_sender, self._engine.open_cursor, self._engine.spawn).follow
        elif agent_card.capabilities.push_notifications and not delivers:
            logger.warning('There is a push_config_store, but no push_sender: push configs are only stored')
        self._callers = Callers(agent_name, resolver)
        self._push_configs = PushConfigs(
            self._engine,
            self._callers,
            agent_card,
            push_config_store,
            push_url_validator,
            own_settings,
            ids or UuidSource(),
        )
        self._messages = Messages(
            self._engine,
            self._callers,
            agent_card,
            build_context,
            self._push_configs,
            validate_input_modes=validate_input_modes,
            failure_answer=failure_answer,
        )

    @property
    def agent_card(self) -> AgentCard:
        """The card whose capabilities and extensions decide what is served."""
        return self._agent_card

    @property
    def engine(self) -> Engine:
        """The engine that does the work: its signals, and how many tasks are live."""
        return self._engine

    @property
    def delivery_counters(self) -> DeliveryCounters:
        """What the delivery of webhooks has come to in this process."""
        return self._delivery_counters

    def _deliver(self, desk: Desk) -> Dispatcher:
        return Dispatcher(desk, self._webhooks, self._delivery_counters)

    async def start(self) -> None:
        """Makes the handler ready now rather than at the first call; for an ASGI lifespan.

        Raises:
            OperatorError: The journal cannot be used as it is set up.
            JournalUnavailableError: The journal cannot be reached.
        """
        await self._engine.start()

    async def aclose(self) -> None:
        """Stops accepting, lets turns finish until the deadline, and stops; optional, and may be called twice."""
        await self._engine.aclose()

    def owner_of(self, context: ServerCallContext) -> str:
        """Returns the owner on whose behalf a call is made, before its request is known; empty if there is none."""
        return self._callers.owner_of(context)

    async def answer_message(
        self, params: SendMessageRequest, context: ServerCallContext, is_present: Presence = always
    ) -> Message | Task:
        """Answers a message; an executor's failure is the FAILED task, whatever `failure_answer` says.

        Raises:
            A2AError: The request was refused.
            CallerGoneError: `is_present`, asked now and then, said that nobody waits any more; the turn goes on.
        """
        return await self._messages.send(params, context, 'task', is_present)

    def stream_message(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[list[Shown], None]:
        """Yields the events of an answer, with their places in the journal.

        What is there at the same time comes in one batch; empty ones come now and then while nothing happens to the
        message.
        """
        return self._messages.stream(params, context)

    async def follow_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext, after: int | None = None
    ) -> AsyncGenerator[list[Shown], None]:
        """Yields a task and what happens to it, to its end; with `after`, just what came after that event.

        The first batch comes at once, and may be empty. With `after`, tasks that have ended can be followed too.
        """
        guards.check_streaming(self._agent_card)
        guards.check_required(params)
        length = bounds.history_length(None, self._engine.settings)
        with a2a_errors():
            caller = self._callers.of(params, context)
            async with aclosing(self._engine.subscribe(params.id, caller, after)) as batches:
                async for batch in batches:
                    yield batch if length is None else [bounds.shown_event(item, length) for item in batch]

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Message | Task:
        """Answers a message (A2A 1.0, section 3.1.1)."""
        return await self._messages.send(params, context)

    def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Yields the events of an answer (A2A 1.0, section 3.1.2)."""
        return _events(self.stream_message(params, context))

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        """Returns a task (A2A 1.0, section 3.1.3)."""
        guards.check_required(params)
        guards.check_history_length('historyLength', params.history_length)
        with a2a_errors():
            stored = await self._engine.find(params.id, self._callers.of(params, context))
        length = params.history_length if params.HasField('history_length') else None
        return bounds.shown(stored.projection.to_task(), self._engine.settings, length)

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Returns a page of the caller's tasks, newest status first (A2A 1.0, section 3.1.4)."""
        guards.check_list(params)
        settings = self._engine.settings
        query = bounds.bounded_page(params, settings)
        with a2a_errors():
            page = await self._engine.list_tasks(self._callers.of(params, context), query)
        asked = params.history_length if params.HasField('history_length') else None
        length = bounds.history_length(asked, settings)
        return ListTasksResponse(
            tasks=[
                for_list(task, history_length=length, include_artifacts=params.include_artifacts) for task in page.tasks
            ],
            next_page_token=page.next_token,
            total_size=page.total,
            page_size=query.page_size,
        )

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """Cancels a task (A2A 1.0, section 3.1.5)."""
        guards.check_required(params)
        bounds.check_cancel(params, self._engine.settings)
        with a2a_errors():
            caller = self._callers.of(params, context)
            task = await self._engine.cancel(CancelOrder(params.id, caller, context, params.metadata))
        return bounds.shown(task, self._engine.settings)

    def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Yields a task and what happens to it, to its end (A2A 1.0, section 3.1.6)."""
        return _events(self.follow_task(params, context))

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Stores a push config (A2A 1.0, section 3.1.7)."""
        with a2a_errors():
            return await self._push_configs.create(params, context)

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Returns a push config (A2A 1.0, section 3.1.8)."""
        with a2a_errors():
            return await self._push_configs.get(params, context)

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """Returns a task's push configs (A2A 1.0, section 3.1.9)."""
        with a2a_errors():
            return await self._push_configs.list(params, context)

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Removes a push config (A2A 1.0, section 3.1.10)."""
        with a2a_errors():
            await self._push_configs.delete(params, context)

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """Returns the extended card (A2A 1.0, section 3.1.11)."""
        if not self._agent_card.capabilities.extended_agent_card:
            raise UnsupportedOperationError('The agent does not support authenticated extended cards')
        if self.extended_agent_card is None:
            raise ExtendedAgentCardNotConfiguredError
        if self.extended_card_modifier is None:
            return self.extended_agent_card
        return await self.extended_card_modifier(self.extended_agent_card, context)


async def _events(stream: AsyncGenerator[list[Shown], None]) -> AsyncGenerator[Event, None]:
    """Yields the events of a stream one by one."""
    async with aclosing(stream) as batches:
        async for batch in batches:
            for item in batch:
                yield item.event
