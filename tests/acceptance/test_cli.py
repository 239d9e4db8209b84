"""The command `a2a-scribe`, run as a user runs it: a process, its output and its exit code."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import AgentCard, Message, Part, Role, SendMessageRequest, TaskState
from a2a.utils.signing import create_signature_verifier
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from google.protobuf import json_format
from grpc import aio

from a2a_scribe.cli import main

pytestmark = pytest.mark.anyio

A2A_SCRIBE = (sys.executable, '-m', 'a2a_scribe')
TOO_LONG = 60.0
NOTE = re.compile(r'a2a-scribe: running \S.* on the handler and stores of a2a-scribe\n')

AGENT = '''
    """A module with an agent."""
    import asyncio

    from a2a.helpers.proto_helpers import new_task_from_user_message
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.tasks import TaskUpdater
    from a2a.types.a2a_pb2 import Part


    class Upper(AgentExecutor):
        """Shouts what it hears.

        And nothing else.
        """

        async def execute(self, context, event_queue):
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
            updater = TaskUpdater(event_queue, task.id, task.context_id)
            await updater.add_artifact([Part(text=context.get_user_input().upper())])
            await updater.complete()

        async def cancel(self, context, event_queue):
            pass


    class Named(Upper):
        def __init__(self, name):
            self.name = name


    class Holder:
        executor = Named('held')


    class Endless(Upper):
        async def execute(self, context, event_queue):
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
            print('working', flush=True)
            await asyncio.Event().wait()


    def make():
        return Named('made')


    def fail():
        raise ValueError('no model')


    instance = Upper()
    number = 3
'''


CARD = {
    'name': 'given',
    'description': 'Given.',
    'version': '7',
    'capabilities': {'streaming': True},
    'defaultInputModes': ['text/plain'],
    'defaultOutputModes': ['text/plain'],
    'skills': [{'id': 'shout', 'name': 'Shout', 'description': 'Shouts.', 'tags': ['text']}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that the user is in, with an agent in it."""
    (tmp_path / 'agent.py').write_text(textwrap.dedent(AGENT))
    (tmp_path / 'broken.py').write_text('import json\n\nname = undefined\n')
    (tmp_path / 'needy.py').write_text('import nosuchlibrary\n')
    return tmp_path


def call(folder: Path, *arguments: str, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end."""
    command = (sys.executable, *flags, *A2A_SCRIBE[1:], *arguments)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TOO_LONG, check=False)


def write(path: Path, program: str) -> Path:
    """A program of the user's."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(program))
    return path


# serve


GRPC_LINE = re.compile(r'a2a-scribe: and over gRPC at 127\.0\.0\.1:\d+\n')


def start(folder: Path, command: Sequence[str], env: Mapping[str, str] | None = None) -> 'subprocess.Popen[str]':
    """A process that is read while it runs."""
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[str]:
    """A server that is told to stop in the end, and has to do so with exit code 0 and no word on stderr."""
    process = start(folder, (*A2A_SCRIBE, 'serve', *arguments))
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.fullmatch(r'a2a-scribe: serving .+ at http://\S+\n', line), process.communicate()[1]
        if '--grpc-port' in arguments:
            assert GRPC_LINE.fullmatch(process.stdout.readline())
        yield line.split()[-1]
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=TOO_LONG) == ('', '')
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


async def card_of(url: str) -> dict[str, Any]:
    """The card as it is served."""
    async with httpx.AsyncClient(trust_env=False) as http:
        card: dict[str, Any] = (await http.get(f'{url}/.well-known/agent-card.json')).json()
        return card


@asynccontextmanager
async def client_of(url: str, **options: object) -> AsyncIterator[Client]:
    """A client that finds its way by the server's card."""
    async with httpx.AsyncClient(trust_env=False, timeout=TOO_LONG) as http:
        config = ClientConfig(streaming=False, httpx_client=http, **options)  # type: ignore[arg-type]
        client = await ClientFactory(config).create_from_url(url)
        yield client
        await client.close()


