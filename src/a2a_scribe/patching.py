"""Puts our classes in the place of those of `a2a-sdk`, for a program that names only theirs.

Called by `a2a-scribe run` before the program is imported, and by tests. Whoever calls one of their classes gets an
object of ours, wherever the class was imported from and whenever. Nothing else changes: a subclass of theirs builds
what it always built, and `isinstance` against their class holds for our objects too.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from a2a.server.cluster import database_task_store as sdk_cluster_store
from a2a.server.request_handlers import DefaultRequestHandlerV2 as SdkRequestHandler
from a2a.server.tasks.database_task_store import DatabaseTaskStore as SdkDatabaseTaskStore
from a2a.server.tasks.inmemory_task_store import InMemoryTaskStore as SdkInMemoryTaskStore

from a2a_scribe.handler.handler import DefaultRequestHandler
from a2a_scribe.journal.stores import DatabaseTaskStore, InMemoryTaskStore

# Their `DefaultRequestHandler` is another name of `DefaultRequestHandlerV2`.
REPLACEMENTS = MappingProxyType[type[Any], type[Any]](
    {
        SdkRequestHandler: DefaultRequestHandler,
        SdkDatabaseTaskStore: DatabaseTaskStore,
        SdkInMemoryTaskStore: InMemoryTaskStore,
    }
)

_active: dict[type[Any], type[Any]] = {}


class _TheirDatabaseTaskStore(SdkDatabaseTaskStore):
    """Their store under another class, for the one class of theirs that builds on its inner methods."""


def install() -> None:
    """Replaces their classes from now on; doing it twice changes nothing."""
    for theirs, ours in REPLACEMENTS.items():
        if '__new__' not in vars(theirs):
            theirs.__new__ = _constructor(theirs)
        theirs.register(ours)
    _set_inner_store(_TheirDatabaseTaskStore)
    _active.update(REPLACEMENTS)


def uninstall() -> None:
    """Makes their classes build their own objects again."""
    _active.clear()
    _set_inner_store(SdkDatabaseTaskStore)


@contextmanager
def installed() -> Iterator[None]:
    """Our classes in the place of theirs for as long as the context lasts."""
    install()
    try:
        yield
    finally:
        uninstall()


def _set_inner_store(store: type[SdkDatabaseTaskStore]) -> None:
    vars(sdk_cluster_store)['DatabaseTaskStore'] = store


def _constructor(theirs: type[Any]) -> Callable[..., Any]:
    """What stays as `theirs.__new__` for good: a class whose `__new__` was taken away again takes no arguments."""

    @functools.wraps(theirs.__init__)
    def construct(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
        ours = _active.get(cls)
        if ours is not None:
            # No instance of `cls`, so Python does not call the `__init__` of `cls` on it.
            return ours(*args, **kwargs)
        inherited = super(theirs, cls).__new__
        return inherited(cls) if inherited is object.__new__ else inherited(cls, *args, **kwargs)

    construct.__name__ = '__new__'
    construct.__qualname__ = f'{theirs.__qualname__}.__new__'
    return construct
