"""Broken engines, each of which the simulation must catch: `python -m tests.simulation.mutations`.

A mutation breaks one rule by replacing a method for a while. It is caught by the first seed of which an invariant does
not hold; `SEEDS` bounds how many are tried. Mutations of what is not built yet (see `switches`) come with it: a task
taken over before its node is dead, a lease judged by a clock that stood still, a message of a dead node run again
under `fail`, a remote cancel that nobody looks for.
"""

import argparse
import contextlib
import contextvars
import functools
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from a2a_scribe.cluster.node import Node
from a2a_scribe.core import admission
from a2a_scribe.core.records import ArtifactChanged, Record
from a2a_scribe.core.statuses import change_status
from a2a_scribe.engine import cancels, sends
from a2a_scribe.engine.commits import CommitLoop
from a2a_scribe.engine.cursors import Cursor
from a2a_scribe.engine.hub import Bell, Hub
from a2a_scribe.engine.observers import TurnObserver
from a2a_scribe.engine.recovery import Recovery
from a2a_scribe.engine.registry import LiveTask, Registry
from a2a_scribe.engine.session import Session
from a2a_scribe.engine.stops import TurnStops
from a2a_scribe.engine.tail import Tail
from a2a_scribe.engine.turn import Turn, TurnQueue
from a2a_scribe.engine.turns import TurnRunner
from a2a_scribe.engine.writer import Writer
from a2a_scribe.journal import decisions, memory
from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.results import AppendResult, Claimed, Queued, Receipt, Released, WriteResult
from a2a_scribe.journal.tasks import TaskRow, without_owner
from a2a_scribe.journal.writes import Accept, Append, Group
from a2a_scribe.protocol.states import CANCELED, FAILED, TERMINAL
from a2a_scribe.protocol.types import NodeId, TaskState
from tests.simulation.scenario import run

SEEDS = 20_000
"""How many seeds are tried before a mutation counts as not caught."""

MUTATIONS: dict[str, Callable[[], contextlib.AbstractContextManager[object]]] = {}


def mutation(name: str) -> Callable[[Callable[[], Iterator[None]]], Callable[[], Iterator[None]]]:
    """Adds a mutation to the list."""

    def add(make: Callable[[], Iterator[None]]) -> Callable[[], Iterator[None]]:
        MUTATIONS[name] = contextmanager(make)
        return make

    return add


@contextmanager
def replaced(owner: Any, name: str, method: Any) -> Iterator[Any]:
    """Replaces an attribute; gives the old one."""
    old = owner.__dict__[name]
    with mock.patch.object(owner, name, method):
        yield old


# -- what is shown, and when


@mutation('what is not durable is shown')
def _() -> Iterator[None]:
    def durable_after(self: Writer, position: int, limit: int, max_bytes: int) -> list[Record] | None:
        return self._tail.after(position, self.seq, limit, max_bytes)

    with replaced(Writer, 'durable_after', durable_after):
        yield


@mutation('a blocking answer shows what is not durable')
def _() -> Iterator[None]:
    with replaced(Writer, 'is_settled', property(lambda self: self.broken is None)):
        yield


@mutation('readers are woken before the commit, and read the tail')
def _() -> Iterator[None]:
    old = CommitLoop.__dict__['_commit']

    async def commit(self: CommitLoop, group: Group) -> Receipt:
        for writer in () if self._underway is None else self._underway.writers:
            writer.durable_seq = writer.seq
            self._hub.ring(writer.task_id)
        return await old(self, group)  # type: ignore[no-any-return]

    with replaced(CommitLoop, '_commit', commit):
        yield


@mutation('a cursor waits on a writer that was released')
def _() -> Iterator[None]:
    async def read(self: Cursor) -> list[Record]:
        if self.writer is None:
            self.writer = self._reading.registry.writer(self.task_id)
        if self.writer is None:
            records = await self._reading.journal.read_records(self.task_id, self.position, 500, 1_000_000)
        else:
            records = self.writer.durable_after(self.position, 500, 1_000_000) or []
        if records:
            self.position = records[-1].seq
        return records

    with replaced(Cursor, 'read', read):
        yield


