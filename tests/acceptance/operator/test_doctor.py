"""`a2a-scribe doctor`: what stands in the way of servers is named, with what to do."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from a2a.types.a2a_pb2 import AgentCard
from google.protobuf import json_format
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe.cli.operator.doctor import files, process
from a2a_scribe.cli.operator.doctor.cards import check_card, judge_card
from a2a_scribe.cli.operator.doctor.databases import judge_postgresql, judge_sqlite
from a2a_scribe.cli.operator.doctor.files import check_place, file_system_of
from a2a_scribe.cli.operator.doctor.findings import Finding
from a2a_scribe.cli.operator.doctor.process import check_process
from a2a_scribe.errors import JournalBusyError
from a2a_scribe.journal.sql.diagnosing import Diagnosis, PostgresFacts, SqliteFacts
from tests.acceptance.operator.kit import command, execute, fill, on

CARD = {
    'name': 'agent',
    'description': 'An agent.',
    'version': '7',
    'supportedInterfaces': [{'url': 'https://agent.test/', 'protocolBinding': 'JSONRPC', 'protocolVersion': '1.0'}],
    'capabilities': {'streaming': True},
    'defaultInputModes': ['text/plain'],
    'defaultOutputModes': ['text/plain'],
    'skills': [{'id': 'x', 'name': 'X', 'description': 'Does X.', 'tags': ['x']}],
}


def levels(findings: Iterable[Finding]) -> dict[str, str]:
    found = list(findings)
    assert all(each.advice for each in found if each.level != 'ok')
    return {each.check: each.level for each in found if each.level != 'ok'}


def doctor(*arguments: str) -> tuple[int, dict[str, str]]:
    done = command('doctor', '--json', *arguments)
    return done.code, {line['check']: line['result'] for line in done.lines}


# The command


def test_a_healthy_database_is_healthy(url: str) -> None:
    code, found = doctor(url)
    assert code == 0
    assert found['schema'] == found['database'] == found['writing'] == found['python'] == 'ok'
    expected = (
        {'journal mode', 'file system', 'disk'} if url.startswith('sqlite') else {'version', 'clock', 'connections'}
    )
    assert expected <= found.keys()
    shown = command('doctor', url)
    assert shown.code == 0
    assert any(line.startswith('ok') and 'the newest' in line for line in shown.stdout.splitlines())


def test_a_database_without_tables_is_no_failure(empty_url: str) -> None:
    """Servers make them."""
    if empty_url.startswith('sqlite'):
        assert doctor(empty_url)[1]['database'] == 'fail'
        Path(empty_url.partition('///')[2]).touch()
    code, found = doctor(empty_url)
    assert (code, found['schema'], found['writing']) == (0, 'warn', 'ok')


def test_a_newer_schema_is_a_failure(url: str) -> None:
    execute(url, "UPDATE scribe_alembic SET version_num = '9999'")
    code, found = doctor(url)
    assert (code, found['schema']) == (1, 'fail')


@pytest.mark.parametrize(
    'database', ['postgresql+asyncpg://127.0.0.1:1/x', 'mysql://x', 'memory', 'nosuch.db', '/proc']
)
def test_a_database_that_cannot_be_used_is_a_failure(database: str) -> None:
    code, found = doctor(database)
    assert (code, found['database']) == (1, 'fail')
    assert 'schema' not in found


def test_a_file_that_is_no_database_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / 'x.db').write_bytes(b'no database at all' * 100)
    code, found = doctor(str(tmp_path / 'x.db'))
    assert (code, found['database']) == (1, 'fail')


def test_a_wrong_setting_is_a_failure(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on(sqlite_url, fill)
    monkeypatch.setenv('A2A_SCRIBE_HEARTBEAT', 'soon')
    assert doctor(sqlite_url)[0] == 1
    monkeypatch.setenv('A2A_SCRIBE_HEARTBEAT', '1')
    done = command('doctor', sqlite_url)
    assert done.code == 0
    assert 'A2A_SCRIBE_HEARTBEAT' in done.stdout


@pytest.mark.parametrize(
    ('setting', 'value'), [('KEYS', 'short'), ('KEYS_FILE', '/missing'), ('ALLOW', '*'), ('CA_FILE', '/missing')]
)
def test_a_wrong_setting_of_webhooks_is_a_failure(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, setting: str, value: str
) -> None:
    on(sqlite_url, fill)
    monkeypatch.setenv(f'A2A_SCRIBE_WEBHOOK_{setting}', value)
    done = command('doctor', sqlite_url)
    assert done.code == 1
    assert f'webhook_{setting.lower()}' in done.stdout


def test_a_server_that_does_not_answer_is_a_failure(sqlite_url: str) -> None:
    on(sqlite_url, fill)
    code, found = doctor(sqlite_url, '--url', 'http://127.0.0.1:1')
    assert (code, found['card']) == (1, 'fail')


def test_a_lock_that_is_held_is_told(sqlite_url: str) -> None:
    on(sqlite_url, fill)

    async def run() -> None:
        engine = create_async_engine(sqlite_url, connect_args={'timeout': 0.1})
        with closing(sqlite3.connect(make_url(sqlite_url).database or '', isolation_level=None)) as holder:
            holder.execute('BEGIN IMMEDIATE')
            with pytest.raises(JournalBusyError):
                await Diagnosis(engine).try_writing()
            holder.execute('ROLLBACK')
        await Diagnosis(engine).try_writing()
        await engine.dispose()

    asyncio.run(run())


def test_missing_rights_are_named(postgres_database_url: str) -> None:
    on(postgres_database_url, fill)
    user = 'doctor_test'
    execute(
        postgres_database_url, f'CREATE ROLE {user} LOGIN', f'GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}'
    )
    try:
        execute(postgres_database_url, f'GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}')
        execute(postgres_database_url, f'GRANT INSERT, UPDATE, DELETE ON scribe_tasks TO {user}')
        done = command('doctor', '--json', postgres_database_url.replace('postgres@', f'{user}@', 1))
        (told,) = [line for line in done.lines if line['check'] == 'writing']
        assert (done.code, told['result']) == (1, 'fail')
        assert 'scribe_records' in told['what']
        assert 'scribe_tasks' not in told['what']
    finally:
        execute(postgres_database_url, f'DROP OWNED BY {user}', f'DROP ROLE {user}')


# What is thought of facts


GOOD_SQLITE = SqliteFacts('3.40', 'wal', 2)


def test_files_are_judged() -> None:
    assert levels(judge_sqlite(GOOD_SQLITE)) == {}
    assert levels(judge_sqlite(replace(GOOD_SQLITE, journal_mode='delete'))) == {'journal mode': 'fail'}
    assert levels(judge_sqlite(replace(GOOD_SQLITE, synchronous=1))) == {'durability': 'fail'}


NOW = 1_750_000_000_000_000
GOOD_POSTGRES = PostgresFacts('18.1', 180001, NOW, 100, 10, False, (), True, 'on')

SERVERS = {
    'good': ({}, {}),
    'older': ({'version_number': 130009}, {'version': 'warn'}),
    'too old': ({'version_number': 120009}, {'version': 'fail'}),
    'slow clock': ({'now': NOW - 2_000_000}, {'clock': 'warn'}),
    'fast clock': ({'now': NOW + 2_500_000}, {'clock': 'warn'}),
    'a slow answer': ({'now': NOW + 900_000}, {}),
    'full': ({'connections': 90}, {'connections': 'warn'}),
    'standby': ({'is_read_only': True}, {'writing': 'fail'}),
    'no rights': ({'lacks': ('scribe_tasks',)}, {'writing': 'fail'}),
    'no fsync': ({'fsync': False}, {'durability': 'warn'}),
    'no wait': ({'synchronous_commit': 'off'}, {'durability': 'warn'}),
}


@pytest.mark.parametrize(('facts', 'expected'), SERVERS.values(), ids=SERVERS)
def test_servers_are_judged(facts: dict[str, object], expected: dict[str, str]) -> None:
    asked = replace(GOOD_POSTGRES, **facts)  # type: ignore[arg-type]
    assert levels(judge_postgresql(asked, NOW, NOW + 1_000_000)) == expected


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
tmpfs /run tmpfs rw 0 0
server:/export /srv/shared\\040files nfs4 rw 0 0
/dev/sdb1 /srv/shared\\040files/local xfs rw 0 0
short line
"""


