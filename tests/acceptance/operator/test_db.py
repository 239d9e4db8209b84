"""`a2a-scribe db`: whatever is wrong with a database is found, and nothing else is."""

import asyncio
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe import DatabaseTaskStore, DefaultRequestHandler
from a2a_scribe.cluster.locks import CAN_LOCK, NodeLocks
from a2a_scribe.core.records import Record
from a2a_scribe.core.violations import Rule
from a2a_scribe.journal.sql.checking import check_task
from a2a_scribe.journal.sql.inspecting import Inspector, TaskLook
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.protocol.states import COMPLETED, WORKING
from a2a_scribe.protocol.types import NodeId
from a2a_scribe.testing.agents import ScriptedAgent, emit, status
from a2a_scribe.testing.contract.scenes import outside
from a2a_scribe.testing.journal_driver import ALICE, EPOCH, ScriptedNode, ScriptedTask
from tests.acceptance.operator.kit import bury, command, execute, fill, on
from tests.component.kit import new_card, new_context, new_request

# check


def test_a_good_database_passes(url: str) -> None:
    done = command('db', 'check', url)
    assert (done.code, done.stdout, done.stderr) == (0, '4 tasks, 0 violations\n', '')
    assert command('db', 'check', '--json', url).lines == [{'summary': {'tasks': 4, 'violations': 0, 'warnings': 0}}]


def test_stored_tasks_pass(empty_url: str) -> None:
    async def store(journal: SqlJournal) -> None:
        for number in range(3):
            await journal.replace_task(outside('task', WORKING, EPOCH + number), ALICE, EPOCH)
        node = await ScriptedNode(journal, 'node').register()
        parked = ScriptedTask(node, 'parked')
        parked.settle(await node.append(parked.birth(parked.status(WORKING), snapshot=True, ends_turn=True)))
        await journal.replace_task(outside('parked', COMPLETED, EPOCH + 9), ALICE, EPOCH)

    on(empty_url, store)
    assert command('db', 'check', empty_url).code == 0


BROKEN = {
    'a gap': ("DELETE FROM scribe_records WHERE task_id = 'done' AND seq = 3", 'done', Rule.GAP, 4),
    'no last record': ("DELETE FROM scribe_records WHERE task_id = 'done' AND seq = 6", 'done', Rule.GAP, 6),
    'no records': ("DELETE FROM scribe_records WHERE task_id = 'done'", 'done', Rule.GAP, 6),
    'a row that is behind': (
        "UPDATE scribe_tasks SET seq = 3, snapshot = NULL, snapshot_seq = 0 WHERE id = 'parked'",
        'parked',
        Rule.BEYOND,
        4,
    ),
    'another state': ("UPDATE scribe_tasks SET state = 2 WHERE id = 'done'", 'done', Rule.STATE, None),
    'another time': ("UPDATE scribe_tasks SET status_time = 5 WHERE id = 'done'", 'done', Rule.STATUS_TIME, None),
    'another context': ("UPDATE scribe_tasks SET context_id = 'x' WHERE id = 'done'", 'done', Rule.CONTEXT, None),
    'another size': ("UPDATE scribe_tasks SET size = 5 WHERE id = 'done'", 'done', Rule.SIZE, None),
    'a snapshot of an earlier record': (
        "UPDATE scribe_tasks SET snapshot_seq = 3 WHERE id = 'done'",
        'done',
        Rule.SNAPSHOT,
        3,
    ),
    'no open turn': ("UPDATE scribe_tasks SET open_turn = NULL WHERE id = 'working'", 'working', Rule.OPEN_TURN, None),
    'a message for an ended task': (
        "UPDATE scribe_inbox SET task_id = 'done'",
        'done',
        Rule.INBOX,
        None,
    ),
    'a message for a parked task': ("UPDATE scribe_inbox SET task_id = 'parked'", 'parked', Rule.INBOX, None),
    'a message for no task': ("UPDATE scribe_inbox SET task_id = 'gone'", 'gone', Rule.STRAY, None),
    'a push config of no task': ("UPDATE scribe_push_configs SET task_id = 'gone'", 'gone', Rule.STRAY, None),
    'records of no task': ("DELETE FROM scribe_tasks WHERE id = 'done'", 'done', Rule.STRAY, None),
    'an owner that is dead': ("UPDATE scribe_nodes SET state = 'dead'", 'working', Rule.OWNER, None),
    'an owner that is unknown': ('DELETE FROM scribe_nodes', 'working', Rule.OWNER, None),
}