async def shout(client: Client) -> str:
    """What the agent makes of `hello`."""
    message = Message(role=Role.ROLE_USER, message_id='m', parts=[Part(text='hello')])
    [event] = [event async for event in client.send_message(SendMessageRequest(message=message))]
    assert event.task.status.state == TaskState.TASK_STATE_COMPLETED
    return event.task.artifacts[0].parts[0].text


@pytest.mark.parametrize('name', ['Upper', 'instance', 'make', 'Holder.executor'])
async def test_serve_takes_a_class_an_instance_or_a_factory(folder: Path, name: str) -> None:
    with serving(folder, f'agent:{name}', '--port', '0') as url:
        async with client_of(url) as client:
            assert await shout(client) == 'HELLO'
    assert (folder / 'a2a-scribe.db').exists()


async def test_serve_makes_a_card(folder: Path) -> None:
    """From what the class says about itself, with the address that is really served."""
    with serving(folder, 'agent:Upper', '--port', '0') as url:
        card = await card_of(url)
    assert card['name'] == 'Upper'
    assert card['description'] == 'Shouts what it hears.'
    assert card['version']
    assert card['capabilities']['streaming'] is True
    assert card['defaultInputModes'] == card['defaultOutputModes'] == ['text/plain']
    assert [(each['protocolBinding'], each['url']) for each in card['supportedInterfaces']] == [
        ('JSONRPC', f'{url}/'),
        ('HTTP+JSON', url),
    ]


async def test_serve_takes_a_card(folder: Path) -> None:
    """And fills in the interfaces that it does not name."""
    (folder / 'card.json').write_text(json.dumps(CARD))
    with serving(folder, 'agent:Upper', '--port', '0', '--card', 'card.json') as url:
        card = await card_of(url)
    assert (card['name'], card['version']) == ('given', '7')
    assert len(card['supportedInterfaces']) == 2


def old_send() -> dict[str, Any]:
    """A request of a client of version 0.3."""
    message = {'messageId': 'm', 'role': 'user', 'parts': [{'kind': 'text', 'text': 'hello'}]}
    return {'jsonrpc': '2.0', 'id': 1, 'method': 'message/send', 'params': {'message': message}}


async def test_serve_takes_clients_of_version_0_3_if_wanted(folder: Path) -> None:
    """Otherwise they are refused, and find no card of theirs."""
    async with httpx.AsyncClient(trust_env=False, timeout=TOO_LONG) as http:
        with serving(folder, 'agent:Upper', '--port', '0', '--database', 'memory', '--with-0.3') as url:
            card = (await http.get(f'{url}/.well-known/agent.json')).json()
            assert (card['url'], card['preferredTransport'], card['protocolVersion']) == (f'{url}/', 'JSONRPC', '0.3')
            task = (await http.post(url, json=old_send())).json()['result']
            assert task['artifacts'][0]['parts'] == [{'kind': 'text', 'text': 'HELLO'}]
        with serving(folder, 'agent:Upper', '--port', '0', '--database', 'memory') as url:
            assert (await http.post(url, json=old_send())).json()['error']['code'] == -32009
            assert (await http.get(f'{url}/.well-known/agent.json')).status_code == 404


async def test_serve_signs_its_card(folder: Path) -> None:
    """With a key in a file, under a name."""
    key: Any = ec.generate_private_key(ec.SECP256R1())
    (folder / 'key.pem').write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    options = ('--port', '0', '--database', 'memory', '--sign-card', 'key.pem', '--key-id', 'mine')
    with serving(folder, 'agent:Upper', *options) as url:
        card = json_format.ParseDict(await card_of(url), AgentCard())
    create_signature_verifier(lambda kid, _: {'mine': key.public_key()}[kid or ''], ['ES256'])(card)


