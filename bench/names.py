"""The databases that are measured on, by name."""

from typing import Final

SQLITE: Final = 'sqlite'
POSTGRESQL: Final = 'postgresql'
DATABASES: Final = (SQLITE, POSTGRESQL)
TITLES: Final = {SQLITE: 'SQLite', POSTGRESQL: 'PostgreSQL'}
