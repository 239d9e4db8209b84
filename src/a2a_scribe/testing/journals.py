"""A journal that gives trouble when a test says so."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from a2a_scribe.core.records import Record
from a2a_scribe.errors import JournalRefusedError, JournalUnavailableError
from a2a_scribe.journal.deliveries import Delivery, DeliveryKey, DeliveryQuery, DueDeliveries, SetState
from a2a_scribe.journal.port import Hints, Journal, LivingNode, NodeRow, WaitingAsk
from a2a_scribe.journal.results import Receipt
from a2a_scribe.journal.tasks import Caller, Ended, StoredTask, TaskPage, TaskRow
from a2a_scribe.journal.writes import Group
from a2a_scribe.protocol.types import ListTasksRequest, NodeId, Task, TaskPushNotificationConfig


class TroubledJournal:
    """A `Journal` in front of another one, which delays, fails, refuses, and loses answers on command."""

    def __init__(self, journal: Journal) -> None:
        """Passes everything on until it is told otherwise."""
        self.inner = journal
        self.attempts: list[Group] = []
        """What it was asked to commit, failed attempts included."""
        self.is_away = False
        """Whether nothing can be written or read."""
        self.reads_fail = False
        """Whether nothing can be read."""
        self._fails = 0
        self._lost = 0
        self._refuses: Callable[[Group], bool] = lambda _: False
        self._passes: asyncio.Event | None = None
        self._held = asyncio.Event()

    @property
    def keeps_records(self) -> bool:
        """As the journal behind it."""
        return self.inner.keeps_records

    @property
    def lock_directory(self) -> Path | None:
        """As the journal behind it."""
        return self.inner.lock_directory

    @property
    def hints(self) -> Hints | None:
        """As the journal behind it."""
        return self.inner.hints

    # -- commands

    def hold(self) -> None:
        """Lets commits wait before they are written, until `let_go`."""
        if self._passes is None:
            self._passes = asyncio.Event()
            self._held.clear()

    def let_go(self) -> None:
        """Lets commits go on."""
        if self._passes is not None:
            self._passes.set()
            self._passes = None

    async def wait_until_held(self) -> None:
        """Waits until a commit waits."""
        await self._held.wait()

    @property
    def is_holding(self) -> bool:
        """Whether a commit waits now."""
        return self._held.is_set()

    def fail(self, times: int = 1_000_000) -> None:
        """Fails the next commits, by default until it heals; nothing of them is written."""
        self._fails = times

    def lose_answers(self, times: int = 1) -> None:
        """Writes the next commits, and then says that it could not."""
        self._lost = times

    def refuse(self, wanted: Callable[[Group], bool]) -> None:
        """Refuses the groups that `wanted` names, from now on."""
        self._refuses = wanted

    def heal(self) -> None:
        """Ends all trouble."""
        self.is_away = self.reads_fail = False
        self._fails = self._lost = 0
        self._refuses = lambda _: False
        self.let_go()

    # -- the port

    async def open(self) -> None:
        """Opens the journal."""
        await self.inner.open()

    async def close(self) -> None:
        """Closes the journal."""
        await self.inner.close()

    async def register(self, node: NodeRow) -> None:
        """Makes a node known."""
        self._check()
        await self.inner.register(node)

    async def retire(self, node_id: NodeId) -> None:
        """Forgets a node."""
        self._check()
        await self.inner.retire(node_id)

    async def forget_dead(self, agent: str) -> None:
        """Forgets dead nodes."""
        self._check()
        await self.inner.forget_dead(agent)

    async def living_nodes(self, agent: str) -> list[LivingNode]:
        """Returns the living nodes of an agent."""
        self._check(reading=True)
        return await self.inner.living_nodes(agent)

    async def declare_dead(self, node_id: NodeId, number: int) -> bool:
        """Fences a node."""
        self._check()
        return await self.inner.declare_dead(node_id, number)

    async def orphans(self, agent: str, limit: int, after: str = '') -> list[TaskRow]:
        """Returns tasks without a living owner."""
        self._check(reading=True)
        return await self.inner.orphans(agent, limit, after)

    async def waiting_asks(self, node_id: NodeId, now: int) -> list[WaitingAsk]:
        """Returns what a node is asked to do."""
        self._check(reading=True)
        return await self.inner.waiting_asks(node_id, now)

    async def waited_for(self, node_id: NodeId) -> list[str]:
        """Returns the tasks of a node for which messages wait."""
        self._check(reading=True)
        return await self.inner.waited_for(node_id)

    async def commit(self, group: Group) -> Receipt:
        """Writes a group, or gives the trouble that it was told to give."""
        self.attempts.append(group)
        if self._passes is not None:
            self._held.set()
            await self._passes.wait()
            self._held.clear()
        self._check()
        if self._fails:
            self._fails -= 1
            raise JournalUnavailableError('told to fail')
        if self._refuses(group):
            raise JournalRefusedError('told to refuse')
        receipt = await self.inner.commit(group)
        if self._lost:
            self._lost -= 1
            raise JournalUnavailableError('told to lose the answer')
        return receipt

    async def has_task(self, task_id: str, caller: Caller) -> bool:
        """Whether the task exists for the caller."""
        self._check(reading=True)
        return await self.inner.has_task(task_id, caller)

    async def read_task(self, task_id: str, caller: Caller) -> StoredTask | None:
        """Returns a task that `caller` sees."""
        self._check(reading=True)
        return await self.inner.read_task(task_id, caller)

    async def read_records(self, task_id: str, after: int, limit: int, max_bytes: int) -> list[Record]:
        """Returns the records after `after`, within the bounds."""
        self._check(reading=True)
        return await self.inner.read_records(task_id, after, limit, max_bytes)

    async def list_tasks(self, caller: Caller, query: ListTasksRequest) -> TaskPage:
        """Returns the caller's tasks."""
        self._check(reading=True)
        return await self.inner.list_tasks(caller, query)

    async def read_configs(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Returns a task's push configs."""
        self._check(reading=True)
        return await self.inner.read_configs(task_id)

    async def due_deliveries(self, due: DueDeliveries) -> list[DeliveryKey]:
        """Returns configs that are due."""
        self._check(reading=True)
        return await self.inner.due_deliveries(due)

    async def held_deliveries(self, node_id: NodeId) -> set[DeliveryKey]:
        """Returns the configs that a node holds."""
        self._check(reading=True)
        return await self.inner.held_deliveries(node_id)

    async def list_deliveries(self, query: DeliveryQuery) -> list[Delivery]:
        """Returns configs in the order of their keys."""
        self._check(reading=True)
        return await self.inner.list_deliveries(query)

    async def read_delivery(self, key: DeliveryKey) -> Delivery | None:
        """Returns one config."""
        self._check(reading=True)
        return await self.inner.read_delivery(key)

    async def set_delivery(self, key: DeliveryKey, state: SetState, position: int | None = None) -> bool:
        """Suspends or resumes a config."""
        self._check()
        return await self.inner.set_delivery(key, state, position)

    async def replace_task(self, task: Task, caller: Caller, now: int) -> None:
        """Stores a whole task from outside a turn."""
        self._check()
        await self.inner.replace_task(task, caller, now)

    async def delete_task(self, task_id: str, caller: Caller) -> bool:
        """Deletes a task."""
        self._check()
        return await self.inner.delete_task(task_id, caller)

    async def delete_expired_keys(self, now: int) -> int:
        """Deletes some of the keys that have expired."""
        self._check()
        return await self.inner.delete_expired_keys(now)

    async def delete_ended(self, ended: Ended) -> list[str]:
        """Deletes some of the tasks that ended long ago."""
        self._check()
        return await self.inner.delete_ended(ended)

    def _check(self, *, reading: bool = False) -> None:
        if self.is_away or (reading and self.reads_fail):
            raise JournalUnavailableError('told to be away')
