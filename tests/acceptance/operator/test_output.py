"""What operators are shown can be read, and copied, on any terminal."""

import sys
import uuid

import pytest

from a2a_scribe.cli.operator.output import print_table

IDS = [str(uuid.UUID(int=number)) for number in range(8)]


@pytest.mark.parametrize('is_terminal', [True, False])
def test_ids_are_never_cut_into_pieces(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv('COLUMNS', '60')
    monkeypatch.setattr(sys.stdout, 'isatty', lambda: is_terminal)
    print_table(['an id'] * len(IDS), [IDS])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert IDS in lines


def test_a_long_text_goes_on_below(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(['task', 'why'], [[IDS[0], 'because ' * 40]])
    longest = max(len(line.rstrip()) for line in capsys.readouterr().out.splitlines())
    assert longest < 110
