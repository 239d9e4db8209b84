"""`a2a-scribe run`: becomes an unmodified program written for `a2a-sdk`, on our handler and stores.

The program sees what it would see under plain `python`: its own `sys.argv`, `sys.path[0]` and `__main__`; its exit code
and its exceptions are ours. Processes that it spawns are plain Python again.
"""

import importlib.util
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from a2a_scribe import patching

USAGE = """\
Usage: a2a-scribe run SCRIPT.py [ARGS]...
       a2a-scribe run -m MODULE [ARGS]...

Run an unmodified program written for a2a-sdk with the request handler and the
task stores of a2a-scribe in the place of DefaultRequestHandler,
DatabaseTaskStore and InMemoryTaskStore. Subclasses of these, and processes
that the program spawns, keep those of a2a-sdk.
"""


def run(arguments: Sequence[str]) -> None:
    """Runs the program that the arguments name; all after its name is the program's own."""
    match list(arguments):
        case ['-h' | '--help', *_]:
            print(USAGE, end='')
        case ['-m', module, *rest]:
            _run_module(module, rest)
        case ['--', script, *rest]:
            _run_script(script, rest)
        case [script, *rest] if not script.startswith('-'):
            _run_script(script, rest)
        case _:
            print(USAGE, end='', file=sys.stderr)
            sys.exit(2)


def _run_script(script: str, arguments: list[str]) -> None:
    path = Path(script)
    if not path.exists():
        _refuse(f'no such file: {script}')
    sys.argv[:] = [script, *arguments]
    if path.is_file() and not sys.flags.safe_path:
        sys.path[0] = str(path.resolve().parent)
    _patch(script)
    runpy.run_path(script, run_name='__main__')


def _run_module(module: str, arguments: list[str]) -> None:
    sys.argv[:] = ['-m', *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()  # noqa: PTH109
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None:
        _refuse(f'no module named {module}')
    _patch(f'-m {module}')
    runpy.run_module(module, run_name='__main__', alter_sys=True)


def _patch(program: str) -> None:
    patching.install()
    _leave_by_the_door()
    print(f'a2a-scribe: running {program} on the handler and stores of a2a-scribe', file=sys.stderr, flush=True)


def _leave_by_the_door() -> None:
    """Makes SIGTERM end the program as an exit: its event loop ends in order, and so do the turns that still run.

    A program that handles the signal itself is not disturbed; a server like uvicorn raises it again when it is done.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def _refuse(problem: str) -> NoReturn:
    print(f'a2a-scribe: {problem}', file=sys.stderr)
    sys.exit(2)
