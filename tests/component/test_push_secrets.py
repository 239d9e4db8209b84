"""Secrets of push configs: sealed wherever they are kept, shown to those who may see them, or to nobody."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from a2a.server.tasks import InMemoryPushNotificationConfigStore
from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    SendMessageConfiguration,
)
from a2a.utils.errors import InternalError
from cryptography.fernet import Fernet

from a2a_scribe import DatabaseTaskStore, DefaultRequestHandler, Settings
from a2a_scribe.errors import SettingsError
from a2a_scribe.journal.opening import open_store
from a2a_scribe.protocol.states import COMPLETED, INPUT_REQUIRED
from a2a_scribe.protocol.types import Task, TaskPushNotificationConfig
from a2a_scribe.testing.agents import ScriptedAgent, emit, status
from tests.component.kit import Site, new_card, new_context, new_request, running

pytestmark = pytest.mark.anyio

OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()
TOKEN, CREDENTIALS = 'the-token-of-a-receiver', 'the-credentials-of-a-receiver'
PARK = [emit(status(INPUT_REQUIRED))]


def new_config(**given: Any) -> TaskPushNotificationConfig:
    authentication = AuthenticationInfo(scheme='Bearer', credentials=CREDENTIALS)
    fields = {'url': 'https://hooks.example', 'token': TOKEN, 'authentication': authentication, **given}
    return TaskPushNotificationConfig(**fields)


def inline(**given: Any) -> SendMessageConfiguration:
    return SendMessageConfiguration(task_push_notification_config=new_config(**given))


async def create(handler: DefaultRequestHandler, **given: Any) -> TaskPushNotificationConfig:
    return await handler.on_create_task_push_notification_config(new_config(**given), new_context())


async def shown(handler: DefaultRequestHandler, task_id: str) -> list[TaskPushNotificationConfig]:
    """The configs of a task as a client lists them, and reads them one by one."""
    request = ListTaskPushNotificationConfigsRequest(task_id=task_id)
    listed = list((await handler.on_list_task_push_notification_configs(request, new_context())).configs)
    for config in listed:
        one = GetTaskPushNotificationConfigRequest(task_id=task_id, id=config.id)
        assert await handler.on_get_task_push_notification_config(one, new_context()) == config
    return listed


def secrets_of(config: TaskPushNotificationConfig) -> tuple[str, str]:
    return config.token, config.authentication.credentials


async def kept(site: Site, task_id: str) -> list[TaskPushNotificationConfig]:
    return await site.memory.read_configs(task_id)


@pytest.mark.parametrize('how', ['created', 'with the first message', 'with a later message'])
async def test_secrets_are_sealed_before_they_are_kept(how: str) -> None:
    settings = Settings(webhook_keys=(NEW,))
    async with running(ScriptedAgent(PARK, PARK), settings=settings) as site:
        first = await site.send(configuration=inline() if how == 'with the first message' else None)
        if how == 'created':
            assert secrets_of(await create(site.handler, task_id=first.id)) == (TOKEN, CREDENTIALS)
        elif how == 'with a later message':
            await site.send(task_id=first.id, configuration=inline())
        await site.left_memory()
        (stored,) = await kept(site, first.id)
        assert TOKEN not in str(stored)
        assert CREDENTIALS not in str(stored)
        (config,) = await shown(site.handler, first.id)
        assert secrets_of(config) == (TOKEN, CREDENTIALS)
        assert (config.id, config.authentication.scheme) == (stored.id, 'Bearer')


@pytest.mark.parametrize('own_store', [False, True], ids=['journal', 'own store'])
async def test_secrets_are_left_out_if_the_operator_wants_it(own_store: bool) -> None:
    store = InMemoryPushNotificationConfigStore() if own_store else None
    settings = Settings(webhook_redact=True, webhook_keys=(NEW,))
    async with running(ScriptedAgent(PARK), settings=settings, push_config_store=store) as site:
        parked = await site.send()
        made = await create(site.handler, task_id=parked.id)
        assert secrets_of(made) == (TOKEN, CREDENTIALS), 'who makes a config knows its secrets'
        (config,) = await shown(site.handler, parked.id)
        assert secrets_of(config) == ('', '')
        assert (config.url, config.authentication.scheme) == (made.url, 'Bearer')


async def test_a_key_of_the_wrong_form_is_told_at_once() -> None:
    with pytest.raises(SettingsError, match='webhook_keys'):
        DefaultRequestHandler(
            ScriptedAgent(), open_store('memory'), new_card(), settings=Settings(webhook_keys=('short',))
        )
    with pytest.raises(SettingsError, match='webhook_allow'):
        DefaultRequestHandler(
            ScriptedAgent(), open_store('memory'), new_card(), settings=Settings(webhook_allow=('*',))
        )


# On disk


class Server:
    """A handler on a database file."""

    def __init__(self, url: str, keys: tuple[str, ...], agent: ScriptedAgent) -> None:
        store = open_store(url)
        assert isinstance(store, DatabaseTaskStore)
        self.store = store
        self.handler = DefaultRequestHandler(agent, store, new_card(), settings=replace(Settings(), webhook_keys=keys))

    async def __aenter__(self) -> DefaultRequestHandler:
        return self.handler

    async def __aexit__(self, *_: object) -> None:
        await self.handler.aclose()
        await self.store.engine.dispose()


async def send(handler: DefaultRequestHandler, **given: Any) -> Task:
    answer = await handler.on_message_send(new_request(**given), new_context())
    assert isinstance(answer, Task)
    return answer


def bytes_on_disk(folder: Path) -> bytes:
    return b''.join(path.read_bytes() for path in folder.iterdir() if path.is_file())


async def test_secrets_cannot_be_read_on_disk(sqlite_url: str, tmp_path: Path) -> None:
    agent = ScriptedAgent(PARK, PARK, [emit(status(COMPLETED))])
    async with Server(sqlite_url, (NEW,), agent) as handler:
        task = await send(handler, configuration=inline(id='inline'))
        await create(handler, task_id=task.id, id='created')
        await send(handler, task_id=task.id, configuration=inline(id='later'), message_id='n')
        await create(handler, task_id=task.id, id='created')
        found = bytes_on_disk(tmp_path)
        assert [secrets_of(config) for config in await shown(handler, task.id)] == [(TOKEN, CREDENTIALS)] * 3
    for bytes_found in (found, bytes_on_disk(tmp_path)):
        assert b'created' in bytes_found
        assert TOKEN.encode() not in bytes_found
        assert CREDENTIALS.encode() not in bytes_found


async def test_keys_rotate_while_configs_are_kept(sqlite_url: str) -> None:
    task_id = ''
    for keys in ((), (OLD,), (NEW, OLD)):
        async with Server(sqlite_url, keys, ScriptedAgent(PARK)) as handler:
            task_id = task_id or (await send(handler)).id
            await create(handler, task_id=task_id, id=f'with {len(keys)} keys')
            configs = await shown(handler, task_id)
            assert len(configs) == len(keys) + 1
            assert {secrets_of(config) for config in configs} == {(TOKEN, CREDENTIALS)}


async def test_a_config_whose_key_is_gone_can_be_deleted_and_made_anew(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Server(sqlite_url, (OLD,), ScriptedAgent(PARK)) as handler:
        task = await send(handler)
        await create(handler, task_id=task.id, id='c')
    async with Server(sqlite_url, (NEW,), ScriptedAgent()) as handler:
        with pytest.raises(InternalError) as caught:
            await shown(handler, task.id)
        assert 'key' not in str(caught.value)
        await create(handler, task_id=task.id, id='c')
        assert [secrets_of(config) for config in await shown(handler, task.id)] == [(TOKEN, CREDENTIALS)]
    assert TOKEN not in caplog.text
    assert CREDENTIALS not in caplog.text
