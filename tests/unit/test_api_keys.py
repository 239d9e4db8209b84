"""API keys: made once, stored as digests, read again when their file changes."""

import json
import logging
import os
import stat
from pathlib import Path

import pytest

from a2a_scribe import ApiKeys, IncomingCall, MissingCredentialsError, SettingsError, UnauthenticatedError
from a2a_scribe.auth.key_file import (
    ID_BYTES,
    SECRET_BYTES,
    KeyFile,
    NewKey,
    digest_of,
    from_text,
    id_of,
    new_key,
    parse_keys,
    render_keys,
    to_text,
)
from a2a_scribe.testing.clock import START, FakeClock

HOUR = 3_600_000_000


def made(number: int, owner: str = 'ann', *, expires: int | None = None) -> NewKey:
    """A key that is the same each time."""
    return new_key(owner, bytes([number]) * (ID_BYTES + SECRET_BYTES), START, expires, ['b', 'a'])


def write(path: Path, *keys: NewKey) -> Path:
    path.write_bytes(render_keys(key.stored for key in keys))
    return path


def call(*values: str) -> IncomingCall:
    return IncomingCall('JSONRPC', [('x-api-key', value) for value in values])


def test_key_has_a_public_part_and_a_secret_that_is_not_stored(tmp_path: Path) -> None:
    key = made(7)
    assert key.text.startswith('a2as_')
    assert id_of(key.text) == key.stored.id == '07' * ID_BYTES
    assert len(key.text.split('_', 2)[2]) == 43
    content = write(tmp_path / 'keys', key).read_text()
    assert key.text.split('_', 2)[2] not in content
    assert key.text not in repr(key.stored)


def test_file_says_what_was_written() -> None:
    keys = [made(1), made(2, 'bén', expires=START + HOUR)]
    assert list(parse_keys(render_keys(key.stored for key in keys)).values()) == [key.stored for key in keys]


def test_key_opens_for_its_owner(tmp_path: Path) -> None:
    ann, ben = made(1), made(2, 'ben')
    keys = ApiKeys(write(tmp_path / 'keys', ann, ben), clock=FakeClock())
    principal = keys(call(ben.text))
    assert (principal.name, principal.scopes, principal.scheme) == ('ben', frozenset('ab'), 'apiKey')
    assert principal.claims == {'key_id': ben.stored.id}
    assert keys.security_schemes['apiKey'].api_key_security_scheme.name == 'X-API-Key'


@pytest.mark.parametrize(
    'text',
    [
        '',
        'a2as',
        'a2as__',
        'a2as_0101010101010101_',
        'a2as_0101010101010101_' + 'A' * 43,
        made(2).text,
        made(1).text + 'x',
        made(1).text[:-1],
        made(1).text.upper(),
        ' ' + made(1).text,
        'é€' * 20,
        'a' * 100_000,
    ],
    ids=range(12),
)
def test_other_keys_do_not(tmp_path: Path, text: str) -> None:
    keys = ApiKeys(write(tmp_path / 'keys', made(1)), clock=FakeClock())
    with pytest.raises(UnauthenticatedError) as refusal:
        keys(call(text))
    assert not isinstance(refusal.value, MissingCredentialsError)


def test_missing_and_doubled_keys_are_told_apart(tmp_path: Path) -> None:
    keys = ApiKeys(write(tmp_path / 'keys', made(1)), clock=FakeClock())
    with pytest.raises(MissingCredentialsError):
        keys(call())
    with pytest.raises(UnauthenticatedError, match='more than once') as refusal:
        keys(call(made(1).text, made(1).text))
    assert not isinstance(refusal.value, MissingCredentialsError)


def test_key_expires(tmp_path: Path) -> None:
    clock = FakeClock()
    key = made(1, expires=START + HOUR)
    keys = ApiKeys(write(tmp_path / 'keys', key), clock=clock)
    clock.advance(3599)
    assert keys(call(key.text)).name == 'ann'
    clock.advance(1)
    with pytest.raises(UnauthenticatedError):
        keys(call(key.text))


def test_changes_of_the_file_are_noticed(tmp_path: Path) -> None:
    clock = FakeClock()
    path = write(tmp_path / 'keys', made(1))
    keys = ApiKeys(path, clock=clock)
    KeyFile(path).add(made(2, 'ben').stored)
    clock.advance(1)
    assert keys(call(made(2).text)).name == 'ben'
    KeyFile(path).revoke(made(1).stored.id, clock.now())
    clock.advance(1)
    with pytest.raises(UnauthenticatedError):
        keys(call(made(1).text))


