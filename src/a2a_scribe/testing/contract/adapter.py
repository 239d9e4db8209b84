"""How the contract reaches an adapter: connections, nodes, and the points that it cannot promise."""

import enum
from collections.abc import AsyncIterator, Callable, Mapping
from typing import ClassVar, TypeVar

import pytest

from a2a_scribe.journal.port import Journal
from a2a_scribe.testing.journal_driver import ScriptedNode

Connect = Callable[[], Journal]
F = TypeVar('F', bound=Callable[..., object])


class Point(enum.Enum):
    """What an adapter may be unable to promise."""

    AGENTS_AND_TENANTS = 'tasks of other agents and tenants stay hidden when nobody works on them'
    ATOMIC = 'a group that fails leaves nothing'
    LISTS = 'lists follow A2A 1.0, section 3.1.4, in every detail'
    REFUSES_KNOWN_IDS = 'a task cannot be born under the id of another'
    RETENTION = 'tasks that ended long ago are deleted when asked'
    REPLACING = 'storing a whole task from outside makes a record of it'


def needs(*points: Point) -> Callable[[F], F]:
    """Marks a test that only adapters with these points can pass."""

    def mark(test: F) -> F:
        test.needed_points = points  # type: ignore[attr-defined]
        return test

    return mark


class AdapterContract:
    """What an adapter says of itself, and what the tests of every topic get of it."""

    pytestmark = pytest.mark.anyio
    cannot: ClassVar[Mapping[Point, str]] = {}
    """The points that the adapter does not promise, and why."""

    def __init_subclass__(cls) -> None:
        """Leaves out the tests whose points the adapter cannot promise."""
        super().__init_subclass__()
        if not all(cls.cannot.values()):
            raise TypeError(f'{cls.__name__}.cannot needs a reason for each point')
        for name in dir(cls):
            if any(point in cls.cannot for point in getattr(getattr(cls, name), 'needed_points', ())):
                setattr(cls, name, None)

    @pytest.fixture
    async def connect(self) -> Connect:
        """Returns what gives a journal on an empty storage, the same storage at each call."""
        raise NotImplementedError

    @pytest.fixture
    async def journal(self, connect: Connect) -> AsyncIterator[Journal]:
        """An open, empty journal."""
        journal = connect()
        await journal.open()
        yield journal
        await journal.close()

    @pytest.fixture
    async def node(self, journal: Journal) -> ScriptedNode:
        """A living node."""
        return await ScriptedNode(journal, 'node').register()

    @pytest.fixture
    async def other(self, connect: Connect) -> AsyncIterator[ScriptedNode]:
        """Another living node, with a connection of its own."""
        journal = connect()
        await journal.open()
        yield await ScriptedNode(journal, 'other node').register()
        await journal.close()