@pytest.mark.parametrize(
    ('file', 'kind'),
    [
        ('/home/ada/x.db', 'ext4'),
        ('/run/x.db', 'tmpfs'),
        ('/running/x.db', 'ext4'),
        ('/srv/shared files/x.db', 'nfs4'),
        ('/srv/shared files/local/x.db', 'xfs'),
    ],
)
def test_file_systems_are_found(file: str, kind: str) -> None:
    assert file_system_of(Path(file), MOUNTS) == kind
    assert file_system_of(Path(file), '') is None


@pytest.mark.parametrize(
    ('kind', 'level'),
    [('nfs4', 'fail'), ('cifs', 'fail'), ('fuse.sshfs', 'fail'), ('tmpfs', 'warn'), ('overlay', 'warn'), ('ext4', '')],
)
def test_file_systems_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, level: str) -> None:
    mounts = tmp_path / 'mounts'
    monkeypatch.setattr(files, 'MOUNTS', mounts)
    assert 'file system' not in levels(check_place(tmp_path / 'x.db'))
    mounts.write_text(f'x / {kind} rw 0 0\n')
    assert levels(check_place(tmp_path / 'x.db')).get('file system', '') == level


@pytest.mark.parametrize(('little', 'too_little', 'level'), [(0, 0, ''), (2**62, 0, 'warn'), (2**62, 2**62, 'fail')])
def test_room_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, little: int, too_little: int, level: str
) -> None:
    monkeypatch.setattr(files, 'LITTLE', little)
    monkeypatch.setattr(files, 'TOO_LITTLE', too_little)
    assert levels(check_place(tmp_path / 'x.db')).get('disk', '') == level


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, 'EXTRAS', {'nosuchpackage': ('fast', 'slow')})
    assert levels(check_process({})) == {'extra fast': 'warn'}
    monkeypatch.setattr(process, 'PACKAGES', ('nosuchpackage',))
    assert levels(check_process({}))['packages'] == 'fail'


