"""What a client says beside its request: read from names of any case, checked to the letter."""

import pytest
from a2a.utils.errors import InvalidParamsError, VersionNotSupportedError
from hypothesis import given
from hypothesis import strategies as st

from a2a_scribe.protocol.faults import InvalidFieldError
from a2a_scribe.protocol.service_parameters import (
    NOTHING,
    ServiceParameters,
    check_idempotency_key,
    check_version,
    parse_event_id,
    service_parameters,
)


def test_nothing_said() -> None:
    assert service_parameters([]) == service_parameters([('host', 'a2a'), ('', '')]) == NOTHING


@pytest.mark.parametrize('change', [str, str.lower, str.upper, str.title])
def test_names_do_not_depend_on_case(change: type[str]) -> None:
    given_pairs = [('A2A-Version', '1.0'), ('A2A-Extensions', 'urn:x'), ('Last-Event-ID', '7')]
    found = service_parameters((change(name), value) for name, value in given_pairs)
    assert found == ServiceParameters('1.0', frozenset({'urn:x'}), '7')


@pytest.mark.parametrize('name', ['lastEventId', 'lasteventid', 'LASTEVENTID', 'last-event-id'])
def test_the_last_event_has_two_names(name: str) -> None:
    assert service_parameters([(name, ' 7 ')]).last_event_id == '7'


@pytest.mark.parametrize(
    'name', ['a2a_version', 'x-a2a-version', 'version', 'a2a-version ', 'A2A\u2013Version', 'last_event_id']
)
def test_other_names_mean_nothing(name: str) -> None:
    assert service_parameters([(name, '1.0')]) == NOTHING


def test_the_first_value_that_says_something_counts() -> None:
    pairs = [('a2a-version', ''), ('a2a-version', ' '), ('a2a-version', ' 1.0 '), ('A2A-Version', '0.3')]
    assert service_parameters(pairs).version == '1.0'
    assert (
        service_parameters([('last-event-id', ''), ('lastEventId', '2'), ('last-event-id', '3')]).last_event_id == '2'
    )


@pytest.mark.parametrize(
    ('values', 'found'),
    [([], None), ([''], ''), ([' k '], 'k'), (['k', 'k'], 'k'), (['k', 'other'], 'k, other'), (['', 'k'], ', k')],
)
def test_a_key_is_one_value_and_not_left_out_silently(values: list[str], found: str | None) -> None:
    assert service_parameters([('Idempotency-KEY', value) for value in values]).idempotency_key == found


@pytest.mark.parametrize('key', ['k', 'k' * 255, '!~"', '8e03978e-40d5-43e8-bc93-6894a57f9324'])
def test_keys(key: str) -> None:
    check_idempotency_key(key)


@pytest.mark.parametrize('key', ['', 'k' * 256, 'a b', 'a, b', ' k', 'k\n', '\x7f', '\xe9', 'k\ud800'], ids=ascii)
def test_keys_that_are_none(key: str) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        check_idempotency_key(key)
    assert [violation.field for violation in caught.value.violations] == ['Idempotency-Key']


@pytest.mark.parametrize(
    ('values', 'found'),
    [
        ([], set()),
        ([''], set()),
        ([',', ' , ,'], set()),
        (['urn:a'], {'urn:a'}),
        (['urn:a,urn:b'], {'urn:a', 'urn:b'}),
        ([' urn:a , urn:b ', 'urn:c'], {'urn:a', 'urn:b', 'urn:c'}),
        (['urn:a', 'urn:a,urn:a'], {'urn:a'}),
        (['URN:A', 'urn:a'], {'URN:A', 'urn:a'}),
    ],
)
def test_extensions_are_listed_in_one_value_or_in_several(values: list[str], found: set[str]) -> None:
    assert service_parameters(('A2A-Extensions', value) for value in values).extensions == found


@pytest.mark.parametrize('version', ['1.0', '1.0.0', '1.0.1', '1.0.123456789'])
def test_versions_that_are_supported(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize(
    'version',
    [
        '', '0.3', '0.3.0', '1', '1.', '1.1', '1.0.', '1.0.0.0', '1.00', '01.0', '2.0', '10.0', '1.0-beta', 'v1.0',
        '1.0 ', '1.0\n', '1.0.0\n', '1,0', '1.0.x', '\u0661.\u0660', '²', '1.0.1234567890', 'abc', 'x' * 5000, '\0',
        '1.0,1.0',
    ],
)  # fmt: skip
def test_versions_that_are_not(version: str) -> None:
    with pytest.raises(VersionNotSupportedError) as caught:
        check_version(version)
    assert caught.value.data == {'supportedVersions': '1.0'}
    assert len(caught.value.message) < 200
    assert 'A2A-Version: 1.0' in caught.value.message


def test_a_missing_version_is_said_to_mean_0_3() -> None:
    with pytest.raises(VersionNotSupportedError, match=r'0\.3'):
        check_version('')


@pytest.mark.parametrize(('text', 'found'), [('', None), ('0', 0), ('7', 7), ('007', 7), ('9' * 18, 10**18 - 1)])
def test_places_of_events(text: str, found: int | None) -> None:
    assert parse_event_id(text) == found


@pytest.mark.parametrize(
    'text',
    [
        '-1',
        '+1',
        '1.0',
        '1e3',
        '0x1',
        ' ',
        '1 ',
        '1_0',
        'abc',
        '²',
        '\u0661',
        '9' * 19,
        '9' * 5000,
        '\0',
        '1\n',
        'None',
    ],
)
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(InvalidParamsError, match='Last-Event-ID'):
        parse_event_id(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        place = parse_event_id(text)
    except InvalidParamsError:
        return
    assert place is None or place >= 0
    assert place is not None or not text
