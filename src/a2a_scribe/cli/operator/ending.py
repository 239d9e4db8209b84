"""`a2a-scribe tasks cancel` and `fail`: ends a task.

The command is a node of the task's agent for as long as it takes: it claims the task, or takes it from a node that is
dead, and writes the terminal state. A node that lives is asked to cancel, as other servers ask it. A node is dead if it
was declared so, if its lock file is free, or if its commit number stands still while the command's own commits go
through, for as long as the lease. Should the command itself be killed, the servers find it dead in the same ways.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import Enum

import typer

from a2a_scribe.cli.operator.databases import DONE, FOUND, Place, Site, complain, opened
from a2a_scribe.cli.operator.output import print_json, state_text
from a2a_scribe.cli.operator.rows import no_task
from a2a_scribe.clock import Clock, SystemClock
from a2a_scribe.cluster.lease import Lease
from a2a_scribe.cluster.locks import NodeLocks
from a2a_scribe.cluster.node import Node
from a2a_scribe.core.records import (
    CANCEL,
    CallerRecord,
    CancelAsked,
    Change,
    Outcome,
    Record,
    TurnEnded,
    encode,
    encode_cancel,
)
from a2a_scribe.core.statuses import TurnFacts, change_status
from a2a_scribe.ids import UuidSource
from a2a_scribe.journal.port import LivingNode
from a2a_scribe.journal.results import Claimed
from a2a_scribe.journal.rows import status_micros
from a2a_scribe.journal.sql.inspecting import NodeInfo, TaskLook
from a2a_scribe.journal.tasks import OPERATOR, TaskRow
from a2a_scribe.journal.writes import Append, Ask, Claim, Group, TakeOver
from a2a_scribe.protocol.states import CANCELED, FAILED, TERMINAL
from a2a_scribe.protocol.types import Message, NodeId, Struct, TaskState

ATTEMPTS = 10

PAUSE, LONG = 0.25, 1.0
"""Seconds between two looks at a node; an observer that took longer for one has not observed anything."""

IDS = UuidSource()


@dataclass(frozen=True, slots=True)
class Ending:
    """How a task is to end."""

    state: TaskState
    outcome: Outcome
    """Of a turn that is open."""
    text: str
    """What clients are told."""
    note: str
    may_be_asked_for: bool = False
    """Whether a process that works on the task can bring it about."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How the command goes about it."""

    lease: float
    """Seconds of silence after which a node is dead."""
    sure: bool
    """Whether nobody has to be asked."""
    as_json: bool
    patience: float = 0.0
    """Seconds that a living process may take to cancel the task."""


def failure(text: str) -> Ending:
    """Returns the end of a task that failed."""
    return Ending(FAILED, 'interrupted', text, 'ended by `a2a-scribe tasks fail`')


def cancellation(text: str) -> Ending:
    """Returns the end of a task that is not wanted any more."""
    return Ending(CANCELED, 'canceled', text, 'ended by `a2a-scribe tasks cancel`', may_be_asked_for=True)


class Waited(Enum):
    """How waiting for another node has ended."""

    MOVED = 'the task is not that of the node any more, or the node was declared dead'
    SILENT = 'the node does not write'
    IN_VAIN = 'the node lives, and has not ended the task'


