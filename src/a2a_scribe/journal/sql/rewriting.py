"""Rewrites stored push configs, a few in one transaction, beside servers that use them.

Only their bodies are touched, so what has been delivered stays as it is.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Select, Update, bindparam, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncEngine

from a2a_scribe.journal.sql import rows
from a2a_scribe.journal.sql.access import Access
from a2a_scribe.journal.sql.running import Running
from a2a_scribe.journal.sql.tables import DEFAULT_PREFIX, tables_of
from a2a_scribe.protocol.types import TaskPushNotificationConfig

PAGE = 200
PATIENCE = 60.0
"""Seconds that one transaction may take on a server."""

Change = Callable[[TaskPushNotificationConfig], TaskPushNotificationConfig]


@dataclass(frozen=True, slots=True)
class _Statements:
    page: Select[Any]
    rewrite: Update


async def rewrite_configs(
    engine: AsyncEngine, change: Change, *, prefix: str = DEFAULT_PREFIX
) -> AsyncIterator[tuple[int, int]]:
    """Changes every config that `change` returns otherwise; yields the numbers of those read and of those changed.

    Raises:
        JournalUnavailableError: The database cannot be used; what was yielded before is done.
    """
    access, statements = Access(engine, deadline=PATIENCE), _statements_of(prefix)
    last: Sequence[Any] = ('', '')
    while last:

        async def work(running: Running, after: Sequence[Any] = last) -> tuple[Sequence[Sequence[Any]], int]:
            parameters = {'after_task': after[0], 'after_config': after[1], 'the_limit': PAGE}
            found = await running.rows(statements.page, parameters)
            rewritten = 0
            for task_id, config_id, body in found:
                config = rows.config_of(body)
                changed = change(config)
                if changed != config:
                    values = {'the_task': task_id, 'the_config': config_id, 'the_body': rows.config_body(changed)}
                    rewritten += await running.change(statements.rewrite, values)
            return found, rewritten

        found, rewritten = await access.write(work)
        last = found[-1][:2] if len(found) == PAGE else ()
        yield len(found), rewritten


@lru_cache(maxsize=64)
def _statements_of(prefix: str) -> _Statements:
    configs = tables_of(prefix).push_configs
    key = tuple_(configs.c.task_id, configs.c.config_id)
    return _Statements(
        page=(
            select(configs.c.task_id, configs.c.config_id, configs.c.body)
            .where(key > tuple_(bindparam('after_task'), bindparam('after_config')))
            .order_by(configs.c.task_id, configs.c.config_id)
            .limit(bindparam('the_limit'))
            .with_for_update()
        ),
        rewrite=(
            update(configs)
            .where(configs.c.task_id == bindparam('the_task'), configs.c.config_id == bindparam('the_config'))
            .values(body=bindparam('the_body'))
        ),
    )
