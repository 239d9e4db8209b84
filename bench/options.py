"""What both benchmarks can be told on the command line."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

Selection = Callable[[str], bool]


def parser(program: str, description: str, systems: Iterable[str]) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=program, description=description)
    made.add_argument('--smoke', action='store_true', help='small sizes: checks that all is right, judges no speed')
    made.add_argument('--rounds', type=int, metavar='N', help='rounds of each measurement; figures are medians')
    made.add_argument(
        '--only',
        action='append',
        default=[],
        metavar='NAME',
        help='only this part, or those whose names begin so; repeatable',
    )
    made.add_argument('--system', action='append', choices=list(systems), help='only this one; repeatable')
    made.add_argument('--work', type=Path, metavar='DIR', help='where the databases lie (default: /var/tmp)')
    made.add_argument('--output', type=Path, metavar='DIR', help='where the results go (default: bench/results)')
    return made


def selection(only: list[str], known: list[str]) -> Selection:
    """Everything, or what is called, or else begins with, one of the given names."""
    exact = {item for item in only if item in known}
    prefixes = tuple(item for item in only if item not in exact)
    return lambda name: not only or name in exact or name.startswith(prefixes)


def unknown(only: list[str], known: list[str]) -> list[str]:
    return [name for name in only if not any(item.startswith(name) for item in known)]