class OperatorNode:
    """The command as a node."""

    def __init__(self, site: Site, agent: str, clock: Clock) -> None:
        """Makes up a new id; the servers of `agent` look after it as after each other."""
        self.site = site
        self.clock = clock
        self._locks = NodeLocks(site.journal.lock_directory)
        self._node = Node(agent, 'a2a-scribe tasks', IDS, clock)

    @property
    def node_id(self) -> NodeId:
        """The id under which the command writes."""
        return self._node.row.node_id

    def group(self) -> Group:
        """Returns the next group, empty."""
        return Group(self.node_id, self._node.next_number(), self.clock.now())

    @asynccontextmanager
    async def registered(self) -> AsyncIterator[None]:
        """Is a node for a while, and leaves nothing behind; a task that it still owns is left to others."""
        self._locks.take(self.node_id)
        await self.site.journal.register(self._node.row)
        try:
            yield
        finally:
            await self._leave()

    async def _leave(self) -> None:
        await self.site.journal.retire(self.node_id)
        left = await self._living(self.node_id, self._node.row.agent)
        if left is None or await self.site.journal.declare_dead(self.node_id, left.number):
            self._locks.drop(self.node_id)

    async def _living(self, node_id: NodeId, agent: str) -> LivingNode | None:
        nodes = await self.site.journal.living_nodes(agent)
        return next((each for each in nodes if each.node_id == node_id), None)

    def is_gone(self, node: NodeInfo) -> bool:
        """Whether a node's process has ended, as far as its lock file tells."""
        return self._locks.is_free(node.node_id)

    async def is_silent(self, node: NodeInfo, seconds: float) -> bool:
        """Whether a node does not write for as long as the lease, while this one does."""
        lease = Lease(seconds, LONG)
        while True:
            await self.site.journal.commit(self.group())
            found = await self._living(node.node_id, node.agent)
            if found is None:
                return True
            if found.number != node.commit_no:
                return False
            if lease.look([found], self.clock.monotonic(), undisturbed=True):
                return True
            await asyncio.sleep(PAUSE)

    async def ask(self, row: TaskRow, text: str, seconds: float) -> None:
        """Has the node that works on a task cancel it, unless it finds this out too late; its agent hears `text`."""
        asked = CancelAsked(CallerRecord(row.scope.owner, row.scope.tenant), Struct())
        if text:
            asked.metadata.update({'message': text})
        group = self.group()
        patience = int(seconds * 1_000_000)
        group.writes.append(Ask(CANCEL, row.task_id, OPERATOR, IDS.new(), encode_cancel(asked), patience))
        await self.site.journal.commit(group)

    async def waits_for(self, row: TaskRow, owner: NodeInfo, manner: Manner) -> 'Waited':
        """Waits until the node that was asked for it has ended the task, and watches whether it lives."""
        lease, until = Lease(manner.lease, LONG), self.clock.monotonic() + manner.patience
        while self.clock.monotonic() < until:
            await self.site.journal.commit(self.group())
            look = await self.site.inspector.look_at(row.task_id)
            if look is None or look.row.node != row.node:
                return Waited.MOVED
            found = await self._living(owner.node_id, owner.agent)
            if found is None:
                return Waited.MOVED
            if lease.look([found], self.clock.monotonic(), undisturbed=True):
                return Waited.SILENT
            await asyncio.sleep(PAUSE)
        return Waited.IN_VAIN

    async def bury(self, node: NodeInfo) -> bool:
        """Declares a node dead that has not written since it was looked at; returns whether it is dead."""
        await self.site.journal.declare_dead(node.node_id, node.commit_no)
        if await self._living(node.node_id, node.agent) is not None:
            return False
        self._locks.clear(node.node_id)
        return True

    async def take(self, row: TaskRow) -> TaskRow | None:
        """Makes a task this node's, one that nobody owns or that a dead node does; `None` if it has moved on."""
        group = self.group()
        if row.node is None:
            group.writes.append(Claim(row.task_id, OPERATOR, row.seq))
        else:
            group.writes.append(TakeOver(row.task_id, OPERATOR, row.node, row.epoch))
        (result,) = (await self.site.journal.commit(group)).written
        return result.row if isinstance(result, Claimed) else None

    async def end(self, row: TaskRow, ending: Ending) -> None:
        """Ends a task that is this node's."""
        stored = await self.site.journal.read_task(row.task_id, OPERATOR)
        assert stored is not None, 'nobody else deletes a task that is owned'
        projection, group = stored.projection, self.group()
        changes: list[Change] = []
        if row.state not in TERMINAL:
            facts = TurnFacts(row.task_id, row.context_id, Message(), IDS.new)
            changes.append(change_status(projection, facts, ending.state, ending.text, group.now))
        if row.open_turn is not None:
            changes.append(TurnEnded(row.open_turn, ending.outcome))
        records: list[Record] = []
        for seq, change in enumerate(changes, row.seq + 1):
            projection.apply(change)
            note = None if records else ending.note
            records.append(Record(row.task_id, seq, *encode(change), group.now, note))
        row = replace(
            row,
            state=projection.state,
            status_time=status_micros(projection.status.timestamp) if changes else row.status_time,
            seq=row.seq + len(records),
            size=row.size + sum(len(record.body) for record in records),
        )
        snapshot = projection.to_bytes()
        group.appends.append(Append(row, records, projection, OPERATOR, snapshot=snapshot, ends_turn=True))
        await self.site.journal.commit(group)


