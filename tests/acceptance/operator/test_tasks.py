"""`a2a-scribe tasks`: what an operator sees of tasks, and does to them."""

import asyncio
import itertools
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import GetTaskRequest, Message, Part, Role, SendMessageRequest
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe.cli.operator import ending
from a2a_scribe.cli.operator.databases import Place, Site
from a2a_scribe.cli.operator.ending import Manner, cancellation, end_task, failure
from a2a_scribe.cli.operator.output import time_text
from a2a_scribe.clock import SystemClock
from a2a_scribe.cluster.locks import CAN_LOCK
from a2a_scribe.errors import JournalUnavailableError, NodeFencedError
from a2a_scribe.journal.port import LivingNode, NodeRow
from a2a_scribe.journal.sql.inspecting import Inspector
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.journal.writes import Group
from a2a_scribe.protocol.states import CANCELED, COMPLETED, FAILED, WORKING, name_of
from a2a_scribe.protocol.types import TaskState
from a2a_scribe.testing.contract.scenes import outside
from a2a_scribe.testing.journal_driver import ALICE, EPOCH, ScriptedNode, ScriptedTask
from tests.acceptance.operator.kit import BOB, bury, command, execute, fill, finished, on, query
from tests.support.streaming import JSON_RPC, connected, http_client, serving

DEADLINE = 60.0
TIMED = Path(__file__).parents[1] / 'programs' / 'timed_agent.py'

# list


def listed(*arguments: str) -> list[str]:
    done = command('tasks', 'list', '--json', *arguments)
    assert done.code == 0, done.stderr
    return [line['task'] for line in done.lines]


def test_tasks_of_all_owners_are_listed(url: str) -> None:
    assert listed(url) == ['working', 'parked', 'failed', 'done']
    first, *_ = command('tasks', 'list', '--json', url).lines
    assert first == {
        'task': 'working',
        'state': 'working',
        'status_time': time_text(EPOCH + 40),
        'created_at': time_text(EPOCH),
        'agent': 'agent',
        'owner': 'alice',
        'tenant': '',
        'context': 'context',
        'records': 3,
        'size': first['size'],
        'node': 'node',
        'open_turn': 'first turn',
        'attempt': 1,
        'claims': 1,
    }
    shown = command('tasks', 'list', url).stdout
    for word in ('working', 'parked', 'input-required', 'bob', 'elsewhere'):
        assert word in shown


FILTERS = {
    'state': (['--state', 'input-required'], ['parked']),
    'owner': (['--owner', 'alice'], ['working', 'parked', 'done']),
    'tenant': (['--tenant', 't'], ['failed']),
    'no tenant': (['--tenant', ''], ['working', 'parked', 'done']),
    'agent': (['--agent', 'other'], ['failed']),
    'context': (['--context', 'elsewhere'], ['failed']),
    'node': (['--node', 'node'], ['working']),
    'several': (['--owner', 'alice', '--state', 'completed', '--agent', 'agent'], ['done']),
    'none': (['--owner', 'carol'], []),
}


def test_lists_are_filtered(url: str) -> None:
    for arguments, expected in FILTERS.values():
        assert listed(url, *arguments) == expected


def test_pages_follow_each_other(url: str) -> None:
    seen, token = [], ''
    for _ in range(3):
        done = command('tasks', 'list', '--json', url, '--limit', '2', '--page', token)
        seen += [line['task'] for line in done.lines]
        _, _, token = done.stderr.strip().partition('--page ')
        if not token:
            break
    assert seen == ['working', 'parked', 'failed', 'done']


@pytest.mark.parametrize('arguments', [['--page', 'x'], ['--state', 'tired'], ['--limit', '0']])
def test_what_cannot_be_asked_for_is_said(sqlite_url: str, arguments: list[str]) -> None:
    on(sqlite_url, fill)
    done = command('tasks', 'list', sqlite_url, *arguments)
    assert (done.code, done.stdout) == (2, '')
    assert arguments[0].strip('-') in done.stderr


# show