@mutation('a cursor believes that the tail reaches back')
def _() -> Iterator[None]:
    def after(self: Tail, position: int, durable_seq: int, limit: int, max_bytes: int) -> list[Record] | None:
        return [record for record in self._records if position < record.seq <= durable_seq][:limit]

    with replaced(Tail, 'after', after):
        yield


@mutation('the tail is dropped before it is durable')
def _() -> Iterator[None]:
    def keep(self: Tail, record: Record) -> None:
        self._records = [record]

    def after(self: Tail, position: int, durable_seq: int, limit: int, max_bytes: int) -> list[Record] | None:
        return [record for record in self._records if position < record.seq <= durable_seq]

    with replaced(Tail, 'keep', keep), replaced(Tail, 'after', after):
        yield


@mutation('a cursor forgets the last record that it read')
def _() -> Iterator[None]:
    old = Cursor.__dict__['read']

    async def read(self: Cursor) -> list[Record]:
        records: list[Record] = await old(self)
        if len(records) > 2:
            self.position -= 1
        return records

    with replaced(Cursor, 'read', read):
        yield


@mutation('a wake-up is lost, and nobody looks without one')
def _() -> Iterator[None]:
    old = Bell.__dict__['wait']

    async def wait(self: Bell, seconds: float) -> bool:
        return await old(self, 1e6)  # type: ignore[no-any-return]

    with replaced(Bell, 'wait', wait):
        yield


@mutation('nobody is woken within a process either')
def _() -> Iterator[None]:
    old = Bell.__dict__['wait']

    async def wait(self: Bell, seconds: float) -> bool:
        return await old(self, 1e6)  # type: ignore[no-any-return]

    with replaced(Bell, 'wait', wait), replaced(Hub, 'ring', lambda self, task_id: None):
        yield


@mutation('bells stay where they hang')
def _() -> Iterator[None]:
    with replaced(Hub, 'take_down', lambda self, task_id, bell: None):
        yield


# -- whose answer


@mutation('a sender is answered by the end of any turn')
def _() -> Iterator[None]:
    old = TurnObserver.__dict__['_ends_turn']

    def ends_turn(self: TurnObserver, record: Record, state: TaskState | None) -> bool:
        return record.kind == 'turn_ended' or old(self, record, state)

    with replaced(TurnObserver, '_ends_turn', ends_turn):
        yield


@mutation('a sender is answered by an interruption of any turn')
def _() -> Iterator[None]:
    old = TurnObserver.__dict__['_asks_for_input']

    def asks(self: TurnObserver, record: Record, state: TaskState | None) -> bool:
        started, self._started = self._started, True
        try:
            return bool(old(self, record, state))
        finally:
            self._started = started

    with replaced(TurnObserver, '_asks_for_input', asks):
        yield


@mutation('a follow-up is answered with what the next turn made of the task')
def _() -> Iterator[None]:
    with replaced(Session, '_keep_result', lambda self, writer: None):
        yield


@mutation("a sender whose task ended first is answered with the stranger's result")
def _() -> Iterator[None]:
    old = TurnObserver.__dict__['_ends_turn']

    def ends_turn(self: TurnObserver, record: Record, state: TaskState | None) -> bool:
        started, self._started = self._started, True
        try:
            return bool(old(self, record, state)) and (started or record.kind != 'turn_ended')
        finally:
            self._started = started

    with replaced(TurnObserver, '_ends_turn', ends_turn):
        yield


# -- the journal


@mutation('no fence')
def _() -> Iterator[None]:
    def admit(self: MemoryJournal, group: Group) -> Receipt | None:
        number, receipt = self._receipts.get(group.node, (0, None))
        if number == group.number:
            return receipt
        for append in group.appends:
            self._refuse_to_overwrite(append)
        return None

    with replaced(MemoryJournal, 'admit', admit):
        yield


