"""Rates and streams: what is counted, for whom, and what is forgotten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_scribe.protocol.faults import TooManyStreamsError, TooManyStreamsOfCallerError
from a2a_scribe.transport.open_streams import OpenStreams
from a2a_scribe.transport.rates import Rates, in_whole_seconds
from tests.unit.strategies import quick


def test_a_burst_is_let_in_and_then_as_many_as_there_is_time_for() -> None:
    rates = Rates(per_second=2, burst=3)
    assert [rates.take('ann', 10.0) for _ in range(3)] == [0, 0, 0]
    assert rates.take('ann', 10.0) == pytest.approx(0.5)
    assert rates.take('ann', 10.4) == pytest.approx(0.1)
    assert rates.take('ann', 10.5) == 0
    assert rates.take('ann', 10.5) == pytest.approx(0.5)


def test_who_is_refused_loses_nothing_by_asking() -> None:
    rates = Rates(per_second=1, burst=1)
    assert rates.take('ann', 0.0) == 0
    assert all(rates.take('ann', 0.5) for _ in range(100))
    assert rates.take('ann', 1.0) == 0


def test_owners_do_not_share() -> None:
    rates = Rates(per_second=1, burst=1)
    assert (rates.take('ann', 0.0), rates.take('bob', 0.0), rates.take('', 0.0)) == (0, 0, 0)
    assert rates.take('ann', 0.0) == pytest.approx(1)


def test_more_than_a_bucket_holds_is_given_when_it_is_full_and_paid_for_afterwards() -> None:
    rates = Rates(per_second=1, burst=2)
    assert rates.take('ann', 0.0, 10) == 0
    assert rates.take('ann', 8.0) == pytest.approx(1)
    assert rates.take('ann', 9.0) == 0


def test_who_is_full_again_is_forgotten() -> None:
    rates = Rates(per_second=1, burst=1)
    for number in range(100):
        rates.take(f'owner {number}', 0.0)
    assert len(rates) == 100
    rates.take('late', 1.5)
    assert len(rates) == 1


def test_no_more_owners_are_remembered_than_there_may_be() -> None:
    rates = Rates(per_second=0.001, burst=1, most_owners=10)
    for number in range(100):
        assert rates.take(f'owner {number}', number / 1000) == 0
    assert len(rates) == 10
    assert rates.take('owner 99', 0.1) > 0


@quick
@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 4)), max_size=60),
    st.floats(0.1, 10),
    st.integers(1, 10),
)
def test_no_owner_gets_more_than_burst_and_rate_allow(asked: list[tuple[float, int]], rate: float, burst: int) -> None:
    rates, now, given_tokens = Rates(rate, burst), 0.0, 0
    for pause, tokens in asked:
        now += pause
        wait = rates.take('ann', now, min(tokens, burst))
        if not wait:
            given_tokens += min(tokens, burst)
        else:
            assert rates.take('ann', now + wait, min(tokens, burst)) == 0
            now += wait
            given_tokens += min(tokens, burst)
        assert given_tokens <= burst + rate * now + 1e-3


def test_a_wait_is_told_in_whole_seconds() -> None:
    assert [in_whole_seconds(each) for each in (0.01, 1.0, 1.2)] == [1, 1, 2]


def test_streams_are_counted_while_they_are_open() -> None:
    streams = OpenStreams(3, 2)
    with streams.one('ann'), streams.one('ann'):
        with pytest.raises(TooManyStreamsOfCallerError), streams.one('ann'):
            pass
        with streams.one('bob'):
            with pytest.raises(TooManyStreamsError), streams.one('cyd'):
                pass
            assert streams.count == 3
        with streams.one('cyd'):
            pass
    assert streams.count == 0
    with streams.one('ann'):
        pass


def test_a_refused_stream_leaves_nothing_behind() -> None:
    streams = OpenStreams(1, None)
    with streams.one('ann'):
        for number in range(50):
            with pytest.raises(TooManyStreamsError), streams.one(f'owner {number}'):
                pass
        assert streams.owners == {'ann'}
    assert streams.owners == set()
