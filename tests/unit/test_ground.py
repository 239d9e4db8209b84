"""What everything stands on: settings, signals, errors, states, page tokens, views, fakes."""

import base64
import json
from typing import Any

import pytest
from a2a.utils.errors import InvalidParamsError
from hypothesis import given
from hypothesis import strategies as st

from a2a_scribe import errors
from a2a_scribe.clock import Clock, SystemClock
from a2a_scribe.core.views import for_list, limit_history
from a2a_scribe.errors import ScribeError, SettingsError
from a2a_scribe.ids import IdSource, UuidSource
from a2a_scribe.protocol.paging import PagePosition, decode_token, encode_token
from a2a_scribe.protocol.states import ACTIVE, INTERRUPTED, KNOWN, MOVES, TERMINAL, UNSPECIFIED, name_of
from a2a_scribe.protocol.types import Artifact, Message, Task, TaskState
from a2a_scribe.settings import Settings
from a2a_scribe.signals import Signal, Signals, TurnPoint
from a2a_scribe.testing.clock import START, FakeClock
from a2a_scribe.testing.ids import CountingIds
from tests.unit.strategies import quick

# Settings


def test_settings_come_from_the_environment() -> None:
    environment = {
        'A2A_SCRIBE_UNFINISHED': 'keep',
        'A2A_SCRIBE_EXPOSE_ERRORS': 'True',
        'A2A_SCRIBE_TAIL_RECORDS': '12',
        'A2A_SCRIBE_HEARTBEAT': '0.5',
        'A2A_SCRIBE_RETAIN_COMPLETED': '60',
        'A2A_SCRIBE_RETAIN_FAILED': 'none',
        'HEARTBEAT': '9',
    }
    expected = Settings(unfinished='keep', expose_errors=True, tail_records=12, heartbeat=0.5, retain_completed=60.0)
    assert Settings.from_environment(environment) == expected
    assert Settings.from_environment({}) == Settings()


def test_a_variable_that_is_no_setting_is_named() -> None:
    with pytest.raises(SettingsError, match='A2A_SCRIBE_HARTBEAT'):
        Settings.from_environment({'A2A_SCRIBE_HARTBEAT': '1'})


def test_a_limit_can_be_off() -> None:
    environment = {'A2A_SCRIBE_TURN_TIMEOUT': '30', 'A2A_SCRIBE_INACTIVITY_TIMEOUT': 'none'}
    assert Settings.from_environment(environment) == Settings(turn_timeout=30.0, inactivity_timeout=None)
    with pytest.raises(SettingsError, match='A2A_SCRIBE_HEARTBEAT'):
        Settings.from_environment({'A2A_SCRIBE_HEARTBEAT': 'none'})


def test_a_setting_can_have_several_values() -> None:
    environment = {'A2A_SCRIBE_WEBHOOK_ALLOW': 'localhost, 10.0.0.0/8 *.internal,', 'A2A_SCRIBE_WEBHOOK_KEYS': ''}
    assert Settings.from_environment(environment) == Settings(webhook_allow=('localhost', '10.0.0.0/8', '*.internal'))


WRONG_TYPES: list[dict[str, Any]] = [
    {'heartbeat': 'x'},
    {'heartbeat': True},
    {'expose_errors': 1},
    {'tail_records': None},
    {'retain_failed': 'x'},
    {'webhook_allow': 'localhost'},
    {'webhook_allow': (1,)},
]


@pytest.mark.parametrize('given', WRONG_TYPES)
def test_a_setting_of_the_wrong_type_is_named(given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(given))):
        Settings(**given)


def test_settings_come_from_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('A2A_SCRIBE_TASK_ARTIFACTS', '3')
    assert Settings.from_environment().task_artifacts == 3


@pytest.mark.parametrize(
    ('variable', 'value'),
    [
        ('A2A_SCRIBE_UNFINISHED', 'maybe'),
        ('A2A_SCRIBE_EXPOSE_ERRORS', 'yes'),
        ('A2A_SCRIBE_TAIL_RECORDS', '1.5'),
        ('A2A_SCRIBE_TAIL_RECORDS', '0'),
        ('A2A_SCRIBE_HEARTBEAT', 'soon'),
        ('A2A_SCRIBE_HEARTBEAT', '-1'),
        ('A2A_SCRIBE_HEARTBEAT', 'nan'),
        ('A2A_SCRIBE_HEARTBEAT', ''),
        ('A2A_SCRIBE_TURN_TIMEOUT', '0'),
        ('A2A_SCRIBE_TURN_TIMEOUT', 'inf'),
        ('A2A_SCRIBE_TURN_TIMEOUT', 'never'),
        ('A2A_SCRIBE_HEARTBEAT', 'none'),
        ('A2A_SCRIBE_RETAIN_CANCELED', '0'),
        ('A2A_SCRIBE_RETAIN_CANCELED', 'inf'),
    ],
)
def test_a_value_that_cannot_be_used_names_its_setting(variable: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment({variable: value})
    name = variable.removeprefix('A2A_SCRIBE_')
    assert name in str(caught.value).upper()


def test_a_setting_given_in_code_is_checked_as_well() -> None:
    with pytest.raises(SettingsError, match='cancel_deadline'):
        Settings(cancel_deadline=0)


# Signals


def test_a_signal_tells_those_who_listen_until_they_stop() -> None:
    signal: Signal[int] = Signal()
    heard: list[tuple[str, int]] = []
    assert not signal
    stop = signal.connect(lambda payload: heard.append(('first', payload)))
    signal.connect(lambda payload: heard.append(('second', payload)))
    assert signal
    signal.emit(1)
    stop()
    signal.emit(2)
    assert heard == [('first', 1), ('second', 1), ('second', 2)]


def test_a_listener_may_stop_while_it_listens() -> None:
    signal: Signal[int] = Signal()
    heard: list[int] = []

    def once(payload: int) -> None:
        heard.append(payload)
        stop()

    stop = signal.connect(once)
    signal.connect(heard.append)
    signal.emit(1)
    signal.emit(2)
    assert heard == [1, 1, 2]


def test_nobody_listens_at_first() -> None:
    signals = Signals()
    assert not any(getattr(signals, name) for name in Signals.__slots__)
    assert TurnPoint('task', 'turn').outcome == ''


# Errors


TREE = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ScribeError) and kind is not ScribeError
]


