"""Tokens of webhooks: what a receiver refuses, keys that are fetched, and keys that change."""

import base64
import hashlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from a2a_scribe.errors import SettingsError
from a2a_scribe.push import signing
from a2a_scribe.push.delivery import Outgoing
from a2a_scribe.push.signing import TokenSigner, key_ring_of, signers_of
from a2a_scribe.push.signing_keys import Algorithm, KeyRing, new_key, read_ring, rotated
from a2a_scribe.settings import Settings
from a2a_scribe.testing.clock import START, FakeClock
from a2a_scribe.webhooks import keys as webhook_keys
from a2a_scribe.webhooks.keys import REST, FetchedKeys
from a2a_scribe.webhooks.names import TOKEN, audience_of
from a2a_scribe.webhooks.verify import (
    DeliveryRefusedError,
    JwtVerifier,
    KeysUnavailableError,
    MisdirectedDeliveryError,
    ReplayedDeliveryError,
    StaleDeliveryError,
    UnknownKeyError,
    UnsignedDeliveryError,
    WrongSignatureError,
)

pytestmark = pytest.mark.anyio

HOOK = 'https://hook.test/a'
BODY = b'{"task":{"id":"task"}}'
NOW = START // 1_000_000
KEYS_URL = 'https://agent.test/.well-known/jwks.json'
RINGS = {algorithm: KeyRing((new_key(algorithm, NOW, NOW),)) for algorithm in Algorithm}
RING = RINGS[Algorithm.EDDSA]

Claims = dict[str, Any]


def outgoing(event_id: str = 'task/3', sent_at: int = START, attempt: int = 1, body: bytes = BODY) -> Outgoing:
    return Outgoing(f'{HOOK}?secret=1', event_id.rpartition('/')[0], event_id, attempt, sent_at, {}, body)


def signed(one: Outgoing, ring: KeyRing = RING) -> dict[str, str]:
    return dict(TokenSigner(ring, 'agent').sign(one))


def jwks(ring: KeyRing = RING) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ring.published())
    return found


def new_verifier(ring: KeyRing = RING, clock: FakeClock | None = None) -> JwtVerifier:
    return JwtVerifier(jwks(ring), issuer='agent', audience=HOOK, clock=clock or FakeClock())


async def take(verifier: JwtVerifier, headers: Mapping[str, str], body: bytes = BODY) -> bool:
    """Whether a delivery that is taken is a duplicate."""
    async with verifier.verify(headers, body) as delivery:
        return delivery.is_duplicate


def forged(ring: KeyRing = RING, headers: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, str]:
    """A token with a good signature over other claims."""
    key = ring.keys[0]
    token = signed(outgoing(), ring)[TOKEN]
    claims = jwt.decode(token, options={'verify_signature': False}) | changes
    claims = {name: value for name, value in claims.items() if value is not None}
    given = {'kid': key.kid, 'typ': 'a2a-webhook+jwt', **(headers or {})}
    given = {name: value for name, value in given.items() if value is not None}
    return {TOKEN: jwt.encode(claims, key.private, key.algorithm, given)}


def encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b'=').decode()


# Tokens


@pytest.mark.parametrize('algorithm', Algorithm)
async def test_a_token_is_taken(algorithm: Algorithm) -> None:
    verifier = new_verifier(RINGS[algorithm])
    headers = {name.lower(): value for name, value in signed(outgoing(), RINGS[algorithm]).items()}
    async with verifier.verify(headers, BODY) as delivery:
        assert (delivery.event_id, delivery.task_id, delivery.seq) == ('task/3', 'task', 3)
        assert (delivery.body, delivery.is_duplicate) == (BODY, False)
        assert delivery.sent_at.timestamp() == NOW


def test_what_a_token_says() -> None:
    token = signed(outgoing(attempt=2))[TOKEN]
    claims = jwt.decode(token, options={'verify_signature': False})
    assert jwt.get_unverified_header(token) == {'alg': 'EdDSA', 'kid': RING.keys[0].kid, 'typ': 'a2a-webhook+jwt'}
    assert claims.pop('jti')
    assert claims == {
        'iss': 'agent',
        'aud': HOOK,
        'iat': NOW,
        'exp': NOW + 300,
        'event_id': 'task/3',
        'task_id': 'task',
        'attempt': 2,
        'request_body_sha256': hashlib.sha256(BODY).hexdigest(),
    }


