"""Between database rows and the values of the port."""

from collections.abc import Mapping, Sequence
from typing import Any

from a2a_scribe.core.projection import Projection, fold, task_of_snapshot
from a2a_scribe.core.records import TURN_STARTED, VERSION, Record
from a2a_scribe.journal.deliveries import DeliveryState
from a2a_scribe.journal.tasks import StoredTask, TaskRow
from a2a_scribe.journal.writes import Accept, Ask, Group
from a2a_scribe.protocol.types import NodeId, Scope, Task, TaskPushNotificationConfig, TurnId


def task_row(values: Sequence[Any]) -> TaskRow:
    """Makes the row from the columns of `statements.TASK_COLUMNS`."""
    task_id, agent, owner, tenant, context_id, state, status_time, created_at, seq, node, epoch, turn, attempt, size = (
        values
    )
    return TaskRow(
        task_id,
        Scope(agent, owner, tenant),
        context_id,
        state,
        status_time,
        created_at,
        seq,
        None if node is None else NodeId(node),
        epoch,
        None if turn is None else TurnId(turn),
        attempt,
        size,
    )


def record(values: Sequence[Any]) -> Record:
    """Makes a record from a row of its table."""
    task_id, seq, kind, body, recorded_at, note = values
    return Record(task_id, seq, kind, bytes(body), recorded_at, note)


def stored_task(row: TaskRow, snapshot: bytes | None, tail: Sequence[Record]) -> StoredTask | None:
    """Folds a task; `None` if its records have vanished under us, because it was deleted."""
    projection: Projection | None = fold(snapshot, tail)
    if projection is None:
        return None
    return StoredTask(row, projection, 0 if snapshot is None else len(snapshot))


def whole_task(snapshot: bytes | memoryview | None, tail: Sequence[Record]) -> Task | None:
    """Folds a task of which only the task itself is wanted, which after its last turn is what the snapshot holds."""
    data = None if snapshot is None else bytes(snapshot)
    if data is not None and not tail:
        return task_of_snapshot(data)
    projection = fold(data, tail)
    return None if projection is None else projection.to_task()


def new_task_values(row: TaskRow, snapshot: bytes | None, snapshot_seq: int) -> dict[str, Any]:
    """Returns the columns of a task that is born."""
    return {
        'id': row.task_id,
        'agent': row.scope.agent,
        'owner': row.scope.owner,
        'tenant': row.scope.tenant,
        'context_id': row.context_id,
        'state': int(row.state),
        'status_time': row.status_time,
        'created_at': row.created_at,
        'seq': row.seq,
        'snapshot': snapshot,
        'snapshot_seq': snapshot_seq,
        'node': row.node,
        'epoch': row.epoch,
        'open_turn': row.open_turn,
        'attempt': row.attempt,
        'size': row.size,
    }


def changed_task_values(row: TaskRow) -> dict[str, Any]:
    """Returns the columns of a task that moves on."""
    return {
        'the_id': row.task_id,
        'new_state': int(row.state),
        'new_status_time': row.status_time,
        'new_seq': row.seq,
        'new_node': row.node,
        'new_epoch': row.epoch,
        'new_open_turn': row.open_turn,
        'new_attempt': row.attempt,
        'new_size': row.size,
    }


def replaced_task_values(row: TaskRow) -> dict[str, Any]:
    """Returns the columns of a task whose last record carries it whole; no older snapshot counts."""
    return {
        'the_id': row.task_id,
        'new_context_id': row.context_id,
        'new_state': int(row.state),
        'new_status_time': row.status_time,
        'new_seq': row.seq,
        'new_size': row.size,
        'new_snapshot': None,
        'new_snapshot_seq': row.seq - 1,
    }


def message_values(accept: Accept, group: Group) -> dict[str, Any]:
    """Returns the columns of a message that waits."""
    return _inbox_values(accept.task_id, accept.turn_id, TURN_STARTED, accept.body, group, None)


def ask_values(ask: Ask, group: Group, expires_at: int) -> dict[str, Any]:
    """Returns the columns of what waits and is no message."""
    return _inbox_values(ask.task_id, ask.ask_id, ask.kind, ask.body, group, expires_at)


def _inbox_values(
    task_id: str, turn_id: str, kind: str, body: bytes, group: Group, expires_at: int | None
) -> dict[str, Any]:
    return {
        'task_id': task_id,
        'turn_id': turn_id,
        'kind': kind,
        'body': body,
        'node': group.node,
        'created_at': group.now,
        'expires_at': expires_at,
    }


def config_values(
    config: TaskPushNotificationConfig, scope: Scope, position: int, state: DeliveryState
) -> dict[str, Any]:
    """Returns the columns of a push config that has delivered nothing after `position`."""
    return {
        'task_id': config.task_id,
        'config_id': config.id,
        'owner': scope.owner,
        'tenant': scope.tenant,
        'body': config_body(config),
        'position': position,
        'attempts': 0,
        'next_attempt_at': None,
        'failing_since': None,
        'state': state,
        'last_error': None,
        'node': None,
    }


def config_body(config: TaskPushNotificationConfig) -> bytes:
    """Returns the column of a push config."""
    return VERSION + config.SerializeToString()


def config_of(body: bytes) -> TaskPushNotificationConfig:
    """Makes a push config from its column."""
    return TaskPushNotificationConfig.FromString(bytes(body)[1:])


def by_task(records: Sequence[Record]) -> Mapping[str, list[Record]]:
    """Sorts records into their tasks."""
    sorted_records: dict[str, list[Record]] = {}
    for entry in records:
        sorted_records.setdefault(entry.task_id, []).append(entry)
    return sorted_records
