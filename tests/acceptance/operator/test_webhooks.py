"""`a2a-scribe webhooks`: what operators see of deliveries, and do about them."""

from typing import Any

import pytest

from a2a_scribe.cli.operator.output import time_text
from a2a_scribe.journal.deliveries import DeliveryKey, DeliveryOutcome, KeepDeliveries
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.protocol.states import WORKING
from a2a_scribe.protocol.types import TaskPushNotificationConfig
from a2a_scribe.testing.contract.scenes import config_of
from a2a_scribe.testing.journal_driver import EPOCH, ScriptedNode, ScriptedTask
from tests.acceptance.operator.kit import BOB, command, on, query

URL = 'https://user:hidden-1@hook.test/a?key=hidden-2'
HELD, FAILING, DEAD, OTHER = (
    DeliveryKey('first', 'a'),
    DeliveryKey('first', 'b'),
    DeliveryKey('second', 'a'),
    DeliveryKey('third', 'a'),
)
ALL = [HELD, FAILING, DEAD, OTHER]


def secret_config() -> TaskPushNotificationConfig:
    config = config_of('first', 'a', URL)
    config.token = 'hidden-3'
    config.authentication.scheme, config.authentication.credentials = 'Bearer', 'hidden-4'
    return config


async def fill(journal: SqlJournal) -> None:
    """Three tasks with webhooks: two of the first, of which one fails; suspended ones of the others."""
    node = await ScriptedNode(journal, 'node').register()
    configs = {
        'first': (secret_config(), config_of('first', 'b')),
        'second': (config_of('second', 'a'),),
        'third': (config_of('third', 'a'),),
    }
    for name, each in configs.items():
        task = ScriptedTask(node, name, BOB) if name == 'third' else ScriptedTask(node, name)
        await node.append(task.birth(task.status(WORKING, EPOCH + 40), configs=each))
    await node.commit(writes=[KeepDeliveries(claims=tuple(ALL))])
    gone = DeliveryOutcome(
        DEAD, 0, 2, attempts=9, failing_since=EPOCH, state='suspended', last_error='410', releases=True
    )
    failing = DeliveryOutcome(
        FAILING, 0, 1, attempts=3, next_attempt_at=EPOCH + 90, failing_since=EPOCH + 50, last_error='\x1b503'
    )
    other = DeliveryOutcome(OTHER, 0, 2, state='suspended', releases=True)
    await node.commit(writes=[KeepDeliveries(outcomes=(DeliveryOutcome(HELD, 0, 2), failing, gone, other))])


@pytest.fixture
def url(empty_url: str) -> str:
    on(empty_url, fill)
    return empty_url


def listed(url: str, *options: str) -> list[DeliveryKey]:
    done = command('webhooks', 'list', '--json', url, *options)
    assert done.code == 0, done.stderr
    return [DeliveryKey(line['task'], line['webhook']) for line in done.lines]


def shown(url: str, key: DeliveryKey) -> dict[str, Any]:
    (line,) = command('webhooks', 'show', '--json', url, *key).lines
    return dict(line)


# list and show


def test_webhooks_are_listed_and_filtered(url: str) -> None:
    assert listed(url) == ALL
    assert listed(url, '--state', 'suspended') == [DEAD, OTHER]
    assert listed(url, '--state', 'active') == [HELD, FAILING]
    assert listed(url, '--task', 'first') == [HELD, FAILING]
    assert listed(url, '--agent', 'other') == [OTHER]
    assert listed(url, '--task', 'none') == []


def test_pages_follow_each_other(url: str) -> None:
    seen, token = [], ''
    for _ in range(9):
        done = command('webhooks', 'list', '--json', url, '--limit', '3', '--page', token)
        seen += [DeliveryKey(line['task'], line['webhook']) for line in done.lines]
        _, _, token = done.stderr.strip().partition('--page ')
        if not token:
            break
    assert seen == ALL


@pytest.mark.parametrize('arguments', [['--page', 'x'], ['--page', 'W10='], ['--page', 'ü'], ['--state', 'tired']])
def test_what_cannot_be_asked_for_is_said(sqlite_url: str, arguments: list[str]) -> None:
    on(sqlite_url, fill)
    done = command('webhooks', 'list', sqlite_url, *arguments)
    assert (done.code, done.stdout) == (2, '')
    assert arguments[0].strip('-') in done.stderr


def test_a_webhook_that_fails_is_shown(url: str) -> None:
    assert shown(url, FAILING) == {
        'task': 'first',
        'webhook': 'b',
        'url': 'http://hook.test',
        'state': 'active',
        'position': 1,
        'records': 3,
        'attempts': 3,
        'next_attempt_at': time_text(EPOCH + 90),
        'failing_since': time_text(EPOCH + 50),
        'last_error': '\x1b503',
        'node': 'node',
        'task_state': 'working',
        'agent': 'agent',
        'owner': 'alice',
        'tenant': '',
    }
    for told in (command('webhooks', 'list', url).stdout, command('webhooks', 'show', url, *FAILING).stdout):
        assert '1 of 3' in told
        assert '\\x1b503' in told
        assert '\x1b' not in told


