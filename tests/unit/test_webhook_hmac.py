"""HMAC signatures of webhooks: the published vector, what a receiver refuses, and secrets that change."""

import base64
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import a2a_scribe
from a2a_scribe.errors import ScribeError, SettingsError
from a2a_scribe.push.delivery import Outgoing
from a2a_scribe.push.signing import HmacSigner, read_secrets, signers_of
from a2a_scribe.settings import Settings
from a2a_scribe.testing.clock import START, FakeClock
from a2a_scribe.webhooks.names import event_id_in, header_form
from a2a_scribe.webhooks.standard import SharedSecret, content_of
from a2a_scribe.webhooks.verify import (
    DeliveryInHandError,
    DeliveryRefusedError,
    HmacVerifier,
    ReplayedDeliveryError,
    StaleDeliveryError,
    UnsignedDeliveryError,
    WrongSignatureError,
)
from tests.unit.strategies import quick

SECRET, OTHER = (f'whsec_{base64.b64encode(bytes([n]) * 32).decode()}' for n in (1, 2))
BODY = b'{"statusUpdate":{"taskId":"task"}}'


def outgoing(event_id: str = 'task/3', *, sent_at: int = START, body: bytes = BODY, attempt: int = 1) -> Outgoing:
    return Outgoing('https://hook.test/a', event_id.rpartition('/')[0], event_id, attempt, sent_at, {}, body)


def signed(one: Outgoing, *secrets: str) -> dict[str, str]:
    return dict(HmacSigner(read_secrets(secrets or [SECRET])).sign(one))


def take(verifier: HmacVerifier, headers: Mapping[str, str], body: bytes = BODY) -> bool:
    """Whether a delivery that is taken is a duplicate."""
    with verifier.verify(headers, body) as delivery:
        return delivery.is_duplicate


def new_verifier(*secrets: str) -> tuple[HmacVerifier, FakeClock]:
    clock = FakeClock()
    return HmacVerifier(secrets or SECRET, clock=clock), clock


# The scheme


def test_the_published_vector_of_standard_webhooks() -> None:
    secret = SharedSecret.parse('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')
    content = content_of('msg_p5jXN8AQM9LWM0D4loKWxJek', '1614265330', b'{"test": 2432232314}')
    assert secret.sign(content) == 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    assert secret.text() == 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'