@pytest.mark.parametrize(
    ('url', 'audience'),
    [
        ('https://user:pass@Hook.test:443/a/b?x=1#y', 'https://hook.test/a/b'),
        ('http://hook.test:8080', 'http://hook.test:8080/'),
        ('https://[2001:DB8::1]/a', 'https://[2001:db8::1]/a'),
        ('https://hook.test:99999/', ''),
        ('https://[hook', ''),
    ],
)
def test_whom_a_delivery_is_for(url: str, audience: str) -> None:
    assert audience_of(url) == audience


# What is refused


async def test_a_body_that_was_changed() -> None:
    with pytest.raises(WrongSignatureError):
        await take(new_verifier(), signed(outgoing()), BODY + b' ')


@pytest.mark.parametrize('token', [None, '', 'x', 'a.b.c', 'ü.ü.ü', 'x' * 20_000, 'e30.e30.e30'])
async def test_no_token(token: str | None) -> None:
    with pytest.raises(UnsignedDeliveryError):
        await take(new_verifier(), {} if token is None else {TOKEN: token})


async def test_a_changed_token() -> None:
    head, payload, signature = signed(outgoing())[TOKEN].split('.')
    other = signed(outgoing('task/4'))[TOKEN].split('.')
    for parts in ([head, other[1], signature], [head, payload, other[2]], [head, payload, '']):
        with pytest.raises(WrongSignatureError):
            await take(new_verifier(), {TOKEN: '.'.join(parts)})


async def test_a_key_of_somebody_else_under_the_same_id() -> None:
    stranger = KeyRing((replace(new_key(Algorithm.EDDSA, NOW, NOW), kid=RING.keys[0].kid),))
    with pytest.raises(WrongSignatureError):
        await take(new_verifier(), signed(outgoing(), stranger))


async def test_a_key_that_is_not_known() -> None:
    with pytest.raises(UnknownKeyError):
        await take(new_verifier(), signed(outgoing(), RINGS[Algorithm.ES256]))


@pytest.mark.parametrize('algorithm', Algorithm)
@pytest.mark.parametrize('alg', ['none', 'None', 'HS256', 'HS512', 'RS256', 'ES384', 'ES256', 'EdDSA'])
async def test_no_algorithm_but_the_one_of_the_key(algorithm: Algorithm, alg: str) -> None:
    """`none` needs no key, and HS256 would take the public key, which everybody has, for a secret."""
    ring = RINGS[algorithm]
    key = ring.keys[0]
    pem = key.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    claims = jwt.decode(signed(outgoing(), ring)[TOKEN], options={'verify_signature': False})
    head = encoded(json.dumps({'alg': alg, 'kid': key.kid, 'typ': 'a2a-webhook+jwt'}).encode())
    content = f'{head}.{encoded(json.dumps(claims).encode())}'
    hmac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    tokens = [f'{content}.', f'{content}.{encoded(hmac.sign(content.encode(), pem))}']
    if alg != algorithm:
        maker = jwt.algorithms.get_default_algorithms()[algorithm]
        tokens.append(f'{content}.{encoded(maker.sign(content.encode(), key.private))}')
    for token in tokens:
        with pytest.raises((UnsignedDeliveryError, WrongSignatureError)):
            await take(new_verifier(ring), {TOKEN: token})


@pytest.mark.parametrize(
    ('changes', 'error'),
    [
        ({'iss': 'other'}, MisdirectedDeliveryError),
        ({'aud': 'https://other.test/a'}, MisdirectedDeliveryError),
        ({'aud': ['https://hook.test/b']}, MisdirectedDeliveryError),
        ({'iat': NOW - 301, 'exp': NOW + 300}, StaleDeliveryError),
        ({'iat': NOW + 301, 'exp': NOW + 600}, StaleDeliveryError),
        ({'exp': NOW - 1}, StaleDeliveryError),
        ({'iat': 'now'}, UnsignedDeliveryError),
        ({'exp': True}, UnsignedDeliveryError),
        ({'event_id': 3}, UnsignedDeliveryError),
        ({'request_body_sha256': 3}, WrongSignatureError),
        ({'request_body_sha256': ''}, WrongSignatureError),
        *(({name: None}, UnsignedDeliveryError) for name in ('aud', 'iat', 'exp', 'event_id', 'request_body_sha256')),
    ],
)
async def test_claims_that_are_wrong_or_missing(changes: Claims, error: type[DeliveryRefusedError]) -> None:
    await take(new_verifier(), forged())
    with pytest.raises(error):
        await take(new_verifier(), forged(**changes))