@pytest.mark.parametrize(('statement', 'task', 'rule', 'seq'), BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_found(sqlite_url: str, statement: str, task: str, rule: Rule, seq: int | None) -> None:
    on(sqlite_url, fill)
    execute(sqlite_url, statement)
    done = command('db', 'check', '--json', sqlite_url)
    assert done.code == 1
    assert (task, rule, seq) in [(line['task'], line['rule'], line['seq']) for line in done.lines[:-1]]
    assert {line['task'] for line in done.lines[:-1]} == {task}
    assert done.lines[-1]['summary']['violations'] == len(done.lines) - 1


def test_violations_are_told_on_every_database(url: str) -> None:
    bury(url)
    execute(url, "DELETE FROM scribe_tasks WHERE id = 'done'", "UPDATE scribe_tasks SET state = 2 WHERE id = 'failed'")
    done = command('db', 'check', url)
    assert done.code == 1
    assert done.stdout.splitlines() == [
        'violation: task failed: state: the row says TASK_STATE_WORKING, the records say TASK_STATE_FAILED',
        'violation: task working: owner: node node is dead',
        'violation: task done: stray: the table of records knows the task, which is not there',
        '3 tasks, 3 violations',
    ]


@pytest.mark.skipif(not CAN_LOCK, reason='nothing tells of processes')
def test_a_task_whose_process_is_gone_is_a_warning(sqlite_url: str) -> None:
    """Its node has left a lock that nobody holds; one without a lock may live."""
    on(sqlite_url, fill)
    assert command('db', 'check', sqlite_url).stdout == '4 tasks, 0 violations\n'
    directory = Path(f'{sqlite_url.partition("///")[2]}-nodes')
    directory.mkdir()
    (directory / 'node').touch()
    done = command('db', 'check', sqlite_url)
    assert done.code == 0
    assert done.stdout.splitlines() == [
        'warning: task working: gone: owned by node node, whose process is gone',
        '4 tasks, 0 violations, 1 warning',
    ]
    assert [node['state'] for node in command('nodes', 'list', '--json', sqlite_url).lines] == ['gone']
    locks = NodeLocks(directory)
    locks.take(NodeId('node'))
    assert command('db', 'check', sqlite_url).stdout == '4 tasks, 0 violations\n'
    assert [node['state'] for node in command('nodes', 'list', '--json', sqlite_url).lines] == ['alive']
    locks.drop(NodeId('node'))


def test_what_a_newer_version_wrote_is_a_warning(url: str) -> None:
    execute(url, "UPDATE scribe_records SET kind = 'later' WHERE task_id = 'done' AND kind = 'artifact'")
    done = command('db', 'check', url)
    assert done.code == 0
    assert done.stdout.splitlines() == [
        'warning: task done, record 3: unknown: later, version 01',
        'warning: task done, record 4: unknown: later, version 01',
        '4 tasks, 0 violations, 2 warnings',
    ]


def test_texts_of_others_do_not_control_the_terminal(sqlite_url: str) -> None:
    on(sqlite_url, fill)
    execute(sqlite_url, "UPDATE scribe_tasks SET node = 'x' || char(27) || '[31m' WHERE id = 'working'")
    done = command('db', 'check', sqlite_url)
    assert '\x1b' not in done.stdout
    assert 'node x\\x1b[31m is unknown' in done.stdout


class MovingInspector(Inspector):
    """Lets a task move on after each look at it."""

    task: ScriptedTask
    moves = 0

    async def look_at(self, task_id: str) -> TaskLook | None:
        look = await super().look_at(task_id)
        if self.moves:
            self.moves -= 1
            task = self.task
            await task.node.append(task.append(task.chunk('more'), task.status(WORKING, EPOCH + 100 - self.moves)))
        return look


@pytest.mark.parametrize('moves', [1, 5, 1000])
def test_a_task_that_moves_is_no_false_alarm(empty_url: str, moves: int) -> None:
    """However often: what no movement explains is told all the same."""

    async def run() -> None:
        engine = create_async_engine(empty_url)
        journal = SqlJournal(engine)
        await journal.open()
        inspector = MovingInspector(engine)
        task = inspector.task = ScriptedTask(await ScriptedNode(journal, 'node').register(), 'task')
        await task.node.append(task.birth())
        inspector.moves = moves
        assert await check_task(inspector, 'task') == []
        inspector.moves = moves
        task.row = replace(task.row, size=1)
        await task.node.append(task.append(task.chunk('the size is wrong now')))
        assert {each.rule for each in await check_task(inspector, 'task')} == {Rule.SIZE}
        await engine.dispose()

    asyncio.run(run())


def test_a_task_that_is_deleted_meanwhile_is_no_false_alarm(empty_url: str) -> None:
    async def run() -> None:
        engine = create_async_engine(empty_url)
        journal = SqlJournal(engine)
        await journal.open()

        class Deleting(Inspector):
            async def records(self, task_id: str, after: int, limit: int) -> list[Record]:
                await journal.delete_task(task_id, ALICE)
                return await super().records(task_id, after, limit)

        task = ScriptedTask(await ScriptedNode(journal, 'node').register(), 'task')
        await task.node.append(task.birth(ends_turn=True))
        assert await check_task(Deleting(engine), 'task') == []
        await engine.dispose()

    asyncio.run(run())


def test_a_long_task_is_read_in_portions(sqlite_url: str) -> None:
    portions: list[int] = []

    async def run() -> None:
        engine = create_async_engine(sqlite_url)
        journal = SqlJournal(engine)
        await journal.open()

        class Counting(Inspector):
            async def records(self, task_id: str, after: int, limit: int) -> list[Record]:
                portions.append(len(portion := await super().records(task_id, after, limit)))
                return portion

        task = ScriptedTask(await ScriptedNode(journal, 'node').register(), 'task')
        await task.node.append(task.birth(*[task.chunk('x')] * 2500))
        assert await check_task(Counting(engine), 'task') == []
        await engine.dispose()

    asyncio.run(run())
    assert portions == [1000, 1000, 502, 0]


# status and upgrade


def test_status_counts(url: str) -> None:
    (told,) = command('db', 'status', '--json', url).lines
    assert told['schema'] == told['newest']
    assert (told['tasks'], told['states']) == (4, {'working': 1, 'completed': 1, 'failed': 1, 'input-required': 1})
    assert (told['records'], told['nodes'], told['nodes_alive'], told['owned_tasks']) == (17, 1, 1, 1)
    assert told['stored_bytes'] > told['record_bytes'] > 100
    shown = command('db', 'status', url)
    assert shown.code == 0
    assert '4 (1 working, 1 completed, 1 failed, 1 input-required)' in shown.stdout


def test_upgrade_makes_the_schema_once(empty_url: str) -> None:
    if empty_url.startswith('sqlite'):
        assert command('db', 'status', empty_url).code == 2
        Path(empty_url.partition('///')[2]).touch()
    assert command('db', 'status', empty_url).code == 1
    refused = command('db', 'check', empty_url)
    assert (refused.code, refused.stdout) == (2, '')
    assert 'a2a-scribe db upgrade' in refused.stderr
    assert command('db', 'upgrade', empty_url).stdout.startswith('the schema was not there and is ')
    assert command('db', 'upgrade', empty_url).stdout.startswith('the schema is the newest')
    assert command('db', 'check', empty_url).code == 0


def test_a_newer_schema_is_refused_and_left_alone(url: str) -> None:
    execute(url, "UPDATE scribe_alembic SET version_num = '9999'")
    for action in ('check', 'upgrade'):
        done = command('db', action, url)
        assert (done.code, done.stdout) == (2, '')
        assert 'newer' in done.stderr
    assert command('db', 'status', url).code == 1


def test_a_password_is_not_shown() -> None:
    done = command('db', 'status', 'postgresql+asyncpg://ada:secret@127.0.0.1:1/none')
    assert done.code == 2
    assert 'ada:***@' in done.stderr
    assert 'secret' not in done.stderr


@pytest.mark.parametrize(
    ('database', 'told'),
    [
        ('memory', 'memory is of the process'),
        ('nosuch.db', "there is no file 'nosuch.db'"),
        ('nosuch/file.db', "there is no folder 'nosuch'"),
        ('mysql://x', 'not supported'),
        ('://', 'not a database URL'),
    ],
)
def test_what_is_no_database_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str, told: str
) -> None:
    """And none is made."""
    monkeypatch.chdir(tmp_path)
    for action in ('check', 'status'):
        done = command('db', action, database)
        assert (done.code, done.stdout) == (2, '')
        assert told in done.stderr
        assert done.stderr.count('\n') == 1
    assert list(tmp_path.iterdir()) == []


