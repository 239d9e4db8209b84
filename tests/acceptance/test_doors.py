"""`a2a-scribe serve` in the open: slow clients keep nobody out, logs keep secrets, and probes hear of the end.

With `SCRIBE_FULL=1` there are a thousand slow clients.
"""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.types import a2a_pb2_grpc
from a2a.types.a2a_pb2 import GetTaskRequest, SendMessageRequest
from google.protobuf import json_format

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != 'linux', reason='limits files, and has several addresses'),
]

IS_FULL = bool(os.environ.get('SCRIBE_FULL'))
CROWD = 1_000 if IS_FULL else 200
FILES = CROWD * 7 // 10
"""Files that the server may open: fewer than there are slow clients, with those that it needs itself."""
ELSEWHERE = '127.0.0.2'
"""Where they come from: a crowd keeps its own address busy."""
TOO_LONG = 60.0
LONG = 15.0 if IS_FULL else 2.0
"""Seconds for which they try; with the first of them, connections run into their deadline."""
SOON = 5.0
"""Seconds within which whoever asks properly is answered, on a machine that has other things to do."""

AGENT = """\
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.tasks import TaskUpdater
    from a2a.types.a2a_pb2 import Part


    class Upper(AgentExecutor):
        '''Writes in capitals, and fails when it is asked to.'''

        async def execute(self, context, event_queue):
            text = context.get_user_input()
            updater = TaskUpdater(event_queue, context.task_id, context.context_id)
            await updater.start_work()
            if 'fail' in text:
                raise ValueError('the agent has failed')
            await updater.add_artifact([Part(text=text.upper())])
            await updater.complete()

        async def cancel(self, context, event_queue):
            raise NotImplementedError
"""


class Server:
    """A server in a process of its own."""

    def __init__(self, process: 'subprocess.Popen[str]', url: str, grpc_target: str) -> None:
        self.process = process
        self.url = url
        self.grpc_target = grpc_target

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.removeprefix('http://').split(':')
        return host, int(port)

    def stop(self) -> str:
        """Ends it, and returns what it has written to stderr."""
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=TOO_LONG)
        assert self.process.returncode == 0, said
        return said


@contextmanager
def serving(folder: Path, *arguments: str, files: int | None = None, **settings: Any) -> Iterator[Server]:
    (folder / 'agent.py').write_text(textwrap.dedent(AGENT))
    command = (sys.executable, '-m', 'a2a_scribe', 'serve', 'agent:Upper', '--port', '0', '--grpc-port', '0')
    limited = () if files is None else ('sh', '-c', f'ulimit -n {files}; exec "$@"', 'sh')
    environment = {f'A2A_SCRIBE_{name.upper()}': str(value) for name, value in settings.items()}
    process = subprocess.Popen(
        [*limited, *command, *arguments],
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        places = [process.stdout.readline().split()[-1:] for _ in range(2)]
        assert all(places), process.communicate()[1]
        yield Server(process, places[0][0], places[1][0])
    finally:
        process.kill()
        process.communicate()


@asynccontextmanager
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=TOO_LONG, headers={'A2A-Version': '1.0'}) as http:
        yield http


def request_of(text: str, **more: Any) -> dict[str, Any]:
    return {'message': {'messageId': 'm', 'role': 'ROLE_USER', 'parts': [{'text': text}]}, **more}


# Slow clients


async def dawdle(server: Server, head: bytes, pause: asyncio.Event) -> None:
    """Sends a head byte by byte, for ever, on a new connection whenever the old one is closed."""
    while not pause.is_set():
        try:
            _, writer = await asyncio.open_connection(*server.address, local_addr=(ELSEWHERE, 0))
        except OSError:
            await asyncio.sleep(0)
            continue
        try:
            for byte in head:
                writer.write(bytes([byte]))
                await writer.drain()
                try:
                    async with asyncio.timeout(0.5):
                        await pause.wait()
                        return
                except TimeoutError:
                    pass
        except OSError:
            pass
        finally:
            writer.close()


HEADS = [
    b'GET /tasks HTTP/1.1\r\nHost: x\r\n' + b'X-Y: z\r\n' * 100,
    b'POST /message:send HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nX-Long: ' + b'y' * 1000,
]


async def test_clients_that_send_headers_slowly_keep_nobody_out(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4 * CROWD, hard)), hard))
    with serving(tmp_path, files=FILES) as server:
        over = asyncio.Event()
        crowd = [asyncio.ensure_future(dawdle(server, HEADS[each % 2], over)) for each in range(CROWD)]
        try:
            until = asyncio.get_running_loop().time() + LONG
            while asyncio.get_running_loop().time() < until:
                async with client() as http, asyncio.timeout(SOON):
                    answer = await http.post(f'{server.url}/message:send', json=request_of('hello'))
                    assert answer.json()['task']['status']['state'] == 'TASK_STATE_COMPLETED'
                    assert (await http.get(f'{server.url}/readyz')).status_code == 200
        finally:
            over.set()
            await asyncio.wait(crowd)
        said = server.stop()
    assert 'Traceback' not in said, said
    assert said.count('max_connections') == 1


def test_where_few_files_can_be_opened_they_are_for_connections(tmp_path: Path) -> None:
    files = 140
    with serving(tmp_path, files=files) as server:
        assert len(list(Path(f'/proc/{server.process.pid}/fd').iterdir())) < files // 3


# Logs

SECRETS = {name: f'secret-{name}-4711' for name in ('text', 'header', 'cookie', 'query', 'config', 'credentials')}