@pytest.mark.parametrize('headers', [{'typ': 'JWT'}, {'typ': None}, {'kid': None}])
async def test_a_token_for_something_else(headers: Claims) -> None:
    with pytest.raises(UnsignedDeliveryError):
        await take(new_verifier(), forged(headers=headers))


async def test_a_refusal_shows_nothing_of_the_token() -> None:
    headers = signed(outgoing())
    with pytest.raises(WrongSignatureError) as refused:
        await take(new_verifier(), headers, b'changed')
    assert headers[TOKEN] not in f'{refused.value!r}'
    assert refused.value.__cause__ is None


# Replays and duplicates


async def test_the_same_attempt_is_taken_once_and_the_same_event_again() -> None:
    verifier = new_verifier()
    headers = signed(outgoing())
    assert not await take(verifier, headers)
    with pytest.raises(ReplayedDeliveryError):
        await take(verifier, headers)
    assert await take(verifier, signed(outgoing(attempt=2))), 'in the same second'
    assert not await take(verifier, signed(outgoing('task/4')))


async def test_a_signature_in_another_form_is_the_same_attempt() -> None:
    """Of one token of ES256 everybody can make a second one with a good signature."""
    ring = RINGS[Algorithm.ES256]
    verifier = new_verifier(ring)
    token = signed(outgoing(), ring)[TOKEN]
    content, _, signature = token.rpartition('.')
    raw = base64.urlsafe_b64decode(signature + '==')
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    mirrored = raw[:32] + (order - int.from_bytes(raw[32:], 'big')).to_bytes(32, 'big')
    assert not await take(verifier, {TOKEN: token})
    with pytest.raises(ReplayedDeliveryError):
        await take(verifier, {TOKEN: f'{content}.{encoded(mirrored)}'})


async def test_an_event_whose_handling_failed_may_come_again() -> None:
    verifier = new_verifier()
    with pytest.raises(ZeroDivisionError):
        async with verifier.verify(signed(outgoing()), BODY):
            raise ZeroDivisionError
    assert not await take(verifier, signed(outgoing(attempt=2)))


# Keys that are fetched


class Host:
    """Where keys are fetched from."""

    def __init__(self, ring: KeyRing = RING) -> None:
        self.ring: KeyRing | None = ring
        self.calls = 0

    async def __call__(self, url: str) -> bytes:
        assert url == KEYS_URL
        self.calls += 1
        if self.ring is None:
            raise OSError('away')
        return self.ring.published()


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def verifier(host: Host, clock: FakeClock) -> JwtVerifier:
    return JwtVerifier(KEYS_URL, issuer='agent', audience=[HOOK], clock=clock, fetch=host)


async def test_keys_are_fetched_once(verifier: JwtVerifier, host: Host) -> None:
    for seq in range(3):
        await take(verifier, signed(outgoing(f'task/{seq}')))
    assert host.calls == 1


async def test_an_unknown_key_is_fetched_at_once(verifier: JwtVerifier, host: Host, clock: FakeClock) -> None:
    await take(verifier, signed(outgoing()))
    clock.advance(REST)
    host.ring = RINGS[Algorithm.ES256]
    assert await take(verifier, signed(outgoing(sent_at=clock.now()), host.ring))
    with pytest.raises(KeysUnavailableError):
        await take(verifier, signed(outgoing(sent_at=clock.now())))


async def test_unknown_keys_do_not_have_the_host_flooded(verifier: JwtVerifier, host: Host, clock: FakeClock) -> None:
    await take(verifier, signed(outgoing()))
    clock.advance(REST)
    errors = []
    for n in range(20):
        stranger = KeyRing((replace(RING.keys[0], kid=f'key {n}'),))
        with pytest.raises(DeliveryRefusedError) as refused:
            await take(verifier, signed(outgoing(sent_at=clock.now()), stranger))
        errors.append((type(refused.value), refused.value.status))
    assert errors == [(UnknownKeyError, 401)] + [(KeysUnavailableError, 503)] * 19, 'what is only too new comes again'
    assert host.calls == 2


