"""Push configs, and a sender of the user's: stored by the rules, called in order and off the path."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from a2a.server.tasks import InMemoryPushNotificationConfigStore, PushNotificationSender
from a2a.types.a2a_pb2 import (
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    SendMessageConfiguration,
)
from a2a.utils.errors import (
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from a2a_scribe.protocol.states import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, SUBMITTED, WORKING
from a2a_scribe.protocol.types import TaskPushNotificationConfig, TaskState
from a2a_scribe.testing.agents import ScriptedAgent, artifact, emit, fail, message, status, task, wait
from tests.component.kit import Site, new_card, new_context, running, settle, state_of, until

pytestmark = pytest.mark.anyio

URL = 'https://hooks.example'
PARK = [emit(status(INPUT_REQUIRED))]


async def create(site: Site, **given: Any) -> TaskPushNotificationConfig:
    config = TaskPushNotificationConfig(**{'url': URL, **given})
    return await site.handler.on_create_task_push_notification_config(config, new_context())


async def list_of(site: Site, task_id: str, **given: Any) -> ListTaskPushNotificationConfigsResponse:
    request = ListTaskPushNotificationConfigsRequest(task_id=task_id, **given)
    return await site.handler.on_list_task_push_notification_configs(request, new_context())


async def get(site: Site, task_id: str, config_id: str) -> TaskPushNotificationConfig:
    request = GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
    return await site.handler.on_get_task_push_notification_config(request, new_context())


async def delete(site: Site, task_id: str, config_id: str) -> None:
    request = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
    await site.handler.on_delete_task_push_notification_config(request, new_context())


def inline(**given: Any) -> SendMessageConfiguration:
    return SendMessageConfiguration(
        task_push_notification_config=TaskPushNotificationConfig(**{'url': URL, **given}), return_immediately=True
    )


@pytest.mark.parametrize('own_store', [False, True], ids=['journal', 'own store'])
async def test_configs_are_created_read_listed_and_deleted(own_store: bool) -> None:
    store = InMemoryPushNotificationConfigStore() if own_store else None
    async with running(ScriptedAgent(PARK), push_config_store=store) as site:
        parked = await site.send()
        one = await create(site, task_id=parked.id, token='secret')
        two = await create(site, task_id=parked.id)
        named = await create(site, task_id=parked.id, id='named')
        assert one.id
        assert two.id
        assert one.id != two.id
        assert (one.task_id, one.url, one.token, named.id) == (parked.id, URL, 'secret', 'named')
        assert await get(site, parked.id, one.id) == one
        listed = await list_of(site, parked.id)
        assert sorted(config.id for config in listed.configs) == sorted([one.id, two.id, 'named'])
        await create(site, task_id=parked.id, id='named', url=f'{URL}/new')
        assert (await get(site, parked.id, 'named')).url == f'{URL}/new'
        for _ in range(2):
            await delete(site, parked.id, one.id)
        with pytest.raises(TaskNotFoundError):
            await get(site, parked.id, one.id)
        assert len((await list_of(site, parked.id)).configs) == 2


async def test_configs_come_in_pages() -> None:
    async with running(ScriptedAgent(PARK)) as site:
        parked = await site.send()
        for number in range(5):
            await create(site, task_id=parked.id, id=f'c{number}')
        first = await list_of(site, parked.id, page_size=2)
        second = await list_of(site, parked.id, page_size=2, page_token=first.next_page_token)
        third = await list_of(site, parked.id, page_size=2, page_token=second.next_page_token)
        pages = [[config.id for config in page.configs] for page in (first, second, third)]
        assert pages == [['c0', 'c1'], ['c2', 'c3'], ['c4']]
        assert third.next_page_token == ''
        with pytest.raises(InvalidParamsError):
            await list_of(site, parked.id, page_token='%')


async def test_configs_of_unknown_tasks_are_refused() -> None:
    async with running(ScriptedAgent(PARK)) as site:
        with pytest.raises(TaskNotFoundError):
            await create(site, task_id='made-up')
        with pytest.raises(TaskNotFoundError):
            await delete(site, 'made-up', 'c')
        with pytest.raises(TaskNotFoundError):
            await list_of(site, 'made-up')


async def test_a_card_without_push_refuses_all_of_it() -> None:
    agent = ScriptedAgent(PARK)
    async with running(agent, card=new_card(push_notifications=False)) as site:
        parked = await site.send()
        for refused in (
            create(site, task_id=parked.id),
            create(site, task_id=parked.id, url=''),
            get(site, parked.id, 'c'),
            list_of(site, parked.id),
            delete(site, parked.id, 'c'),
            site.send(configuration=inline()),
        ):
            with pytest.raises(PushNotificationNotSupportedError):
                await refused
        assert len(agent.contexts) == 1


async def test_an_inline_config_is_stored_with_the_task_that_it_begins() -> None:
    agent = ScriptedAgent([wait('gate'), emit(task(WORKING)), emit(status(COMPLETED))])
    async with running(agent) as site:
        answer = await site.send(configuration=inline(token='t'))
        assert answer.status.state == SUBMITTED, 'the task is there before the agent speaks'
        (config,) = (await list_of(site, answer.id)).configs
        assert (config.task_id, config.url, config.token) == (answer.id, URL, 't')
        assert config.id


async def test_an_inline_config_of_a_follow_up_is_stored_once_it_is_accepted() -> None:
    async with running(ScriptedAgent(PARK, [emit(status(COMPLETED))])) as site:
        parked = await site.send()
        await site.left_memory()
        await site.send(task_id=parked.id, configuration=inline(id='mine', task_id=parked.id))
        await site.left_memory()
        assert [config.id for config in (await list_of(site, parked.id)).configs] == ['mine']
        with pytest.raises(UnsupportedOperationError):
            await site.send(task_id=parked.id, configuration=inline(id='late'))
        assert [config.id for config in (await list_of(site, parked.id)).configs] == ['mine']


@pytest.mark.parametrize('given', [{'url': ''}, {'task_id': 'other'}, {'token': 'a\r\nb'}, {'id': 'x' * 256}], ids=str)
async def test_an_inline_config_that_cannot_be_used_refuses_the_message(given: dict[str, str]) -> None:
    agent = ScriptedAgent(PARK)
    async with running(agent) as site:
        with pytest.raises(InvalidParamsError):
            await site.send(configuration=inline(**given))
        await settle()
        assert (agent.contexts, site.task_ids) == ([], [])


async def test_a_message_completes_the_task_that_an_inline_config_has_made() -> None:
    async with running(ScriptedAgent([emit(message('hi'))])) as site:
        answer = await site.send(configuration=inline())
        await site.left_memory()
        assert (await site.get(answer.id)).status.state == COMPLETED


async def test_the_users_validator_refuses_urls() -> None:
    async def refuse(url: str) -> bool:
        return url != URL

    agent = ScriptedAgent(PARK)
    async with running(agent, push_url_validator=refuse) as site:
        parked = await site.send()
        with pytest.raises(InvalidParamsError):
            await create(site, task_id=parked.id)
        with pytest.raises(InvalidParamsError):
            await site.send(configuration=inline())
        assert len(agent.contexts) == 1


async def test_configs_go_with_their_task() -> None:
    async with running(ScriptedAgent(PARK)) as site:
        parked = await site.send()
        await create(site, task_id=parked.id)
        await site.left_memory()
        await site.journal.delete_task(parked.id, site.caller())
        assert await site.memory.read_configs(parked.id) == []


# A sender of the user's


@dataclass
class Sender(PushNotificationSender):
    """Notes what it is told to send; waits or fails when the test says so."""

    sent: list[tuple[str, TaskState | None]] = field(default_factory=list)
    passes: asyncio.Event = field(default_factory=asyncio.Event)
    fails: bool = False

    async def send_notification(self, task_id: str, event: Any) -> None:
        await self.passes.wait()
        self.sent.append((task_id, state_of(event)))
        if self.fails:
            raise ConnectionError('no receiver')


async def test_a_sender_is_told_every_event_in_order() -> None:
    sender = Sender()
    sender.passes.set()
    agent = ScriptedAgent(
        [emit(task()), emit(status(WORKING)), emit(artifact()), emit(status(INPUT_REQUIRED))], [fail(ValueError('own'))]
    )
    async with running(agent, push_sender=sender) as site:
        parked = await site.send()
        await site.left_memory()
        await until(lambda: len(sender.sent) == 4)
        with pytest.raises(ValueError, match='own'):
            await site.send(task_id=parked.id)
        await until(lambda: len(sender.sent) == 5)
        assert [state for _, state in sender.sent] == [SUBMITTED, WORKING, None, INPUT_REQUIRED, FAILED]
        assert {task_id for task_id, _ in sender.sent} == {parked.id}


async def test_a_slow_sender_holds_nobody_up_and_misses_nothing() -> None:
    sender = Sender()
    agent = ScriptedAgent([emit(task()), emit(*[artifact(append=True)] * 50), emit(status(COMPLETED))])
    async with running(agent, push_sender=sender) as site:
        assert (await site.send()).status.state == COMPLETED
        await site.left_memory()
        assert sender.sent == []
        sender.passes.set()
        await until(lambda: len(sender.sent) == 52)
        assert sender.sent[-1][1] == COMPLETED


async def test_a_sender_that_fails_is_told_the_rest() -> None:
    sender = Sender(fails=True)
    sender.passes.set()
    async with running(ScriptedAgent([emit(task()), emit(status(COMPLETED))]), push_sender=sender) as site:
        assert (await site.send()).status.state == COMPLETED
        await until(lambda: len(sender.sent) == 2)


async def test_a_sender_hears_of_a_cancel() -> None:
    sender = Sender()
    sender.passes.set()
    agent = ScriptedAgent([emit(task()), wait('gate')], PARK)
    async with running(agent, push_sender=sender) as site:
        begun = await site.begin_task()
        await site.cancel(begun.id)
        await until(lambda: len(sender.sent) == 2)
        parked = await site.send()
        await site.left_memory()
        await site.cancel(parked.id)
        await until(lambda: sender.sent[-1] == (parked.id, CANCELED), 'the sender hears that a parked task is canceled')


async def test_nothing_is_sent_before_it_is_durable() -> None:
    sender = Sender()
    sender.passes.set()
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(status(COMPLETED))])
    async with running(agent, push_sender=sender) as site:
        await site.begin_task()
        await until(lambda: len(sender.sent) == 1)
        site.journal.hold()
        agent.open('gate')
        await site.journal.wait_until_held()
        await settle()
        assert len(sender.sent) == 1
        site.journal.let_go()
        await until(lambda: len(sender.sent) == 2)


async def test_a_direct_message_is_not_sent_as_a_task() -> None:
    sender = Sender()
    sender.passes.set()
    async with running(ScriptedAgent([emit(message())]), push_sender=sender) as site:
        await site.send()
        await settle()
        assert sender.sent == []
