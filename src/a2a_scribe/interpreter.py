"""How Python itself is set while a server runs: nobody is to wait long for the interpreter. Called by `serve`.

Both settings are of the whole process, which is why only `serve` makes them: the process is its own.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SHARE: Final = 0.0001
"""Seconds for which a thread goes on while another waits for the interpreter. SQLite's waits at each row that it
changes: with Python's 5 ms, a transaction of a hundred tasks beside a busy event loop took 400 ms, nearly all of them
for that."""
FULL_COLLECTION: Final = 100
"""Collections of the middle generation before all objects are looked through. With Python's 10, five thousand clients
that come at once had everybody stand still for 50 to 100 ms, five times; hardly anything was found."""


@contextmanager
def made_prompt() -> Iterator[None]:
    """Has threads take turns quickly, and garbage looked for seldom where hardly any is, while the block lasts.

    Whoever runs the process and asks for more of either gets that.
    """
    share, (young, middle, full) = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(min(share, SHARE))
    gc.set_threshold(young, middle, max(full, FULL_COLLECTION))
    try:
        yield
    finally:
        sys.setswitchinterval(share)
        gc.set_threshold(young, middle, full)
