"""Who is next before gRPC."""

import pytest

from a2a_scribe.transport.grpc_line import SILENT, Line


def line(*who: str) -> Line[str]:
    """A line of people who look as their first letter says; a dot is nothing."""
    found: Line[str] = Line()
    for each in who:
        found.add(each, SILENT if each[0] == '.' else each[0])
    return found


def order(found: Line[str]) -> list[str]:
    return [found.pop() for _ in range(len(found))]


@pytest.mark.parametrize(
    ('who', 'expected'),
    [
        ('a1 a2 a3', 'a3 a1 a2'),
        ('a1 a2 a3 b1', 'b1 a1 a3 a2'),
        ('a1 a2 b1 b2', 'b2 a1 b1 a2'),
        ('a1 b1 c1', 'c1 a1 b1'),
        ('.1 .2 a1', 'a1 .1 .2'),
        ('a1 .1 .2 b1 b2', 'b2 a1 b1 .1 .2'),
    ],
)
def test_looks_take_turns_the_newest_and_the_oldest_and_the_silent_last(who: str, expected: str) -> None:
    assert order(line(*who.split())) == expected.split()


def test_a_crowd_holds_up_nobody_who_looks_otherwise() -> None:
    found = line(*(f'a{number}' for number in range(1000)))
    found.pop()
    found.add('b1', 'b')
    assert 'b1' in (found.pop(), found.pop())


@pytest.mark.parametrize('count', [2, 5, 40, 100])
def test_nobody_is_passed_over_for_ever(count: int) -> None:
    """Everybody is there again as soon as they were let in."""
    turns, found = 200, Line[int]()
    for who in range(count):
        found.add(who, who)
    served = [0] * count
    for _ in range(turns * count):
        who = found.pop()
        served[who] += 1
        found.add(who, who)
    assert min(served) >= turns // 2 - 1


def test_nor_is_anybody_among_those_who_look_alike() -> None:
    found = line(*(f'a{number}' for number in range(10)))
    served = set()
    for _ in range(20):
        who = found.pop()
        served.add(who)
        found.add(who, 'a')
    assert len(served) == 10


def test_who_is_there_again_comes_last_but_before_the_silent() -> None:
    found = line('a1', 'b1', '.1')
    found.add('c1', 'c', again=True)
    assert order(found) == ['b1', 'a1', 'c1', '.1']


def test_one_who_waits_may_look_otherwise() -> None:
    found = line('.1', '.2', 'a1')
    found.add('.1', 'b')
    assert len(found) == 3
    assert order(found) == ['.1', 'a1', '.2']


def test_who_goes_waits_no_more() -> None:
    found = line('a1', 'a2', 'b1')
    for gone in ('a2', 'a2', 'b1', 'nobody'):
        found.remove(gone)
    assert ('a1' in found, 'a2' in found, len(found)) == (True, False, 1)
    assert order(found) == ['a1']
    assert not found
    with pytest.raises(KeyError):
        found.pop()