def test_secrets_are_not_shown(url: str) -> None:
    said = [command('webhooks', name, url, *task) for name, task in (('list', []), ('show', ['first']))]
    said += [command('webhooks', name, '--json', url, *task) for name, task in (('list', []), ('show', ['first']))]
    for done in said:
        assert done.code == 0
        assert 'https://hook.test/a?…' in done.stdout
        assert 'hidden' not in done.stdout + done.stderr
    assert 'token, credentials for Bearer' in said[1].stdout


def test_webhooks_that_are_not_there(url: str) -> None:
    for words in (['show'], ['suspend'], ['resume']):
        for key in (['none'], ['first', 'none']):
            done = command('webhooks', *words, url, *key)
            assert done.code == 1
            assert 'webhook' in done.stderr
    assert command('webhooks', 'replay', url, 'first', 'none', '--from', '1').code == 1


# suspend, resume, replay


def test_a_webhook_is_suspended_and_resumed(url: str) -> None:
    assert command('webhooks', 'suspend', url, *HELD).code == 0
    assert listed(url, '--state', 'suspended') == [HELD, DEAD, OTHER]
    (told,) = command('webhooks', 'resume', '--json', url, *HELD).lines
    assert told == {'task': 'first', 'webhook': 'a', 'state': 'active'}
    after = shown(url, HELD)
    assert (after['state'], after['position'], after['node']) == ('active', 2, None)


def test_all_webhooks_of_a_task_are_suspended_and_resumed(url: str) -> None:
    assert command('webhooks', 'suspend', url, 'first').stdout.count('is suspended') == 2
    assert listed(url, '--state', 'active') == []
    assert command('webhooks', 'resume', url, 'first').stdout.count('is resumed') == 2
    assert listed(url, '--state', 'active') == [HELD, FAILING]


def test_a_resumed_webhook_forgets_its_failures_and_goes_on_where_it_was(url: str) -> None:
    assert shown(url, DEAD)['last_error'] == '410'
    command('webhooks', 'resume', url, *DEAD)
    after = shown(url, DEAD)
    names = ('state', 'position', 'attempts', 'failing_since', 'last_error')
    assert [after[name] for name in names] == ['active', 2, 0, None, None]


def test_resuming_one_that_is_tried_again_later_tries_it_now(url: str) -> None:
    command('webhooks', 'resume', url, *FAILING)
    after = shown(url, FAILING)
    assert (after['next_attempt_at'], after['attempts'], after['position']) == (None, 0, 1)


def test_all_that_are_suspended_are_resumed(url: str) -> None:
    assert command('webhooks', 'resume', url, '--all', '--agent', 'other').stdout == '1 webhook resumed\n'
    assert listed(url, '--state', 'suspended') == [DEAD]
    assert command('webhooks', 'resume', '--json', url, '--all').lines == [
        {'task': 'second', 'webhook': 'a', 'state': 'active'}
    ]
    assert listed(url, '--state', 'suspended') == []
    assert shown(url, FAILING)['attempts'] == 3, 'one that was not suspended is left alone'


@pytest.mark.parametrize('arguments', [[], ['first', '--all'], ['first', '--agent', 'agent']])
def test_what_to_resume_must_be_clear(sqlite_url: str, arguments: list[str]) -> None:
    on(sqlite_url, fill)
    assert command('webhooks', 'resume', sqlite_url, *arguments).code == 2
    assert listed(sqlite_url, '--state', 'suspended') == [DEAD, OTHER]


def test_a_webhook_is_replayed_from_a_record(url: str) -> None:
    done = command('webhooks', 'replay', '--json', url, *DEAD, '--from', '1')
    assert done.lines == [{'task': 'second', 'webhook': 'a', 'state': 'active', 'from': 1}]
    after = shown(url, DEAD)
    assert (after['state'], after['position'], after['attempts']) == ('active', 0, 0)
    assert 'goes on at record 3' in command('webhooks', 'replay', url, *DEAD, '--from', '3').stdout
    assert shown(url, DEAD)['position'] == 2


def test_there_is_nothing_to_replay_after_the_last_record(url: str) -> None:
    done = command('webhooks', 'replay', url, *DEAD, '--from', '4')
    assert done.code == 1
    assert '3 records' in done.stderr
    assert command('webhooks', 'replay', url, *DEAD, '--from', '0').code == 2
    assert shown(url, DEAD)['state'] == 'suspended'


def test_nothing_else_is_changed(url: str) -> None:
    others = "SELECT * FROM scribe_push_configs WHERE task_id != 'second' ORDER BY task_id, config_id"
    before = query(url, others)
    command('webhooks', 'replay', url, *DEAD, '--from', '1')
    command('webhooks', 'suspend', url, *DEAD)
    assert query(url, others) == before
