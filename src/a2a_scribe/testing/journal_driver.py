"""The engine's part in a conversation with a journal, reduced to what a test needs.

`ScriptedNode` numbers groups as a node does; `ScriptedTask` makes the appends of one task and follows what becomes of
them, as a writer does. Both are plain: a test decides what is in a group and looks at every receipt by itself.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from a2a.auth.user import User
from a2a.server.context import ServerCallContext

from a2a_scribe.core.projection import Projection
from a2a_scribe.core.records import (
    CANCEL,
    RERUN,
    ArtifactChanged,
    CallerRecord,
    CancelAsked,
    Change,
    HistoryAdded,
    Record,
    RerunAsked,
    StatusChanged,
    TaskCreated,
    TurnEnded,
    TurnStarted,
    decode,
    encode,
    encode_cancel,
    encode_rerun,
)
from a2a_scribe.journal.port import Journal, NodeRow
from a2a_scribe.journal.results import AppendResult, CancelDue, Claimed, NextTurn, Receipt, Released
from a2a_scribe.journal.tasks import Caller, TaskRow, without_owner
from a2a_scribe.journal.writes import Accept, Append, Ask, Claim, Group, TakeOver, Write
from a2a_scribe.protocol.states import SUBMITTED
from a2a_scribe.protocol.types import (
    Artifact,
    Message,
    NodeId,
    Part,
    Role,
    Scope,
    SendMessageRequest,
    Struct,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    Timestamp,
    TurnId,
)

EPOCH = 1_750_000_000_000_000
"""The first moment of a scripted world, in microseconds."""


class NamedUser(User):
    """An authenticated user."""

    def __init__(self, name: str) -> None:
        """Takes the user's name."""
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        """Always."""
        return True

    @property
    def user_name(self) -> str:
        """The user's name, which is the owner."""
        return self._name


def caller(owner: str, *, agent: str = 'agent', tenant: str = '', any_agent: bool = False) -> Caller:
    """Returns a caller whose context says the same as its scope."""
    context = ServerCallContext(user=NamedUser(owner), tenant=tenant)
    return Caller(Scope(agent, owner, tenant), context, any_agent)


ALICE = caller('alice')


def turn_body(turn_id: str, text: str = 'hello', attempt: int = 1) -> bytes:
    """Returns the body of the record with which a turn starts."""
    message = Message(message_id=f'message of {turn_id}', role=Role.ROLE_USER, parts=[Part(text=text)])
    started = TurnStarted(TurnId(turn_id), CallerRecord('alice', ''), SendMessageRequest(message=message), attempt)
    return encode(started)[1]


def cancel_body(reason: str) -> bytes:
    """Returns the body of a cancel with a reason in its metadata."""
    metadata = Struct()
    metadata.update({'reason': reason})
    return encode_cancel(CancelAsked(CallerRecord('alice', ''), metadata))


def rerun_body(turn_id: str, attempt: int = 1) -> bytes:
    """Returns the body of a wish for another attempt than this one."""
    return encode_rerun(RerunAsked(TurnId(turn_id), attempt))