async def test_logs_say_who_did_what_and_nothing_secret(tmp_path: Path) -> None:
    headers = {'Authorization': f'Bearer {SECRETS["header"]}', 'Cookie': f'session={SECRETS["cookie"]}'}
    with serving(tmp_path, '--audit-log', request_values=200, requests_per_second=0.001, request_burst=12) as server:
        async with client() as http, grpc.aio.insecure_channel(server.grpc_target) as channel:
            http.headers.update(headers)
            first = await http.post(f'{server.url}/message:send', json=request_of(SECRETS['text']))
            task_id = first.json()['task']['id']
            body = {'jsonrpc': '2.0', 'id': 1, 'method': 'SendStreamingMessage', 'params': request_of(SECRETS['text'])}
            await http.post(server.url, json=body)
            await http.post(f'{server.url}/message:send', json=request_of(f'fail {SECRETS["text"]}'))
            await http.get(f'{server.url}/tasks/{task_id}', params={'token': SECRETS['query']})
            await http.get(f'{server.url}/tasks/theirs')
            config = {
                'url': f'https://hook.test/?key={SECRETS["config"]}',
                'token': SECRETS['config'],
                'authentication': {'scheme': 'Bearer', 'credentials': SECRETS['credentials']},
            }
            await http.post(f'{server.url}/tasks/{task_id}/pushNotificationConfigs', json=config)
            await http.post(f'{server.url}/message:send', json=request_of(SECRETS['text'], metadata={'a': [0] * 500}))
            await http.post(f'{server.url}/message:send', content=SECRETS['text'])
            await http.post(server.url, json={'jsonrpc': '2.0', 'id': 1, 'method': SECRETS['text'], 'params': {}})
            stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
            metadata = [('a2a-version', '1.0'), ('authorization', SECRETS['header'])]
            sent = json_format.ParseDict(request_of(SECRETS['text']), SendMessageRequest())
            await stub.SendMessage(sent, metadata=metadata)
            while (await http.get(f'{server.url}/tasks')).status_code != 429:
                pass
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.GetTask(GetTaskRequest(id=task_id), metadata=metadata)
        said = server.stop()
    assert not [name for name, secret in SECRETS.items() if secret in said], said
    lines = [json.loads(line) for line in said.splitlines() if line.startswith('{')]
    told = [(each['binding'], each.get('operation'), each['outcome']) for each in lines]
    assert told[:10] == [
        ('HTTP+JSON', 'SendMessage', 'OK'),
        ('JSONRPC', 'SendStreamingMessage', 'OK'),
        ('HTTP+JSON', 'SendMessage', 'OK'),
        ('HTTP+JSON', 'GetTask', 'OK'),
        ('HTTP+JSON', 'GetTask', 'TASK_NOT_FOUND'),
        ('HTTP+JSON', 'CreateTaskPushNotificationConfig', 'PUSH_NOTIFICATION_NOT_SUPPORTED'),
        ('HTTP+JSON', 'SendMessage', 'INVALID_REQUEST'),
        ('HTTP+JSON', 'SendMessage', 'PARSE_ERROR'),
        ('JSONRPC', None, 'METHOD_NOT_FOUND'),
        ('GRPC', 'SendMessage', 'OK'),
    ]
    assert told[-2:] == [('HTTP+JSON', 'ListTasks', 'RATE_LIMITED'), ('GRPC', 'GetTask', 'RATE_LIMITED')]
    assert lines[0]['task'] == lines[3]['task'] == task_id
    assert {each['address'] for each in lines} == {'127.0.0.1'}


# The end


async def test_a_server_that_is_told_to_stop_says_so_before_it_does(tmp_path: Path) -> None:
    with serving(tmp_path, leave_notice=2) as server:
        async with client() as http:
            assert (await http.get(f'{server.url}/readyz')).status_code == 200
            server.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(SOON):
                while (answer := await http.get(f'{server.url}/readyz')).status_code == 200:
                    await asyncio.sleep(0)
            assert answer.json() == {'status': 'unavailable', 'failed': 'draining'}
        async with client() as http:
            sent = await http.post(f'{server.url}/message:send', json=request_of('last'))
            assert sent.json()['task']['status']['state'] == 'TASK_STATE_COMPLETED'
        _, said = server.process.communicate(timeout=TOO_LONG)
        assert (server.process.returncode, said) == (0, '')


# Options


async def test_options_of_the_command_reach_the_server(tmp_path: Path) -> None:
    page = 'https://app.example'
    options = ('--no-health', '--hsts', '60', '--cors-origin', page, '--cors-origin', 'http://localhost:3000')
    with serving(tmp_path, *options) as server:
        async with client() as http:
            answer = await http.get(f'{server.url}/healthz', headers={'Origin': page})
            assert answer.status_code == 404
            assert answer.headers['strict-transport-security'] == 'max-age=60'
            assert answer.headers['access-control-allow-origin'] == page
        assert server.stop() == ''


def test_an_origin_that_is_none_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / 'agent.py').write_text(textwrap.dedent(AGENT))
    command = (
        sys.executable,
        '-m',
        'a2a_scribe',
        'serve',
        'agent:Upper',
        '--port',
        '0',
        '--cors-origin',
        'app.example',
    )
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TOO_LONG, check=False)
    assert (done.returncode, done.stdout) == (2, '')
    assert done.stderr.startswith("a2a-scribe: cors_origins: 'app.example' is no origin")
    assert done.stderr.count('\n') == 1
