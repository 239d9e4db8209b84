"""The order in which those are let in who wait before gRPC. Pure; used by `grpc_gate` alone."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Who = TypeVar('Who')
SILENT = None
"""How those look who have not asked for anything."""


class Line(Generic[Who]):
    """Those who wait. Who looks alike waits for each other: of all the looks that there are, each is next in turn.

    A new look comes first, and of those who look alike the newest: so a crowd waits for itself, and not who comes by.
    The silent come last.
    """

    def __init__(self) -> None:
        """Nobody waits."""
        self._alike: OrderedDict[Hashable, dict[Who, None]] = OrderedDict()
        self._looks: dict[Who, Hashable] = {}

    def __len__(self) -> int:
        """How many wait."""
        return len(self._looks)

    def __contains__(self, who: object) -> bool:
        """Whether somebody waits."""
        return who in self._looks

    def add(self, who: Who, look: Hashable, *, again: bool = False) -> None:
        """Lets somebody wait, or look otherwise than before; who was let in just now, and is here again, comes last."""
        self.remove(who)
        self._looks[who] = look
        if look not in self._alike:
            self._alike[look] = {}
            self._alike.move_to_end(look, last=again)
            self._put_silent_last()
        self._alike[look][who] = None

    def remove(self, who: Who) -> None:
        """Somebody waits no more; harmless if they did not."""
        if who not in self._looks:
            return
        look = self._looks.pop(who)
        del self._alike[look][who]
        if not self._alike[look]:
            del self._alike[look]

    def pop(self) -> Who:
        """Returns who is next, and waits no more.

        Raises:
            StopIteration: Nobody waits.
        """
        look = next(iter(self._alike))
        who = next(reversed(self._alike[look]))
        self.remove(who)
        if look in self._alike:
            self._alike.move_to_end(look)
            self._put_silent_last()
        return who

    def _put_silent_last(self) -> None:
        if SILENT in self._alike:
            self._alike.move_to_end(SILENT)