def timestamp(micros: int) -> Timestamp:
    """Returns a moment as the protocol writes it."""
    return Timestamp(seconds=micros // 1_000_000, nanos=micros % 1_000_000 * 1000)


class ScriptedNode:
    """A node that does what a test says."""

    def __init__(self, journal: Journal, name: str) -> None:
        """Makes a node that is not registered yet."""
        self.id = NodeId(name)
        self.number = 0
        self.journal = journal

    async def register(self) -> Self:
        """Makes the node known."""
        await self.journal.register(NodeRow(self.id, 'agent', 'host', EPOCH))
        return self

    def group(self, appends: Sequence[Append] = (), writes: Sequence[Write] = ()) -> Group:
        """Returns the node's next group."""
        self.number += 1
        return Group(self.id, self.number, EPOCH + self.number, list(appends), list(writes))

    async def commit(self, *appends: Append, writes: Sequence[Write] = ()) -> Receipt:
        """Writes the node's next group."""
        return await self.journal.commit(self.group(appends, writes))

    async def append(self, append: Append) -> AppendResult:
        """Writes one append as a group of its own, and returns what became of it."""
        return (await self.commit(append)).appended[0]


class ScriptedTask:
    """One task, seen from the node that works on it."""

    def __init__(self, node: ScriptedNode, task_id: str, caller: Caller = ALICE, context_id: str = 'context') -> None:
        """Makes a task that is not born yet."""
        self.node = node
        self.id = task_id
        self.caller = caller
        self.turn_id = TurnId('first turn')
        self.task = Task(
            id=task_id, context_id=context_id, status=TaskStatus(state=SUBMITTED, timestamp=timestamp(EPOCH))
        )
        self.projection = Projection(self.task)
        self.records: list[Record] = []
        """All that the journal should hold."""
        self.row = TaskRow(task_id, caller.scope, context_id, SUBMITTED, EPOCH, EPOCH, 0, node.id, 1, self.turn_id, 1)

    # -- changes

    def status(self, state: TaskState, at: int = EPOCH + 1, text: str = '', **metadata: str) -> StatusChanged:
        """Returns a new status, `at` microseconds since the epoch."""
        status = TaskStatus(state=state, timestamp=timestamp(at))
        if text:
            status.message.CopyFrom(Message(message_id=text, role=Role.ROLE_AGENT, parts=[Part(text=text)]))
        event = TaskStatusUpdateEvent(task_id=self.id, context_id=self.row.context_id, status=status)
        event.metadata.update(metadata)
        return StatusChanged(event)

    def chunk(self, text: str, artifact_id: str = 'artifact', *, append: bool = True) -> ArtifactChanged:
        """Returns a piece of an artifact."""
        artifact = Artifact(artifact_id=artifact_id, parts=[Part(text=text)])
        return ArtifactChanged(
            TaskArtifactUpdateEvent(task_id=self.id, context_id=self.row.context_id, artifact=artifact, append=append)
        )

    def said(self, text: str) -> HistoryAdded:
        """Returns a message that enters the history."""
        return HistoryAdded((Message(message_id=text, role=Role.ROLE_AGENT, parts=[Part(text=text)]),))

    def turn_end(self) -> TurnEnded:
        """Returns the end of the open turn."""
        assert self.row.open_turn is not None
        return TurnEnded(self.row.open_turn, 'ok')

    # -- appends

    def birth(
        self,
        *changes: Change,
        snapshot: bool = False,
        ends_turn: bool = False,
        configs: tuple[TaskPushNotificationConfig, ...] = (),
    ) -> Append:
        """Returns the append with which the task is born: its first turn, itself, and `changes`."""
        started = Record(self.id, 1, *encode_started(turn_body(self.turn_id)), EPOCH, None)
        created = Record(self.id, 2, *encode(TaskCreated(self.task)), EPOCH, None)
        self.records += [started, created]
        self.row = replace(self.row, seq=2, size=len(started.body) + len(created.body))
        rest = self.append(*changes, snapshot=snapshot, ends_turn=ends_turn)
        rest.records[:0] = [started, created]
        rest.born, rest.configs = True, configs
        return rest

    def append(
        self, *changes: Change, snapshot: bool = False, ends_turn: bool = False, note: str | None = None
    ) -> Append:
        """Returns the append that records `changes`, and with `ends_turn` the end of the turn after them."""
        if ends_turn and self.row.open_turn is not None:
            changes = (*changes, self.turn_end())
        records = []
        for change in changes:
            self.projection.apply(change)
            records.append(Record(self.id, self.row.seq + 1, *encode(change), EPOCH + 1, note))
            self.row = replace(self.row, seq=self.row.seq + 1, size=self.row.size + len(records[-1].body))
        status = self.projection.status
        time = status.timestamp.seconds * 1_000_000 + status.timestamp.nanos // 1000
        self.row = replace(self.row, state=status.state, status_time=time)
        self.records += records
        stored = self.projection.to_bytes() if snapshot else None
        return Append(self.row, records, self.projection, self.caller, snapshot=stored, ends_turn=ends_turn)

    def end(self, *changes: Change, snapshot: bool = False) -> Append:
        """Returns the append that ends the turn after `changes`."""
        return self.append(*changes, snapshot=snapshot, ends_turn=True)

    # -- messages for it

    def accept(
        self, turn_id: str, caller: Caller | None = None, *, expected: int | None = None, limit: int = 100
    ) -> Accept:
        """Returns a message for the task, from someone who has read it as it stands."""
        seq = self.row.seq if expected is None else expected
        return Accept(self.id, caller or self.caller, TurnId(turn_id), turn_body(turn_id), seq, limit)

    def claim(self, caller: Caller | None = None, *, expected: int | None = None) -> Claim:
        """Returns the wish to take the parked task without a turn."""
        return Claim(self.id, caller or self.caller, self.row.seq if expected is None else expected)

    def ask_cancel(self, cancel_id: str, caller: Caller | None = None, *, patience: int = EPOCH) -> Ask:
        """Returns the wish that the task's owner cancels it, the same id as the reason."""
        return Ask(CANCEL, self.id, caller or self.caller, cancel_id, cancel_body(cancel_id), patience)

    def ask_rerun(self, ask_id: str, caller: Caller | None = None, *, patience: int = EPOCH) -> Ask:
        """Returns the wish for another attempt at a turn of the same name."""
        return Ask(RERUN, self.id, caller or self.caller, ask_id, rerun_body(ask_id), patience)

    def take_over(self, *, again: bool = False, epoch: int | None = None) -> TakeOver:
        """Returns the wish to take the task from its dead owner, and with `again` to run its turn once more."""
        owner, turn = self.row.node, self.row.open_turn
        assert owner is not None
        start = turn_body(turn, attempt=self.row.attempt + 1) if again and turn is not None else None
        return TakeOver(self.id, self.caller, owner, self.row.epoch if epoch is None else epoch, start)

    # -- what became of it

    def settle(self, result: AppendResult) -> None:
        """Follows what became of the turn's end."""
        if isinstance(result, Released):
            self.row = without_owner(self.row)
        elif isinstance(result, NextTurn):
            self._follow(result.started)
        elif isinstance(result, CancelDue):
            self.row = replace(self.row, open_turn=None)

    def settle_claim(self, claimed: Claimed, node: ScriptedNode, start: bytes | None = None) -> None:
        """Follows a claim by `node`, with the body of the turn's start if one starts with it."""
        self.node, row = node, claimed.row
        if start is not None:
            self._follow(Record(self.id, row.seq, *encode_started(start), EPOCH + node.number, None))
        self.row = row

    def _follow(self, started: Record) -> None:
        turn = decode(started)
        assert isinstance(turn, TurnStarted)
        self.projection.apply(turn)
        self.records.append(started)
        size = self.row.size + len(started.body)
        self.row = replace(self.row, seq=started.seq, open_turn=turn.turn_id, attempt=turn.attempt, size=size)


def encode_started(body: bytes) -> tuple[str, bytes]:
    """Returns kind and body of the record that starts a turn."""
    return 'turn_started', body