@pytest.mark.parametrize('kind', TREE, ids=lambda kind: kind.__name__)
def test_an_error_says_what_happened_without_being_told(kind: type[ScribeError]) -> None:
    assert str(kind()) == (kind.__doc__ or '').splitlines()[0]
    assert str(kind('something else')) == 'something else'


# States


def test_every_state_of_the_protocol_is_of_one_kind() -> None:
    assert {*TaskState.values()} - {UNSPECIFIED} == KNOWN
    assert len(ACTIVE) + len(INTERRUPTED) + len(TERMINAL) == len(KNOWN)


def test_nothing_follows_a_terminal_state_and_anything_may_follow_another() -> None:
    assert MOVES.keys() == KNOWN
    assert all(MOVES[state] == (frozenset() if state in TERMINAL else KNOWN) for state in KNOWN)


def test_states_have_names_known_or_not() -> None:
    assert name_of(TaskState.TASK_STATE_COMPLETED) == 'TASK_STATE_COMPLETED'
    assert name_of(UNSPECIFIED) == 'TASK_STATE_UNSPECIFIED'
    assert name_of(99) == 'state 99'  # type: ignore[arg-type]


# Page tokens


@quick
@given(st.integers(-(2**63), 2**63 - 1), st.text(st.characters(codec='utf-8', exclude_characters='\0')))
def test_a_page_token_round_trips(status_time: int, task_id: str) -> None:
    token = encode_token(PagePosition(status_time, task_id))
    assert token.isascii()
    assert '=' not in token
    assert decode_token(token) == PagePosition(status_time, task_id)


def test_the_empty_token_is_the_first_page() -> None:
    assert decode_token('') is None


def token_of(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip('=')


@pytest.mark.parametrize(
    'token',
    [
        'garbage',
        'ü',
        '====',
        'a',
        '%%%%',
        token_of({}),
        token_of(None),
        token_of(7),
        token_of([1]),
        token_of([1, 2]),
        token_of(['1', 'x']),
        token_of([1.5, 'x']),
        token_of([True, 'x']),
        token_of([2**63, 'x']),
        token_of([1, 'x', 'y']),
        token_of({'1': 1, '2': 2}),
        base64.urlsafe_b64encode(b'\xff\xfe').decode(),
        base64.urlsafe_b64encode(b'[' * 100_000).decode(),
    ],
    ids=range(18),
)
def test_a_token_that_is_not_ours_is_refused(token: str) -> None:
    with pytest.raises(InvalidParamsError, match='pageToken'):
        decode_token(token)


@quick
@given(st.text(min_size=1))
def test_any_text_is_a_token_or_refused(text: str) -> None:
    try:
        position = decode_token(text)
    except InvalidParamsError:
        return
    assert isinstance(position, PagePosition)


# Views


def new_task() -> Task:
    return Task(history=[Message(message_id=str(number)) for number in range(4)], artifacts=[Artifact(artifact_id='a')])


@pytest.mark.parametrize(('length', 'kept'), [(None, '0123'), (0, ''), (1, '3'), (3, '123'), (4, '0123'), (9, '0123')])
def test_the_newest_messages_are_kept(length: int | None, kept: str) -> None:
    assert ''.join(message.message_id for message in limit_history(new_task(), length).history) == kept


@pytest.mark.parametrize('included', [False, True])
def test_lists_leave_artifacts_out_unless_asked(included: bool) -> None:
    shown = for_list(new_task(), history_length=1, include_artifacts=included)
    assert len(shown.artifacts) == int(included)
    assert [message.message_id for message in shown.history] == ['3']


# Time and identity, and their fakes


def test_the_clocks_and_sources_agree_on_what_they_are() -> None:
    clocks: list[Clock] = [SystemClock(), FakeClock()]
    sources: list[IdSource] = [UuidSource(), CountingIds()]
    for clock in clocks:
        assert clock.now() > START - 10**15
        assert clock.monotonic() <= clock.monotonic()
    for source in sources:
        assert len({source.new() for _ in range(20)}) == 20


def test_a_fake_clock_makes_the_calls_that_fall_due_in_their_order() -> None:
    clock = FakeClock()
    calls: list[tuple[str, int]] = []

    def note(name: str) -> None:
        calls.append((name, clock.now() - START))

    def again() -> None:
        note('again')
        clock.call_later(1.0, lambda: note('later'))

    clock.call_later(2.0, lambda: note('second'))
    clock.call_later(1.0, again)
    called_off = clock.call_later(1.0, lambda: note('never'))
    clock.call_later(9.0, lambda: note('not yet'))
    called_off.cancel()
    clock.advance(3.0)
    assert calls == [('again', 1_000_000), ('second', 2_000_000), ('later', 2_000_000)]
    assert (clock.now() - START, clock.timers) == (3_000_000, 1)
    called_off.cancel()


def test_time_that_is_skipped_is_caught_up_with() -> None:
    clock = FakeClock()
    calls: list[int] = []
    clock.call_later(1.0, lambda: calls.append(clock.now() - START))
    clock.skip(5.0)
    assert calls == []
    clock.advance(0.0)
    assert calls == [5_000_000]
