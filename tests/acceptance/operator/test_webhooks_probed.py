"""`a2a-scribe webhooks test`: one signed call, to a receiver on loopback that verifies it."""

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.protocol.states import WORKING
from a2a_scribe.push.sealing import FernetBox, seal_config
from a2a_scribe.testing.contract.scenes import config_of
from a2a_scribe.testing.journal_driver import EPOCH, ScriptedNode, ScriptedTask
from a2a_scribe.webhooks.verify import HmacVerifier
from tests.acceptance.operator.kit import command, on

SECRET = f'whsec_{base64.b64encode(bytes(32)).decode()}'


@dataclass
class Receiver:
    """What came, and what is answered."""

    url: str = ''
    status: int = 204
    calls: list[tuple[Mapping[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver in a thread, because commands have a loop of their own."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers['content-length']))
            receiver.calls.append((dict(self.headers.items()), body))
            self.send_response(receiver.status)
            self.send_header('content-length', '0')
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with HTTPServer(('127.0.0.1', 0), Handler) as server:
        receiver.url = f'http://127.0.0.1:{server.server_port}/hook?key=hidden-1'
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of servers that may call this machine."""
    monkeypatch.setenv('A2A_SCRIBE_WEBHOOK_ALLOW', '127.0.0.1')
    monkeypatch.setenv('A2A_SCRIBE_WEBHOOK_HMAC_SECRETS', SECRET)


@pytest.mark.usefixtures('allowed')
def test_a_receiver_is_called_with_a_signed_event(receiver: Receiver) -> None:
    done = command('webhooks', 'test', '--json', receiver.url)
    (told,) = done.lines
    assert (done.code, told['status'], told['error']) == (0, 204, None)
    assert told['signed'] == ['webhook-id', 'webhook-timestamp', 'webhook-signature']
    assert 'hidden' not in done.stdout
    ((headers, body),) = receiver.calls
    with HmacVerifier(SECRET).verify(headers, body) as delivery:
        assert delivery.event_id == told['event']
        assert delivery.task_id.startswith('test-')
    update = json.loads(body)['statusUpdate']
    assert update['metadata'] == {'test': True}
    assert update['taskId'] == delivery.task_id


@pytest.mark.usefixtures('allowed')
def test_an_answer_that_refuses_is_told(receiver: Receiver) -> None:
    receiver.status = 401
    done = command('webhooks', 'test', receiver.url)
    assert done.code == 1
    assert '401' in done.stdout


def test_what_servers_may_not_call_is_not_called(receiver: Receiver) -> None:
    done = command('webhooks', 'test', '--json', receiver.url)
    (told,) = done.lines
    assert (done.code, told['status'], told['signed']) == (1, None, [])
    assert told['error']
    assert receiver.calls == []


def test_a_secret_that_cannot_be_used_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('A2A_SCRIBE_WEBHOOK_HMAC_SECRETS', 'hidden')
    done = command('webhooks', 'test', 'https://hook.test/')
    assert done.code == 2
    assert 'webhook_hmac_secrets' in done.stderr
    assert 'hidden' not in done.stderr


@pytest.mark.usefixtures('allowed')
def test_a_push_config_is_called_with_its_sealed_secrets(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Fernet.generate_key().decode()

    async def fill(journal: SqlJournal) -> None:
        node = await ScriptedNode(journal, 'node').register()
        config = config_of('task', 'hook', receiver.url)
        config.token = 'the token'
        config.authentication.scheme, config.authentication.credentials = 'Bearer', 'the credentials'
        task = ScriptedTask(node, 'task')
        sealed = seal_config(config, FernetBox([key]))
        await node.append(task.birth(task.status(WORKING, EPOCH + 40), configs=(sealed,)))

    url = f'sqlite+aiosqlite:///{tmp_path / "tasks.db"}'
    on(url, fill)
    assert command('webhooks', 'test', url, 'task', 'hook').code == 2, 'without the key'
    monkeypatch.setenv('A2A_SCRIBE_WEBHOOK_KEYS', key)
    done = command('webhooks', 'test', url, 'task', 'hook')
    assert done.code == 0, done.stderr
    assert 'the token' not in done.stdout
    ((headers, _),) = receiver.calls
    assert headers['X-A2A-Notification-Token'] == 'the token'
    assert headers['Authorization'] == 'Bearer the credentials'
    assert command('webhooks', 'test', url, 'task', 'none').code == 1
    assert command('webhooks', 'test', url, 'task').code == 2
    alone = command('webhooks', 'test', url)
    assert alone.code == 2
    assert 'needs TASK' in alone.stderr
    assert len(receiver.calls) == 1
