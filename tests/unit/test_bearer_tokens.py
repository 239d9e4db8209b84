"""Bearer tokens: which are taken, by which keys, and for whom."""

import base64
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest

from a2a_scribe import (
    BearerTokens,
    IncomingCall,
    MissingCredentialsError,
    PermissionDeniedError,
    SettingsError,
    UnauthenticatedError,
)
from a2a_scribe.auth import bearer
from a2a_scribe.auth.crypto import load_crypto
from a2a_scribe.auth.key_sets import ASYMMETRIC
from a2a_scribe.testing.clock import START, FakeClock
from tests.support.issuer import (
    AUDIENCE,
    ISSUER,
    MAKERS,
    encoded,
    jwk,
    key_set,
    pem,
    private_key,
    signed_with_public_key,
    token,
    unsigned,
)

pytestmark = pytest.mark.anyio

NOW = START / 1_000_000


def call(*values: str) -> IncomingCall:
    return IncomingCall('JSONRPC', [('authorization', value) for value in values])


class Door:
    """Tokens that are verified by a file of keys."""

    def __init__(self, folder: Path, content: bytes | None = None, **options: Any) -> None:
        self.path = folder / 'keys.json'
        self.path.write_bytes(key_set(jwk('k1')) if content is None else content)
        self.clock = FakeClock()
        given = {'issuer': ISSUER, 'audience': AUDIENCE, 'keys': self.path, 'clock': self.clock, **options}
        self.tokens = BearerTokens(**given)

    async def owner(self, text: str) -> str:
        return (await self.tokens(call(f'Bearer {text}'))).name

    async def refusal(self, text: str) -> str:
        """What a refused token is refused for."""
        with pytest.raises(UnauthenticatedError) as refusal:
            await self.tokens(call(f'Bearer {text}'))
        (challenge,) = refusal.value.challenges
        assert challenge.startswith('Bearer realm="a2a", error="invalid_token", error_description="'), challenge
        assert refusal.value.message in challenge
        return refusal.value.message


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


# Right ones


async def test_right_token_is_its_owners(door: Door) -> None:
    principal = await door.tokens(call(f'bearer  {token(NOW, scope="read write", scp=["more", 3], role="x")}'))
    assert (principal.name, principal.scheme) == ('ann', 'bearer')
    assert principal.scopes == {'read', 'write', 'more'}
    assert principal.claims['role'] == 'x'
    assert 'ann' in repr(principal)
    assert 'role' not in repr(principal)


@pytest.mark.parametrize('algorithm', MAKERS)
async def test_every_kind_of_key_verifies_its_own(tmp_path: Path, algorithm: str) -> None:
    for folder, content in (
        ('jwks', key_set(jwk('k', algorithm))),
        ('open', key_set(jwk('k', algorithm, alg=None))),
        ('pem', pem('k', algorithm)),
    ):
        (tmp_path / folder).mkdir()
        door = Door(tmp_path / folder, content)
        assert await door.owner(token(NOW, 'k', algorithm)) == 'ann'
        assert await door.refusal(token(NOW, 'other', algorithm)) == 'The token is not valid'


async def test_audience_may_be_one_of_several(door: Door) -> None:
    assert await door.owner(token(NOW, aud=['others', AUDIENCE])) == 'ann'


async def test_token_need_not_name_its_key(tmp_path: Path) -> None:
    door = Door(tmp_path, key_set(jwk('k1'), jwk('k2'), jwk('k3', 'RS256')))
    for name, algorithm in (('k1', 'ES256'), ('k2', 'ES256'), ('k3', 'RS256')):
        assert await door.owner(token(NOW, name, algorithm, header={})) == 'ann'


async def test_owner_may_be_another_claim(tmp_path: Path) -> None:
    door = Door(tmp_path, owner_claim='email')
    assert await door.owner(token(NOW, email='ann@test')) == 'ann@test'
    assert await door.refusal(token(NOW)) == 'The token does not name its owner'


# Wrong ones

CLAIMS: dict[str, dict[str, Any]] = {
    'The token has expired': {'exp': int(NOW) - 31},
    'The token is not valid yet': {'nbf': int(NOW) + 31},
    'The token has no expiry': {'exp': None},
    'The token is for another audience': {'aud': 'another'},
    'The issuer of the token is not accepted': {'iss': 'https://issuer.test/'},
    'The token does not name its owner': {'sub': None},
}