@pytest.mark.parametrize(
    ('options', 'told'),
    [
        (('--sign-card', 'agent.py'), 'agent.py has no private key that can sign a card'),
        (('--sign-card', 'none.pem'), 'cannot read the key for signing the card'),
        (('--key-id', 'mine'), '--key-id names the key of --sign-card, which is not there'),
    ],
)
def test_serve_refuses_what_cannot_sign(folder: Path, options: tuple[str, ...], told: str) -> None:
    """In one line."""
    done = call(folder, 'serve', 'agent:Upper', *options)
    assert done.returncode == 2
    assert done.stderr.startswith(f'a2a-scribe: {told}')
    assert done.stderr.count('\n') == 1


async def test_serve_speaks_grpc(folder: Path) -> None:
    """On the same handler, in the same process."""
    with serving(
        folder,
        'agent:Upper',
        '--port',
        '0',
        '--grpc-port',
        '0',
        '--grpc-in-card',
        '--database',
        'sqlite+aiosqlite:///g.db',
    ) as url:
        options: Mapping[str, object] = {
            'supported_protocol_bindings': ['GRPC'],
            'grpc_channel_factory': aio.insecure_channel,
        }
        async with client_of(url, **options) as client:
            assert await shout(client) == 'HELLO'


def test_serve_says_where_grpc_is_and_keeps_it_out_of_the_card(folder: Path) -> None:
    """Some clients refuse a card with an interface whose URL is only host and port."""
    with start(folder, (*A2A_SCRIBE, 'serve', 'agent:Upper', '--port', '0', '--grpc-port', '0')) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        assert GRPC_LINE.fullmatch(process.stdout.readline())
        card = httpx.get(f'{url}/.well-known/agent-card.json').json()
        assert [each['protocolBinding'] for each in card['supportedInterfaces']] == ['JSONRPC', 'HTTP+JSON']
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TOO_LONG)
    assert process.returncode == 0


def test_serve_stops_at_an_interrupt_too(folder: Path) -> None:
    """As when somebody presses Ctrl+C."""
    command = (*A2A_SCRIBE, 'serve', 'agent:Upper', '--port', '0')
    with start(folder, command) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=TOO_LONG) == ('', '')
    assert process.returncode == 0


def stop_when_it_works(process: 'subprocess.Popen[str]') -> None:
    """Tells the server to stop in the middle of a task."""
    assert process.stdout is not None
    assert process.stdout.readline() == 'working\n'
    process.send_signal(signal.SIGTERM)


async def test_who_waits_at_the_stop_is_answered(folder: Path) -> None:
    """With the task as it is recorded: failed, because the server stopped."""
    command = (*A2A_SCRIBE, 'serve', 'agent:Endless', '--port', '0')
    brief = {**os.environ, 'A2A_SCRIBE_DRAIN_DEADLINE': '0.1'}
    process = start(folder, command, brief)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        async with client_of(url) as client, anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, stop_when_it_works, process)
            message = Message(role=Role.ROLE_USER, message_id='m', parts=[Part(text='hello')])
            [event] = [event async for event in client.send_message(SendMessageRequest(message=message))]
        assert event.task.status.state == TaskState.TASK_STATE_FAILED
        assert 'stopped' in event.task.status.message.parts[0].text
        assert process.communicate(timeout=TOO_LONG) == ('', '')
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


WRONG = {
    'no colon': (['agent'], "'agent'"),
    'no module': (['nosuchmodule:Upper'], "'nosuchmodule'"),
    'no submodule': (['agent.inner:Upper'], "'agent.inner'"),
    'a module that fails': (['broken:Upper'], 'NameError.*undefined.*broken.py, line 3'),
    'a module without its library': (['needy:Upper'], "'needy'.*nosuchlibrary"),
    'no class': (['agent:Lower'], "'Lower'"),
    'a class that needs arguments': (['agent:Named'], "'agent:Named' needs arguments"),
    'an abstract class': (['agent:AgentExecutor'], "'agent:AgentExecutor'.*abstract"),
    'a factory that fails': (['agent:fail'], 'ValueError: no model'),
    'no executor': (['agent:number'], "'agent:number' is no executor"),
    'no card': (['agent:Upper', '--card', 'card.json'], "'card.json'.*No such file"),
    'a card that is no JSON': (['agent:Upper', '--card', 'agent.py'], "'agent.py' is no agent card"),
    'a card of another kind': (['agent:Upper', '--card', 'other.json'], 'nosuchfield'),
    'a card without a name': (['agent:Upper', '--card', 'empty.json'], "'empty.json' has no name"),
    'no URL': (['agent:Upper', '--database', 'tasks'], 'tasks'),
    'an unknown database': (['agent:Upper', '--database', 'nosuchdb://here'], 'nosuchdb'),
    'an unknown driver': (['agent:Upper', '--database', 'sqlite+nosuchdriver:///x.db'], 'nosuchdriver'),
    'a driver without async': (['agent:Upper', '--database', 'sqlite:///x.db'], 'sqlite'),
    'no folder': (['agent:Upper', '--database', 'sqlite+aiosqlite:///nosuchfolder/x.db'], 'nosuchfolder'),
    'an unknown host': (['agent:Upper', '--host', 'nosuchhost.invalid'], 'nosuchhost.invalid:'),
}


