"""`a2a-scribe db reseal`: what is sealed with an old key, or not at all, is sealed with the newest one."""

import pytest
from a2a.types.a2a_pb2 import AuthenticationInfo
from cryptography.fernet import Fernet

from a2a_scribe.journal.sql import rewriting
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.protocol.states import WORKING
from a2a_scribe.protocol.types import TaskPushNotificationConfig
from a2a_scribe.push.sealing import box_of, open_config, seal_config
from a2a_scribe.settings import Settings
from a2a_scribe.testing.journal_driver import ScriptedNode, ScriptedTask
from tests.acceptance.operator.kit import command, execute, on, query

OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()
KEYS = 'A2A_SCRIBE_WEBHOOK_KEYS'
PER_TASK = 3


def new_config(task_id: str, config_id: str) -> TaskPushNotificationConfig:
    authentication = AuthenticationInfo(scheme='Bearer', credentials=f'credentials of {config_id}')
    return TaskPushNotificationConfig(
        task_id=task_id,
        id=config_id,
        url='https://hook.test/',
        token=f'token of {config_id}',
        authentication=authentication,
    )


def fill(url: str, task_ids: str, *keys: str) -> None:
    """Makes tasks with configs that were sealed with these keys."""
    box = box_of(Settings(webhook_keys=keys))

    async def store(journal: SqlJournal) -> None:
        node = await ScriptedNode(journal, f'node of {task_ids}').register()
        for task_id in task_ids:
            task = ScriptedTask(node, task_id)
            configs = tuple(seal_config(new_config(task_id, f'{task_id}{n}'), box) for n in range(PER_TASK))
            task.settle(await node.append(task.birth(task.status(WORKING), configs=configs, ends_turn=True)))

    on(url, store)


def stored(url: str, task_ids: str) -> list[TaskPushNotificationConfig]:
    found: list[TaskPushNotificationConfig] = []

    async def read(journal: SqlJournal) -> None:
        for task_id in task_ids:
            found.extend(await journal.read_configs(task_id))

    on(url, read)
    return found


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, 'PAGE', 2)


def test_an_old_key_is_not_needed_any_more(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(empty_url, 'abc', OLD)
    fill(empty_url, 'de')
    fill(empty_url, 'f', NEW)
    execute(empty_url, "UPDATE scribe_push_configs SET position = 7, attempts = 3 WHERE task_id = 'a'")
    monkeypatch.setenv(KEYS, f'{NEW},{OLD}')
    done = command('db', 'reseal', empty_url)
    assert (done.code, done.stdout, done.stderr) == (0, '18 push configs, 15 sealed anew\n', '')
    box = box_of(Settings(webhook_keys=(NEW,)))
    found = stored(empty_url, 'abcdef')
    assert [open_config(config, box) for config in found] == [
        new_config(task_id, f'{task_id}{n}') for task_id in 'abcdef' for n in range(PER_TASK)
    ]
    assert all('token of' not in str(config) and 'credentials of' not in str(config) for config in found)
    kept = query(empty_url, "SELECT position, attempts FROM scribe_push_configs WHERE task_id = 'a'")
    assert kept == [(7, 3)] * PER_TASK
    monkeypatch.setenv(KEYS, NEW)
    expected = [{'push_configs': 18, 'resealed': 0, 'unopened': 0}]
    assert command('db', 'reseal', '--json', empty_url).lines == expected, 'what is done is not done again'
    assert stored(empty_url, 'abcdef') == found


def test_what_no_key_opens_is_named(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(empty_url, 'a', OLD)
    fill(empty_url, 'b')
    monkeypatch.setenv(KEYS, NEW)
    before = stored(empty_url, 'a')
    done = command('db', 'reseal', '--json', empty_url)
    assert done.code == 1
    assert done.lines == [{'push_configs': 6, 'resealed': 3, 'unopened': 3}]
    assert [line.partition(': ')[2] for line in done.stderr.splitlines()] == [
        f'no key opens the secrets of task a, push config a{n}' for n in range(PER_TASK)
    ]
    assert stored(empty_url, 'a') == before


def test_without_a_key_nothing_is_done(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(empty_url, 'a', OLD)
    monkeypatch.delenv(KEYS, raising=False)
    done = command('db', 'reseal', empty_url)
    assert (done.code, done.stdout) == (2, '')
    assert KEYS in done.stderr
    monkeypatch.setenv(KEYS, 'short')
    done = command('db', 'reseal', empty_url)
    assert done.code == 2
    assert 'short' not in done.stderr


def test_a_database_without_configs_is_done_at_once(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(empty_url, '')
    monkeypatch.setenv(KEYS, NEW)
    assert command('db', 'reseal', empty_url).stdout == '0 push configs, 0 sealed anew\n'