@pytest.mark.parametrize('reason', CLAIMS)
async def test_claims_have_to_be_right(door: Door, reason: str) -> None:
    assert await door.refusal(token(NOW, **CLAIMS[reason])) == reason


@pytest.mark.parametrize(
    'changes',
    [
        {'aud': None},
        {'aud': []},
        {'aud': [[AUDIENCE]]},
        {'aud': {AUDIENCE: 1}},
        {'iss': None},
        {'iss': [ISSUER]},
        {'iat': int(NOW) + 31},
        {'exp': str(int(NOW) + 600)},
        {'exp': True},
        {'exp': {}},
        {'nbf': 'now'},
        {'nbf': []},
        {'sub': 3},
        {'sub': ''},
        {'sub': 'a' * 256},
        {'sub': 'a\nb'},
        {'sub': ['ann']},
    ],
    ids=str,
)
async def test_claims_have_to_be_of_their_kind(door: Door, changes: dict[str, Any]) -> None:
    await door.refusal(raw(changes))


def raw(changes: dict[str, Any]) -> str:
    """A token that is signed rightly, whatever it says: what encodes tokens refuses to write some of that."""
    said = {'iss': ISSUER, 'aud': AUDIENCE, 'sub': 'ann', 'exp': int(NOW) + 600, **changes}
    return jwt.api_jws.encode(json.dumps(said).encode(), private_key('k1'), 'ES256', headers={'kid': 'k1'})


@pytest.mark.parametrize('payload', [b'', b'{', b'[]', b'"x"', b'1e999', b'{"exp": 1e999}', b'\xff', b'[' * 100_000])
async def test_claims_have_to_be_an_object(tmp_path: Path, payload: bytes) -> None:
    door = Door(tmp_path)
    signed = jwt.api_jws.encode(payload[:3000], private_key('k1'), 'ES256', headers={'kid': 'k1'})
    await door.refusal(signed)


async def test_clocks_may_differ(tmp_path: Path) -> None:
    door = Door(tmp_path, leeway=10)
    assert await door.owner(token(NOW, exp=int(NOW) - 9)) == 'ann'
    assert await door.owner(token(NOW, nbf=int(NOW) + 10, iat=int(NOW) + 10)) == 'ann'
    await door.refusal(token(NOW, exp=int(NOW) - 10))
    await door.refusal(token(NOW, nbf=int(NOW) + 11))


async def test_unsigned_tokens_are_refused(tmp_path: Path) -> None:
    for content in (key_set(jwk('k1', 'RS256')), pem('k1', 'RS256')):
        door = Door(tmp_path, content)
        for name in ('none', 'None', 'NONE', '', 'nOnE'):
            await door.refusal(unsigned(NOW, name, b'x'))
            await door.refusal(unsigned(NOW, name, b'x' * 256))
        with pytest.raises(UnauthenticatedError):
            await door.tokens(call(f'Bearer {unsigned(NOW)}'))


@pytest.mark.parametrize('algorithms', [ASYMMETRIC, ('RS256', 'HS256')], ids=['usual', 'with HS256'])
async def test_public_key_is_no_secret(tmp_path: Path, algorithms: tuple[str, ...]) -> None:
    for content in (key_set(jwk('k1', 'RS256')), key_set(jwk('k1', 'RS256', alg=None)), pem('k1', 'RS256')):
        door = Door(tmp_path, content, algorithms=algorithms)
        for public in (pem('k1', 'RS256'), pem('k1', 'RS256').strip(), content):
            await door.refusal(signed_with_public_key(NOW, public))


async def test_key_is_for_its_own_algorithm_only(tmp_path: Path) -> None:
    door = Door(tmp_path, key_set(jwk('k1', 'RS256')))
    said = {'iss': ISSUER, 'aud': AUDIENCE, 'sub': 'ann', 'exp': int(NOW) + 600}
    for name in ('PS256', 'RS512'):
        await door.refusal(jwt.encode(said, private_key('k1', 'RS256'), name, headers={'kid': 'k1'}))


async def test_algorithms_that_are_not_allowed_are_refused(tmp_path: Path) -> None:
    door = Door(tmp_path, key_set(jwk('k1'), jwk('k2', 'RS256')), algorithms=['RS256'])
    await door.refusal(token(NOW, 'k1'))
    assert await door.owner(token(NOW, 'k2', 'RS256')) == 'ann'


