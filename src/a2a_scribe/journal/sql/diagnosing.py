"""Facts about a database that say whether servers can work on it well; what to think of them is for others to say."""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from a2a_scribe.journal.sql.access import Access
from a2a_scribe.journal.sql.connected import Connected
from a2a_scribe.journal.sql.running import Running
from a2a_scribe.journal.sql.tables import DEFAULT_PREFIX, tables_of

PATIENCE = 10.0
"""Seconds that a server may take to answer."""

PRIVILEGES = 'SELECT, INSERT, UPDATE, DELETE'

NOW = 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint'


@dataclass(frozen=True, slots=True)
class SqliteFacts:
    """What a file of SQLite is like, used as servers use it."""

    version: str
    journal_mode: str
    synchronous: int
    """2 is FULL, 3 is EXTRA."""


@dataclass(frozen=True, slots=True)
class PostgresFacts:
    """What a PostgreSQL server is like, for whom we are there."""

    version: str
    version_number: int
    """Such as 180001."""
    now: int
    """The time there, in microseconds since the epoch."""
    max_connections: int
    connections: int
    is_read_only: bool
    """It is a standby, or its transactions are read only by default."""
    lacks: tuple[str, ...]
    """Tables that we may not read and write; where there are none yet, the schema in which we may not make them."""
    fsync: bool
    synchronous_commit: str


class Diagnosis:
    """Looks at one database."""

    def __init__(self, engine: AsyncEngine, *, prefix: str = DEFAULT_PREFIX) -> None:
        """Takes an engine, which stays its user's. Raises: SettingsError."""
        self._access = Access(engine, deadline=PATIENCE)
        self._names = sorted(tables_of(prefix).metadata.tables)

    async def of_sqlite(self) -> SqliteFacts:
        """Uses a file as a server would. Raises: JournalUnavailableError."""

        async def work(connected: Connected) -> SqliteFacts:
            connection = connected.connection
            version = await _value(connection, 'SELECT sqlite_version()')
            mode, synchronous = [await _value(connection, f'PRAGMA {name}') for name in ('journal_mode', 'synchronous')]
            return SqliteFacts(str(version), str(mode), int(str(synchronous)))

        return await self._access.look(work)

    async def of_postgresql(self) -> PostgresFacts:
        """Asks a server. Raises: JournalUnavailableError."""

        async def work(connected: Connected) -> PostgresFacts:
            connection = connected.connection

            async def setting(name: str) -> str:
                return str(await _value(connection, f"SELECT current_setting('{name}')"))

            standby = await _value(connection, 'SELECT pg_is_in_recovery()')
            return PostgresFacts(
                version=await setting('server_version'),
                version_number=int(await setting('server_version_num')),
                now=int(
                    str(await _value(connection, 'SELECT (extract(epoch FROM clock_timestamp())*1000000)::bigint'))
                ),
                max_connections=int(await setting('max_connections')),
                connections=int(str(await _value(connection, 'SELECT count(*) FROM pg_stat_activity'))),
                is_read_only=bool(standby) or await setting('default_transaction_read_only') == 'on',
                lacks=await self._lacks(connection),
                fsync=await setting('fsync') == 'on',
                synchronous_commit=await setting('synchronous_commit'),
            )

        return await self._access.look(work)

    async def _lacks(self, connection: AsyncConnection) -> tuple[str, ...]:
        allowed = text(
            'SELECT has_table_privilege(to_regclass(:name), privilege) '
            f"FROM unnest(string_to_array('{PRIVILEGES}', ', ')) AS privilege"
        )
        lacks: list[str] = []
        known = 0
        for name in self._names:
            found = [each for (each,) in await connection.execute(allowed, {'name': name})]
            known += None not in found
            if False in found:
                lacks.append(name)
        if not known and not await _value(connection, "SELECT has_schema_privilege(current_schema(), 'CREATE')"):
            lacks.append(f'schema {await _value(connection, "SELECT current_schema()")}')
        return tuple(lacks)

    async def try_writing(self) -> None:
        """Begins and ends a writing transaction that changes nothing.

        Raises:
            JournalBusyError: Another process holds the lock for long.
            JournalUnavailableError: It cannot be written.
        """

        async def work(running: Running) -> None:
            """Nothing: that it has begun is all."""

        await self._access.write(work)


async def _value(connection: AsyncConnection, statement: str) -> object:
    return (await connection.execute(text(statement))).scalar()