async def test_known_keys_go_on_working_while_the_host_is_away(
    verifier: JwtVerifier, host: Host, clock: FakeClock
) -> None:
    await take(verifier, signed(outgoing()))
    host.ring = None
    clock.advance(webhook_keys.MAX_AGE + 1)
    assert await take(verifier, signed(outgoing(sent_at=clock.now())))
    with pytest.raises(KeysUnavailableError):
        await take(verifier, signed(outgoing(sent_at=clock.now()), RINGS[Algorithm.ES256]))
    assert host.calls == 2
    clock.advance(REST)
    await take(verifier, signed(outgoing('task/4', clock.now())))
    assert host.calls == 2, 'a host that hangs does not hold up every delivery'
    clock.advance(webhook_keys.OLD_REST)
    await take(verifier, signed(outgoing('task/5', clock.now())))
    assert host.calls == 3


async def test_a_key_that_was_withdrawn_ends(verifier: JwtVerifier, host: Host, clock: FakeClock) -> None:
    await take(verifier, signed(outgoing()))
    host.ring = RINGS[Algorithm.ES256]
    clock.advance(webhook_keys.MAX_AGE + 1)
    with pytest.raises(UnknownKeyError):
        await take(verifier, signed(outgoing(sent_at=clock.now())))


@pytest.mark.parametrize('answer', [b'', b'[]', b'{}', b'{"keys": 3}', b'{"keys": [3]}', b'\xff'])
async def test_an_answer_that_is_no_key_set(answer: bytes, clock: FakeClock) -> None:
    async def fetch(_: str) -> bytes:
        return answer

    verifier = JwtVerifier(KEYS_URL, issuer='agent', audience=HOOK, clock=clock, fetch=fetch)
    with pytest.raises(DeliveryRefusedError):
        await take(verifier, signed(outgoing()))


def test_keys_come_over_https_unless_they_are_near() -> None:
    for url in ('https://agent.test/keys', 'http://127.0.0.1:1/keys', 'http://localhost/keys', 'http://[::1]/keys'):
        FetchedKeys(url, FakeClock())
    with pytest.raises(SettingsError, match='https'):
        JwtVerifier('http://agent.test/keys', issuer='agent', audience=HOOK)


def test_keys_that_we_cannot_use_are_passed_over() -> None:
    symmetric = {'kty': 'oct', 'k': 'AAAA', 'kid': 'a', 'alg': 'HS256'}
    broken = {'kty': 'EC', 'crv': 'P-256', 'x': 'AA', 'y': 'AA', 'kid': 'b'}
    other_use = {**RING.keys[0].public(), 'use': 'enc'}
    odd: list[Claims] = [symmetric, broken, other_use, {**RING.keys[0].public(), 'alg': 'HS256'}, {'kty': []}]
    for entry in odd:
        with pytest.raises(SettingsError):
            JwtVerifier({'keys': [entry]}, issuer='agent', audience=HOOK)
        assert list(webhook_keys.read_keys({'keys': [entry, *jwks()['keys']]})) == [RING.keys[0].kid]


# Keys that change


async def test_a_rotation_loses_nothing(host: Host, clock: FakeClock, verifier: JwtVerifier) -> None:
    """Each second a delivery, of a process that has read the file again or of one that has not; none is refused."""
    old = RING
    new = rotated(old, new_key(Algorithm.ES256, NOW, NOW + 60), NOW, keep=3600)
    for second in range(120):
        restarted = second >= 30
        host.ring = new if restarted or second % 2 else old
        sender = new if restarted or second % 3 else old
        await take(verifier, signed(outgoing(f'task/{second}', clock.now()), sender))
        clock.advance(1)
    assert jwt.get_unverified_header(signed(outgoing(sent_at=clock.now()), new)[TOKEN])['kid'] == new.keys[0].kid


def test_what_a_rotation_keeps() -> None:
    ring = rotated(RING, new_key(Algorithm.EDDSA, NOW, NOW + 60), NOW, keep=100)
    assert len(ring.keys) == 2
    assert ring.signer_at(NOW + 59) is RING.keys[0]
    assert ring.signer_at(NOW + 60) is ring.keys[0]
    with pytest.raises(SettingsError, match='does not sign yet'):
        rotated(ring, new_key(Algorithm.EDDSA, NOW, NOW + 60), NOW + 10, keep=100)
    soon = rotated(ring, new_key(Algorithm.EDDSA, NOW, NOW + 200), NOW + 159, keep=100)
    assert [key.signs_from - NOW for key in soon.keys] == [200, 60, 0], 'the oldest has signed within the time'
    late = rotated(ring, new_key(Algorithm.EDDSA, NOW, NOW + 200), NOW + 161, keep=100)
    assert [key.signs_from - NOW for key in late.keys] == [200, 60]


