"""What an operator sees of records: one line, or one JSON object, each."""

from typing import Any

from a2a_scribe.cli.operator.output import in_one_line, state_text, time_text
from a2a_scribe.core.auditing import UNDECODABLE
from a2a_scribe.core.records import (
    ArtifactChanged,
    Change,
    HistoryAdded,
    Record,
    StatusChanged,
    TaskCreated,
    TaskReplaced,
    TurnEnded,
    TurnStarted,
    decode,
    shown_event,
)
from a2a_scribe.protocol.codec.errors import UnencodableError
from a2a_scribe.protocol.json import to_dict
from a2a_scribe.protocol.types import Message, Part, TaskState, TaskStatus


def change_of(record: Record) -> Change | None:
    """Returns what a record carries, `None` if it cannot be read: the check of the database tells why."""
    try:
        return decode(record)
    except UNDECODABLE:
        return None


def state_after(change: Change | None) -> TaskState | None:
    """Returns the state that a record sets, `None` if it sets none."""
    match change:
        case TaskCreated(task) | TaskReplaced(task):
            return task.status.state
        case StatusChanged(event):
            return event.status.state
        case _:
            return None


def summary_of(change: Change | None) -> str:
    """Returns in a few words what a record says."""
    match change:
        case TaskCreated(task) | TaskReplaced(task):
            return _status_text(task.status)
        case StatusChanged(event):
            return _status_text(event.status)
        case ArtifactChanged(event):
            action = 'append to' if event.append else 'set'
            return f'{action} {event.artifact.artifact_id}: {in_one_line(_text_of(event.artifact.parts))}'
        case HistoryAdded(messages):
            return '; '.join(in_one_line(text_of(message)) for message in messages)
        case TurnStarted(turn_id, _, request, attempt):
            again = '' if attempt == 1 else f', attempt {attempt}'
            return f'{turn_id}{again}: {in_one_line(text_of(request.message))}'
        case TurnEnded(turn_id, outcome, error):
            return f'{turn_id}: {outcome}' + (f', {error}' if error else '')
        case None:
            return 'not known to this version'


def text_of(message: Message) -> str:
    """Returns the text of a message; other parts are named."""
    return _text_of(message.parts)


def _status_text(status: TaskStatus) -> str:
    said = in_one_line(text_of(status.message)) if status.HasField('message') else ''
    return state_text(status.state) + (f': {said}' if said else '')


def _text_of(parts: 'list[Part] | Any') -> str:
    texts = [part.text if part.HasField('text') else f'[{part.WhichOneof("content") or "nothing"}]' for part in parts]
    return ' '.join(texts)


def record_values(record: Record, change: Change | None) -> dict[str, Any]:
    """Returns a record as plain values; an event as the protocol writes it in JSON."""
    values: dict[str, Any] = {
        'task': record.task_id,
        'seq': record.seq,
        'kind': record.kind,
        'recorded_at': time_text(record.recorded_at),
    }
    match change:
        case TurnStarted(turn_id, caller, request, attempt):
            values |= {'turn': turn_id, 'attempt': attempt, 'owner': caller.owner, 'message': _json(request.message)}
        case TurnEnded(turn_id, outcome, error):
            values |= {'turn': turn_id, 'outcome': outcome, 'error': error or None}
        case HistoryAdded(messages):
            values['messages'] = [_json(message) for message in messages]
        case None:
            values['size'] = len(record.body)
        case _:
            values['event'] = _json(shown_event(record))
    return values | {'note': record.note}


def _json(message: Any) -> Any:
    try:
        return to_dict(message)
    except UnencodableError as error:
        return str(error)
