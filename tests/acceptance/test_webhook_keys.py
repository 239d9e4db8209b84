"""The commands for what signs webhooks."""

import json
import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from a2a_scribe.push.signing import read_secrets
from a2a_scribe.push.signing_keys import read_ring
from tests.acceptance.operator.kit import Result, command


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / 'keys.json'


def keys(name: str, file: Path, *options: str) -> Result:
    return command('webhooks', 'keys', name, str(file), *options)


def states(file: Path) -> list[str]:
    return [line['state'] for line in keys('list', file, '--json').lines]


def test_a_new_file_is_for_its_owner_alone(file: Path) -> None:
    old = os.umask(0)
    try:
        assert keys('new', file).code == 0
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_ring(file).keys[0].algorithm == 'EdDSA'
    assert states(file) == ['signs']


def test_a_file_is_not_overwritten(file: Path) -> None:
    keys('new', file)
    before = file.read_bytes()
    refused = keys('new', file)
    assert (refused.code, file.read_bytes()) == (2, before)
    assert 'rotate' in refused.stderr


@pytest.mark.parametrize('algorithm', ['ES256', 'EdDSA'])
def test_a_new_key_of_either_kind(file: Path, algorithm: str) -> None:
    done = keys('new', file, '--algorithm', algorithm, '--json')
    assert [line['algorithm'] for line in done.lines] == [algorithm]
    assert keys('rotate', file).code == 0
    assert {key.algorithm for key in read_ring(file).keys} == {algorithm}


def test_no_command_shows_a_private_key(file: Path) -> None:
    shown = [keys('new', file), keys('rotate', file), keys('list', file), keys('list', file, '--json')]
    said = ''.join(each.stdout + each.stderr for each in shown)
    for key in read_ring(file).keys:
        assert key.kid in said
        assert key.jwk['d'] not in said


def test_a_rotation_publishes_first_and_signs_later(file: Path) -> None:
    keys('new', file)
    (old,) = read_ring(file).keys
    assert keys('rotate', file).code == 0
    new, *others = read_ring(file).keys
    assert [key.kid for key in others] == [old.kid]
    assert states(file) == ['waits', 'signs']
    assert new.signs_from - new.made_at == 3600
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    again = keys('rotate', file)
    assert again.code == 2
    assert 'does not sign yet' in again.stderr


def test_a_rotation_at_once(file: Path) -> None:
    keys('new', file)
    assert keys('rotate', file, '--sign-in', '0s').code == 0
    assert states(file) == ['signs', 'published']


def test_keys_that_have_long_been_replaced_are_dropped(file: Path) -> None:
    keys('new', file)
    aged = json.loads(file.read_bytes())
    aged['keys'][0]['nbf'] -= 200_000
    aged['keys'] = [{**aged['keys'][0], 'nbf': aged['keys'][0]['nbf'] - 200_000, 'kid': 'older'}, *aged['keys']]
    file.write_text(json.dumps(aged))
    assert states(file) == ['published', 'signs']
    keys('rotate', file)
    assert states(file) == ['waits', 'signs']
    assert 'older' not in {key.kid for key in read_ring(file).keys}


def test_what_a_link_leads_to_is_rotated(file: Path) -> None:
    keys('new', file)
    link = file.with_name('link')
    link.symlink_to(file)
    assert keys('rotate', link).code == 0
    assert link.is_symlink()
    assert len(read_ring(file).keys) == 2


def test_pem_is_listed_and_not_rotated(file: Path) -> None:
    pem = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(pem)
    assert states(file) == ['signs']
    refused = keys('rotate', file)
    assert (refused.code, file.read_bytes()) == (2, pem)
    assert 'PEM' in refused.stderr


@pytest.mark.parametrize('name', ['list', 'rotate'])
def test_a_file_that_cannot_be_used(file: Path, name: str) -> None:
    assert keys(name, file).code == 2
    file.write_text('{"keys": [{"d": "private"}]}')
    refused = keys(name, file)
    assert refused.code == 2
    assert 'private"' not in refused.stderr


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    refused = keys('new', tmp_path / 'nowhere' / 'keys.json')
    assert refused.code == 2
    assert 'cannot be written' in refused.stderr


def test_a_secret_is_another_each_time() -> None:
    made = [command('webhooks', 'keys', 'secret').stdout for _ in range(2)]
    assert made[0] != made[1]
    assert [len(secret.key) for secret in read_secrets(made)] == [32, 32]