def test_a_delivery_of_the_vector_is_taken() -> None:
    verifier = HmacVerifier('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', clock=FakeClock(1614265330_000_000))
    headers = {
        'Webhook-Id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
        'Webhook-Timestamp': '1614265330',
        'Webhook-Signature': 'v1a,unknown v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    }
    with verifier.verify(headers, b'{"test": 2432232314}') as delivery:
        assert (delivery.event_id, delivery.task_id, delivery.seq) == ('msg_p5jXN8AQM9LWM0D4loKWxJek', '', 0)


def test_the_headers_of_a_delivery() -> None:
    headers = signed(outgoing(sent_at=START + 999_999))
    assert headers['webhook-id'] == 'task/3'
    assert headers['webhook-timestamp'] == str(START // 1_000_000)
    assert headers['webhook-signature'].startswith('v1,')
    verifier, _ = new_verifier()
    with verifier.verify(headers, BODY) as delivery:
        assert (delivery.task_id, delivery.seq, delivery.body) == ('task', 3, BODY)
        assert delivery.sent_at.timestamp() == START // 1_000_000


@quick
@given(st.text(st.characters(exclude_categories=['Cs']), min_size=1))
def test_any_event_id_travels_in_a_header(event_id: str) -> None:
    header = header_form(event_id)
    assert header.isascii()
    assert header.isprintable()
    assert not set(header) & set('. ,;')
    assert event_id_in(header) == event_id


def test_ids_with_full_stops_cannot_be_read_as_an_id_and_a_time() -> None:
    headers = signed(outgoing('a.1750000000.b/3'))
    moved = {**headers, 'webhook-id': 'a', 'webhook-timestamp': '1750000000'}
    verifier, _ = new_verifier()
    with pytest.raises(WrongSignatureError):
        take(verifier, moved, b'b/3.1750000000.' + BODY)
    with pytest.raises(UnsignedDeliveryError):
        take(verifier, {**headers, 'webhook-id': 'a.1750000000.b/3'})
    assert not take(verifier, headers)


# What is refused


@pytest.mark.parametrize('name', ['webhook-id', 'webhook-timestamp', 'webhook-signature'])
@pytest.mark.parametrize('value', [None, '', 'x', 'v1', '-1', '²', '9' * 40, 'v2,abc', ' '.join(['v1,x'] * 21)])
def test_headers_that_are_missing_or_malformed(name: str, value: str | None) -> None:
    headers = signed(outgoing())
    del headers[name]
    if value is not None:
        headers[name] = value
    verifier, _ = new_verifier()
    with pytest.raises(DeliveryRefusedError) as refused:
        take(verifier, headers)
    assert refused.value.status == 401


def test_a_body_that_was_changed() -> None:
    verifier, _ = new_verifier()
    with pytest.raises(WrongSignatureError):
        take(verifier, signed(outgoing()), BODY + b' ')


@pytest.mark.parametrize('change', [{'webhook-id': 'task/4'}, {'webhook-timestamp': str(START // 1_000_000 + 1)}])
def test_an_id_or_a_time_that_was_changed(change: dict[str, str]) -> None:
    verifier, _ = new_verifier()
    with pytest.raises(WrongSignatureError):
        take(verifier, {**signed(outgoing()), **change})


def test_a_signature_with_another_secret() -> None:
    verifier, _ = new_verifier()
    with pytest.raises(WrongSignatureError):
        take(verifier, signed(outgoing(), OTHER))


@pytest.mark.parametrize('seconds', [-301, 301])
def test_a_time_that_is_too_old_or_in_the_future(seconds: int) -> None:
    verifier, _ = new_verifier()
    with pytest.raises(StaleDeliveryError):
        take(verifier, signed(outgoing(sent_at=START + seconds * 1_000_000)))


@pytest.mark.parametrize('seconds', [-299, 299])
def test_a_time_within_the_tolerance(seconds: int) -> None:
    verifier, _ = new_verifier()
    assert not take(verifier, signed(outgoing(sent_at=START + seconds * 1_000_000)))


def test_a_refusal_names_no_secret_and_no_signature() -> None:
    verifier, _ = new_verifier()
    headers = signed(outgoing())
    with pytest.raises(WrongSignatureError) as refused:
        take(verifier, headers, b'changed')
    shown = f'{refused.value!r} {refused.value} {vars(verifier)!r}'
    assert SECRET not in shown
    assert headers['webhook-signature'] not in shown
    assert repr(bytes([1]) * 32) not in shown


# Replays and duplicates


def test_the_same_attempt_is_taken_once() -> None:
    verifier, clock = new_verifier()
    headers = signed(outgoing())
    assert not take(verifier, headers)
    with pytest.raises(ReplayedDeliveryError) as refused:
        take(verifier, headers)
    assert refused.value.status == 409
    clock.advance(301)
    with pytest.raises(StaleDeliveryError):
        take(verifier, headers)


def test_a_replay_with_one_of_two_signatures_is_known_again() -> None:
    verifier, _ = new_verifier(SECRET, OTHER)
    headers = signed(outgoing(), SECRET, OTHER)
    assert not take(verifier, headers)
    for signature in headers['webhook-signature'].split(' '):
        with pytest.raises(ReplayedDeliveryError):
            take(verifier, {**headers, 'webhook-signature': signature})


def test_an_event_that_comes_again_is_a_duplicate() -> None:
    verifier, clock = new_verifier()
    assert not take(verifier, signed(outgoing()))
    clock.advance(1)
    assert take(verifier, signed(outgoing(sent_at=clock.now(), attempt=2)))
    assert not take(verifier, signed(outgoing('task/4', sent_at=clock.now())))


def test_an_event_whose_handling_failed_may_come_again_even_at_once() -> None:
    verifier, _ = new_verifier()
    headers = signed(outgoing())
    with pytest.raises(ZeroDivisionError), verifier.verify(headers, BODY):
        raise ZeroDivisionError
    assert not take(verifier, headers)


def test_a_second_attempt_while_the_first_is_handled_is_asked_to_come_later() -> None:
    verifier, clock = new_verifier()
    with verifier.verify(signed(outgoing()), BODY):
        clock.advance(30)
        with pytest.raises(DeliveryInHandError) as refused:
            take(verifier, signed(outgoing(sent_at=clock.now(), attempt=2)))
        assert refused.value.status == 503
        assert not take(verifier, signed(outgoing('task/4')))
    clock.advance(30)
    assert take(verifier, signed(outgoing(sent_at=clock.now(), attempt=3)))


def test_what_is_remembered_is_bounded() -> None:
    clock = FakeClock()
    verifier = HmacVerifier(SECRET, clock=clock, remembered_events=2)
    for seq in (1, 2, 3):
        take(verifier, signed(outgoing(f'task/{seq}')))
    clock.advance(1)
    again = [take(verifier, signed(outgoing(f'task/{seq}', sent_at=clock.now()))) for seq in (3, 2, 1)]
    assert again == [True, True, False]


# Secrets


def test_any_of_several_secrets_will_do_on_either_side() -> None:
    both = OTHER, SECRET
    assert len(signed(outgoing(), *both)['webhook-signature'].split(' ')) == 2
    for known in ([SECRET], [OTHER], [OTHER, SECRET]):
        verifier, _ = new_verifier(*known)
        assert not take(verifier, signed(outgoing(), *both))
    verifier, _ = new_verifier(SECRET, OTHER)
    assert not take(verifier, signed(outgoing(), OTHER))


@pytest.mark.parametrize(
    'text',
    [
        base64.b64encode(bytes(32)).decode(),
        'whsec_',
        'whsec_not base64',
        'whsec_' + 'ü' * 32,
        f'whsec_{base64.b64encode(bytes(23)).decode()}',
        f'whsec_{base64.b64encode(bytes(65)).decode()}',
    ],
)
def test_a_secret_of_another_form_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        SharedSecret.parse(text)
    assert text.removeprefix('whsec_') in ('', *str(refused.value).split()) or text not in str(refused.value)
    with pytest.raises(SettingsError, match='webhook_hmac_secrets'):
        signers_of(Settings(webhook_hmac_secrets=(text,)))


def test_settings_do_not_show_their_secrets() -> None:
    settings = Settings(webhook_hmac_secrets=(SECRET,))
    assert SECRET not in repr(settings)
    (signer,) = signers_of(settings)
    assert SECRET not in repr(vars(signer))


def test_without_settings_nothing_signs() -> None:
    assert signers_of(Settings()) == ()


def test_no_secrets_are_no_verifier() -> None:
    with pytest.raises(SettingsError):
        HmacVerifier([])


# What it stands on


def test_the_verifier_needs_nothing_of_the_server() -> None:
    """Under a parent package that imports nothing itself."""
    program = (
        'import sys, types\n'
        "package = types.ModuleType('a2a_scribe'); package.__path__ = [sys.argv[1]]\n"
        "sys.modules['a2a_scribe'] = package\n"
        'import a2a_scribe.webhooks.verify\n'
        "print(*sorted(name for name in sys.modules if name.partition('.')[0] in "
        "('a2a_scribe', 'a2a', 'starlette', 'sqlalchemy', 'google', 'jwt', 'cryptography')))"
    )
    home = Path(str(a2a_scribe.__file__)).parent
    done = subprocess.run([sys.executable, '-c', program, str(home)], capture_output=True, text=True, check=True)
    ground = ('a2a_scribe', 'a2a_scribe.clock', 'a2a_scribe.errors')
    assert [name for name in done.stdout.split() if not name.startswith('a2a_scribe.webhooks')] == list(ground)


def test_refusals_say_what_is_wrong_and_what_to_answer() -> None:
    kinds = DeliveryRefusedError.__subclasses__()
    assert len(kinds) == 8
    for kind in kinds:
        assert str(kind()).endswith('.')
        assert kind.status in (401, 409, 503)
        assert issubclass(kind, ScribeError)
