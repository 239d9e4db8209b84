"""The commit loop: the one coroutine of a node that writes.

It turns what all writers have pending, and what requests want written, into one transaction after another. While one
runs the next collects, so throughput grows with load and one fsync serves many tasks. Readers are woken, and waiting
executors and requests go on, only after the transaction is durable.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from a2a_scribe.clock import Clock
from a2a_scribe.cluster.lease import IDLE_SIGN
from a2a_scribe.cluster.node import Node
from a2a_scribe.engine.hub import Hub
from a2a_scribe.engine.latch import Latch
from a2a_scribe.engine.writer import KeyTakenError, Writer
from a2a_scribe.errors import EnvironmentFault, JournalRefusedError, JournalUnavailableError, NodeFencedError
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import AppendResult, Known, Receipt, WriteResult
from a2a_scribe.journal.writes import Append, Group, Judged, Write
from a2a_scribe.protocol.types import NodeId
from a2a_scribe.settings import Settings
from a2a_scribe.signals import CommitPoint, Signals, TroublePoint

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
"""Seconds between two attempts while the journal is away."""


class Owner(Protocol):
    """Who hears what became of the tasks: the engine."""

    def on_committed(self, writer: Writer, append: Append, result: AppendResult) -> None:
        """The records are durable."""

    def on_lost(self, writer: Writer, error: Exception, *, refused: bool, ours: bool) -> None:
        """The records of one task are lost: `refused` if the journal would refuse them again, `ours` if we own it."""

    def on_unclear(self, write: Write, node: NodeId) -> None:
        """Whether `write` was done is unknown, and nobody will try it again."""

    def on_durable(self, group: Group) -> None:
        """A group is durable."""

    def on_journal_back(self) -> None:
        """A transaction went through after some had been given up."""

    def on_fenced(self) -> None:
        """The node has been declared dead; the loop goes on under a new id."""

    def is_owner(self) -> bool:
        """Whether the node owns or follows tasks, and so has to show that it lives."""

    def is_watching(self) -> bool:
        """Whether the node waits for another's signs of life, and so has to find out whether it could give some."""

    def has_company(self) -> bool:
        """Whether there are other nodes, which wonder whether this one is still there."""


@dataclass(slots=True)
class _Request:
    write: Write
    answer: 'asyncio.Future[WriteResult]'
    settle: Callable[[WriteResult], None] | None


@dataclass(slots=True)
class _Batch:
    """A group under way, with those who wait for its parts."""

    group: Group
    writers: list[Writer]
    requests: list[_Request]