def test_before_any_key_may_sign_the_first_does() -> None:
    ring = KeyRing((new_key(Algorithm.EDDSA, NOW, NOW + 60), new_key(Algorithm.EDDSA, NOW, NOW + 10)))
    assert ring.signer_at(NOW) is ring.keys[1]


# Files


def pem_of(private: Any, form: str = 'PKCS8', password: bytes | None = None) -> bytes:
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    text: bytes = private.private_bytes(
        serialization.Encoding.PEM, getattr(serialization.PrivateFormat, form), encryption
    )
    return text


def test_a_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / 'keys.json'
    ring = KeyRing((new_key(Algorithm.ES256, NOW, NOW + 5), new_key(Algorithm.EDDSA, NOW - 9, NOW - 9)))
    file.write_bytes(ring.stored())
    assert read_ring(file).stored() == ring.stored()
    assert read_ring(file).published() == ring.published()


def test_what_is_published_is_public() -> None:
    for ring in RINGS.values():
        (entry,) = jwks(ring)['keys']
        assert set(entry) <= {'kty', 'crv', 'x', 'y', 'kid', 'alg', 'use'}
        assert ring.keys[0].jwk['d'] not in ring.published().decode()
        assert ring.keys[0].jwk['d'] not in repr(ring)


async def test_a_file_in_pem(tmp_path: Path) -> None:
    file = tmp_path / 'keys.pem'
    first, second = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()
    file.write_bytes(b'\n' + pem_of(first, 'TraditionalOpenSSL') + b'\n# the old one\n' + pem_of(second))
    ring = read_ring(file)
    assert [key.algorithm for key in ring.keys] == ['ES256', 'EdDSA']
    assert ring.signer_at(NOW) is ring.keys[0]
    assert not await take(new_verifier(ring), signed(outgoing(), ring))


def test_the_id_of_a_key_is_its_thumbprint(tmp_path: Path) -> None:
    """The key of RFC 8037, appendix A, whose thumbprint is told there."""
    file = tmp_path / 'keys.json'
    key = {
        'kty': 'OKP',
        'crv': 'Ed25519',
        'd': 'nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A',
        'x': '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
    }
    file.write_text(json.dumps({'keys': [key]}))
    assert read_ring(file).keys[0].kid == 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k'


@pytest.mark.parametrize(
    'text',
    [
        b'',
        b'{}',
        b'{"keys": []}',
        b'{"keys": 3}',
        b'\xff\xfe',
        b'-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----',
        json.dumps({'keys': [RING.keys[0].public()]}).encode(),
        json.dumps({'keys': [{**RING.keys[0].stored(), 'd': 'AA'}]}).encode(),
        json.dumps({'keys': [{**RING.keys[0].stored(), 'nbf': 'soon'}]}).encode(),
        json.dumps({'keys': [RING.keys[0].stored()] * 2}).encode(),
        pem_of(rsa.generate_private_key(65537, 2048)),
        pem_of(ec.generate_private_key(ec.SECP384R1())),
        pem_of(ed25519.Ed25519PrivateKey.generate(), password=b'secret'),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_not_shown(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / 'keys'
    file.write_bytes(text)
    with pytest.raises(SettingsError, match='keys') as refused:
        signers_of(Settings(webhook_signing_keys_file=str(file)))
    assert RING.keys[0].jwk['d'] not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match='No such file'):
        key_ring_of(Settings(webhook_signing_keys_file=str(tmp_path / 'none')))


def test_signers_come_from_the_settings(tmp_path: Path) -> None:
    file = tmp_path / 'keys.json'
    file.write_bytes(RING.stored())
    secret = f'whsec_{base64.b64encode(bytes(32)).decode()}'
    settings = Settings(webhook_signing_keys_file=str(file), webhook_hmac_secrets=(secret,), webhook_issuer='me')
    headers = {name: value for signer in signers_of(settings) for name, value in signer.sign(outgoing()).items()}
    assert set(headers) == {'webhook-id', 'webhook-timestamp', 'webhook-signature', TOKEN}
    assert jwt.decode(headers[TOKEN], options={'verify_signature': False})['iss'] == 'me'


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None if name == 'jwt' else name)
    with pytest.raises(SettingsError, match=r'a2a-scribe\[crypto\]'):
        signing.signers_of(Settings(webhook_signing_keys_file=str(tmp_path / 'keys')))
    with pytest.raises(SettingsError, match=r'a2a-scribe\[crypto\]'):
        new_verifier()