# Cards


async def collect(findings: AsyncIterator[Finding]) -> list[Finding]:
    return [finding async for finding in findings]


def card_findings(answer: httpx.Response | Exception, url: str = 'https://agent.test') -> dict[str, str]:
    def respond(request: httpx.Request) -> httpx.Response:
        assert request.url == 'https://agent.test/.well-known/agent-card.json'
        if isinstance(answer, Exception):
            raise answer
        return answer

    return levels(asyncio.run(collect(check_card(url, httpx.MockTransport(respond)))))


def test_cards_are_fetched_and_judged() -> None:
    assert card_findings(httpx.Response(200, json=CARD)) == {}
    assert card_findings(httpx.Response(200, json=CARD), 'https://agent.test/') == {}
    assert card_findings(httpx.Response(200, json=CARD | {'later': 1})) == {}
    for answer in (
        httpx.Response(404),
        httpx.Response(200, text='<html>'),
        httpx.Response(200, content=b'\xff'),
        httpx.Response(200, text='[' * 10_000),
        httpx.Response(200, json=CARD | {'name': ''}),
        httpx.ConnectError('no'),
    ):
        assert card_findings(answer) == {'card': 'fail'}


def test_a_card_that_leads_astray_is_a_warning() -> None:
    local = json.dumps(CARD).replace('agent.test', '127.0.0.1:8000')
    card = json_format.Parse(local, AgentCard())
    assert levels(judge_card(card, 'https://agent.test')) == {'interfaces': 'warn'}
    assert levels(judge_card(card, 'http://localhost:8000')) == {}