def test_a_path_is_a_database(tmp_path: Path) -> None:
    path = str(tmp_path / 'scribe.db')
    assert command('db', 'upgrade', path).code == 0
    assert command('db', 'check', path).stdout == '0 tasks, 0 violations\n'
    assert command('db', 'check', path, '--prefix', 'other_').code == 2


# nodes


def test_nodes_are_listed(url: str) -> None:
    (node,) = command('nodes', 'list', '--json', url).lines
    assert (node['id'], node['state'], node['agent'], node['tasks']) == ('node', 'alive', 'agent', 1)
    assert node['commit_no'] == 7
    assert 'alive' in command('nodes', 'list', url).stdout


def test_a_server_is_known_by_its_host_and_process(sqlite_url: str) -> None:
    async def serve() -> None:
        engine = create_async_engine(sqlite_url)
        handler = DefaultRequestHandler(ScriptedAgent([emit(status(COMPLETED))]), DatabaseTaskStore(engine), new_card())
        await handler.on_message_send(new_request(), new_context())
        (node,) = (await asyncio.to_thread(command, 'nodes', 'list', '--json', sqlite_url)).lines
        assert node['name'] == f'{socket.gethostname()}:{os.getpid()}'
        await handler.aclose()
        await engine.dispose()

    asyncio.run(serve())