async def test_secrets_have_to_be_asked_for(tmp_path: Path) -> None:
    secret = b's' * 32
    content = key_set({'kty': 'oct', 'kid': 'k1', 'k': encoded(secret).decode()}, jwk('k2'))
    said = {'iss': ISSUER, 'aud': AUDIENCE, 'sub': 'ann', 'exp': int(NOW) + 600}
    signed = jwt.encode(said, secret, 'HS256', headers={'kid': 'k1'})
    await Door(tmp_path, content).refusal(signed)
    assert await Door(tmp_path, content, algorithms=['HS256']).owner(signed) == 'ann'
    with pytest.raises(SettingsError, match='need a file'):
        BearerTokens(issuer=ISSUER, audience=AUDIENCE, keys='https://issuer.test/keys', algorithms=['HS256'])


@pytest.mark.parametrize(
    'header',
    [
        {'kid': 'k1', 'crit': ['exp'], 'exp': 1},
        {'kid': 'k1', 'b64': False},
        {'kid': 'k2'},
        {'jwk': {}},
        {'kid': '../../dev/null'},
    ],
    ids=str,
)
async def test_headers_have_to_be_plain(tmp_path: Path, header: dict[str, Any]) -> None:
    part = encoded(json.dumps({'alg': 'ES256', **header}).encode()).decode()
    _, claims, signature = token(NOW).split('.')
    await Door(tmp_path).refusal(f'{part}.{claims}.{signature}')


@pytest.mark.parametrize(
    'damage',
    [
        lambda text: text[:-2],
        lambda text: text + 'A',
        lambda text: 'A' + text,
        lambda text: text.replace('.', '', 1),
        lambda text: text + '.',
        lambda text: '.' + text,
        lambda text: text.split('.')[0] + '..' + text.split('.')[2],
        lambda text: f'{text} {text}',
        lambda text: text + '\x00',
        lambda text: text + '=',
        lambda text: text[:50] + 'é' + text[50:],
        lambda _: 'a.b.c',
        lambda _: '.'.join(['A' * 3000] * 3),
        lambda _: encoded(b'[' * 4000).decode() + '.e30.e30',
        lambda _: encoded(b'{"alg":3}').decode() + '.e30.e30',
        lambda _: encoded(b'{"alg":"ES256","kid":3}').decode() + '.e30.e30',
        lambda _: encoded(b'\xff').decode() + '.e30.e30',
        lambda _: 'x' * 100_000,
        lambda _: '',
    ],
    ids=range(19),
)
async def test_damaged_tokens_are_refused(door: Door, damage: Callable[[str], str]) -> None:
    await door.refusal(damage(token(NOW)))


async def test_every_bit_of_a_token_counts(door: Door) -> None:
    right = token(NOW)
    assert await door.owner(right) == 'ann'
    head, _, signature = right.rpartition('.')
    last = base64.urlsafe_b64decode(signature + '==')
    for index in range(len(last)):
        changed = bytes([*last[:index], last[index] ^ 1, *last[index + 1 :]])
        await door.refusal(f'{head}.{encoded(changed).decode()}')


@pytest.mark.parametrize('given', [(), ('',), ('Basic YTpi',), ('Bear x.y.z',)], ids=str)
async def test_other_credentials_are_none(door: Door, given: tuple[str, ...]) -> None:
    with pytest.raises(MissingCredentialsError):
        await door.tokens(call(*given))


async def test_two_tokens_are_one_too_many(door: Door) -> None:
    with pytest.raises(UnauthenticatedError, match='more than once') as refusal:
        await door.tokens(call(f'Bearer {token(NOW)}', f'Bearer {token(NOW)}'))
    assert 'error="invalid_request"' in refusal.value.challenges[0]


async def test_scopes_that_are_required_have_to_be_there(tmp_path: Path) -> None:
    door = Door(tmp_path, required_scopes=['a2a', 'more'])
    assert await door.owner(token(NOW, scope='more a2a x')) == 'ann'
    for scope in (None, 'a2a', 'a2amore', ['a2a']):
        with pytest.raises(PermissionDeniedError) as refusal:
            await door.owner(token(NOW, scope=scope))
        assert 'error="insufficient_scope"' in refusal.value.challenges[0]
        assert 'scope="a2a more"' in refusal.value.challenges[0]