class CommitLoop:
    """Writes for one engine. Owns its node's identity and the order of its transactions."""

    def __init__(
        self,
        journal: Journal,
        new_node: Callable[[], Node],
        hub: Hub,
        clock: Clock,
        settings: Settings,
        signals: Signals,
        *,
        delivers: bool = False,
    ) -> None:
        """Makes a loop that does not run yet; `watch` must be called before it does.

        `delivers` says whether the push configs that it writes are delivered from the journal.
        """
        self._delivers = delivers
        self._journal = journal
        self._new_node = new_node
        self._node = new_node()
        self._registered = False
        self._hub = hub
        self._clock = clock
        self._settings = settings
        self._signals = signals
        self._owner: Owner | None = None
        self._introduces = False
        self._dirty: dict[Writer, None] = {}
        self._requests: list[_Request] = []
        self._wanted: Latch | None = None
        self._underway: _Batch | None = None
        self._away_since: float | None = None
        self._gave_up = False
        self._written_at = -math.inf
        self._goes_well = False
        self._proofs: list[Latch] = []
        self._abandoned: Exception | None = None
        """Why nothing will be written any more."""

    def watch(self, owner: Owner) -> None:
        """Tells `owner` what becomes of its tasks."""
        self._owner = owner

    def introduce(self) -> None:
        """Makes the node known before it writes anything, so that others tell it what they write."""
        self._introduces = True
        self._wake()

    @property
    def node(self) -> Node:
        """The identity under which the loop writes now."""
        return self._node

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be written."""
        return not (self._dirty or self._requests or self._underway)

    @property
    def written_at(self) -> float:
        """When the loop wrote last, on the monotonic clock."""
        return self._written_at

    @property
    def is_away(self) -> bool:
        """Whether the last transaction failed because the journal is away."""
        return self._away_since is not None

    def went_well(self) -> bool:
        """Whether the node could write whenever it wanted since this was last asked."""
        went_well, self._goes_well = self._goes_well, True
        return went_well

    def has_written_within(self, seconds: float) -> bool:
        """Whether its newest transaction is no older."""
        return self._clock.monotonic() - self._written_at <= seconds

    def is_deciding(self, task_id: str) -> bool:
        """Whether the journal is being asked for a task: it may be ours already, and whoever asked go on with it."""
        asked = [*self._requests, *(() if self._underway is None else self._underway.requests)]
        return any(isinstance(each.write, Judged) and each.write.task_id == task_id for each in asked)

    def notice(self, writer: Writer) -> None:
        """Has the writer's pending records written."""
        self._dirty[writer] = None
        self._wake()

    async def write(self, write: Write, settle: Callable[[WriteResult], None] | None = None) -> WriteResult:
        """Has `write` done in the next transaction, and returns what became of it.

        `settle` is called once it is durable, whether or not whoever asked still waits.

        Raises:
            JournalUnavailableError: The journal is away, or the loop has ended.
            JournalRefusedError: The journal refused it.
        """
        if self._abandoned is not None:
            raise self._abandoned
        answer: asyncio.Future[WriteResult] = asyncio.get_running_loop().create_future()
        self._requests.append(_Request(write, answer, settle))
        self._wake()
        return await answer

    async def prove(self, seconds: float) -> bool:
        """Whether a transaction goes through within `seconds`; one of nothing is made if nothing is to be written."""
        asked_at, proof = self._clock.monotonic(), Latch()
        self._proofs.append(proof)
        self._wake()
        try:
            await proof.wait(self._clock, seconds)
        finally:
            if proof in self._proofs:
                self._proofs.remove(proof)
        return self._written_at >= asked_at

    def _wake(self) -> None:
        if self._wanted is not None:
            self._wanted.open()

    async def run(self) -> None:
        """Writes until cancelled."""
        while True:
            await self._introduce()
            await self._wait_for_work()
            self._underway = self._collect()
            await self._settle(self._underway)
            self._underway = None

    async def _introduce(self) -> None:
        if self._introduces and not self._registered:
            try:
                await self._journal.register(self._node.row)
            except EnvironmentFault as error:
                logger.debug('This node cannot make itself known now: %s', error)
            else:
                self._registered = True

    async def finish(self) -> None:
        """Writes what is left, once `run` was cancelled: also the group that it was writing, whose number is known."""
        batch, self._underway = self._underway, None
        if batch is not None:
            await self._settle(batch)
        await self._settle(self._collect())

    async def _wait_for_work(self) -> None:
        if self._dirty or self._requests or self._proofs:
            return
        self._wanted = Latch()
        try:
            await self._wanted.wait(self._clock, self._settings.heartbeat)
        finally:
            self._wanted = None

    def _collect(self) -> _Batch:
        dirty, self._dirty = self._dirty, {}
        requests, self._requests = self._requests, []
        group = Group(self._node.row.node_id, self._node.next_number(), self._clock.now(), delivers=self._delivers)
        writers = []
        for writer in dirty:
            append = self._take(writer, group.node)
            if append is not None:
                group.appends.append(append)
                writers.append(writer)
        wanted = [request for request in requests if not request.answer.done()]
        group.writes = [request.write for request in wanted]
        return _Batch(group, writers, wanted)

    def _take(self, writer: Writer, node: NodeId) -> Append | None:
        """Takes what is pending of one task; if that fails, which it never should, the other tasks go on."""
        try:
            return writer.take(node)
        except Exception as error:
            logger.exception('The records of task %s could not be put together', writer.task_id)
            self._lose_one(writer, error)
            return None

    def _lose_one(self, writer: Writer, error: Exception) -> None:
        """Gives up one task because of a fault of ours, as if the journal refused it: it would happen again."""
        self._watched.on_lost(writer, _refusal(error), refused=True, ours=True)
        self._hub.ring(writer.task_id)

    async def _settle(self, batch: _Batch) -> None:
        """Brings a group to its end, whatever that is."""
        if not (batch.writers or batch.requests or self._has_to_show_itself()):
            return
        try:
            receipt = await self._commit(batch.group)
        except JournalRefusedError as error:
            await self._settle_refused(batch, error)
        except NodeFencedError as error:
            self._fence(batch, error)
        except JournalUnavailableError as error:
            self._gave_up = True
            logger.error('Gave up a transaction of %d tasks: %s', len(batch.writers), error)  # noqa: TRY400 - one line
            self._lose(batch, error, refused=False)
        else:
            self._succeed(batch, receipt)
        finally:
            self._end_proofs()

    def _has_to_show_itself(self) -> bool:
        """Whether to write although there is nothing: as a sign of life, or to find out if the journal is back."""
        is_due = self._watched.has_company() and not self.has_written_within(IDLE_SIGN)
        is_seen = self._registered and (self._watched.is_owner() or is_due)
        return self._gave_up or is_seen or bool(self._proofs) or self._watched.is_watching()

    @property
    def _watched(self) -> Owner:
        assert self._owner is not None, 'watch() comes before run()'
        return self._owner

    async def _commit(self, group: Group) -> Receipt:
        """Writes a group, again and again while the journal is away, as long as our patience lasts."""
        pause, begun_at = FIRST_PAUSE, self._clock.monotonic()
        while True:
            try:
                if not self._registered:
                    await self._journal.open()
                    await self._journal.register(self._node.row)
                    self._registered = True
                receipt = await self._journal.commit(group)
            except JournalUnavailableError as error:
                self._note_trouble(error)
                self._goes_well = False
                now = self._clock.monotonic()
                self._away_since = self._away_since or now
                if now - self._away_since >= self._settings.journal_patience:
                    raise
                await Latch().wait(self._clock, pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                self._away_since = None
                self._written_at = self._clock.monotonic()
                if self._written_at - begun_at > self._settings.heartbeat:
                    self._goes_well = False
                return receipt

    def _end_proofs(self) -> None:
        proofs, self._proofs = self._proofs, []
        for proof in proofs:
            proof.open()

    def _succeed(self, batch: _Batch, receipt: Receipt) -> None:
        group = batch.group
        if self._signals.committed:
            records = sum(len(append.records) for append in group.appends)
            self._signals.committed.emit(CommitPoint(group.node, group.number, len(group.appends), records))
        self._watched.on_durable(group)
        for writer, append, result in zip(batch.writers, group.appends, receipt.appended, strict=True):
            if append.key is not None and isinstance(result, Known):
                writer.give_up(KeyTakenError(result))
            else:
                writer.committed(append, result)
            self._hub.ring(writer.task_id)
        for request, outcome in zip(batch.requests, receipt.written, strict=True):
            self._answer(request, outcome, group.node)
        for writer, append, result in zip(batch.writers, group.appends, receipt.appended, strict=True):
            writer.let_go_on()
            self._go_on(writer, append, result)
        if self._gave_up:
            self._gave_up = False
            self._watched.on_journal_back()

    def _answer(self, request: _Request, outcome: WriteResult, node: NodeId) -> None:
        """Lets happen what follows for one request; if that fails, the task is given back that it may have claimed."""
        failure = None
        try:
            if request.settle is not None:
                request.settle(outcome)
        except Exception as error:
            logger.exception('What a request asked for is written, and could not begin')
            failure = _refusal(error)
            self._watched.on_unclear(request.write, node)
            self._gave_up = True  # so that it is closed with what was given up before
        if request.answer.done():
            return
        if failure is None:
            request.answer.set_result(outcome)
        else:
            request.answer.set_exception(failure)

    def _go_on(self, writer: Writer, append: Append, result: AppendResult) -> None:
        """Lets happen what follows for one task; if that fails, which it never should, the other tasks go on."""
        try:
            self._watched.on_committed(writer, append, result)
        except Exception as error:
            logger.exception('Task %s could not go on', writer.task_id)
            self._lose_one(writer, error)

    async def _settle_refused(self, batch: _Batch, error: JournalRefusedError) -> None:
        """Finds the part that the journal refuses, by giving each part a transaction of its own."""
        self._note_trouble(error)
        parts = self._split(batch)
        if len(parts) <= 1:
            self._lose(batch, error, refused=True)
            return
        for part in parts:
            if part.group.node == self._node.row.node_id:
                await self._settle(part)
            else:
                self._lose_fenced(part)

    def _split(self, batch: _Batch) -> list[_Batch]:
        parts = [
            _Batch(self._new_group(batch, appends=[append]), [writer], [])
            for writer, append in zip(batch.writers, batch.group.appends, strict=True)
        ]
        parts += [_Batch(self._new_group(batch, writes=[request.write]), [], [request]) for request in batch.requests]
        return parts

    def _new_group(
        self, batch: _Batch, appends: list[Append] | None = None, writes: list[Write] | None = None
    ) -> Group:
        number = self._node.next_number()
        return Group(batch.group.node, number, batch.group.now, appends or [], writes or [], self._delivers)

    def _lose(self, batch: _Batch, error: EnvironmentFault, *, refused: bool, ours: bool = True) -> None:
        for request in batch.requests:
            if ours and not refused:
                self._watched.on_unclear(request.write, batch.group.node)
            if not request.answer.done():
                request.answer.set_exception(error)
        for writer in batch.writers:
            self._watched.on_lost(writer, error, refused=refused, ours=ours)
            self._hub.ring(writer.task_id)

    def _fence(self, batch: _Batch, error: NodeFencedError) -> None:
        """Stops writing under the old id: others have taken its tasks."""
        logger.error('This node was declared dead by another; it gives up its tasks and goes on under a new id')
        if self._signals.fenced:
            self._signals.fenced.emit(TroublePoint(self._node.row.node_id, '', error))
        self._node = self._new_node()
        self._registered = False
        self._lose_fenced(batch)
        self._watched.on_fenced()

    def _lose_fenced(self, batch: _Batch) -> None:
        error = JournalUnavailableError('this node lost its tasks; try again')
        self._lose(batch, error, refused=False, ours=False)

    def _note_trouble(self, error: Exception) -> None:
        if self._away_since is None:
            logger.warning('A transaction failed: %s', error)
        if self._signals.commit_failed:
            self._signals.commit_failed.emit(TroublePoint(self._node.row.node_id, '', error))

    def abandon(self, error: Exception) -> None:
        """Tells all who wait, now or later, that nothing will be written any more."""
        self._abandoned = error
        under_way = [] if self._underway is None else self._underway.requests
        for request in [*under_way, *self._requests]:
            if not request.answer.done():
                request.answer.set_exception(error)
        self._requests.clear()


def _refusal(error: Exception) -> JournalRefusedError:
    """Returns a fault of ours as the error that says: again would be no better."""
    refusal = JournalRefusedError(f'the server failed at it ({type(error).__name__})')
    refusal.__cause__ = error
    return refusal
