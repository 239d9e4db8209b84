"""Every keyword argument of a2a-sdk's handler does here what it does there."""

import asyncio
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import RequestHandler
from a2a.server.tasks import (
    InMemoryPushNotificationConfigStore,
    PushNotificationEvent,
    PushNotificationSender,
)
from a2a.types.a2a_pb2 import (
    AgentCard,
    AgentSkill,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    SendMessageRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    ExtendedAgentCardNotConfiguredError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from tests.dropin.kit import (
    PEER,
    Asking,
    Echo,
    call,
    handlers,
    new_card,
    request,
    send,
    serving,
    state_of,
    stores,
)

pytestmark = pytest.mark.anyio

HOOK = 'https://hooks.test/a'


# Cards


async def test_the_extended_card_is_served() -> None:
    extended = new_card(name='extended')
    async with serving(Echo(), extended_agent_card=extended) as handler:
        assert await handler.on_get_extended_agent_card(GetExtendedAgentCardRequest(), call()) == extended


async def test_the_modifier_adapts_the_extended_card_to_its_caller() -> None:
    async def modifier(card: AgentCard, context: ServerCallContext) -> AgentCard:
        adapted = AgentCard()
        adapted.CopyFrom(card)
        adapted.name = f'{card.name} for {context.user.user_name}'
        return adapted

    options: dict[str, Any] = {'extended_agent_card': new_card(name='extended'), 'extended_card_modifier': modifier}
    async with serving(Echo(), **options) as handler:
        card = await handler.on_get_extended_agent_card(GetExtendedAgentCardRequest(), call('ann'))
    assert card.name == 'extended for ann'


async def test_a_missing_extended_card_is_an_error() -> None:
    async with serving(Echo()) as handler:
        with pytest.raises(ExtendedAgentCardNotConfiguredError):
            await handler.on_get_extended_agent_card(GetExtendedAgentCardRequest(), call())


async def test_an_agent_without_the_capability_has_no_extended_card() -> None:
    card = new_card()
    card.capabilities.extended_agent_card = False
    async with serving(Echo(), card=card, extended_agent_card=new_card()) as handler:
        with pytest.raises(UnsupportedOperationError):
            await handler.on_get_extended_agent_card(GetExtendedAgentCardRequest(), call())


async def test_an_agent_that_cannot_stream_says_so() -> None:
    card = new_card()
    card.capabilities.streaming = False
    async with serving(Echo(), card=card) as handler:
        with pytest.raises(UnsupportedOperationError):
            await anext(aiter(handler.on_message_send_stream(request('hi'), call())))


# Webhooks


@dataclass
class Recording(PushNotificationSender):
    """Keeps what it is to deliver, once it is let through; tells when a state has arrived."""

    until: TaskState
    delivered: list[PushNotificationEvent] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        await self.open.wait()
        self.delivered.append(event)
        if isinstance(event, Task | TaskStatusUpdateEvent) and event.status.state == self.until:
            self.arrived.set()


class Refusing(PushNotificationSender):
    """Cannot deliver anything."""

    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        raise ConnectionError('the hook is down')


def with_hook(message: SendMessageRequest, url: str = HOOK) -> SendMessageRequest:
    message.configuration.task_push_notification_config.CopyFrom(TaskPushNotificationConfig(url=url))
    return message


def kinds_of(events: list[PushNotificationEvent]) -> list[str]:
    return [
        'artifact' if isinstance(event, TaskArtifactUpdateEvent) else TaskState.Name(event.status.state)
        for event in events
    ]


EXPECTED = ['TASK_STATE_SUBMITTED', 'TASK_STATE_WORKING', 'artifact', 'TASK_STATE_COMPLETED']


@pytest.mark.skipif(PEER, reason='a2a-sdk changes an event that it has handed out')
async def test_the_sender_is_called_for_every_event_in_order() -> None:
    sender = Recording(TaskState.TASK_STATE_COMPLETED)
    sender.open.set()
    options: dict[str, Any] = {'push_config_store': InMemoryPushNotificationConfigStore(), 'push_sender': sender}
    async with serving(Echo(), **options) as handler:
        await handler.on_message_send(with_hook(request('hi')), call())
        await sender.arrived.wait()
    assert kinds_of(sender.delivered) == EXPECTED


@pytest.mark.skipif(PEER, reason='a2a-sdk waits for the sender')
async def test_a_slow_sender_holds_nobody_up() -> None:
    sender = Recording(TaskState.TASK_STATE_COMPLETED)
    options: dict[str, Any] = {'push_config_store': InMemoryPushNotificationConfigStore(), 'push_sender': sender}
    async with serving(Echo(), **options) as handler:
        answer = await handler.on_message_send(with_hook(request('hi')), call())
        assert isinstance(answer, Task)
        assert state_of(answer) == 'COMPLETED'
        assert sender.delivered == []
        sender.open.set()
        await sender.arrived.wait()
    assert kinds_of(sender.delivered) == EXPECTED


async def test_a_failing_sender_harms_no_task() -> None:
    options: dict[str, Any] = {'push_config_store': InMemoryPushNotificationConfigStore(), 'push_sender': Refusing()}
    async with serving(Echo(), **options) as handler:
        answer = await handler.on_message_send(with_hook(request('hi')), call())
    assert isinstance(answer, Task)
    assert state_of(answer) == 'COMPLETED'


async def test_an_inline_config_is_in_the_users_store_before_the_first_event() -> None:
    configs = InMemoryPushNotificationConfigStore()
    async with serving(Asking(), push_config_store=configs) as handler:
        task = await handler.on_message_send(with_hook(request('hi')), call())
        assert isinstance(task, Task)
        assert [config.url for config in await configs.get_info(task.id, call())] == [HOOK]


async def test_configs_are_kept_in_the_users_store() -> None:
    configs = InMemoryPushNotificationConfigStore()
    async with serving(Asking(), push_config_store=configs) as handler:
        task = await send(handler, 'hi')
        created = await handler.on_create_task_push_notification_config(
            TaskPushNotificationConfig(task_id=task.id, id='one', url=HOOK), call()
        )
        assert (created.task_id, created.id, created.url) == (task.id, 'one', HOOK)
        assert [config.id for config in await configs.get_info(task.id, call())] == ['one']
        wanted = GetTaskPushNotificationConfigRequest(task_id=task.id, id='one')
        assert await handler.on_get_task_push_notification_config(wanted, call()) == created
        listed = await list_configs(handler, task)
        assert listed == [created]
        gone = DeleteTaskPushNotificationConfigRequest(task_id=task.id, id='one')
        await handler.on_delete_task_push_notification_config(gone, call())
        assert await list_configs(handler, task) == []
        with pytest.raises(TaskNotFoundError):
            await handler.on_get_task_push_notification_config(wanted, call())


async def list_configs(handler: RequestHandler, task: Task) -> list[TaskPushNotificationConfig]:
    wanted = ListTaskPushNotificationConfigsRequest(task_id=task.id)
    return list((await handler.on_list_task_push_notification_configs(wanted, call())).configs)


async def test_an_agent_without_webhooks_refuses_configs() -> None:
    card = new_card()
    card.capabilities.push_notifications = False
    async with serving(Asking(), card=card, push_config_store=InMemoryPushNotificationConfigStore()) as handler:
        task = await send(handler, 'hi')
        with pytest.raises(PushNotificationNotSupportedError):
            await handler.on_create_task_push_notification_config(
                TaskPushNotificationConfig(task_id=task.id, url=HOOK), call()
            )


@dataclass
class Screening:
    """Allows one URL, and keeps what it was asked."""

    asked: list[str] = field(default_factory=list)

    async def __call__(self, url: str) -> bool:
        self.asked.append(url)
        return url == HOOK


async def test_a_refused_url_stops_the_message() -> None:
    agent, screening, configs = Echo(), Screening(), InMemoryPushNotificationConfigStore()
    async with serving(agent, push_config_store=configs, push_url_validator=screening) as handler:
        with pytest.raises(InvalidParamsError):
            await handler.on_message_send(with_hook(request('hi'), 'https://elsewhere.test/'), call())
        assert (await handler.on_list_tasks(ListTasksRequest(), call())).total_size == 0
        await handler.on_message_send(with_hook(request('hi')), call())
    assert screening.asked == ['https://elsewhere.test/', HOOK]
    assert len(agent.contexts) == 1


async def test_a_refused_url_is_not_registered() -> None:
    configs = InMemoryPushNotificationConfigStore()
    async with serving(Asking(), push_config_store=configs, push_url_validator=Screening()) as handler:
        task = await send(handler, 'hi')
        with pytest.raises(InvalidParamsError):
            await handler.on_create_task_push_notification_config(
                TaskPushNotificationConfig(task_id=task.id, url='https://elsewhere.test/'), call()
            )
        assert await list_configs(handler, task) == []


# Input modes


def typed(media_type: str) -> SendMessageRequest:
    message = Message(role='ROLE_USER', message_id='m', parts=[Part(text='hi', media_type=media_type)])
    return SendMessageRequest(message=message)


@pytest.mark.parametrize('media_type', ['', 'text/plain', 'application/json'])
async def test_declared_input_modes_are_taken(media_type: str) -> None:
    skills = [AgentSkill(id='s', name='s', description='s', input_modes=['application/json'])]
    card = new_card(default_input_modes=['text/plain'], skills=skills)
    async with serving(Echo(), card=card, validate_input_modes=True) as handler:
        answer = await handler.on_message_send(typed(media_type), call())
    assert isinstance(answer, Task)


async def test_other_input_modes_are_refused_before_the_agent_sees_them() -> None:
    agent = Echo()
    card = new_card(default_input_modes=['text/plain'])
    async with serving(agent, card=card, validate_input_modes=True) as handler:
        with pytest.raises(ContentTypeNotSupportedError):
            await handler.on_message_send(typed('image/png'), call())
        assert (await handler.on_list_tasks(ListTasksRequest(), call())).total_size == 0
    assert agent.contexts == []


async def test_input_modes_are_not_looked_at_unless_asked_for() -> None:
    async with serving(Echo(), card=new_card(default_input_modes=['text/plain'])) as handler:
        assert isinstance(await handler.on_message_send(typed('image/png'), call()), Task)


# Arguments that are taken and not needed


class Untouchable:
    """Fails whoever uses it."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f'{name} was used')


def warned_by(make: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        make()
    return [str(warning.message) for warning in caught]


@pytest.mark.skipif(PEER, reason='a2a-sdk uses the event stream')
@pytest.mark.parametrize('name', ['queue_manager', 'event_stream'])
async def test_an_argument_that_is_not_needed_gives_one_warning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    made: list[Any] = []

    def make() -> None:
        store = stores.InMemoryTaskStore()
        made.append(handlers.DefaultRequestHandler(Echo(), store, new_card(), **{name: Untouchable()}))

    with caplog.at_level(logging.WARNING):
        messages = warned_by(make)
    assert len([message for message in messages if name in message]) == 1
    assert len(messages) == 1
    assert state_of(await send(made[0], 'hi')) == 'COMPLETED'
    await made[0].aclose()


@pytest.mark.skipif(PEER, reason='a2a-sdk looks at the fields of the card')
async def test_arguments_in_use_give_no_warning() -> None:
    options: dict[str, Any] = {
        'interrupted_task_timeout': 1.0,
        'push_config_store': InMemoryPushNotificationConfigStore(),
    }
    store = stores.InMemoryTaskStore()
    assert warned_by(lambda: handlers.DefaultRequestHandler(Echo(), store, new_card(), **options)) == []


@pytest.mark.parametrize('seconds', [0, -1])
def test_an_interrupted_task_needs_some_time(seconds: float) -> None:
    with pytest.raises(ValueError, match='interrupted_task_timeout'):
        handlers.DefaultRequestHandler(Echo(), stores.InMemoryTaskStore(), new_card(), interrupted_task_timeout=seconds)


async def test_a_task_is_continued_after_its_interrupted_time() -> None:
    async with serving(Asking(), interrupted_task_timeout=0.001) as handler:
        question = await send(handler, 'hi')
        answer = await send(handler, 'Ann', task=question)
    assert state_of(answer) == 'COMPLETED'


async def test_a_handler_may_be_closed_twice_and_before_it_was_used() -> None:
    handler = handlers.DefaultRequestHandler(Echo(), stores.InMemoryTaskStore(), new_card())
    await handler.aclose()
    await handler.aclose()