async def end_task(place: Place, task_id: str, ending: Ending, manner: Manner, clock: Clock | None = None) -> int:
    """Ends a task, or says why it cannot."""
    async with opened(place) as site:
        look = await site.inspector.look_at(task_id)
        if look is None:
            return no_task(task_id)
        if _is_over(look):
            return complain(f'task {task_id} has ended as {state_text(look.row.state)}', FOUND)
        node = OperatorNode(site, look.row.scope.agent, clock or SystemClock())
        async with node.registered():
            return await _end(node, look, ending, manner)


async def _end(node: OperatorNode, look: TaskLook, ending: Ending, manner: Manner) -> int:
    task_id, asked = look.row.task_id, False
    for _ in range(ATTEMPTS):
        if asked and _is_over(look) and look.row.state == ending.state:
            return await _tell(node.site, task_id, as_json=manner.as_json)
        waited = await _ask_owner(node, look, ending, manner) if ending.may_be_asked_for else None
        if waited is Waited.IN_VAIN:
            return complain(f'node {look.row.node} works on task {task_id}, and has not cancelled it yet', FOUND)
        asked = asked or waited is not None
        if waited is not Waited.MOVED:
            told = await _why_not(node, look, manner, is_silent=waited is Waited.SILENT)
            if told:
                return complain(told, FOUND)
            row = await node.take(look.row)
            if row is not None:
                await node.end(row, ending)
                return await _tell(node.site, task_id, as_json=manner.as_json)
        again = await node.site.inspector.look_at(task_id)
        if again is None:
            return no_task(task_id)
        look = again
    return complain(f'task {task_id} changes too fast; try again', FOUND)


def _is_over(look: TaskLook) -> bool:
    return look.row.state in TERMINAL and look.row.node is None


async def _ask_owner(node: OperatorNode, look: TaskLook, ending: Ending, manner: Manner) -> Waited | None:
    """Has the node that works on a task cancel it; `None` if nobody does, or only somebody who is known to be dead."""
    owner = look.owner
    if _is_over(look) or owner is None or owner.state == 'dead' or node.is_gone(owner):
        return None
    complain(f'node {owner.node_id} works on the task, and is asked to cancel it')
    await node.ask(look.row, ending.text, manner.patience)
    return await node.waits_for(look.row, owner, manner)


async def _why_not(node: OperatorNode, look: TaskLook, manner: Manner, *, is_silent: bool) -> str:
    """Returns why a task cannot be ended; empty if it can, its node then being dead."""
    if _is_over(look):
        return f'task {look.row.task_id} has ended as {state_text(look.row.state)}'
    owner = look.owner
    if owner is not None and node.is_gone(owner):
        owner = await node.site.inspector.node(owner.node_id)
    elif owner is not None and owner.state != 'dead':
        told = await _why_not_dead(node, owner, look.row.task_id, manner, is_silent=is_silent)
        if told:
            return told
    if owner is None or owner.state == 'dead' or await node.bury(owner):
        return ''
    return f'node {owner.node_id} lives: it has just written'


async def _why_not_dead(node: OperatorNode, owner: NodeInfo, task_id: str, manner: Manner, *, is_silent: bool) -> str:
    """Returns why a node that may live is not to be declared dead; empty if it is."""
    if not is_silent:
        complain(f'node {owner.node_id} owns the task; looking for {manner.lease:g} s whether it lives')
        if not await node.is_silent(owner, manner.lease):
            return f'node {owner.node_id} works on task {task_id}: `a2a-scribe tasks cancel` asks it to cancel it'
    told = (
        f'Node {owner.node_id} is silent. Declare it dead? '
        f'{owner.tasks - 1} more of its tasks wait for another node then.'
    )
    return '' if manner.sure or typer.confirm(told) else 'nothing was changed'


async def _tell(site: Site, task_id: str, *, as_json: bool) -> int:
    look = await site.inspector.look_at(task_id)
    state = 'gone' if look is None else state_text(look.row.state)
    if as_json:
        print_json({'task': task_id, 'state': state})
    else:
        print(f'task {task_id} is {state}')
    return DONE
