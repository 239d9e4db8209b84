"""A database of each kind with tasks in it."""

import pytest

from tests.acceptance.operator.kit import fill, on


@pytest.fixture(params=['sqlite_url', 'postgres_database_url'])
def empty_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database of each kind."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def url(empty_url: str) -> str:
    """The URL of a database with tasks."""
    on(empty_url, fill)
    return empty_url
