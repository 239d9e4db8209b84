"""`a2a-scribe db`: the database as a whole."""

import sys
from collections.abc import Iterable

from rich.text import Text

from a2a_scribe.cli.operator.databases import DONE, FOUND, Place, complain, connected, opened, trouble_with
from a2a_scribe.cli.operator.output import (
    console,
    count_text,
    print_fields,
    print_json,
    printable,
    size_text,
    state_text,
)
from a2a_scribe.cluster.locks import NodeLocks
from a2a_scribe.core.violations import Violation
from a2a_scribe.journal.sql.checking import check_strays, checked_tasks


async def check(place: Place, *, as_json: bool) -> int:
    """Checks every invariant, and prints each violation as it is found."""
    tasks = violations = warnings = 0
    async with opened(place) as site:
        async for found in checked_tasks(site.inspector, NodeLocks(site.journal.lock_directory).is_free):
            tasks += 1
            _show(found, as_json=as_json)
            warnings += sum(each.is_warning for each in found)
            violations += sum(not each.is_warning for each in found)
        async for stray in check_strays(site.inspector):
            violations += 1
            _show([stray], as_json=as_json)
    if as_json:
        print_json({'summary': {'tasks': tasks, 'violations': violations, 'warnings': warnings}})
    else:
        told = [count_text(tasks, 'task'), count_text(violations, 'violation')]
        told += [count_text(warnings, 'warning')] if warnings else []
        console().print(Text(', '.join(told), style='bold red' if violations else 'bold green'))
    return FOUND if violations else DONE


def _show(found: Iterable[Violation], *, as_json: bool) -> None:
    for each in found:
        kind = 'warning' if each.is_warning else 'violation'
        if as_json:
            print_json({'kind': kind, 'task': each.task_id, 'seq': each.seq, 'rule': each.rule, 'what': each.what})
            continue
        place = '' if each.seq is None else f', record {each.seq}'
        print(printable(f'{kind}: task {each.task_id}{place}: {each.rule.replace("_", " ")}: {each.what}'), flush=True)


async def status(place: Place, *, as_json: bool) -> int:
    """Shows schema and numbers."""
    async with connected(place) as site:
        schema = await site.inspector.schema()
        trouble = trouble_with(schema)
        fields: dict[str, object] = {'database': place.shown, 'schema': schema.current, 'newest': schema.newest}
        if not trouble:
            totals = await site.inspector.totals()
            nodes = await site.inspector.nodes()
            living = sum(node.state == 'alive' for node in nodes)
            fields |= {
                'tasks': sum(totals.states.values()),
                'states': {state_text(state): count for state, count in totals.states.items()},
                'records': totals.records,
                'record_bytes': totals.record_bytes,
                'stored_bytes': totals.stored_bytes,
                'nodes': len(nodes),
                'nodes_alive': living,
                'owned_tasks': sum(node.tasks for node in nodes),
            }
    if as_json:
        print_json(fields)
    else:
        print_fields(_for_people(fields))
    return complain(f'the database {trouble}', FOUND) if trouble else DONE


def _for_people(fields: dict[str, object]) -> dict[str, object]:
    shown = {'database': fields['database'], 'schema': f'{fields["schema"] or "none"} (newest: {fields["newest"]})'}
    if 'tasks' not in fields:
        return shown
    states = fields['states']
    assert isinstance(states, dict)
    stored, recorded = fields['stored_bytes'], fields['record_bytes']
    assert isinstance(recorded, int)
    assert stored is None or isinstance(stored, int)
    by_state = ', '.join(f'{count:,} {state}' for state, count in states.items())
    return shown | {
        'tasks': f'{fields["tasks"]:,}' + (f' ({by_state})' if by_state else ''),
        'records': f'{fields["records"]:,} of {size_text(recorded)}',
        'on disk': size_text(stored),
        'nodes': f'{fields["nodes"]}, {fields["nodes_alive"]} not declared dead',
        'tasks at work': fields['owned_tasks'],
    }


async def upgrade(place: Place) -> int:
    """Brings the schema to the newest version; makes it if there is none."""
    async with connected(place, may_create=True) as site:
        before = await site.inspector.schema()
        await site.journal.open()
        after = await site.inspector.schema()
    if before.current == after.current:
        print(f'the schema is the newest, {after.current}')
    else:
        print(f'the schema was {before.current or "not there"} and is {after.current} now', file=sys.stdout)
    return DONE
