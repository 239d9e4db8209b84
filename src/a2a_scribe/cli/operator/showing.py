"""`a2a-scribe tasks show`: one task with its turns, and with what only operators see."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from a2a_scribe.cli.operator.databases import DONE, Place, Site, opened
from a2a_scribe.cli.operator.output import (
    heading,
    in_one_line,
    print_fields,
    print_json,
    print_table,
    size_text,
    state_text,
    time_text,
)
from a2a_scribe.cli.operator.records import change_of, state_after, text_of
from a2a_scribe.cli.operator.rows import no_task, row_values
from a2a_scribe.core.auditing import UNDECODABLE
from a2a_scribe.core.records import TURN_STARTED, TurnEnded, TurnStarted, decode_turn_started
from a2a_scribe.journal.sql.inspecting import InboxRow, TaskLook
from a2a_scribe.journal.tasks import OPERATOR, StoredTask, TaskRow
from a2a_scribe.protocol.types import TaskPushNotificationConfig

PORTION = 200
"""Records that are read at once."""


@dataclass(slots=True)
class TurnLook:
    """A turn, from its records."""

    turn_id: str
    attempt: int
    started_at: int
    seq: int
    said: str
    ended_at: int | None = None
    outcome: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """What a task's records tell beside the task itself."""

    turns: list[TurnLook]
    statuses: list[tuple[int, int, str]]
    """Record, time, and state, of each change of the state."""
    notes: list[tuple[int, str]]
    """Record, and what it tells operators."""


async def show_task(place: Place, task_id: str, *, as_json: bool) -> int:
    """Shows one task with all that belongs to it."""
    async with opened(place) as site:
        look = await site.inspector.look_at(task_id)
        if look is None:
            return no_task(task_id)
        story = await _read_story(site, look.row)
        stored = await _stored(site, task_id)
        configs = await site.journal.read_configs(task_id)
    if as_json:
        print_json(_values(look, story, stored, configs))
    else:
        _print(look, story, stored, configs)
    return DONE


async def _stored(site: Site, task_id: str) -> StoredTask | None:
    """Returns the task itself, `None` if the journal of it is too broken to read."""
    try:
        return await site.journal.read_task(task_id, OPERATOR)
    except UNDECODABLE:
        return None


async def _read_story(site: Site, row: TaskRow) -> Story:
    story = Story([], [], [])
    after = 0
    while records := await site.inspector.records(row.task_id, after, PORTION):
        for record in records:
            change = change_of(record)
            if record.note:
                story.notes.append((record.seq, record.note))
            if isinstance(change, TurnStarted):
                said = text_of(change.request.message)
                story.turns.append(TurnLook(change.turn_id, change.attempt, record.recorded_at, record.seq, said))
            elif isinstance(change, TurnEnded) and story.turns:
                turn = story.turns[-1]
                turn.ended_at, turn.outcome, turn.error = record.recorded_at, change.outcome, change.error or None
            state = state_after(change)
            if state is not None and (not story.statuses or story.statuses[-1][2] != state_text(state)):
                story.statuses.append((record.seq, record.recorded_at, state_text(state)))
        after = records[-1].seq
    return story


def _owner_text(look: TaskLook) -> str:
    if look.row.node is None:
        return 'nobody works on it'
    if look.owner is None:
        return f'{look.row.node}, which the journal does not know'
    owner = look.owner
    return f'{owner.node_id} ({owner.state}, {owner.name or "no name"}, since {time_text(owner.started_at)})'


def _waiting_text(row: InboxRow) -> str:
    if row.kind != TURN_STARTED:
        return ''
    try:
        return text_of(decode_turn_started(row.body).request.message)
    except UNDECODABLE:
        return ''


def _print(look: TaskLook, story: Story, stored: StoredTask | None, configs: list[TaskPushNotificationConfig]) -> None:
    _print_task(look, stored)
    _print_part(
        'Turns',
        ('turn', 'attempt', 'record', 'started', 'ended', 'outcome', 'error', 'message'),
        [
            (
                turn.turn_id,
                turn.attempt,
                turn.seq,
                time_text(turn.started_at),
                time_text(turn.ended_at),
                turn.outcome,
                turn.error,
                in_one_line(turn.said, 40),
            )
            for turn in story.turns
        ],
    )
    statuses = [(seq, time_text(at), state) for seq, at, state in story.statuses]
    _print_part('States', ('record', 'recorded', 'state'), statuses)
    waiting = [
        (each.turn_id, each.kind, time_text(each.created_at), each.node, in_one_line(_waiting_text(each), 40))
        for each in look.inbox
    ]
    _print_part('Waiting', ('turn', 'kind', 'accepted', 'by node', 'message'), waiting)
    _print_part('Push configs', ('config', 'URL'), [(config.id, config.url) for config in configs])
    for seq, note in story.notes:
        heading(f'Note of record {seq}')
        print_fields({'': note.rstrip()})


def _print_part(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        heading(title)
        print_table(columns, rows)


def _print_task(look: TaskLook, stored: StoredTask | None) -> None:
    row = look.row
    print_fields(
        {
            'task': row.task_id,
            'state': f'{state_text(row.state)} since {time_text(row.status_time)}',
            'status message': _status_message(stored),
            'created': time_text(row.created_at),
            'agent': row.scope.agent,
            'owner': row.scope.owner,
            'tenant': row.scope.tenant,
            'context': row.context_id,
            'records': f'{row.seq:,} of {size_text(row.size)}',
            'snapshot': f'of record {look.snapshot_seq}' if look.snapshot is not None else 'none',
            'artifacts': 'cannot be read' if stored is None else stored.projection.artifact_count,
            'node': _owner_text(look),
            'open turn': row.open_turn,
        }
    )


def _status_message(stored: StoredTask | None) -> str | None:
    if stored is None or not stored.projection.status.HasField('message'):
        return None
    return text_of(stored.projection.status.message)


def _values(
    look: TaskLook, story: Story, stored: StoredTask | None, configs: list[TaskPushNotificationConfig]
) -> dict[str, Any]:
    values = row_values(look.row)
    values['status_message'] = _status_message(stored)
    values['artifacts'] = None if stored is None else stored.projection.artifact_count
    values['snapshot_seq'] = look.snapshot_seq if look.snapshot is not None else None
    values['node_state'] = None if look.owner is None else look.owner.state
    values['turns'] = [
        {
            'turn': turn.turn_id,
            'attempt': turn.attempt,
            'seq': turn.seq,
            'started_at': time_text(turn.started_at),
            'ended_at': time_text(turn.ended_at),
            'outcome': turn.outcome,
            'error': turn.error,
            'message': turn.said,
        }
        for turn in story.turns
    ]
    values['states'] = [{'seq': seq, 'recorded_at': time_text(at), 'state': state} for seq, at, state in story.statuses]
    values['inbox'] = [
        {
            'turn': each.turn_id,
            'kind': each.kind,
            'accepted_at': time_text(each.created_at),
            'node': each.node,
            'message': _waiting_text(each),
        }
        for each in look.inbox
    ]
    values['push_configs'] = [{'id': config.id, 'url': config.url} for config in configs]
    values['notes'] = [{'seq': seq, 'note': note} for seq, note in story.notes]
    return values