def test_a_task_is_shown_with_its_failure(url: str) -> None:
    (told,) = command('tasks', 'show', '--json', url, 'failed').lines
    assert (told['state'], told['owner'], told['status_message']) == ('failed', 'bob', 'it broke')
    (turn,) = told['turns']
    assert (turn['turn'], turn['outcome'], turn['message']) == ('first turn', 'ok', 'hello')
    assert [state['state'] for state in told['states']] == ['submitted', 'failed']
    assert told['notes'][0]['note'] == 'Traceback: boom'
    shown = command('tasks', 'show', url, 'failed').stdout
    for word in ('failed since', 'it broke', 'Traceback: boom', 'first turn', 'nobody works on it'):
        assert word in shown


def test_a_task_at_work_is_shown_with_what_waits_for_it(url: str) -> None:
    (told,) = command('tasks', 'show', '--json', url, 'working').lines
    assert (told['node'], told['node_state'], told['open_turn']) == ('node', 'alive', 'first turn')
    (waiting,) = told['inbox']
    assert (waiting['turn'], waiting['node'], waiting['message']) == ('waiting turn', 'node', 'hello')
    assert told['push_configs'] == [{'id': 'hook', 'url': 'http://hook.test'}]
    shown = command('tasks', 'show', url, 'working').stdout
    for word in ('node (alive, host', 'waiting turn', 'http://hook.test'):
        assert word in shown


def test_a_cancel_that_waits_is_shown(sqlite_url: str) -> None:
    async def ask(journal: SqlJournal) -> None:
        await fill(journal)
        other = await ScriptedNode(journal, 'other').register()
        await other.commit(writes=[ScriptedTask(other, 'working').ask_cancel('cancel 1')])

    on(sqlite_url, ask)
    (told,) = command('tasks', 'show', '--json', sqlite_url, 'working').lines
    _, waiting = told['inbox']
    assert (waiting['kind'], waiting['turn'], waiting['node'], waiting['message']) == (
        'cancel',
        'cancel 1',
        'other',
        '',
    )
    assert 'cancel 1' in command('tasks', 'show', sqlite_url, 'working').stdout
    assert command('db', 'check', sqlite_url).code == 0


def test_a_task_that_cannot_be_read_is_shown_all_the_same(sqlite_url: str) -> None:
    on(sqlite_url, fill)
    execute(sqlite_url, "UPDATE scribe_records SET body = x'01ffff'", "UPDATE scribe_tasks SET snapshot = x'01ffff'")
    for task in ('done', 'failed', 'working'):
        done = command('tasks', 'show', sqlite_url, task)
        assert done.code == 0
        assert 'cannot be read' in done.stdout


@pytest.mark.parametrize('action', ['show', 'tail', 'cancel', 'fail', 'delete'])
def test_a_task_that_is_not_there_is_said(sqlite_url: str, action: str) -> None:
    on(sqlite_url, fill)
    done = command('tasks', action, sqlite_url, 'nosuch')
    assert (done.code, done.stdout, done.stderr) == (1, '', "a2a-scribe: there is no task 'nosuch'\n")


# tail


def test_an_ended_tasks_last_records_are_shown(url: str) -> None:
    done = command('tasks', 'tail', '--json', url, 'failed', '-n', '2')
    assert [(line['seq'], line['kind']) for line in done.lines] == [(3, 'status'), (4, 'turn_ended')]
    assert done.lines[0]['event']['status']['state'] == 'TASK_STATE_FAILED'
    assert done.lines[0]['note'] == 'Traceback: boom'
    assert command('tasks', 'tail', url, 'done', '-n', '0').stdout == ''
    lines = command('tasks', 'tail', url, 'done').stdout.splitlines()
    assert [line.split()[2] for line in lines] == [
        'turn_started',
        'task',
        'artifact',
        'artifact',
        'status',
        'turn_ended',
    ]
    assert lines[3].endswith('append to artifact: two')