@mutation('the fence lets old numbers pass')
def _() -> Iterator[None]:
    old = MemoryJournal.__dict__['admit']

    def admit(self: MemoryJournal, group: Group) -> Receipt | None:
        number, receipt = self._receipts.get(group.node, (0, None))
        if number > group.number:
            self._receipts[group.node] = (group.number - 1, None)
        try:
            return old(self, group)  # type: ignore[no-any-return]
        finally:
            if number > group.number:
                self._receipts[group.node] = (number, receipt)

    with replaced(MemoryJournal, 'admit', admit):
        yield


@mutation('the receipt of a lost answer is not looked for')
def _() -> Iterator[None]:
    old = MemoryJournal.__dict__['admit']

    def admit(self: MemoryJournal, group: Group) -> Receipt | None:
        number, _ = self._receipts.get(group.node, (0, None))
        if number == group.number:
            self._receipts[group.node] = (number - 1, None)
        return old(self, group)  # type: ignore[no-any-return]

    with replaced(MemoryJournal, 'admit', admit):
        yield


@mutation('a lost answer is tried again under a new number')
def _() -> Iterator[None]:
    old = CommitLoop.__dict__['_commit']

    async def commit(self: CommitLoop, group: Group) -> Receipt:
        loop, journal = self, self._journal

        class Renumbering:
            def __getattr__(self, name: str) -> Any:
                return getattr(journal, name)

            async def commit(self, group: Group) -> Receipt:
                fresh = Group(group.node, loop._node.next_number(), group.now, group.appends, group.writes)
                return await journal.commit(fresh)

        self._journal = Renumbering()
        try:
            return await old(self, group)  # type: ignore[no-any-return]
        finally:
            self._journal = journal

    with replaced(CommitLoop, '_commit', commit):
        yield


@mutation('commit numbers are used again')
def _() -> Iterator[None]:
    def next_number(self: Node) -> int:
        self._number = self._number % 3 + 1
        return self._number

    with replaced(Node, 'next_number', next_number):
        yield


@mutation('a claim is not checked by its row count')
def _() -> Iterator[None]:
    old = decisions.decide_accept

    def decide(row: TaskRow | None, accept: Accept, node: NodeId, waiting: int) -> WriteResult:
        result = old(row, accept, node, waiting)
        if isinstance(result, Queued) and row is not None and row.seq == accept.expected_seq:
            return old(without_owner(row), accept, node, waiting)
        return result

    with mock.patch.object(memory, 'decide_accept', decide):
        yield


@mutation('a claim does not ask whether the task has moved on')
def _() -> Iterator[None]:
    old = decisions.decide_accept

    def decide(row: TaskRow | None, accept: Accept, node: NodeId, waiting: int) -> WriteResult:
        return old(row, accept if row is None else replace(accept, expected_seq=row.seq), node, waiting)

    with mock.patch.object(memory, 'decide_accept', decide):
        yield


@mutation('the bound of the inbox is not kept')
def _() -> Iterator[None]:
    old = decisions.decide_accept

    def decide(row: TaskRow | None, accept: Accept, node: NodeId, waiting: int) -> WriteResult:
        return old(row, accept, node, 0)

    with mock.patch.object(memory, 'decide_accept', decide):
        yield


@mutation('a message to a task that has ended is queued')
def _() -> Iterator[None]:
    old = decisions.decide_accept

    def decide(row: TaskRow | None, accept: Accept, node: NodeId, waiting: int) -> WriteResult:
        if row is not None and row.state in TERMINAL:
            return Queued(row.node)
        return old(row, accept, node, waiting)

    with mock.patch.object(memory, 'decide_accept', decide):
        yield


Change = Callable[[MemoryJournal, Append, Group, Callable[..., AppendResult]], AppendResult]


