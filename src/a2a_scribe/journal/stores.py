"""The familiar names: task stores with the surface of `a2a-sdk`'s, each in front of a journal.

Our handler takes the journal from them; `a2a-sdk`'s own handler, or a program, uses them as plain `TaskStore`s.
"""

import warnings
from collections.abc import Callable
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope
from a2a.server.tasks.task_store import TaskStore
from sqlalchemy.ext.asyncio import AsyncEngine

from a2a_scribe.clock import Clock, SystemClock
from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.journal.sql.tables import DEFAULT_PREFIX
from a2a_scribe.journal.tasks import Caller
from a2a_scribe.protocol.paging import DEFAULT_PAGE_SIZE
from a2a_scribe.protocol.types import ListTasksRequest, ListTasksResponse, Scope, Task

THEIR_TABLE = 'tasks'
"""The table in which `a2a-sdk` keeps tasks by default."""


class JournalTaskStore(TaskStore):
    """A `TaskStore` in front of a journal. It knows owners and tenants, but no agents: it sees those of all."""

    def __init__(self, journal: Journal, owner_resolver: OwnerResolver, clock: Clock | None = None) -> None:
        """Takes the journal that does the work."""
        self.journal = journal
        self.owner_resolver = owner_resolver
        self.agent = ''
        """The agent that tasks saved from outside belong to: that of the handler which uses the store."""
        self._clock = clock or SystemClock()

    async def initialize(self) -> None:
        """Makes the store ready; every operation does so by itself.

        Raises:
            OperatorError: The storage cannot be used as it is set up.
            JournalUnavailableError: It cannot be reached now.
        """
        await self.journal.open()

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Stores a whole task.

        Raises:
            TaskConflictError: The agent is working on the task, or it has ended and differs.
        """
        await self.initialize()
        copy = Task()
        copy.CopyFrom(task)
        await self.journal.replace_task(copy, self._caller(context), self._clock.now())

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        """Returns the task if it is the caller's."""
        await self.initialize()
        stored = await self.journal.read_task(task_id, self._caller(context))
        return None if stored is None else stored.projection.to_task()

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Returns a page of the caller's tasks. Raises: InvalidParamsError."""
        await self.initialize()
        page = await self.journal.list_tasks(self._caller(context), params)
        return ListTasksResponse(
            tasks=page.tasks,
            next_page_token=page.next_token,
            total_size=page.total,
            page_size=params.page_size or DEFAULT_PAGE_SIZE,
        )

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        """Deletes the task if it is the caller's. Raises: TaskConflictError."""
        await self.initialize()
        await self.journal.delete_task(task_id, self._caller(context))

    def _caller(self, context: ServerCallContext) -> Caller:
        scope = Scope(self.agent, self.owner_resolver(context), context.tenant)
        return Caller(scope, context, any_agent=True)


class InMemoryTaskStore(JournalTaskStore):
    """Tasks that live as long as the process."""

    def __init__(self, owner_resolver: OwnerResolver = resolve_user_scope, use_copying: bool = True) -> None:
        """Makes an empty store; it always copies, whatever `use_copying` says."""
        super().__init__(MemoryJournal(), owner_resolver)


class DatabaseTaskStore(JournalTaskStore):
    """Tasks in an SQL database, in tables of our own beside those of `a2a-sdk`."""

    def __init__(
        self,
        engine: AsyncEngine,
        create_table: bool = True,
        table_name: str = THEIR_TABLE,
        owner_resolver: OwnerResolver = resolve_user_scope,
        core_to_model_conversion: Callable[[Task, str], Any] | None = None,
        model_to_core_conversion: Callable[[Any], Task] | None = None,
        *,
        transaction_deadline: float = 5.0,
    ) -> None:
        """Takes a user's engine; `transaction_deadline` is in seconds, for one transaction on a database server.

        A `table_name` other than the default gives tables of its own (`scribe_<table_name>_...`). Conversions to and
        from a table model are not needed, because tasks are stored as what the protocol sends.

        Raises:
            SettingsError: The database is of an unsupported kind.
        """
        prefix = DEFAULT_PREFIX if table_name == THEIR_TABLE else f'{DEFAULT_PREFIX}{table_name}_'
        journal = SqlJournal(
            engine, prefix=prefix, create=create_table, deadline=transaction_deadline, their_table=table_name
        )
        super().__init__(journal, owner_resolver)
        self.engine = engine
        self.create_table = create_table
        if core_to_model_conversion is not None or model_to_core_conversion is not None:
            warnings.warn('a2a-scribe has no table model; the conversions are not used', UserWarning, stacklevel=2)