def tailing(url: str, task: str) -> 'subprocess.Popen[str]':
    return subprocess.Popen(
        [sys.executable, '-m', 'a2a_scribe', 'tasks', 'tail', url, task],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_records_are_followed_until_the_task_has_ended(url: str) -> None:
    with tailing(url, 'working') as process:
        try:
            assert process.stdout is not None
            seen = [process.stdout.readline() for _ in range(3)]

            async def go_on(journal: SqlJournal) -> None:
                node = ScriptedNode(journal, 'node')
                node.number = 100
                task = ScriptedTask(node, 'working')
                stored = await journal.read_task('working', ALICE)
                assert stored is not None
                task.row, task.projection = stored.row, stored.projection
                await node.append(task.append(task.chunk('more')))
                await node.append(task.append(task.status(COMPLETED, EPOCH + 90), ends_turn=True))

            on(url, go_on)
            rest, errors = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, '')
    assert [line.split()[0] for line in [*seen, *rest.splitlines()]] == ['1', '2', '3', '4', '5', '6']


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """Processes that are started heed SIGINT, which a shell has those ignore that it runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures('heeded_interrupts')
def test_a_tail_ends_with_ctrl_c(sqlite_url: str) -> None:
    on(sqlite_url, fill)
    with tailing(sqlite_url, 'parked') as process:
        try:
            assert process.stdout is not None
            for _ in range(4):
                process.stdout.readline()
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
    assert (process.returncode, rest, errors) == (130, '', '')


def test_a_tail_ends_with_its_task(sqlite_url: str) -> None:
    on(sqlite_url, fill)
    with tailing(sqlite_url, 'parked') as process:
        try:
            assert process.stdout is not None
            for _ in range(4):
                process.stdout.readline()
            assert command('tasks', 'delete', '--yes', sqlite_url, 'parked').code == 0
            process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
    assert process.returncode == 0


# cancel and fail


def task_rows(url: str) -> dict[str, tuple[Any, ...]]:
    found = query(url, 'SELECT id, state, node, open_turn FROM scribe_tasks')
    return {task_id: tuple(rest) for task_id, *rest in found}


def nodes(url: str) -> list[tuple[Any, ...]]:
    return query(url, 'SELECT id, state FROM scribe_nodes ORDER BY id')


ENDS = {'cancel': CANCELED, 'fail': FAILED}


@pytest.mark.parametrize(('action', 'state'), ENDS.items(), ids=ENDS)
def test_a_parked_task_is_ended(url: str, action: str, state: TaskState) -> None:
    done = command('tasks', action, '--json', url, 'parked', '--message', 'by hand')
    assert done.code == 0
    assert done.lines[0]['task'] == 'parked'
    assert task_rows(url)['parked'] == (state, None, None)
    assert nodes(url) == [('node', 'alive')]
    (told,) = command('tasks', 'show', '--json', url, 'parked').lines
    assert told['status_message'] == 'by hand'
    assert told['notes'] == [{'seq': 5, 'note': f'ended by `a2a-scribe tasks {action}`'}]
    assert command('db', 'check', url).code == 0


@pytest.mark.parametrize(('action', 'state'), ENDS.items(), ids=ENDS)
@pytest.mark.parametrize('orphaned', ['dead', 'unknown'])
def test_a_task_of_a_dead_node_is_ended(url: str, action: str, state: TaskState, orphaned: str) -> None:
    """And what waited for it is refused."""
    if orphaned == 'dead':
        bury(url)
    else:
        execute(url, 'DELETE FROM scribe_nodes')
    assert command('tasks', action, url, 'working').code == 0
    assert task_rows(url)['working'] == (state, None, None)
    assert query(url, 'SELECT count(*) FROM scribe_inbox') == [(0,)]
    (told,) = command('tasks', 'show', '--json', url, 'working').lines
    assert [turn['outcome'] for turn in told['turns']] == ['canceled' if action == 'cancel' else 'interrupted']
    assert command('db', 'check', url).code == 0
    assert [node for node in nodes(url) if node[0] != 'node'] == []


def test_a_dead_nodes_task_that_had_ended_is_given_back(url: str) -> None:
    async def end(journal: SqlJournal) -> None:
        node = await ScriptedNode(journal, 'short-lived').register()
        task = ScriptedTask(node, 'task')
        await node.append(task.birth(task.status(COMPLETED, EPOCH + 5)))

    on(url, end)
    bury(url, 'short-lived')
    assert command('tasks', 'fail', url, 'task').stdout == 'task task is completed\n'
    assert task_rows(url)['task'] == (COMPLETED, None, None)
    assert command('db', 'check', url).code == 0


def test_an_ended_task_stays_as_it_is(url: str) -> None:
    before = query(url, 'SELECT * FROM scribe_tasks ORDER BY id')
    done = command('tasks', 'cancel', url, 'done')
    assert (done.code, done.stdout) == (1, '')
    assert 'has ended as completed' in done.stderr
    assert query(url, 'SELECT * FROM scribe_tasks ORDER BY id') == before


def lives(numbers: Iterator[int]) -> Callable[..., Any]:
    """The look at the nodes, before which one of them writes."""
    look = SqlJournal.living_nodes

    async def after_a_write(self: SqlJournal, agent: str) -> list[LivingNode]:
        node = ScriptedNode(self, 'node')
        node.number = next(numbers)
        await node.commit()
        return await look(self, agent)

    return after_a_write


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, 'PAUSE', 0.01)


def test_a_task_that_a_living_node_works_on_is_left_alone(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(SqlJournal, 'living_nodes', lives(itertools.count(100)))
    for action, more in (('cancel', ('--wait', '0.3')), ('fail', ())):
        done = command('tasks', action, '--yes', url, 'working', *more)
        assert (done.code, done.stdout) == (1, '')
        assert 'node node works on task working' in done.stderr
    assert task_rows(url)['working'] == (WORKING, 'node', 'first turn')
    assert nodes(url) == [('node', 'alive')]


def owner_ends(url: str, state: TaskState) -> Callable[..., Any]:
    """The look at the nodes, before which the one that works on a task ends it, once somebody asks for that."""
    look = SqlJournal.living_nodes

    async def after_the_end(self: SqlJournal, agent: str) -> list[LivingNode]:
        node = ScriptedNode(self, 'node')
        node.number = 100
        if await self.waiting_asks(node.id, 0):
            stored = await self.read_task('working', ALICE)
            assert stored is not None
            task = ScriptedTask(node, 'working')
            task.row, task.projection = stored.row, stored.projection
            await node.append(task.append(task.status(state, EPOCH + 60), ends_turn=True))
        return await look(self, agent)

    return after_the_end


@pytest.mark.parametrize('state', [CANCELED, COMPLETED], ids=name_of)
def test_a_living_node_is_asked_to_cancel_its_task(url: str, monkeypatch: pytest.MonkeyPatch, state: TaskState) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(SqlJournal, 'living_nodes', owner_ends(url, state))
    done = command('tasks', 'cancel', '--json', url, 'working')
    assert 'is asked to cancel it' in done.stderr
    if state == CANCELED:
        assert (done.code, done.lines) == (0, [{'task': 'working', 'state': 'canceled'}])
    else:
        assert (done.code, done.stdout) == (1, '')
        assert 'has ended as completed' in done.stderr
    assert nodes(url) == [('node', 'alive')]
    assert command('db', 'check', url).code == 0


def test_a_silent_nodes_task_is_canceled_when_the_operator_says_so(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    arguments = ('tasks', 'cancel', url, 'working', '--lease', '0.2')
    assert command(*arguments, answer='n\n').code == 1
    assert task_rows(url)['working'] == (WORKING, 'node', 'first turn')
    assert command(*arguments, answer='y\n').code == 0
    assert task_rows(url)['working'] == (CANCELED, None, None)
    assert nodes(url) == [('node', 'dead')]
    assert query(url, 'SELECT count(*) FROM scribe_inbox') == [(0,)]


@pytest.mark.anyio
async def test_a_server_cancels_its_task_for_the_operator(sqlite_url: str) -> None:
    """The agent is told."""
    async with (
        asyncio.timeout(DEADLINE),
        http_client() as http,
        serving(sqlite_url, program=TIMED) as server,
        connected(JSON_RPC, server.ports[JSON_RPC], http) as client,
    ):
        message = Message(role=Role.ROLE_USER, message_id='m', parts=[Part(text='1 0')])
        stream = client.send_message(SendMessageRequest(message=message))
        task_id = (await anext(stream)).task.id
        done = await asyncio.to_thread(command, 'tasks', 'cancel', sqlite_url, task_id)
        assert (done.code, done.stdout) == (0, f'task {task_id} is canceled\n')
        canceled = await client.get_task(GetTaskRequest(id=task_id))
        assert canceled.status.state == CANCELED
        assert 'cancel' in {artifact.artifact_id for artifact in canceled.artifacts}


def test_a_silent_nodes_task_is_ended_when_the_operator_says_so(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    arguments = ('tasks', 'fail', url, 'working', '--lease', '0.2')
    refused = command(*arguments, answer='n\n')
    assert refused.code == 1
    assert 'Declare it dead? 0 more' in refused.stdout
    assert task_rows(url)['working'] == (WORKING, 'node', 'first turn')
    assert nodes(url) == [('node', 'alive')]
    assert command(*arguments, answer='y\n').code == 0
    assert task_rows(url)['working'] == (FAILED, None, None)
    assert nodes(url) == [('node', 'dead')]
    assert command('db', 'check', url).code == 0


def test_a_node_that_is_declared_dead_cannot_write_any_more(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    on(sqlite_url, fill)
    assert command('tasks', 'fail', sqlite_url, 'working', '--lease', '0.2', '--yes').code == 0

    async def write(journal: SqlJournal) -> None:
        node = ScriptedNode(journal, 'node')
        node.number = 100
        task = ScriptedTask(node, 'working')
        with pytest.raises(NodeFencedError):
            await node.append(task.append(task.chunk('late')))

    on(sqlite_url, write)


class SlowClock(SystemClock):
    """Whoever looks at it seems to have paused for long."""

    def __init__(self) -> None:
        self.time = 0.0
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        self.time += 0.01 if self.looks > 20 else 5.0
        return self.time


def test_an_observer_that_pauses_has_not_observed_anything(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    on(sqlite_url, fill)
    clock = SlowClock()
    manner = Manner(lease=0.2, sure=True, as_json=True)
    assert asyncio.run(end_task(Place(sqlite_url, 'scribe_'), 'working', failure('x'), manner, clock)) == 0
    assert clock.looks > 35


def test_a_command_that_breaks_off_leaves_its_task_to_others(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is declared dead itself, so that a server may take the task over, or the command come again."""
    commit = SqlJournal.commit

    async def failing(self: SqlJournal, group: Group) -> Any:
        if group.appends:
            raise JournalUnavailableError('away')
        return await commit(self, group)

    with monkeypatch.context() as patch:
        patch.setattr(SqlJournal, 'commit', failing)
        assert command('tasks', 'fail', url, 'parked').code == 2
    (own,) = [node for node in nodes(url) if node[0] != 'node']
    assert own[1] == 'dead'
    assert command('tasks', 'fail', url, 'parked').code == 0
    assert task_rows(url)['parked'] == (FAILED, None, None)
    assert command('db', 'check', url).code == 0


