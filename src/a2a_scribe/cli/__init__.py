"""The command `a2a-scribe`.

`main` is the console script. It is also what `python -m a2a_scribe` runs.
"""

import sys

from a2a_scribe.cli.commands import app
from a2a_scribe.cli.running import run


def main() -> None:
    """Runs the command that `sys.argv` names and exits with its code."""
    if sys.argv[1:2] == ['run']:
        # All that follows belongs to the program, so no option parser may look at it.
        run(sys.argv[2:])
    else:
        app(prog_name='a2a-scribe')