@pytest.fixture
def user_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder as the one that this process is in, which forgets what it imported from there."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, 'path', sys.path.copy())
    for name in ('agent', 'broken', 'needy'):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


@pytest.mark.parametrize(('arguments', 'line'), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_in_one_line(
    user_in: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    line: str,
) -> None:
    (user_in / 'other.json').write_text('{"name": "x", "nosuchfield": 1}')
    (user_in / 'empty.json').write_text('{}')
    ports = () if '--host' in arguments else ('--port', '0')
    monkeypatch.setattr(sys, 'argv', ['a2a-scribe', 'serve', *arguments, *ports])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ''
    assert re.fullmatch(rf'a2a-scribe: .*{line}.*\n', err), err


@pytest.mark.parametrize(
    ('arguments', 'line'),
    [
        (['nosuchmodule:Upper'], 'nosuchmodule'),
        (['agent:Upper', '--database', 'sqlite+aiosqlite:///nosuchfolder/x.db'], 'nosuchfolder'),
    ],
    ids=['no module', 'no folder'],
)
def test_the_process_says_nothing_else(folder: Path, arguments: list[str], line: str) -> None:
    """Not even where warnings are errors and nothing may be left open."""
    done = call(folder, 'serve', *arguments, '--port', '0', flags=('-X', 'dev', '-W', 'error'))
    assert done.returncode == 2
    assert done.stdout == ''
    assert re.fullmatch(rf'a2a-scribe: .*{line}.*\n', done.stderr), done.stderr


@pytest.mark.parametrize('option', ['--port', '--grpc-port'])
def test_a_busy_port_is_said_in_one_line(folder: Path, option: str) -> None:
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        http = ('--port', '0') if option == '--grpc-port' else ()
        done = call(folder, 'serve', 'agent:Upper', *http, option, str(port))
    assert done.returncode == 2
    assert re.fullmatch(rf'a2a-scribe: cannot listen on 127\.0\.0\.1:{port}.*\n', done.stderr), done.stderr


# run


SHOWS_CLASSES = """
    import sys
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.tasks import InMemoryTaskStore
    print(type(InMemoryTaskStore()).__module__)
    print(sys.argv)
    print(sys.path[0])
    print(__name__, __file__)
"""


def test_run_runs_a_script_as_python_would(folder: Path) -> None:
    """But for the classes: with the script's folder first on the path and with all that follows as its arguments."""
    script = write(folder / 'inner' / 'script.py', SHOWS_CLASSES)
    arguments = ('inner/script.py', '--help', '-m', 'x', '--', 'y')
    done = call(folder, 'run', *arguments)
    plain = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    assert done.returncode == 0
    ours, *rest = done.stdout.splitlines()
    assert ours.startswith('a2a_scribe.')
    theirs, *plain_rest = plain.stdout.splitlines()
    assert theirs.startswith('a2a.')
    assert rest[:-1] == plain_rest[:-1]
    assert rest[1] == str(script.parent)
    assert NOTE.fullmatch(done.stderr)


def test_run_runs_a_module_as_python_would(folder: Path) -> None:
    """Also a package with a `__main__`."""
    write(folder / 'pack' / '__init__.py', '')
    write(folder / 'pack' / '__main__.py', SHOWS_CLASSES)
    arguments = ('-m', 'pack', '--help', '-m', 'x')
    done = call(folder, 'run', *arguments)
    plain = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    assert done.returncode == 0
    assert done.stdout.startswith('a2a_scribe.')
    assert done.stdout.splitlines()[1:] == plain.stdout.splitlines()[1:]
    assert NOTE.fullmatch(done.stderr)


ENDS = {
    'by itself': ('pass', 0),
    'with a code': ('raise SystemExit(7)', 7),
    'with a message': ("raise SystemExit('bye')", 1),
    'with an exception': ("raise ValueError('bye')", 1),
}


@pytest.mark.parametrize(('program', 'code'), ENDS.values(), ids=ENDS)
def test_the_scripts_end_is_the_commands_end(folder: Path, program: str, code: int) -> None:
    write(folder / 'script.py', program)
    done = call(folder, 'run', 'script.py')
    assert done.returncode == code
    assert NOTE.match(done.stderr)
    assert done.stderr.endswith('bye\n') == (code == 1)


def test_run_leaves_no_warnings(folder: Path) -> None:
    """Not even where Python looks for them and takes them for errors."""
    write(folder / 'script.py', SHOWS_CLASSES)
    done = call(folder, 'run', 'script.py', flags=('-X', 'dev', '-W', 'error'))
    assert done.returncode == 0
    assert NOTE.fullmatch(done.stderr)


@pytest.mark.parametrize(
    ('arguments', 'line'),
    [(['nosuch.py'], 'nosuch.py'), (['-m', 'nosuchmodule'], 'nosuchmodule'), (['-m', 'a.b'], r'a\.b')],
    ids=['script', 'module', 'submodule'],
)
def test_a_program_that_is_not_there_is_said_in_one_line(folder: Path, arguments: list[str], line: str) -> None:
    done = call(folder, 'run', *arguments)
    assert done.returncode == 2
    assert re.fullmatch(rf'a2a-scribe: .*{line}.*\n', done.stderr)


def test_run_explains_itself(folder: Path) -> None:
    """When asked on stdout, when called with nothing on stderr."""
    assert call(folder, 'run', '--help').stdout.startswith('Usage: a2a-scribe run')
    done = call(folder, 'run')
    assert done.returncode == 2
    assert done.stderr.startswith('Usage: a2a-scribe run')


# The command itself


def test_the_command_says_its_version(folder: Path) -> None:
    assert re.fullmatch(r'a2a-scribe \d+\.\d+\.\d+\S*\n', call(folder, '--version').stdout)


@pytest.mark.parametrize(
    'command',
    [A2A_SCRIBE, (sys.executable, '-m', 'a2a_scribe.cli'), (str(Path(sys.executable).parent / 'a2a-scribe'),)],
    ids=['package', 'module', 'script'],
)
def test_the_command_lists_what_it_can(folder: Path, command: tuple[str, ...]) -> None:
    """By any of its three names."""
    plain = {**os.environ, 'NO_COLOR': '1'}
    done = subprocess.run([*command, '--help'], cwd=folder, capture_output=True, text=True, check=True, env=plain)
    for name in ('Usage: a2a-scribe', 'serve', 'run', 'demo', '--version'):
        assert name in done.stdout


def test_a_program_that_is_told_to_end_leaves_no_turn_open(folder: Path) -> None:
    """Nobody closes its handler; what its agent was doing is recorded as over all the same."""
    program = Path(__file__).parent / 'programs' / 'endless_agent.py'
    command = [*A2A_SCRIBE, 'run', str(program), f'sqlite+aiosqlite:///{folder}/tasks.db']
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == 'begun\n'
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=TOO_LONG)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGTERM
    with closing(sqlite3.connect(folder / 'tasks.db')) as database:
        found = database.execute('SELECT state, node, open_turn FROM scribe_tasks').fetchall()
    assert found == [(TaskState.TASK_STATE_FAILED, None, None)]
