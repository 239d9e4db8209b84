"""From what a user names as the place of tasks to the store, and from a store to its journal."""

from a2a.server.cluster import VersionedTaskStore
from a2a.server.owner_resolver import OwnerResolver
from a2a.server.tasks.task_store import TaskStore
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from a2a_scribe.clock import Clock
from a2a_scribe.errors import SettingsError
from a2a_scribe.journal.foreign import ForeignJournal
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.stores import DatabaseTaskStore, InMemoryTaskStore, JournalTaskStore

MEMORY = 'memory'

DRIVERS = {'sqlite': 'sqlite+aiosqlite', 'postgresql': 'postgresql+asyncpg'}
"""What a database URL begins with, for each kind of database."""


def open_store(database: str | AsyncEngine | TaskStore) -> TaskStore:
    """Returns the store for a database URL (or `memory`), an engine, or a store.

    Raises:
        SettingsError: The URL is not one, or its database or driver is not supported or not installed.
    """
    if isinstance(database, TaskStore):
        return database
    if isinstance(database, AsyncEngine):
        return DatabaseTaskStore(database)
    if database == MEMORY:
        return InMemoryTaskStore()
    return DatabaseTaskStore(make_engine(database))


def journal_of(store: TaskStore | VersionedTaskStore, agent: str, clock: Clock | None = None) -> Journal:
    """Returns the journal behind a store: its own, or one that keeps the newest state in a user's store."""
    if isinstance(store, JournalTaskStore):
        store.agent = store.agent or agent
        return store.journal
    return ForeignJournal(store, clock)


def owner_resolver_of(store: TaskStore | VersionedTaskStore) -> OwnerResolver | None:
    """Returns how a store of ours resolves owners."""
    return store.owner_resolver if isinstance(store, JournalTaskStore) else None


def make_engine(url: str) -> AsyncEngine:
    """Returns an engine for a database URL.

    Raises:
        SettingsError: The URL is not one, or its database or driver is not supported or not installed.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        forms = f'{DRIVERS["sqlite"]}:///FILE, {DRIVERS["postgresql"]}://... or {MEMORY}'
        raise SettingsError(f'database: what begins with {url[:10]!r} is not a database URL, as {forms}') from None
    safe = parsed.render_as_string(hide_password=True)
    driver = DRIVERS.get(parsed.get_backend_name())
    if driver is None:
        raise SettingsError(f'database: {safe} is of a kind that is not supported, only {" and ".join(DRIVERS)} are')
    if parsed.drivername != driver:
        raise SettingsError(f'database: {safe} must begin with {driver}://')
    try:
        return create_async_engine(url)
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise SettingsError(f'database: {safe} cannot be used: {error}') from None
    except ModuleNotFoundError as error:
        hint = "pip install 'a2a-scribe[postgresql]'" if error.name == 'asyncpg' else f'pip install {error.name}'
        raise SettingsError(f'database: {safe} needs {error.name}, which is not installed: {hint}') from None
    except Exception as error:  # noqa: BLE001 - drivers refuse URLs in ways of their own
        raise SettingsError(f'database: {safe} cannot be used: {error}') from None
