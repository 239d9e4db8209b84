"""Secrets at rest: sealed with the newest key, opened with any, never shown."""

import builtins
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import AuthenticationInfo
from cryptography.fernet import Fernet

from a2a_scribe.errors import SettingsError
from a2a_scribe.protocol.types import TaskPushNotificationConfig
from a2a_scribe.push.sealing import box_of, open_config, seal_config, without_secrets
from a2a_scribe.settings import Settings

OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()
CONFIG = TaskPushNotificationConfig(
    id='c',
    task_id='t',
    url='https://hook.test/',
    token='the-token',
    authentication=AuthenticationInfo(scheme='Bearer', credentials='the-credentials-\u00fc\u2713'),
)


def box(*keys: str) -> Any:
    return box_of(Settings(webhook_keys=keys))


def test_what_is_sealed_can_be_read_with_the_key_only() -> None:
    sealed = box(NEW).seal(b'secret')
    assert b'secret' not in sealed
    assert box(NEW).open(sealed) == b'secret'
    for others in ((OLD,), ()):
        with pytest.raises(SettingsError, match='webhook_keys') as caught:
            box(*others).open(sealed)
        assert OLD not in str(caught.value)


def test_the_same_secret_is_sealed_differently_each_time() -> None:
    assert box(NEW).seal(b'secret') != box(NEW).seal(b'secret')


def test_keys_rotate() -> None:
    before, during, after = box(OLD), box(NEW, OLD), box(NEW)
    old = before.seal(b'secret')
    assert during.open(old) == b'secret'
    new = during.seal(during.open(old))
    assert after.open(new) == b'secret'
    with pytest.raises(SettingsError):
        before.open(new)


def test_what_was_stored_before_there_were_keys_stays_readable() -> None:
    plain = box().seal(b'secret')
    assert plain == b'secret'
    assert box(NEW).open(plain) == b'secret'
    assert box().open(plain) == b'secret'


def test_what_was_tampered_with_is_not_opened() -> None:
    sealed = bytearray(box(NEW).seal(b'secret'))
    sealed[20] ^= 1
    with pytest.raises(SettingsError):
        box(NEW).open(bytes(sealed))


def test_a_config_is_sealed_and_opened_as_a_whole() -> None:
    sealed = seal_config(CONFIG, box(NEW))
    stored = sealed.SerializeToString()
    assert b'the-token' not in stored
    assert b'the-credentials' not in stored
    assert (sealed.id, sealed.task_id, sealed.url) == ('c', 't', 'https://hook.test/')
    assert sealed.authentication.scheme == 'Bearer'
    assert open_config(sealed, box(NEW)) == CONFIG
    assert open_config(CONFIG, box(NEW)) == CONFIG, 'a config from before there were keys'


def test_a_config_without_secrets_has_none_sealed() -> None:
    plain = TaskPushNotificationConfig(id='c', url='https://hook.test/')
    assert seal_config(plain, box(NEW)) == plain
    with_scheme = TaskPushNotificationConfig(url='x', authentication=AuthenticationInfo(scheme='Bearer'))
    assert seal_config(with_scheme, box(NEW)) == with_scheme


def test_secrets_are_left_out() -> None:
    shown = without_secrets(CONFIG)
    assert (shown.token, shown.authentication.credentials, shown.authentication.scheme) == ('', '', 'Bearer')
    assert CONFIG.token == 'the-token'


# Keys


def test_keys_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / 'keys'
    path.write_text(f'{NEW}\n{OLD}\n', encoding='utf-8')
    both = box_of(Settings(webhook_keys_file=str(path)))
    assert both.open(box(OLD).seal(b'secret')) == b'secret'
    assert box(NEW).open(both.seal(b'secret')) == b'secret'


def test_a_file_without_keys_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / 'empty'
    empty.touch()
    for path in (empty, tmp_path / 'missing', tmp_path):
        with pytest.raises(SettingsError, match='webhook_keys_file'):
            box_of(Settings(webhook_keys_file=str(path)))


def test_keys_come_from_one_place() -> None:
    with pytest.raises(SettingsError, match='Only one'):
        box_of(Settings(webhook_keys=(NEW,), webhook_keys_file='keys'))


@pytest.mark.parametrize('key', ['short', 'x' * 44, 'AAAA' * 10, 'geheim-\u00fc'])
def test_a_key_of_the_wrong_form_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(SettingsError, match='this makes one') as caught:
        box(NEW, key)
    assert key not in str(caught.value)
    assert caught.value.__cause__ is None


def test_keys_are_not_shown_by_settings() -> None:
    settings = Settings(webhook_keys=(NEW, OLD), webhook_proxy='http://user:word@proxy.test')
    assert NEW not in repr(settings)
    assert 'word' not in repr(settings)
    with pytest.raises(SettingsError) as caught:
        Settings(webhook_keys=NEW)  # type: ignore[arg-type]
    assert NEW not in str(caught.value)


def test_keys_need_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith('cryptography'):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, '__import__', without)
    assert box().seal(b'x') == b'x'
    with pytest.raises(SettingsError, match=r"pip install 'a2a-scribe\[crypto\]'"):
        box(NEW)
