"""The rules of claims, fence and inbox hold in every order of events, and each of them is needed."""

from collections.abc import Mapping

import pytest

from tests.model.claims import Breach, Exploration, Rules, explore

EXPLORED: Mapping[str, tuple[Rules, int]] = {
    'many messages, fail': (Rules(policy='fail', messages=3, lost_answers=0), 96_000),
    'many messages, rerun': (Rules(policy='rerun', messages=3, lost_answers=0), 166_000),
    'lost answers, fail': (Rules(policy='fail', messages=2, cancels=False), 210_000),
    'lost answers, rerun': (Rules(policy='rerun', messages=2, cancels=False), 370_000),
    'lost answers and cancel, fail': (Rules(policy='fail', messages=1), 230_000),
    'lost answers and cancel, rerun': (Rules(policy='rerun', messages=1), 350_000),
}
"""What is explored, and how many states that takes at least."""

ALWAYS_SEEN = {
    '(0, 1): send 0',
    '(0, 1): record',
    '(0, 1): finish',
    '(0, 1): end',
    '(1, 2): take',
    '(1, 2): close',
    '(0, 1) crashes',
    '(0, 1) pauses',
    '(0, 1) wakes',
    '(0, 1) starts again',
    '(0, 1) is declared dead',
    '(0, 1) finds itself dead',
}
SEEN_WITH_CANCEL = {'(0, 1): cancel', '(1, 1): cancel', '(0, 1): stop'}
SEEN_WITH_LOST_ANSWERS = {
    '(0, 1): end, no answer',
    '(0, 1): end, again',
    '(0, 1): end, given up',
    'the abandoned attempt lands',
    'the abandoned attempt is rolled back',
}

BROKEN: Mapping[Breach, str] = {
    Breach.NO_FENCE: 'one writer',
    Breach.NO_NUMBERS: 'one place',
    Breach.NUMBERS_AGAIN: 'once',
    Breach.RECEIPT_MISREAD: 'once',
    Breach.GOES_ON: 'one place',
    Breach.BLIND_RELEASE: 'stuck',
    Breach.BLIND_INSERT: 'final',
    Breach.BLIND_CLAIM: 'final',
    Breach.BLIND_CANCEL: 'final',
    Breach.BLIND_TAKE_OVER: 'one writer',
    Breach.EAGER_TAKE_OVER: 'one writer',
    Breach.NO_NEW_OWNER: 'one writer',
    Breach.ENDED_AGAIN: 'final',
    Breach.BLIND_RETURN: 'stuck',
    Breach.INBOX_KEPT: 'final',
    Breach.INBOX_OPEN: 'final',
    Breach.TURN_ON_TURN: 'one turn',
    Breach.CANCEL_WAITS: 'one turn',
    Breach.CANCEL_MISSED: 'one turn',
    Breach.NEVER_ENOUGH: 'bounded',
    Breach.QUEUE_DROPPED: 'once',
}
"""Which invariant the shortest way to a wrong state breaks."""


def story(seen: Exploration) -> str:
    return '\n'.join(seen.trail or ())


@pytest.mark.parametrize(('rules', 'at_least'), EXPLORED.values(), ids=EXPLORED)
def test_the_rules_hold(rules: Rules, at_least: int) -> None:
    seen = explore(rules)
    assert seen.trail is None, story(seen)
    assert seen.states >= at_least
    assert seen.steps >= ALWAYS_SEEN
    assert not rules.cancels or seen.steps >= SEEN_WITH_CANCEL
    assert not rules.lost_answers or seen.steps >= SEEN_WITH_LOST_ANSWERS


@pytest.mark.parametrize('breach', Breach, ids=lambda breach: breach.name.lower())
def test_without_a_rule_something_breaks(breach: Breach) -> None:
    seen = explore(Rules(policy='rerun', breach=breach))
    assert seen.trail is not None, f'nothing goes wrong although {breach.value}'
    assert seen.trail[-1].startswith(BROKEN[breach]), story(seen)