# Tokens that were seen before


async def test_token_that_is_known_is_not_verified_again(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    right = token(NOW)
    assert await door.owner(right) == 'ann'
    monkeypatch.setattr(door.tokens, '_jws', None)
    assert await door.owner(right) == 'ann'
    await door.refusal(token(NOW, iat=int(NOW) - 1))


async def test_claims_are_the_callers_own(door: Door) -> None:
    given = call(f'Bearer {token(NOW, groups=["a"])}')
    for _ in range(3):
        claims: Any = (await door.tokens(given)).claims
        assert claims['groups'] == ['a']
        claims['groups'].append('admin')
        claims['sub'] = 'ben'


async def test_token_that_is_known_expires_all_the_same(door: Door) -> None:
    right = token(NOW, exp=int(NOW) + 60)
    assert await door.owner(right) == 'ann'
    door.clock.advance(89)
    assert await door.owner(right) == 'ann'
    door.clock.advance(1)
    assert await door.refusal(right) == 'The token has expired'


async def test_token_that_is_known_ends_with_its_key(door: Door) -> None:
    right = token(NOW)
    assert await door.owner(right) == 'ann'
    door.path.write_bytes(key_set(jwk('k2')))
    door.clock.advance(1)
    await door.refusal(right)
    assert await door.owner(token(NOW, 'k2')) == 'ann'


async def test_bounded_number_of_tokens_is_known(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer, 'MAX_REMEMBERED', 3)
    given = [token(NOW, sub=f's{number}') for number in range(5)]
    for number, text in enumerate(given):
        assert await door.owner(text) == f's{number}'
    monkeypatch.setattr(door.tokens, '_jws', None)
    assert [await door.owner(text) for text in given[2:]] == ['s2', 's3', 's4']
    await door.refusal(given[0])


# The extra


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, 'find_spec', lambda _: None)
    with pytest.raises(SettingsError, match=r"pip install 'a2a-scribe\[crypto\]'"):
        load_crypto.__wrapped__()


def test_extra_is_imported_only_when_it_is_asked_for() -> None:
    program = "import sys, a2a_scribe.cli; print({'jwt', 'cryptography'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, check=True)
    assert shown.stdout == 'set()\n'


# Keys and options that cannot be used


@pytest.mark.parametrize(
    'content',
    [
        b'',
        b'{}',
        b'[]',
        b'{"keys": []}',
        b'{"keys": {}}',
        b'{"keys": [1, null, {}, {"kty": "RSA"}, {"kty": "EC", "crv": "P-256", "x": "!", "y": 3}]}',
        b'-----BEGIN PUBLIC KEY-----\nnope\n-----END PUBLIC KEY-----',
        b'-----BEGIN PRIVATE KEY-----\nnope\n-----END PRIVATE KEY-----',
    ],
)
def test_file_without_keys_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(SettingsError, match='cannot be used'):
        Door(tmp_path, content)


async def test_keys_that_are_no_use_are_left_out(tmp_path: Path) -> None:
    others = [jwk('k2', use='enc'), jwk('k3', key_ops=['sign']), {'kty': 'new', 'kid': 'k4'}, 7, jwk('k5', x='AA')]
    door = Door(tmp_path, json.dumps({'keys': [*others, jwk('k1')]}).encode())
    assert await door.owner(token(NOW)) == 'ann'
    for name in ('k2', 'k3'):
        await door.refusal(token(NOW, name))


async def test_private_parts_of_a_key_are_not_read(tmp_path: Path) -> None:
    door = Door(tmp_path, key_set(jwk('k1', d='AAAA')))
    assert await door.owner(token(NOW)) == 'ann'


@pytest.mark.parametrize(
    ('name', 'value'),
    [
        ('issuer', ''),
        ('audience', ''),
        ('owner_claim', ''),
        ('leeway', -1.0),
        ('leeway', float('nan')),
        ('algorithms', []),
        ('algorithms', 'RS256'),
        ('algorithms', ['none']),
        ('algorithms', ['RS257']),
        ('required_scopes', ['a b']),
        ('required_scopes', ['"']),
        ('keys', 'ftp://issuer.test/keys'),
        ('keys', 'https://'),
        ('keys', 'nowhere.json'),
    ],
)
def test_options_that_cannot_work_are_refused(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(SettingsError):
        Door(tmp_path, **{name: value})
