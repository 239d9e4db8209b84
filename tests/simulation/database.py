"""The journal that all processes share, and each process's way to it, on which anything can go wrong.

Before and after each statement a `Connection` may wait, fail, lose the answer, let the statement arrive later than its
answer, or see the process die. What is refused is refused for good: it is told by its bytes.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from a2a_scribe.core.records import Record, decode_turn_started
from a2a_scribe.errors import EnvironmentFault, JournalRefusedError, JournalUnavailableError
from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.port import NodeRow
from a2a_scribe.journal.results import Queued, Receipt, WriteResult
from a2a_scribe.journal.tasks import Caller, StoredTask, TaskPage, TaskRow
from a2a_scribe.journal.writes import Accept, Group
from a2a_scribe.protocol.types import ListTasksRequest, NodeId, Task, TaskPushNotificationConfig
from tests.simulation.loop import Life
from tests.simulation.world import World

POISON = b'poison'
"""A record with these bytes is refused."""


@dataclass(slots=True)
class Trouble:
    """What goes wrong, as probabilities per statement, and when nothing goes at all."""

    slow: float = 0.0
    slowest: float = 0.005
    """Seconds that a slow statement may take."""
    fail: float = 0.0
    lose: float = 0.0
    late: float = 0.0
    read_fail: float = 0.0
    crash: float = 0.0
    away: list[tuple[float, float]] = field(default_factory=list)
    """From when to when nothing can be reached."""

    @property
    def is_any(self) -> bool:
        """Whether statements can fail."""
        return bool(self.fail or self.lose or self.late or self.read_fail or self.away)


class Database(MemoryJournal):
    """What is durable."""

    def __init__(self, world: World) -> None:
        """Starts empty."""
        super().__init__()
        self.world = world
        self.queued: dict[str, str] = {}
        """The messages that were ever in an inbox, and their tasks."""
        self.dead: set[NodeId] = set()
        self.refuse_all = 0.0
        """How probable it is that a whole group is refused, whatever it holds."""
        self._poisoned: dict[str, float] = {}
        """Until when nothing of a task is taken, not even its end."""
        self._refused: set[tuple[NodeId, int]] = set()

    @property
    def task_ids(self) -> list[str]:
        """All tasks, oldest first."""
        return list(self._rows)

    def records_of(self, task_id: str) -> list[Record]:
        """Returns all records of a task."""
        return self._records.get(task_id, [])

    def length(self, task_id: str) -> int:
        """Returns how many records of a task are durable."""
        return len(self._records.get(task_id, ()))

    def folded(self, task_id: str) -> Task:
        """Returns a task as readers get it: from its snapshot and the records after it."""
        return self._fold(task_id).to_task()

    def inbox(self, task_id: str) -> list[str]:
        """Returns the ids of the messages that wait for a task."""
        return [_message_id(each.body) for each in self._inbox.get(task_id, ()) if isinstance(each, Accept)]

    def rows(self) -> list[TaskRow]:
        """Returns the rows of all tasks."""
        return list(self._rows.values())

    async def register(self, node: NodeRow) -> None:
        """Makes a node known; one that was forgotten meanwhile had written nothing, and begins anew."""
        if not self.knows(node.node_id):
            self.dead.discard(node.node_id)
        await super().register(node)

    def fence(self, node_id: NodeId) -> None:
        """Fences a node."""
        self.dead.add(node_id)
        super().fence(node_id)

    async def commit(self, group: Group) -> Receipt:
        """Writes a group, and watches that no dead node writes."""
        self._refuse(group)
        before = {append.row.task_id: self.length(append.row.task_id) for append in group.appends}
        receipt = await super().commit(group)
        check = self.world.ledger.check
        wrote = any(self.length(task_id) > length for task_id, length in before.items())
        check(not (wrote and group.node in self.dead), f'node {group.node} has written after it was declared dead')
        return receipt

    def _refuse(self, group: Group) -> None:
        """Refuses some groups, whenever they come; what is durable already is not looked at again."""
        number, _ = self._receipts.get(group.node, (0, None))
        if group.number <= number or not group.appends or group.node in self.dead:
            return
        key = (group.node, group.number)
        if key in self._refused or (not self.world.is_calm and self.world.chance(self.refuse_all)):
            self._refused.add(key)
            raise JournalRefusedError('refused for no reason')
        now = self.world.loop.time()
        for append in group.appends:
            task_id, until = append.row.task_id, self._poisoned.get(append.row.task_id, 0.0)
            if any(POISON in record.body for record in append.records):
                self._poisoned.setdefault(task_id, now + self.world.pick((0.0, 0.0, 3.0)))
                raise JournalRefusedError('poison')
            if now < until:
                raise JournalRefusedError('still poisoned')

    def _accept(self, accept: Accept, group: Group) -> WriteResult:
        result = super()._accept(accept, group)
        if isinstance(result, Queued):
            self.queued[_message_id(accept.body)] = accept.task_id
            waiting, check = len(self.inbox(accept.task_id)), self.world.ledger.check
            check(waiting <= accept.queue_limit, f'{waiting} messages wait for {accept.task_id}')
        return result


def _message_id(body: bytes) -> str:
    return decode_turn_started(body).request.message.message_id


class Connection:
    """One process's way to the database: a `Journal`."""

    keeps_records = True
    lock_directory = None
    hints = None

    def __init__(self, world: World, database: Database, life: Life, trouble: Trouble) -> None:
        """Connects a process."""
        self.nodes: list[NodeId] = []
        """The ids under which the process has registered, oldest first."""
        self.on_crash: Callable[[], bool] = lambda: False
        """Crashes the process, if that is still wanted; returns whether it did."""
        self._world = world
        self._database = database
        self._life = life
        self._trouble = trouble
        self._under_way: Group | None = None
        self._unsettled: dict[tuple[NodeId, int], set[str]] = {}

    def __getattr__(self, name: str) -> Any:
        """Lets methods pass that the port has gained since: with delays and failures, like reads."""
        method = getattr(self._database, name)

        async def call(*args: Any, **given: Any) -> Any:
            await self._trip(self._trouble.read_fail)
            result = await method(*args, **given)
            await self._trip()
            return result

        return call

    def break_off(self) -> None:
        """The process is dead: what was under way may still arrive."""
        if self._under_way is not None and self._world.chance(0.5):
            self._arrive_later(self._under_way)

    def note_losses(self) -> None:
        """Tells the ledger of the tasks whose records may be lost."""
        for task_ids in self._unsettled.values():
            self._world.ledger.lossy_tasks |= task_ids

    # -- trouble

    async def _trip(self, failing: float = 0.0) -> None:
        """Takes the time that a way takes."""
        world, trouble = self._world, self._trouble
        if world.chance(trouble.slow):
            await world.pause(world.random.random() * trouble.slowest)
        if world.is_calm:
            return
        if trouble.crash and world.chance(trouble.crash) and self.on_crash():
            await world.pause(1000)  # never comes back
        now = world.loop.time()
        if any(begin <= now < end for begin, end in trouble.away) or world.chance(failing):
            raise JournalUnavailableError('the database cannot be reached')

    def _arrive_later(self, group: Group) -> None:
        world = self._world

        async def arrive() -> None:
            await world.pause(world.random.random() * 0.5)
            try:
                await self._database.commit(group)
                world.note('database', f'group {group.number} of {group.node} arrives late')
            except EnvironmentFault as error:
                world.note('database', f'group {group.number} of {group.node} arrives late: {type(error).__name__}')

        world.spawn(arrive(), 'late group')

    # -- the port

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def register(self, node: NodeRow) -> None:
        """Makes a node known."""
        try:
            await self._trip(self._trouble.fail)
            await self._database.register(node)
            if node.node_id not in self.nodes:
                self.nodes.append(node.node_id)
            await self._trip(self._trouble.lose)
        except JournalUnavailableError as error:
            self._world.note(self._life.name, f'cannot register {node.node_id}: {error}')
            self._world.ledger.doomed_processes.add(self._life.name)
            raise

    async def commit(self, group: Group) -> Receipt:
        """Writes a group, or does not, or does and says that it did not."""
        key = (group.node, group.number)
        self._unsettled[key] = {append.row.task_id for append in group.appends}
        name = f'group {group.number} of {group.node} ({_contents(group)})'
        try:
            receipt = await self._attempt(group)
        except EnvironmentFault as error:
            self._world.note(self._life.name, f'{name}: {type(error).__name__}, {error}')
            raise
        del self._unsettled[key]
        self._world.note(self._life.name, f'{name}: durable')
        return receipt

    async def _attempt(self, group: Group) -> Receipt:
        world, trouble = self._world, self._trouble
        self._under_way = group
        try:
            await self._trip(trouble.fail)
            if not world.is_calm and world.chance(trouble.late):
                self._arrive_later(group)
                raise JournalUnavailableError('no answer yet')
        except asyncio.CancelledError:
            if world.chance(0.5):
                self._arrive_later(group)
            raise
        finally:
            if self._life.is_alive:
                self._under_way = None
        receipt = await self._database.commit(group)
        await self._trip(trouble.lose)
        return receipt

    async def has_task(self, task_id: str, caller: Caller) -> bool:
        """Whether the task exists for the caller."""
        await self._trip(self._trouble.read_fail)
        result = await self._database.has_task(task_id, caller)
        await self._trip()
        return result

    async def read_task(self, task_id: str, caller: Caller) -> StoredTask | None:
        """Returns a task that `caller` sees."""
        await self._trip(self._trouble.read_fail)
        result = await self._database.read_task(task_id, caller)
        await self._trip()
        return result

    async def read_records(self, task_id: str, after: int, limit: int, max_bytes: int) -> list[Record]:
        """Returns the records after `after`."""
        await self._trip(self._trouble.read_fail)
        result = await self._database.read_records(task_id, after, limit, max_bytes)
        await self._trip()
        return result

    async def list_tasks(self, caller: Caller, query: ListTasksRequest) -> TaskPage:
        """Returns the caller's tasks."""
        await self._trip(self._trouble.read_fail)
        result = await self._database.list_tasks(caller, query)
        await self._trip()
        return result

    async def read_configs(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Returns a task's push configs."""
        await self._trip(self._trouble.read_fail)
        return await self._database.read_configs(task_id)

    async def replace_task(self, task: Task, caller: Caller, now: int) -> None:
        """Stores a whole task from outside a turn."""
        await self._trip(self._trouble.fail)
        await self._database.replace_task(task, caller, now)

    async def delete_task(self, task_id: str, caller: Caller) -> bool:
        """Deletes a task."""
        await self._trip(self._trouble.fail)
        return await self._database.delete_task(task_id, caller)


def _contents(group: Group) -> str:
    parts = [
        f'{append.row.task_id}: {",".join(record.kind for record in append.records)} to {append.row.seq}'
        f'{", ends the turn" if append.ends_turn else ""}'
        for append in group.appends
    ]
    for write in group.writes:
        what = f' {_message_id(write.body)}' if isinstance(write, Accept) else ''
        parts.append(f'{type(write).__name__}{what} for {getattr(write, "task_id", "")}')
    return '; '.join(parts) or 'a sign of life'
