"""The order in which those are let in who wait before gRPC. Pure; used by `grpc_gate` alone."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Who = TypeVar('Who')
SILENT = None
"""How those look who have not asked for anything."""


class Line(Generic[Who]):
    """Those who wait. Who looks alike waits for each other, and looks take turns.

    Every other turn is the newest look's, so that a crowd waits for itself and not who comes by; the others are of
    the look that has waited for longest, so that nobody waits for ever. So it is among those who look alike. The silent
    come last.
    """

    def __init__(self) -> None:
        """Nobody waits."""
        self._new: OrderedDict[Hashable, dict[Who, None]] = OrderedDict()
        """Looks of which nobody was let in yet, the oldest first."""
        self._known: OrderedDict[Hashable, dict[Who, None]] = OrderedDict()
        """All others, the one whose last turn is longest ago first."""
        self._since: dict[Hashable, int] = {}
        """How many had come when a look began to wait for its turn."""
        self._looks: dict[Who, Hashable] = {}
        self._came = 0
        self._newest_is_next = True

    def __len__(self) -> int:
        """How many wait."""
        return len(self._looks)

    def __contains__(self, who: object) -> bool:
        """Whether somebody waits."""
        return who in self._looks

    def add(self, who: Who, look: Hashable, *, again: bool = False) -> None:
        """Lets somebody wait, or look otherwise than before; who was let in just now is not new."""
        if who in self._looks and self._looks[who] == look:
            return
        self.remove(who)
        self._looks[who] = look
        if look not in self._since:
            self._wait(self._known if again or look is SILENT else self._new, look, {})
        self._alike(look)[look][who] = None

    def remove(self, who: Who) -> None:
        """Somebody waits no more; harmless if they did not."""
        if who not in self._looks:
            return
        look = self._looks.pop(who)
        looks = self._alike(look)
        del looks[look][who]
        if not looks[look]:
            del looks[look], self._since[look]

    def pop(self) -> Who:
        """Returns who is next, and waits no more.

        Raises:
            KeyError: Nobody waits.
        """
        if not self._looks:
            raise KeyError
        newest, self._newest_is_next = self._newest_is_next, not self._newest_is_next
        look = self._next_look(newest=newest)
        looks = self._alike(look)
        who = next(reversed(looks[look]) if newest else iter(looks[look]))
        self.remove(who)
        if look in looks:
            self._wait(self._known, look, looks.pop(look))
        return who

    def _alike(self, look: Hashable) -> OrderedDict[Hashable, dict[Who, None]]:
        return self._new if look in self._new else self._known

    def _next_look(self, *, newest: bool) -> Hashable:
        if newest and self._new:
            return next(reversed(self._new))
        first = [look for looks in (self._new, self._known) for look in _two(looks) if look is not SILENT]
        return min(first, key=self._since.__getitem__, default=SILENT)

    def _wait(self, looks: OrderedDict[Hashable, dict[Who, None]], look: Hashable, who: dict[Who, None]) -> None:
        self._came += 1
        self._since[look] = self._came
        looks[look] = who


def _two(looks: OrderedDict[Hashable, dict[Who, None]]) -> list[Hashable]:
    """Returns the first two looks: one of them may be that of the silent."""
    return [look for look, _ in zip(looks, range(2), strict=False)]
