"""`a2a-scribe tasks cancel` and `fail`: ends a task on which no living process works.

The command is a node of its own for as long as it takes: it claims the task, or takes it from a node that is dead, and
writes the terminal state. A node is dead if it was declared so, or if its commit number stands still while the
command's own commits go through, for as long as the lease.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import typer

from a2a_scribe.cli.operator.databases import DONE, FOUND, Place, Site, complain, opened
from a2a_scribe.cli.operator.output import print_json, state_text
from a2a_scribe.cli.operator.rows import no_task
from a2a_scribe.clock import Clock, SystemClock
from a2a_scribe.cluster.node import Node
from a2a_scribe.core.records import Change, Outcome, Record, TurnEnded, encode
from a2a_scribe.core.statuses import TurnFacts, change_status
from a2a_scribe.ids import UuidSource
from a2a_scribe.journal.port import OPERATOR, Append, Claim, Claimed, Group, TaskRow
from a2a_scribe.journal.rows import status_micros
from a2a_scribe.journal.sql.inspecting import NodeInfo, TaskLook
from a2a_scribe.journal.sql.taking import Taker
from a2a_scribe.protocol.states import CANCELED, FAILED, TERMINAL
from a2a_scribe.protocol.types import Message, NodeId, TaskState

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


@dataclass(frozen=True, slots=True)
class Manner:
    """How the command goes about it."""

    lease: float
    """Seconds of silence after which a node is dead."""
    sure: bool
    """Whether nobody has to be asked."""
    as_json: bool


def failure(text: str) -> Ending:
    """Returns the end of a task that failed."""
    return Ending(FAILED, 'interrupted', text, 'ended by `a2a-scribe tasks fail`')


def cancellation(text: str) -> Ending:
    """Returns the end of a task that is not wanted any more."""
    return Ending(CANCELED, 'canceled', text, 'ended by `a2a-scribe tasks cancel`')


class OperatorNode:
    """The command as a node."""

    def __init__(self, site: Site, prefix: str, clock: Clock) -> None:
        """Makes up a new id."""
        self.site = site
        self.taker = Taker(site.engine, prefix=prefix)
        self.clock = clock
        self._node = Node('', 'a2a-scribe tasks', IDS, clock)

    @property
    def node_id(self) -> NodeId:
        """The id under which the command writes."""
        return self._node.row.node_id

    def group(self) -> Group:
        """Returns the next group, empty."""
        return Group(self.node_id, self._node.next_number(), self.clock.now())

    @asynccontextmanager
    async def registered(self) -> AsyncIterator[None]:
        """Is a node for a while, and leaves nothing behind."""
        await self.site.journal.register(self._node.row)
        try:
            yield
        finally:
            await self.taker.retire(self.node_id)

    async def is_silent(self, node: NodeInfo, lease: float) -> bool:
        """Whether a node does not write for as long as the lease, while this one does."""
        began = before = self.clock.monotonic()
        while True:
            await self.site.journal.commit(self.group())
            found = await self.site.inspector.node(node.node_id)
            now = self.clock.monotonic()
            if found is None or found.state == 'dead':
                return True
            if found.commit_no != node.commit_no:
                return False
            if now - before > LONG:
                began = now
            if now - began >= lease:
                return True
            before = now
            await asyncio.sleep(PAUSE)

    async def take(self, row: TaskRow) -> TaskRow | None:
        """Makes a task this node's, one that nobody owns or that a dead node does; `None` if it has moved on."""
        if row.node is not None:
            return await self.taker.take_over(row, self.node_id)
        group = self.group()
        group.writes.append(Claim(row.task_id, OPERATOR, row.seq))
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
        node = OperatorNode(site, place.prefix, clock or SystemClock())
        look = await site.inspector.look_at(task_id)
        if look is None:
            return no_task(task_id)
        if _is_over(look):
            return complain(f'task {task_id} has ended as {state_text(look.row.state)}', FOUND)
        async with node.registered():
            return await _end(node, look, ending, manner)


async def _end(node: OperatorNode, look: TaskLook, ending: Ending, manner: Manner) -> int:
    task_id = look.row.task_id
    for _ in range(ATTEMPTS):
        told = await _why_not(node, look, manner)
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


async def _why_not(node: OperatorNode, look: TaskLook, manner: Manner) -> str:
    """Returns why a task cannot be ended; empty if it can, its node then being dead."""
    if _is_over(look):
        return f'task {look.row.task_id} has ended as {state_text(look.row.state)}'
    owner = look.owner
    if owner is None or owner.state == 'dead':
        return ''
    complain(f'node {owner.node_id} owns the task; looking for {manner.lease:g} s whether it lives')
    if not await node.is_silent(owner, manner.lease):
        return (
            f'node {owner.node_id} works on task {look.row.task_id}: cancel it as its client would (CancelTask), '
            f'on that server'
        )
    others = owner.tasks - 1
    told = f'Node {owner.node_id} is silent. Declare it dead? {others} more of its tasks wait for another node then.'
    if not manner.sure and not typer.confirm(told):
        return 'nothing was changed'
    await node.taker.declare_dead(owner.node_id, owner.commit_no)
    again = await node.site.inspector.node(owner.node_id)
    return '' if again is None or again.state == 'dead' else f'node {owner.node_id} lives: it has just written'


async def _tell(site: Site, task_id: str, *, as_json: bool) -> int:
    look = await site.inspector.look_at(task_id)
    state = 'gone' if look is None else state_text(look.row.state)
    if as_json:
        print_json({'task': task_id, 'state': state})
    else:
        print(f'task {task_id} is {state}')
    return DONE