def test_a_command_that_is_killed_is_found_dead_by_the_servers(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a node of the task's agent, and its lock is free as soon as its process is gone."""
    found: list[LivingNode] = []

    async def die(self: object, row: object, ending: object) -> None:
        raise JournalUnavailableError('killed here')

    async def see(journal: SqlJournal) -> None:
        found.extend(node for node in await journal.living_nodes('agent') if node.node_id != 'node')

    async def leave(self: object) -> None:
        """What a process that was killed does."""

    with monkeypatch.context() as patch:
        patch.setattr(ending.OperatorNode, 'end', die)
        patch.setattr(ending.OperatorNode, '_leave', leave)
        assert command('tasks', 'fail', url, 'parked').code == 2
    on(url, see)
    ((node_id, owns),) = [(node.node_id, node.owns) for node in found]
    assert owns
    if url.startswith('sqlite') and CAN_LOCK:
        directory = Path(f'{url.partition("///")[2]}-nodes')
        assert [file.name for file in directory.iterdir()] == [node_id]


def moving(work: Callable[[SqlJournal], Any]) -> Callable[..., Any]:
    """The command's registration, during which somebody else is faster."""
    register = SqlJournal.register

    async def meanwhile(self: SqlJournal, node: NodeRow) -> None:
        await register(self, node)
        if node.name == 'a2a-scribe tasks':
            await work(self)

    return meanwhile


def test_a_task_that_moves_meanwhile_is_looked_at_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def store(journal: SqlJournal) -> None:
        await journal.replace_task(outside('parked', WORKING, EPOCH + 60), ALICE, EPOCH)

    monkeypatch.setattr(SqlJournal, 'register', moving(store))
    assert command('tasks', 'cancel', url, 'parked').code == 0
    assert task_rows(url)['parked'] == (CANCELED, None, None)
    assert command('db', 'check', url).code == 0


def test_a_task_that_ends_meanwhile_stays_as_it_is(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def store(journal: SqlJournal) -> None:
        await journal.replace_task(outside('parked', COMPLETED, EPOCH + 60), ALICE, EPOCH)

    monkeypatch.setattr(SqlJournal, 'register', moving(store))
    done = command('tasks', 'cancel', url, 'parked')
    assert done.code == 1
    assert 'has ended as completed' in done.stderr


def test_a_task_stored_without_a_time_is_ended(sqlite_url: str) -> None:
    async def store(journal: SqlJournal) -> None:
        task = outside('task', WORKING, EPOCH)
        task.status.ClearField('timestamp')
        await journal.replace_task(task, ALICE, EPOCH)

    on(sqlite_url, store)
    assert command('tasks', 'cancel', sqlite_url, 'task').code == 0
    assert command('db', 'check', sqlite_url).code == 0


def test_only_a_dead_nodes_tasks_can_be_taken(url: str) -> None:
    async def run() -> None:
        engine = create_async_engine(url)
        site = Site(engine, Inspector(engine), SqlJournal(engine))
        node = ending.OperatorNode(site, 'agent', SystemClock())
        look = await site.inspector.look_at('working')
        assert look is not None
        assert look.owner is not None
        async with node.registered():
            assert await node.take(look.row) is None
            assert not await node.bury(replace(look.owner, commit_no=1))
            assert await node.bury(look.owner)
            assert await node.take(replace(look.row, epoch=look.row.epoch - 1)) is None
        await engine.dispose()

    asyncio.run(run())
    assert task_rows(url)['working'] == (WORKING, 'node', 'first turn')
    assert nodes(url) == [('node', 'dead')]


def test_a_process_is_asked_for_its_life_before_its_task_is_ended(url: str) -> None:
    """One that runs keeps its task; one that was killed loses it."""
    program = Path(__file__).parents[1] / 'programs' / 'endless_agent.py'
    command_line = [sys.executable, '-m', 'a2a_scribe', 'run', str(program), url]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == 'begun\n'
            (node_id,) = [node for node, _ in nodes(url) if node != 'node']
            (task_id,) = listed(url, '--node', node_id)
            refused = command('tasks', 'fail', '--yes', url, task_id)
            assert (refused.code, refused.stdout) == (1, '')
            assert f'node {node_id} works on task {task_id}' in refused.stderr
        finally:
            process.kill()
    assert command('db', 'check', url).code == 0
    ended = command('tasks', 'fail', '--yes', '--lease', '1', url, task_id)
    assert ended.stdout == f'task {task_id} is failed\n'
    assert ('whether it lives' in ended.stderr) is not (url.startswith('sqlite') and CAN_LOCK), 'a lock tells at once'
    assert task_rows(url)[task_id] == (FAILED, None, None)
    assert (node_id, 'dead') in nodes(url)
    assert command('db', 'check', url).code == 0


def test_a_process_executes_a_message_again_when_an_operator_asks(url: str) -> None:
    program = Path(__file__).parents[1] / 'programs' / 'endless_agent.py'
    command_line = [sys.executable, '-m', 'a2a_scribe', 'run', str(program), url]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == 'begun\n'
            (node_id,) = [node for node, _ in nodes(url) if node != 'node']
            (task_id,) = listed(url, '--node', node_id)
            again = command('tasks', 'rerun', url, task_id)
            assert (again.code, again.stdout) == (0, f'task {task_id} runs again, attempt 2\n')
            (told,) = command('tasks', 'rerun', '--json', url, task_id).lines
            assert (told['runs_again'], told['attempt']) == (True, 3)
        finally:
            process.kill()
    assert command('db', 'check', url).code == 0


def test_only_what_runs_can_be_executed_again(url: str) -> None:
    ended = command('tasks', 'rerun', url, 'failed')
    assert (ended.code, ended.stdout) == (1, '')
    assert 'has ended as failed, which is final' in ended.stderr
    assert 'waits for its client' in command('tasks', 'rerun', url, 'parked').stderr
    assert command('tasks', 'rerun', url, 'unknown').code == 1
    late = command('tasks', 'rerun', '--wait', '0', url, 'working')
    assert (late.code, late.stdout) == (1, '')
    assert 'does not run again yet' in late.stderr
    (told,) = command('tasks', 'show', '--json', url, 'working').lines
    assert [waiting['kind'] for waiting in told['inbox']] == ['turn_started', 'rerun']
    assert 'rerun' in command('tasks', 'show', url, 'working').stdout
    assert command('db', 'check', url).code == 0


def test_endings_say_whose_they_are() -> None:
    assert cancellation('x').outcome == 'canceled'
    assert failure('x').outcome == 'interrupted'


# delete and prune


def test_a_task_is_deleted_with_everything_of_it(url: str) -> None:
    assert command('tasks', 'delete', url, 'done', answer='n\n').code == 1
    assert 'done' in task_rows(url)
    asked = command('tasks', 'delete', url, 'done', answer='y\n')
    assert 'Delete task done (completed, 6 records)?' in asked.stdout
    assert command('tasks', 'delete', '--json', '--yes', url, 'failed', 'parked').lines == [
        {'task': 'failed', 'deleted': True},
        {'task': 'parked', 'deleted': True},
    ]
    assert list(task_rows(url)) == ['working']
    assert query(url, "SELECT count(*) FROM scribe_records WHERE task_id <> 'working'") == [(0,)]
    assert command('db', 'check', url).code == 0


def test_a_task_at_work_is_not_deleted(url: str) -> None:
    done = command('tasks', 'delete', '--yes', url, 'working', 'nosuch', 'done')
    assert done.code == 1
    assert 'working on it' in done.stderr
    assert 'is dead' not in done.stderr
    assert sorted(task_rows(url)) == ['failed', 'parked', 'working']
    bury(url)
    assert 'its node is dead: `a2a-scribe tasks fail`' in command('tasks', 'delete', '--yes', url, 'working').stderr


async def fill_with_old_ones(journal: SqlJournal) -> None:
    now = SystemClock().now()
    node = await ScriptedNode(journal, 'node').register()
    for number in range(5):
        await finished(node, f'old {number}', BOB if number == 0 else ALICE, now - 31 * 86_400_000_000)
    await finished(node, 'young', ALICE, now - 29 * 86_400_000_000)
    failed = ScriptedTask(node, 'failed')
    failed.settle(await node.append(failed.birth(failed.status(FAILED, EPOCH + 9), ends_turn=True)))


def test_tasks_that_ended_long_ago_are_pruned(empty_url: str) -> None:
    on(empty_url, fill_with_old_ones)
    counted = command('tasks', 'prune', '--json', '--dry-run', empty_url, '--older-than', '30d')
    assert [(line['state'], line['tasks'], line['deleted']) for line in counted.lines] == [
        ('completed', 5, False),
        ('failed', 1, False),
        ('canceled', 0, False),
        ('rejected', 0, False),
    ]
    assert len(task_rows(empty_url)) == 7
    arguments = ('tasks', 'prune', empty_url, '--older-than', '30d')
    assert command(*arguments, '--state', 'completed', '--agent', 'other').stdout == 'deleted 1 completed task\n'
    assert command(*arguments, '--state', 'completed').stdout == 'deleted 4 completed tasks\n'
    assert sorted(task_rows(empty_url)) == ['failed', 'young']
    assert command(*arguments).code == 0
    assert list(task_rows(empty_url)) == ['young']
    assert command('db', 'check', empty_url).stdout == '1 task, 0 violations\n'


@pytest.mark.parametrize('age', ['', '30', '3 days', '-1d', '1.5h', 'd'])
def test_an_age_that_is_none_is_said(sqlite_url: str, age: str) -> None:
    on(sqlite_url, fill)
    done = command('tasks', 'prune', sqlite_url, '--older-than', age)
    assert (done.code, done.stdout) == (2, '')
    assert 'is no age' in done.stderr
    assert len(task_rows(sqlite_url)) == 4


def test_only_ended_tasks_can_be_pruned(sqlite_url: str) -> None:
    on(sqlite_url, fill)
    assert command('tasks', 'prune', sqlite_url, '--older-than', '0s', '--state', 'working').code == 2
    assert command('tasks', 'prune', sqlite_url, '--older-than', '0s').code == 0
    assert sorted(task_rows(sqlite_url)) == ['parked', 'working']
