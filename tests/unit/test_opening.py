"""Where tasks are to be kept, as users name it."""

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe import DatabaseTaskStore, InMemoryTaskStore, SettingsError
from a2a_scribe.journal.opening import open_store


@pytest.mark.parametrize(
    ('url', 'told'),
    [
        ('nonsense', 'not a database URL'),
        ('tasks.db', 'as sqlite\\+aiosqlite:///FILE, postgresql\\+asyncpg://... or memory'),
        ('sqlite:///x.db', 'must begin with sqlite\\+aiosqlite://'),
        ('postgresql://host/name', 'must begin with postgresql\\+asyncpg://'),
        ('mysql+aiomysql://host/name', 'not supported, only sqlite and postgresql'),
        ('oracle://host/name', 'not supported'),
    ],
)
def test_a_url_that_cannot_be_used_says_why(url: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        open_store(url)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(SettingsError) as caught:
        open_store('postgresql://ada:secret@host/name')
    assert 'secret' not in str(caught.value)


def test_what_can_be_used() -> None:
    engine = create_async_engine('sqlite+aiosqlite://')
    store = InMemoryTaskStore()
    assert open_store(store) is store
    assert isinstance(open_store('memory'), InMemoryTaskStore)
    opened = open_store(engine)
    assert isinstance(opened, DatabaseTaskStore)
    assert opened.engine is engine
