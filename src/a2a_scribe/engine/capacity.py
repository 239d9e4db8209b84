"""How many turns run at once, and who is next: places for running turns, and a bounded queue in front of them.

A message takes a place before anything is done for it: at once if there is room, else in the queue, else it is refused.
Places are handed out in turn to the owners that wait, so an owner waits as long for one message as if every other owner
had one only. In the queue an owner may hold as many places as it leaves free for others. What has been accepted
durably is never refused: it queues whatever the bounds say.
"""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Callable

from a2a_scribe.errors import OverloadedError
from a2a_scribe.settings import Settings

logger = logging.getLogger(__name__)

Begin = Callable[[], None]


class Place:
    """One turn's place: in the queue until it is granted, then among those that run, until it is left."""

    __slots__ = ('_begin', '_capacity', '_owner', 'is_granted', 'is_left', 'is_used')

    def __init__(self, capacity: 'Capacity', owner: '_Owner', *, granted: bool) -> None:
        """Makes a place that `capacity` counts already."""
        self._capacity = capacity
        self._owner = owner
        self._begin: Begin | None = None
        self.is_granted = granted
        self.is_used = False
        """Whether a turn holds it, which leaves it at its end."""
        self.is_left = False

    def use(self, begin: Begin) -> None:
        """Calls `begin` once the place is granted, now if it is."""
        self.is_used = True
        if self.is_granted:
            begin()
        else:
            self._begin = begin

    def grant(self) -> None:
        """Lets the turn begin, as soon as there is one."""
        self.is_granted = True
        begin, self._begin = self._begin, None
        if begin is not None:
            begin()

    def leave(self) -> None:
        """Makes room for another; harmless the second time."""
        if not self.is_left:
            self.is_left, self._begin = True, None
            self._capacity.left(self, self._owner)


class _Owner:
    """What one owner has."""

    __slots__ = ('name', 'queue', 'running')

    def __init__(self, name: str) -> None:
        self.name = name
        self.running = 0
        self.queue: OrderedDict[Place, None] = OrderedDict()


class Capacity:
    """The places of one engine."""

    def __init__(self, settings: Settings) -> None:
        """Starts with all places free."""
        self._most_running = settings.max_running_turns
        self._most_of_owner = settings.max_running_turns_per_owner or math.inf
        self._most_waiting = settings.max_waiting_turns
        self._owners: dict[str, _Owner] = {}
        self._next: OrderedDict[_Owner, None] = OrderedDict()
        """Who waits and may have one more, in the order of their turns."""
        self._is_handing_out = False
        self._is_refusing = False
        self.running = 0
        """How many places are granted."""
        self.waiting = 0
        """How many places are not."""

    def take(self, name: str) -> Place:
        """Takes a place for a new message of an owner.

        Raises:
            OverloadedError: There is none, not even one to wait in.
        """
        owner = self._owner(name)
        if not self._has_room(owner):
            free = self._most_waiting - self.waiting
            if free <= 0 or len(owner.queue) > free:
                self._note_refusal()
                raise OverloadedError
        return self._place(owner)

    def insist(self, name: str) -> Place:
        """Takes a place for a message that has been accepted already, also beyond the bounds of the queue."""
        return self._place(self._owner(name))

    def left(self, place: Place, owner: _Owner) -> None:
        """Takes a place back; called by the place."""
        if place.is_granted:
            self.running -= 1
            owner.running -= 1
        else:
            self.waiting -= 1
            del owner.queue[place]
        self._line_up(owner)
        if not owner.running and not owner.queue:
            self._owners.pop(owner.name, None)
        if not self.waiting:
            self._is_refusing = False
        self._hand_out_soon()

    def _owner(self, name: str) -> _Owner:
        return self._owners.get(name) or _Owner(name)

    def _has_room(self, owner: _Owner) -> bool:
        return self.running < self._most_running and owner.running < self._most_of_owner and not self._next

    def _place(self, owner: _Owner) -> Place:
        self._owners[owner.name] = owner
        if self._has_room(owner):
            self._count(owner)
            return Place(self, owner, granted=True)
        place = Place(self, owner, granted=False)
        owner.queue[place] = None
        self.waiting += 1
        self._line_up(owner)
        return place

    def _count(self, owner: _Owner) -> None:
        self.running += 1
        owner.running += 1

    def _line_up(self, owner: _Owner) -> None:
        """Puts an owner behind the others, or takes it out, as it waits and may have one more, or not."""
        if not owner.queue or owner.running >= self._most_of_owner:
            self._next.pop(owner, None)
        elif owner not in self._next:
            self._next[owner] = None

    def _hand_out_soon(self) -> None:
        """Hands out in the loop's next round: whoever ends many turns at once is not to start those that wait."""
        if self._next and not self._is_handing_out:
            self._is_handing_out = True
            asyncio.get_running_loop().call_soon(self._hand_out)

    def _hand_out(self) -> None:
        self._is_handing_out = False
        while self._next and self.running < self._most_running:
            owner, _ = self._next.popitem(last=False)
            place, _ = owner.queue.popitem(last=False)
            self.waiting -= 1
            self._count(owner)
            self._line_up(owner)
            place.grant()

    def _note_refusal(self) -> None:
        if not self._is_refusing:
            self._is_refusing = True
            logger.warning(
                'Messages are refused: %d turns run (max_running_turns), %d wait (max_waiting_turns)',
                self.running,
                self.waiting,
            )
