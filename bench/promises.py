"""What a database really promises: the durability settings, read on a connection of the engine that was used."""

from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

SQLITE_LEVELS: Final = {'0': 'off', '1': 'normal', '2': 'full', '3': 'extra'}
DURABLE: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    'sqlite': {'journal_mode': ('wal', 'delete', 'truncate', 'persist'), 'synchronous': ('full', 'extra')},
    'postgresql': {'fsync': ('on',), 'synchronous_commit': ('on', 'local', 'remote_write', 'remote_apply')},
}


async def durability_settings(engine: AsyncEngine) -> dict[str, str]:
    word = 'PRAGMA' if engine.dialect.name == 'sqlite' else 'SHOW'
    async with engine.connect() as connection:
        values = {
            name: str((await connection.execute(text(f'{word} {name}'))).scalar_one())
            for name in DURABLE[engine.dialect.name]
        }
    return named(values)


def named(values: dict[str, str]) -> dict[str, str]:
    """SQLite's numbers as words."""
    if 'journal_mode' in values:
        return {**values, 'synchronous': SQLITE_LEVELS.get(values['synchronous'], values['synchronous'])}
    return values


def weaknesses(database: str, settings: dict[str, str]) -> list[str]:
    """Each setting that would let a commit be lost with the power."""
    return [
        f'{name} is {settings.get(name, "not known")}'
        for name, good in DURABLE[database].items()
        if settings.get(name) not in good
    ]