@contextmanager
def _appending(change: Change) -> Iterator[None]:
    old = MemoryJournal.__dict__['_append']

    def append(self: MemoryJournal, append: Append, group: Group) -> AppendResult:
        return change(self, append, group, functools.partial(old, self))

    with replaced(MemoryJournal, '_append', append):
        yield


@mutation('a task is released without a look into the inbox')
def _() -> Iterator[None]:
    def change(self: MemoryJournal, append: Append, group: Group, old: Callable[..., AppendResult]) -> AppendResult:
        waiting = self._inbox.pop(append.row.task_id, [])
        result = old(append, group)
        if waiting and append.row.state not in TERMINAL:
            self._inbox[append.row.task_id] = waiting
        return result

    with _appending(change):
        yield


@mutation('the end of a task leaves its inbox as it is')
def _() -> Iterator[None]:
    def change(self: MemoryJournal, append: Append, group: Group, old: Callable[..., AppendResult]) -> AppendResult:
        waiting = self._inbox.pop(append.row.task_id, [])
        if append.row.state not in TERMINAL and waiting:
            self._inbox[append.row.task_id] = waiting
            return old(append, group)
        result = old(append, group)
        if waiting:
            self._inbox[append.row.task_id] = waiting
        return result

    with _appending(change):
        yield


@mutation('the next message starts and stays in the inbox')
def _() -> Iterator[None]:
    def change(self: MemoryJournal, append: Append, group: Group, old: Callable[..., AppendResult]) -> AppendResult:
        waiting = list(self._inbox.get(append.row.task_id, ()))
        result = old(append, group)
        if append.ends_turn and not isinstance(result, Released) and len(waiting) == 1:
            self._inbox[append.row.task_id] = waiting
        return result

    with _appending(change):
        yield


@mutation('a snapshot says that it is one record newer than it is')
def _() -> Iterator[None]:
    def change(self: MemoryJournal, append: Append, group: Group, old: Callable[..., AppendResult]) -> AppendResult:
        result = old(append, group)
        if append.snapshot is not None:
            self._snapshots[append.row.task_id] = (append.row.seq + 1, append.snapshot)
        return result

    with _appending(change):
        yield


@mutation('a snapshot says that it is one record older than it is')
def _() -> Iterator[None]:
    def change(self: MemoryJournal, append: Append, group: Group, old: Callable[..., AppendResult]) -> AppendResult:
        result = old(append, group)
        if append.snapshot is not None:
            self._snapshots[append.row.task_id] = (append.row.seq - 1, append.snapshot)
        return result

    with _appending(change):
        yield


@mutation('the row of a task that ends keeps its owner')
def _() -> Iterator[None]:
    with mock.patch.object(memory, 'without_owner', lambda row: replace(row, open_turn=None)):
        yield


# -- turns


@mutation("an executor's failure is recorded by the turn itself, before what it had emitted")
def _() -> Iterator[None]:
    def conclude_failed(self: TurnRunner, turn: Turn, error: BaseException) -> None:
        writer = turn.writer
        turn.failure = error
        if writer.projection is None or writer.state in TERMINAL or not writer._pending:  # noqa: SLF001
            old(self, turn, error)
            return
        status = change_status(writer.projection, turn.facts, FAILED, 'failed', writer.now())
        pending = writer._pending  # noqa: SLF001
        held = pending.pop()
        writer.record(status)
        failed = pending.pop()
        pending += [failed._replace(seq=held.seq), held._replace(seq=failed.seq)]
        self._end(turn, 'failed', error)

    with replaced(TurnRunner, '_conclude_failed', conclude_failed) as old:
        yield


@mutation("an executor's failure is told before it is durable")
def _() -> Iterator[None]:
    async def answer(self: TurnObserver, *given: Any) -> Any:
        with self._reading.hub.bell(self.task_id) as bell:
            while self.failure is None and self.ticket.turn is not None and not self.ticket.turn.ended:
                await bell.wait(0.01)
        writer = self._cursor.writer
        if self.failure is not None and writer is not None and writer.projection is not None:
            return writer.projection.to_task()
        return await old(self, *given)

    with replaced(TurnObserver, 'answer', answer) as old:
        yield


