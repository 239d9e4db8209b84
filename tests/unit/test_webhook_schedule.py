"""When a webhook is called again, and when no more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_scribe.errors import SettingsError
from a2a_scribe.push.delivery import Answer
from a2a_scribe.push.schedule import MICROS, Schedule, Verdict, verdict_of
from a2a_scribe.settings import Settings

SCHEDULE = Schedule(first_pause=1, longest_pause=100, give_up_after=1_000, give_up_after_end=3_000)


@pytest.mark.parametrize(
    ('statuses', 'verdict'),
    [
        ((200, 201, 202, 204, 299), Verdict.DELIVERED),
        ((500, 501, 502, 503, 504, 599), Verdict.AGAIN),
        ((401, 403, 408, 409, 423, 425, 429), Verdict.AGAIN),
        ((404, 410), Verdict.SUSPENDED),
        ((300, 301, 302, 303, 307, 308), Verdict.AGAIN),
        ((400, 405, 413, 415, 422, 451), Verdict.SUSPENDED),
        ((100, 199), Verdict.SUSPENDED),
    ],
)
def test_what_an_answer_means(statuses: tuple[int, ...], verdict: Verdict) -> None:
    assert {verdict_of(status) for status in statuses} == {verdict}


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_a_pause_is_anything_up_to_a_bound_that_doubles(failures: int, chance: float) -> None:
    bound = SCHEDULE.pause(failures, 1.0)
    assert bound == min(100.0, 2.0 ** min(failures - 1, 60))
    assert SCHEDULE.pause(failures, chance) == pytest.approx(bound * chance)


def test_a_receiver_that_asks_for_a_pause_is_given_it_within_bounds() -> None:
    asks = [SCHEDULE.pause(1, 0.5, Answer(429, seconds)) for seconds in (0.1, 30.0, 1e9)]
    assert asks == [0.5, 30.0, 100.0]
    assert SCHEDULE.pause(1, 0.5, Answer(503)) == 0.5


@pytest.mark.parametrize(('seconds', 'has_ended', 'is_over'), [
    (999, False, False), (1_000, False, True), (1_000, True, False), (2_999, True, False), (3_000, True, True),
])  # fmt: skip
def test_who_waits_for_an_end_is_given_longer(seconds: int, has_ended: bool, is_over: bool) -> None:
    assert SCHEDULE.is_over(7, 7 + seconds * MICROS, has_ended=has_ended) is is_over


def test_the_patience_at_an_end_is_never_shorter() -> None:
    schedule = Schedule.of(Settings(webhook_give_up_after=500_000, webhook_give_up_after_end=1))
    assert (schedule.give_up_after, schedule.give_up_after_end) == (500_000, 500_000)


def test_a_choice_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match='webhook_events'):
        Settings(webhook_events='none')  # type: ignore[arg-type]