def test_change_that_does_not_show_in_time_and_size_is_noticed_while_the_file_is_new(tmp_path: Path) -> None:
    path = write(tmp_path / 'keys', made(1))
    found = path.stat()
    clock = FakeClock(found.st_mtime_ns // 1000)
    keys = ApiKeys(path, clock=clock)
    with path.open('r+b') as same:
        same.write(render_keys([made(2).stored]))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    clock.advance(1)
    assert keys(call(made(2).text)).name == 'ann'


def test_file_is_looked_at_once_a_second(tmp_path: Path) -> None:
    clock = FakeClock()
    path = write(tmp_path / 'keys', made(1))
    keys = ApiKeys(path, clock=clock)
    write(path, made(2))
    assert keys(call(made(1).text)).name == 'ann'
    clock.advance(1)
    with pytest.raises(UnauthenticatedError):
        keys(call(made(1).text))


@pytest.mark.parametrize('damage', [lambda path: path.unlink(), lambda path: path.write_text('{')], ids=['gone', 'bad'])
def test_keys_stay_while_the_file_cannot_be_read(
    tmp_path: Path, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    path = write(tmp_path / 'keys', made(1, expires=START + HOUR))
    keys = ApiKeys(path, clock=clock)
    assert callable(damage)
    damage(path)
    for _ in range(3):
        clock.advance(1)
        assert keys(call(made(1).text)).name == 'ann'
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    write(path, made(2))
    clock.advance(1)
    assert keys(call(made(2).text)).name == 'ann'
    with pytest.raises(UnauthenticatedError):
        keys(call(made(1).text))


ENTRY = json.loads(render_keys([made(1).stored]))['keys'][0]


@pytest.mark.parametrize(
    'content',
    [
        b'',
        b'[]',
        b'{}',
        b'{"keys": {}}',
        b'{"keys": [1]}',
        *(
            json.dumps({'keys': [ENTRY | change]}).encode()
            for change in (
                {'id': None},
                {'owner': ''},
                {'owner': 'a\nb'},
                {'owner': 'a' * 256},
                {'hash': 'md5:00'},
                {'hash': 'sha256:00'},
                {'hash': 'sha256:zz'},
                {'expires': 'never'},
                {'expires': 3},
                {'scopes': 'a'},
                {'scopes': ['']},
            )
        ),
        json.dumps({'keys': [ENTRY, ENTRY]}).encode(),
    ],
)
def test_what_is_no_file_of_keys_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / 'keys'
    path.write_bytes(content)
    with pytest.raises(SettingsError, match='is no file of API keys'):
        ApiKeys(path)
    with pytest.raises(SettingsError, match='is no file of keys'):
        KeyFile(path).add(made(1).stored)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match='cannot be read'):
        ApiKeys(tmp_path / 'keys')


def test_file_is_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / 'keys'
    for number in (1, 2):
        KeyFile(path).add(made(number).stored)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, 'fchown'), reason='modes are those of POSIX')
def test_file_keeps_its_mode_and_place(tmp_path: Path) -> None:
    """A server that runs as another user has to be able to read it, and a link to it leads to it still."""
    path = write(tmp_path / 'keys', made(1))
    path.chmod(0o640)
    (tmp_path / 'link').symlink_to(path)
    KeyFile(tmp_path / 'link').add(made(2).stored)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert (tmp_path / 'link').is_symlink()
    assert len(parse_keys(path.read_bytes())) == 2


def test_two_commands_at_once_do_not_lose_a_key(tmp_path: Path) -> None:
    path = write(tmp_path / 'keys', made(1))
    (tmp_path / 'keys.new').touch()
    with pytest.raises(SettingsError, match='another command'):
        KeyFile(path).add(made(2).stored)
    assert list(KeyFile(path).keys()) == [made(1).stored.id]


def test_key_that_was_revoked_stays_revoked_since_then(tmp_path: Path) -> None:
    path = write(tmp_path / 'keys', made(1))
    file = KeyFile(path)
    assert file.revoke(made(1).stored.id, START + 5_000_000).revoked == START + 5_000_000
    assert file.revoke(made(1).stored.id, START + 9_000_000).revoked == START + 5_000_000
    with pytest.raises(SettingsError, match='has no key'):
        file.revoke('nope', START)


@pytest.mark.parametrize('owner', ['', 'a' * 256, 'a\x00b', 'a\x7fb'])
def test_owner_has_bounds(owner: str) -> None:
    with pytest.raises(SettingsError, match='owner'):
        made(1, owner)


def test_times_are_written_in_utc() -> None:
    assert from_text('2027-01-31') == from_text('2027-01-31T00:00:00Z') == from_text('2027-01-31T01:00:00+01:00')
    assert to_text(from_text('2027-01-31')) == '2027-01-31T00:00:00Z'
    assert to_text(None) is None


def test_digest_depends_on_all_of_the_key() -> None:
    assert len({digest_of(text) for text in (made(1).text, made(2).text, made(1).text[:-1], '')}) == 4