@mutation('a queue stays open after its turn')
def _() -> Iterator[None]:
    def admit(self: Writer, facts: Any, event: object) -> Any:
        closed, self._closed = self._closed, False
        try:
            return old(self, facts, event)
        finally:
            self._closed = closed

    with replaced(TurnQueue, 'revoke', lambda self: None), replaced(Writer, 'admit', admit) as old:
        yield


@mutation('a turn is cancelled before its queue is revoked')
def _() -> Iterator[None]:
    async def cancel(session: Any, live: Any, turn: Turn, order: Any) -> Any:
        writer, queue = live.writer, TurnQueue(turn)
        await cancels._ask_executor(session, turn, queue, order)  # noqa: SLF001
        if not turn.ended:
            await cancels.stop_agent(session, turn)
            turn.revoke()
            session.runner.stop(turn, 'canceled', CANCELED, '')
        await writer.wait_for_room()
        return writer.projection.state, await session.task_of(writer)

    with mock.patch.object(cancels, '_cancel', cancel):
        yield


@mutation('a server that stops cancels turns without revoking their queues')
def _() -> Iterator[None]:
    def stop(self: TurnStops, live: LiveTask) -> Any:
        turn = live.turn
        if turn is None or turn.ended or turn.task is None or turn.task.done():
            return old(self, live)
        turn.task.cancel()
        return turn.task

    with replaced(TurnStops, 'stop', stop) as old:
        yield


@mutation('a cancel records CANCELED whatever the task has come to')
def _() -> Iterator[None]:
    def stop(self: TurnRunner, turn: Turn, outcome: Any, state: Any, text: str) -> None:
        writer = turn.writer
        if writer.projection is not None and writer.projection.state in TERMINAL:
            writer.record(change_status(writer.projection, turn.facts, state, text, writer.now()))
        old(self, turn, outcome, state, text)

    with replaced(TurnRunner, 'stop', stop) as old:
        yield


@mutation('a cancel answers before its record is durable')
def _() -> Iterator[None]:
    async def wait_for_room(self: Writer) -> None:
        return None

    async def task_of(self: Session, writer: Writer) -> Any:
        assert writer.projection is not None
        return writer.projection.to_task()

    with replaced(Writer, 'wait_for_room', wait_for_room), replaced(Session, 'task_of', task_of):
        yield


@mutation('events after the end of a task are admitted')
def _() -> Iterator[None]:
    with mock.patch.object(admission, '_refuse_if_ended'):
        yield


@mutation('an executor runs before its claim is durable')
def _() -> Iterator[None]:
    class Eager(sends._Settling):  # noqa: SLF001
        pass

    async def write(self: CommitLoop, request: Any, settle: Any = None) -> Any:
        if isinstance(request, Accept) and isinstance(settle, Eager):
            stored = settle._stored  # noqa: SLF001
            row = replace(stored.row, node=self._node.row.node_id, seq=stored.row.seq + 1, open_turn=request.turn_id)
            if stored.row.node is None:
                settle(Claimed(row))
                return await old(self, request, None)
        return await old(self, request, settle)

    with mock.patch.object(sends, '_Settling', Eager), replaced(CommitLoop, 'write', write) as old:
        yield


@mutation('a message whose sender has gone away is not started')
def _() -> Iterator[None]:
    def succeed(self: CommitLoop, batch: Any, receipt: Receipt) -> None:
        for request in batch.requests:
            if request.answer.done():
                request.settle = None
        old(self, batch, receipt)

    with replaced(CommitLoop, '_succeed', succeed) as old:
        yield


@mutation('a follow-up starts twice')
def _() -> Iterator[None]:
    def start(self: TurnRunner, turn: Turn, context: contextvars.Context) -> None:
        old(self, turn, context)
        if turn.writer.durable_seq > 0:
            old(self, turn, context.copy())

    with replaced(TurnRunner, 'start', start) as old:
        yield


