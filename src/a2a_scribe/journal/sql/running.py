"""What work on a connection is given: statements to be run, on whatever connection.

There are two: `Connected` lets SQLAlchemy run them, and `InThread` runs those for SQLite where its connection lives.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from sqlalchemy import Executable

from a2a_scribe.core.records import Record

T = TypeVar('T')
Parameters = Mapping[str, Any]


class Running(Protocol):
    """One connection, for as long as somebody has it."""

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is SQLite."""

    async def now(self, own: int) -> int:
        """Returns the time on the clock that all users of the database share, in microseconds since the epoch.

        That is the server's, or `own`, which the caller has read, where all of them are on one machine.
        """

    async def rows(self, statement: Executable, parameters: Parameters) -> Sequence[Sequence[Any]]:
        """Runs a query and returns its rows, columns in the order of the statement."""

    async def query(self, statement: Executable) -> Sequence[Sequence[Any]]:
        """Runs a query that was made for this call, and returns its rows."""

    async def change(self, statement: Executable, parameters: Parameters) -> int:
        """Runs a statement and returns how many rows it changed."""

    async def change_many(self, statement: Executable, parameters: Sequence[Parameters]) -> None:
        """Runs a statement once for each set of parameters."""

    async def insert_records(self, statement: Executable, records: Sequence[Record]) -> None:
        """Inserts records; the columns of their table are the fields of a record."""


Work = Callable[[Running], Coroutine[Any, Any, T]]
"""It waits for what it is given and for nothing else."""
