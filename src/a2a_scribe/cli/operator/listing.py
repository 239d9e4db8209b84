"""`a2a-scribe tasks list`: the tasks of all owners."""

from a2a.utils.errors import InvalidParamsError

from a2a_scribe.cli.operator.databases import DONE, Place, complain, opened
from a2a_scribe.cli.operator.output import print_json, print_table, state_text, time_text
from a2a_scribe.cli.operator.rows import row_values
from a2a_scribe.errors import SettingsError
from a2a_scribe.journal.sql.inspecting import TaskFilter
from a2a_scribe.protocol.paging import PagePosition, decode_token, encode_token


async def list_tasks(place: Place, wanted: TaskFilter, *, limit: int, page: str, as_json: bool) -> int:
    """Lists tasks, newest status first."""
    try:
        position = decode_token(page)
    except InvalidParamsError:
        raise SettingsError(f'--page {page!r} is not what an earlier list has named') from None
    async with opened(place) as site:
        found = await site.inspector.list_rows(wanted, position, limit + 1)
        rows, total = found[:limit], await site.inspector.count(wanted)
    if as_json:
        for row in rows:
            print_json(row_values(row))
    else:
        print_table(
            ('task', 'state', 'since', 'agent', 'owner', 'tenant', 'context', 'records', 'node'),
            [
                (
                    row.task_id,
                    state_text(row.state),
                    time_text(row.status_time),
                    *row.scope,
                    row.context_id,
                    row.seq,
                    row.node,
                )
                for row in rows
            ],
        )
    if len(found) > limit:
        last = PagePosition(rows[-1].status_time, rows[-1].task_id)
        complain(f'{len(rows)} of {total} tasks; for those that follow: --page {encode_token(last)}')
    return DONE