# -- trouble


@mutation('those who wait for lost records are not told')
def _() -> Iterator[None]:
    with replaced(Recovery, 'note', lambda self, writer, turn, error, at_once: None):
        yield


@mutation('what was given up is not ended when the journal is back')
def _() -> Iterator[None]:
    with replaced(Recovery, 'resume', lambda self: None):
        yield


@mutation('a claim for nobody is kept')
def _() -> Iterator[None]:
    with replaced(Recovery, 'note_unclear', lambda self, write, node, error: None):
        yield


@mutation('a fenced node keeps its tasks')
def _() -> Iterator[None]:
    with replaced(Session, 'on_fenced', lambda self: None):
        yield


@mutation('a refused group is lost as a whole')
def _() -> Iterator[None]:
    async def settle_refused(self: CommitLoop, batch: Any, error: Any) -> None:
        self._note_trouble(error)
        for request in batch.requests:
            request.answer.set_result(None)

    with replaced(CommitLoop, '_settle_refused', settle_refused):
        yield


@mutation('a turn whose records are lost goes on')
def _() -> Iterator[None]:
    def give_up(self: Session, writer: Writer, turn: Turn | None, error: Exception) -> None:
        self._forget(writer)

    with replaced(Session, '_break', give_up):
        yield


@mutation('a task that was released stays in memory')
def _() -> Iterator[None]:
    with replaced(Registry, 'forget', lambda self, writer: None):
        yield


@mutation('records are numbered with a gap')
def _() -> Iterator[None]:
    def put(self: Writer, kind: str, body: bytes, now: int, note: str | None) -> None:
        if kind == 'history' or (kind == 'status' and self.seq % 5 == 4):
            self.seq += 1
        old(self, kind, body, now, note)

    with replaced(Writer, '_put', put) as old:
        yield


@mutation('a chunk is recorded twice')
def _() -> Iterator[None]:
    def record(self: Writer, change: Any, kind: str, body: bytes, now: int, note: str | None) -> None:
        old(self, change, kind, body, now, note)
        if isinstance(change, ArtifactChanged) and self.seq % 4 == 0:
            self._put(kind, body, now, note)

    with replaced(Writer, '_record', record) as old:
        yield


@mutation('an executor is not held back while nothing is durable')
def _() -> Iterator[None]:
    with replaced(Writer, 'has_pressure', lambda self: False):
        yield


# -- running them


@dataclass(frozen=True, slots=True)
class Caught:
    """What came of a mutation: the seeds that were needed, and what they showed."""

    name: str
    seeds: int | None
    violation: str


def try_out(name: str, limit: int = SEEDS) -> Caught:
    """Runs seeds on a broken engine until one shows it."""
    with ExitStack() as stack:
        stack.enter_context(MUTATIONS[name]())
        for seed in range(limit):
            violations = run(seed).violations
            if violations:
                return Caught(name, seed + 1, violations[0])
    return Caught(name, None, '')


def main() -> int:
    """Tries all mutations, or those whose names hold a text; returns 1 if one was not caught."""
    parser = argparse.ArgumentParser(prog='python -m tests.simulation.mutations', description='Broken engines.')
    parser.add_argument('part', nargs='?', default='', help='a part of the names of those to try')
    parser.add_argument('--seeds', type=int, default=SEEDS, help='how many seeds are tried')
    given = parser.parse_args()
    names = [name for name in MUTATIONS if given.part in name]
    missed = 0
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        for caught in pool.map(functools.partial(try_out, limit=given.seeds), names):
            missed += caught.seeds is None
            needed = 'NOT CAUGHT' if caught.seeds is None else f'{caught.seeds:5} seeds'
            print(f'{needed:>10}  {caught.name}: {caught.violation[:110]}')
    print(f'{len(names)} mutations, {missed} not caught')
    return 1 if missed else 0


if __name__ == '__main__':
    sys.exit(main())
