"""The check of a journal: a good one passes, and whatever is broken in it is seen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pytest

from a2a_scribe.core.auditing import audit_claim, audit_records, audit_task
from a2a_scribe.core.projection import fold
from a2a_scribe.core.records import (
    ArtifactChanged,
    CallerRecord,
    Change,
    Record,
    StatusChanged,
    TaskCreated,
    TaskReplaced,
    TurnEnded,
    TurnStarted,
    encode,
)
from a2a_scribe.core.violations import Rule
from a2a_scribe.protocol.states import COMPLETED, FAILED, INPUT_REQUIRED, SUBMITTED, WORKING
from a2a_scribe.protocol.types import (
    Message,
    Part,
    SendMessageRequest,
    Struct,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    Timestamp,
    TurnId,
)


@dataclass(frozen=True)
class Row:
    """A row of a journal, as far as it is checked."""

    task_id: str = 'task'
    context_id: str = 'context'
    state: TaskState = COMPLETED
    status_time: int = 5_000_000
    seq: int = 9
    node: str | None = None
    open_turn: TurnId | None = None
    attempt: int = 1
    size: int = 0


class Journal(NamedTuple):
    """All that a journal holds of a task."""

    row: Row
    records: Sequence[Record]
    snapshot: bytes | None = None
    snapshot_seq: int = 0


def started(turn: str, attempt: int = 1) -> Change:
    message = Message(message_id=f'to {turn}', parts=[Part(text='hello')])
    return TurnStarted(TurnId(turn), CallerRecord('ada', ''), SendMessageRequest(message=message), attempt)


def ended(turn: str) -> Change:
    return TurnEnded(TurnId(turn), 'ok')


def created(task_id: str = 'task') -> Change:
    return TaskCreated(whole(SUBMITTED, task_id))


def whole(state: TaskState, task_id: str = 'task') -> Task:
    return Task(id=task_id, context_id='context', status=TaskStatus(state=state, timestamp=Timestamp(seconds=1)))


def status(state: TaskState, second: int, task_id: str = 'task') -> Change:
    made = TaskStatus(state=state, timestamp=Timestamp(seconds=second))
    return StatusChanged(TaskStatusUpdateEvent(task_id=task_id, context_id='context', status=made))


def chunk(text: str) -> Change:
    event = TaskArtifactUpdateEvent(task_id='task', context_id='context', append=True)
    event.artifact.artifact_id = 'artifact'
    event.artifact.parts.add(text=text)
    return ArtifactChanged(event)


def numbered(*changes: Change) -> list[Record]:
    return [Record('task', seq, *encode(change), seq, None) for seq, change in enumerate(changes, 1)]


GOOD_CHANGES = (
    started('one'),
    created(),
    chunk('a'),
    status(INPUT_REQUIRED, 3),
    ended('one'),
    started('two'),
    chunk('b'),
    status(COMPLETED, 5),
    ended('two'),
)


def journal_of(*changes: Change, snapshot_at: int | None = None, **row: Any) -> Journal:
    """The journal with these changes; its row is right unless `row` says otherwise."""
    records = numbered(*changes)
    right = Row(seq=len(records), size=sum(len(record.body) for record in records))
    journal = Journal(replace(right, **row), records)
    return journal if snapshot_at is None else with_snapshot(journal, snapshot_at)


def with_snapshot(journal: Journal, seq: int, of_seq: int | None = None) -> Journal:
    """The journal with a snapshot that says it is of `seq`."""
    projection = fold(None, journal.records[: seq if of_seq is None else of_seq])
    assert projection is not None
    return journal._replace(snapshot=projection.to_bytes(), snapshot_seq=seq)


GOOD = journal_of(*GOOD_CHANGES)


def rules(journal: Journal) -> list[Rule]:
    return [found.rule for found in audit_task(*journal)]


def edited(*edits: Callable[[list[Record]], None], **row: Any) -> Journal:
    """The good journal with other records; the size of its row is theirs."""
    records = list(GOOD.records)
    for edit in edits:
        edit(records)
    size = sum(len(record.body) for record in records)
    return Journal(replace(GOOD.row, size=size, **row), records)


# Good journals


REPLACED = TaskReplaced(whole(WORKING))

RIGHT = {
    'two turns': GOOD,
    'a turn under way': journal_of(
        *GOOD_CHANGES[:7], state=INPUT_REQUIRED, status_time=3_000_000, node='node', open_turn=TurnId('two')
    ),
    'a turn that was executed again': journal_of(
        started('one'), created(), started('one', 2), status(COMPLETED, 5), ended('one'), attempt=2
    ),
    'a turn that is executed again after its end': journal_of(
        started('one'), created(), ended('one'), started('one', 2), status(COMPLETED, 5), ended('one'), attempt=2
    ),
    'a parked task that was cancelled': journal_of(*GOOD_CHANGES[:5], status(COMPLETED, 5)),
    'a stored task': journal_of(REPLACED, state=WORKING, status_time=1_000_000, attempt=0),
    'a stored task without a time': journal_of(
        TaskReplaced(Task(id='task', context_id='context', status=TaskStatus(state=WORKING))),
        state=WORKING,
        status_time=77,
    ),
    'a task that was replaced, read from there on': journal_of(
        *GOOD_CHANGES[:5], REPLACED, state=WORKING, status_time=1_000_000
    )._replace(snapshot_seq=5),
    **{f'a snapshot at {seq}': with_snapshot(GOOD, seq) for seq in range(2, 10)},
}


@pytest.mark.parametrize('journal', RIGHT.values(), ids=RIGHT)
def test_a_good_journal_passes(journal: Journal) -> None:
    assert audit_task(*journal) == []
    assert audit_records('task', journal.records) == []


def test_a_stored_task_of_the_first_version_passes() -> None:
    """It counted a stored task without the byte of its version."""
    journal = journal_of(REPLACED, REPLACED, state=WORKING, status_time=1_000_000)
    for short in (1, 2):
        assert rules(journal._replace(row=replace(journal.row, size=journal.row.size - short))) == []
    assert rules(journal._replace(row=replace(journal.row, size=journal.row.size - 3))) == [Rule.SIZE]


def test_a_number_that_is_none_makes_no_difference() -> None:
    """NaN does not equal itself, and is the same in snapshot and records all the same."""
    task = whole(WORKING)
    task.metadata.CopyFrom(Struct())
    task.metadata.fields['x'].number_value = float('nan')
    journal = journal_of(TaskCreated(task), state=WORKING, status_time=1_000_000, snapshot_at=1)
    assert rules(journal) == []


# Broken ones


def remove(*places: int) -> Callable[[list[Record]], None]:
    def edit(records: list[Record]) -> None:
        for place in sorted(places, reverse=True):
            del records[place - 1]

    return edit


def change(place: int, **fields: Any) -> Callable[[list[Record]], None]:
    def edit(records: list[Record]) -> None:
        records[place - 1] = records[place - 1]._replace(**fields)

    return edit


def recorded(place: int, what: Change) -> Callable[[list[Record]], None]:
    kind, body = encode(what)
    return change(place, kind=kind, body=body)


def follow(what: Change) -> Journal:
    return journal_of(*GOOD_CHANGES, what)


WRONG = {
    'no first record': (edited(remove(1)), [Rule.GAP]),
    'no first records': (edited(remove(1, 2)), [Rule.GAP]),
    'no third record': (edited(remove(3)), [Rule.GAP]),
    'no last record': (edited(remove(9)), [Rule.GAP]),
    'no record': (edited(remove(*range(1, 10))), [Rule.GAP]),
    'a record twice': (edited(lambda records: records.insert(3, records[3])), [Rule.GAP]),
    'records in another order': (edited(lambda records: records.reverse()), [Rule.GAP] * 9),
    'records that the row does not know': (RIGHT['a turn under way']._replace(records=GOOD.records), [Rule.BEYOND]),
    'a body that is no message': (edited(change(3, body=b'\x01\xff\xff')), [Rule.UNREADABLE]),
    'a start that has no head': (edited(change(6, body=b'\x01')), [Rule.UNREADABLE]),
    'a start whose head is no object': (edited(change(6, body=b'\x01\0\0\0\x02[]')), [Rule.UNREADABLE]),
    'an end with a field more': (edited(change(9, body=b'\x01\0\0\0\x07{"x":1}')), [Rule.UNREADABLE]),
    'a kind that is not known': (edited(change(3, kind='later')), [Rule.UNKNOWN]),
    'a version that is not known': (edited(change(3, body=b'\x07' + GOOD.records[2].body[1:])), [Rule.UNKNOWN]),
    'an empty body': (edited(change(3, body=b'')), [Rule.UNKNOWN]),
    'a status before the task': (edited(recorded(1, status(WORKING, 1)), recorded(5, chunk('x'))), [Rule.ORDER]),
    'no creation': (journal_of(started('one'), ended('one'), attempt=1), [Rule.ORDER, Rule.ORDER]),
    'a second creation': (edited(recorded(3, created())), [Rule.ORDER]),
    'a task of another id': (edited(recorded(2, created('other'))), [Rule.IDENTITY]),
    'a status of another task': (edited(recorded(4, status(INPUT_REQUIRED, 3, 'other'))), [Rule.IDENTITY]),
    'a chunk after the end': (follow(chunk('late')), [Rule.AFTER_END]),
    'a message after the end': (journal_of(*GOOD_CHANGES, started('three'), ended('three')), [Rule.AFTER_END]),
    'a second end': (
        journal_of(*GOOD_CHANGES, status(FAILED, 6), state=FAILED, status_time=6_000_000),
        [Rule.SECOND_END],
    ),
    'another state after the end': (
        journal_of(*GOOD_CHANGES, status(WORKING, 6), state=WORKING, status_time=6_000_000),
        [Rule.AFTER_END],
    ),
    'a turn within a turn': (edited(recorded(5, started('three'))), [Rule.TURN, Rule.TURN]),
    'an end without a start': (edited(recorded(6, ended('two'))), [Rule.TURN, Rule.TURN]),
    'the end of another turn': (edited(recorded(9, ended('one'))), [Rule.TURN]),
    'a turn that starts twice': (edited(recorded(6, started('one'))), [Rule.TURN, Rule.TURN]),
    'a row with an open turn': (
        GOOD._replace(row=replace(GOOD.row, node='node', open_turn=TurnId('two'))),
        [Rule.OPEN_TURN],
    ),
    'a row without the open turn': (journal_of(*GOOD_CHANGES[:8]), [Rule.OPEN_TURN]),
    'a row with another attempt': (
        journal_of(*GOOD_CHANGES[:8], node='node', open_turn=TurnId('two'), attempt=2),
        [Rule.OPEN_TURN],
    ),
    'a row with another state': (GOOD._replace(row=replace(GOOD.row, state=WORKING)), [Rule.STATE]),
    'a row with another time': (GOOD._replace(row=replace(GOOD.row, status_time=4)), [Rule.STATUS_TIME]),
    'a row with another context': (GOOD._replace(row=replace(GOOD.row, context_id='x')), [Rule.CONTEXT]),
    'a row with more bytes': (GOOD._replace(row=replace(GOOD.row, size=GOOD.row.size + 1)), [Rule.SIZE]),
    'a row with fewer bytes': (GOOD._replace(row=replace(GOOD.row, size=GOOD.row.size - 1)), [Rule.SIZE]),
    'a snapshot of the record before': (with_snapshot(GOOD, 7, of_seq=6), [Rule.SNAPSHOT]),
    'a snapshot of the record after': (with_snapshot(GOOD, 7, of_seq=8), [Rule.SNAPSHOT]),
    'a snapshot after the last record': (with_snapshot(GOOD, 10), [Rule.SNAPSHOT]),
    'a snapshot that is not there': (GOOD._replace(snapshot_seq=9), [Rule.SNAPSHOT]),
    'a snapshot that is not there, in the middle': (GOOD._replace(snapshot_seq=5), [Rule.SNAPSHOT]),
    'a snapshot that is no message': (GOOD._replace(snapshot=b'\x01\xff\xff', snapshot_seq=5), [Rule.SNAPSHOT]),
    'a snapshot of another version': (GOOD._replace(snapshot=b'\x07', snapshot_seq=5), [Rule.UNKNOWN]),
}


@pytest.mark.parametrize(('journal', 'expected'), WRONG.values(), ids=WRONG)
def test_a_broken_journal_is_seen(journal: Journal, expected: list[Rule]) -> None:
    found = audit_task(*journal)
    assert [each.rule for each in found] == expected, found
    assert all(each.task_id == 'task' and each.what for each in found)


def test_what_a_newer_version_wrote_is_no_error() -> None:
    found = audit_task(*edited(change(3, kind='later')))
    assert [each.is_warning for each in found] == [True]
    assert not any(each.is_warning for each in audit_task(*edited(remove(3))))


def test_violations_name_their_record() -> None:
    assert [each.seq for each in audit_task(*edited(recorded(4, status(INPUT_REQUIRED, 3, 'other'))))] == [4]


def test_a_task_that_went_wrong_once_does_not_fill_the_memory() -> None:
    journal = journal_of(*GOOD_CHANGES, *[chunk('late')] * 1000)
    assert len(audit_task(*journal)) == 100


@dataclass(frozen=True)
class Claim:
    """Who works on a task."""

    row: Row = field(default_factory=Row)
    waiting: int = 0
    owner: str | None = None


OWNED = Row(state=WORKING, node='node', open_turn=TurnId('one'))
PARKED = Row(state=INPUT_REQUIRED)

CLAIMS = {
    'an ended task': (Claim(), []),
    'a parked task': (Claim(PARKED), []),
    'a task at work': (Claim(OWNED, 3, 'alive'), []),
    'messages for an ended task': (Claim(Row(), 1), [Rule.INBOX]),
    'messages for an ended task whose turn goes on': (
        Claim(replace(OWNED, state=COMPLETED), 1, 'alive'),
        [Rule.INBOX],
    ),
    'messages for a parked task': (Claim(PARKED, 1), [Rule.INBOX]),
    'a dead owner': (Claim(OWNED, 0, 'dead'), [Rule.OWNER]),
    'an unknown owner': (Claim(OWNED, 0, None), [Rule.OWNER]),
    'an open turn without an owner': (Claim(replace(OWNED, node=None)), [Rule.OWNER]),
}


@pytest.mark.parametrize(('claim', 'expected'), CLAIMS.values(), ids=CLAIMS)
def test_who_works_on_a_task_is_checked(claim: Claim, expected: list[Rule]) -> None:
    assert [found.rule for found in audit_claim(claim.row, claim.waiting, claim.owner)] == expected
