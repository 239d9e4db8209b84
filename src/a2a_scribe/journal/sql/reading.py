"""Reading one task in SQL, for somebody: what is not theirs is no row, so the time it takes tells nothing of it.

Who has to be what is a statement of its own, made once.
"""

from functools import lru_cache
from typing import Any

from sqlalchemy import Select, bindparam, select

from a2a_scribe.journal.sql.listing import Filters, conditions, scope_values
from a2a_scribe.journal.sql.running import Parameters
from a2a_scribe.journal.sql.statements import TASK_COLUMNS
from a2a_scribe.journal.sql.tables import tables_of
from a2a_scribe.journal.tasks import Caller


def reading_of(prefix: str, task_id: str, caller: Caller) -> tuple[Select[Any], Parameters]:
    """Returns how to read the row of a task that `caller` sees, and its snapshot."""
    values = scope_values(caller)
    parameters = {f'the_{name}': value for name, value in values.items()}
    return _read_task(prefix, frozenset(values)), {'the_id': task_id, **parameters}


@lru_cache(maxsize=64)
def _read_task(prefix: str, filters: Filters) -> Select[Any]:
    tasks = tables_of(prefix).tasks
    row = (*(tasks.c[name] for name in TASK_COLUMNS), tasks.c.snapshot, tasks.c.snapshot_seq)
    return select(*row).where(tasks.c.id == bindparam('the_id'), *conditions(tasks, filters))
