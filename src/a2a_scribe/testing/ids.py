"""Identity that a test can foretell."""

import itertools


class CountingIds:
    """An `IdSource` that counts: `id-1`, `id-2`, ..."""

    def __init__(self, prefix: str = 'id') -> None:
        """Starts with 1."""
        self._prefix = prefix
        self._numbers = itertools.count(1)

    def new(self) -> str:
        """Returns the next id."""
        return f'{self._prefix}-{next(self._numbers)}'
