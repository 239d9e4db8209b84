"""Push configs in memory, and how far each has come: a part of the reference adapter."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from a2a_scribe.journal.deliveries import (
    Delivery,
    DeliveryKey,
    DeliveryOutcome,
    DeliveryQuery,
    DeliveryState,
    DueDeliveries,
    KeepDeliveries,
    Kept,
    SetState,
)
from a2a_scribe.journal.tasks import TaskRow
from a2a_scribe.protocol.states import TERMINAL
from a2a_scribe.protocol.types import NodeId, Scope, TaskPushNotificationConfig


@dataclass(slots=True)
class _Entry:
    """One config."""

    config: TaskPushNotificationConfig
    scope: Scope
    position: int
    attempts: int = 0
    next_attempt_at: int | None = None
    failing_since: int | None = None
    state: DeliveryState = 'active'
    last_error: str | None = None
    node: NodeId | None = None

    @property
    def key(self) -> DeliveryKey:
        return DeliveryKey(self.config.task_id, self.config.id)

    def start_anew(self) -> None:
        """Takes the config from whoever holds it."""
        self.attempts, self.next_attempt_at, self.failing_since, self.node = 0, None, None, None


class MemoryDeliveries:
    """The configs of all tasks."""

    def __init__(self, row_of: Callable[[str], TaskRow | None], lives: Callable[[NodeId], bool]) -> None:
        """Asks `row_of` how a task stands, and `lives` whether a node lives."""
        self._row_of = row_of
        self._lives = lives
        self._entries: defaultdict[str, dict[str, _Entry]] = defaultdict(dict)

    def put(self, config: TaskPushNotificationConfig, scope: Scope, position: int | None, state: DeliveryState) -> None:
        """Makes or replaces a config."""
        key = DeliveryKey(config.task_id, config.id)
        known, row = self._find(key), self._row_of(key.task_id)
        if known is not None:
            position = known.position
        elif position is None:
            position = 0 if row is None else row.seq
        self._entries[key.task_id][key.config_id] = _Entry(_copy(config), scope, position, state=state)

    def drop(self, key: DeliveryKey) -> None:
        """Removes a config; harmless when there is none."""
        entries = self._entries.get(key.task_id, {})
        entries.pop(key.config_id, None)
        if not entries:
            self.forget(key.task_id)

    def forget(self, task_id: str) -> None:
        """Removes the configs of a task."""
        self._entries.pop(task_id, None)

    def configs(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Returns a task's configs in the order of their ids."""
        return [_copy(entry.config) for _, entry in sorted(self._entries.get(task_id, {}).items())]

    def wait(self, task_id: str) -> bool:
        """Whether there is something to deliver of a task."""
        row = self._row_of(task_id)
        entries = self._entries.get(task_id, {}).values()
        return row is not None and any(each.state == 'active' and each.position < row.seq for each in entries)

    def due(self, due: DueDeliveries) -> list[DeliveryKey]:
        """Returns configs that are due."""
        found = [entry for entry in self._all(due.task_ids) if self._is_due(entry, due)]
        found.sort(key=lambda entry: (entry.next_attempt_at or 0, entry.key))
        return [entry.key for entry in found[: due.limit]]

    def _is_due(self, entry: _Entry, due: DueDeliveries) -> bool:
        row = self._row_of(entry.config.task_id)
        if row is None or row.scope.agent != due.agent or not self._is_free(entry):
            return False
        return (entry.next_attempt_at or 0) <= due.now and (row.seq > entry.position or row.node == due.node)

    def _is_free(self, entry: _Entry) -> bool:
        return entry.state == 'active' and (entry.node is None or not self._lives(entry.node))

    def held(self, node_id: NodeId) -> set[DeliveryKey]:
        """Returns the configs that a node holds."""
        return {entry.key for entry in self._all() if entry.node == node_id}

    def listed(self, query: DeliveryQuery) -> list[Delivery]:
        """Returns a page of configs, in the order of their keys."""
        wanted = None if query.task_id is None else (query.task_id,)
        entries = sorted(self._all(wanted), key=lambda entry: entry.key)
        found = (self._delivery(entry) for entry in entries if entry.key > query.after)
        matching = [
            each
            for each in found
            if each is not None and query.state in (None, each.state) and query.agent in (None, each.scope.agent)
        ]
        return matching[: query.limit]

    def read(self, key: DeliveryKey) -> Delivery | None:
        """Returns one config."""
        entry = self._find(key)
        return None if entry is None else self._delivery(entry)

    def keep(self, keep: KeepDeliveries, node: NodeId) -> Kept:
        """Writes what came of attempts, and takes configs."""
        lost = frozenset(outcome.key for outcome in keep.outcomes if not self._note(outcome, node))
        claimed = [entry for key in keep.claims if (entry := self._claim(key, node)) is not None]
        return Kept(lost, tuple(each for each in map(self._delivery, claimed) if each is not None))

    def _claim(self, key: DeliveryKey, node: NodeId) -> _Entry | None:
        entry = self._find(key)
        if entry is None or not self._is_free(entry):
            return None
        entry.node = node
        return entry

    def _note(self, outcome: DeliveryOutcome, node: NodeId) -> bool:
        entry = self._find(outcome.key)
        if entry is None or entry.node != node or entry.position != outcome.expected:
            return False
        entry.position, entry.attempts = outcome.position, outcome.attempts
        entry.next_attempt_at, entry.failing_since = outcome.next_attempt_at, outcome.failing_since
        entry.state, entry.last_error = outcome.state, outcome.last_error
        if outcome.releases:
            entry.node = None
            if outcome.state == 'active' and self._is_over(entry):
                self.drop(outcome.key)
        return True

    def _is_over(self, entry: _Entry) -> bool:
        row = self._row_of(entry.config.task_id)
        return row is not None and row.state in TERMINAL and row.node is None and row.seq == entry.position

    def set(self, key: DeliveryKey, state: SetState, position: int | None) -> bool:
        """Suspends or resumes a config."""
        entry = self._find(key)
        if entry is None:
            return False
        entry.start_anew()
        entry.state = state
        entry.position = entry.position if position is None else position
        if state == 'active':
            entry.last_error = None
        return True

    def _find(self, key: DeliveryKey) -> _Entry | None:
        return self._entries.get(key.task_id, {}).get(key.config_id)

    def _all(self, task_ids: tuple[str, ...] | None = None) -> Iterator[_Entry]:
        for task_id in tuple(self._entries) if task_ids is None else task_ids:
            yield from self._entries.get(task_id, {}).values()

    def _delivery(self, entry: _Entry) -> Delivery | None:
        row = self._row_of(entry.config.task_id)
        if row is None:
            return None
        return Delivery(
            config=_copy(entry.config),
            scope=row.scope,
            position=entry.position,
            attempts=entry.attempts,
            next_attempt_at=entry.next_attempt_at,
            failing_since=entry.failing_since,
            state=entry.state,
            last_error=entry.last_error,
            node=entry.node,
            seq=row.seq,
            task_state=row.state,
        )


def _copy(config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
    copy = TaskPushNotificationConfig()
    copy.CopyFrom(config)
    return copy
