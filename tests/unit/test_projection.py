"""A task folded from its records: one result, however the journal is cut, and that of a naive model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_scribe.core.projection import Projection, fold
from a2a_scribe.core.records import (
    ArtifactChanged,
    Change,
    Record,
    StatusChanged,
    TaskCreated,
    TaskReplaced,
    TurnEnded,
    TurnStarted,
    decode,
    encode,
    shown_event,
)
from a2a_scribe.protocol.states import SUBMITTED, WORKING
from a2a_scribe.protocol.types import Message, Task, TaskStatus, TaskStatusUpdateEvent
from a2a_scribe.testing.agents import artifact, task
from tests.unit.model import plain, task_after
from tests.unit.strategies import CONTEXT_ID, TASK_ID, changes, journals, numbered, quick, whole_tasks


@quick
@given(journals, st.lists(st.integers(0, 12), max_size=3))
def test_any_cut_into_snapshot_and_rest_gives_the_same_task(journal: list[Record], cuts: list[int]) -> None:
    whole = fold(None, journal)
    assert whole is not None
    snapshot, done = None, 0
    for cut in sorted(min(cut, len(journal)) for cut in cuts):
        projection = fold(snapshot, journal[done:cut])
        snapshot, done = None if projection is None else projection.to_bytes(), cut
    folded = fold(snapshot, journal[done:])
    assert folded is not None
    assert folded.to_task() == whole.to_task()


@quick
@given(journals)
def test_the_projection_equals_the_naive_model(journal: list[Record]) -> None:
    projection = fold(None, journal)
    assert projection is not None
    known = [change for record in journal if (change := decode(record)) is not None]
    assert plain(projection.to_task()) == plain(task_after(known))


@quick
@given(journals)
def test_a_stored_replacement_is_a_snapshot(journal: list[Record]) -> None:
    projection = fold(None, journal)
    assert projection is not None
    _, body = encode(TaskCreated(projection.to_task()))
    assert Projection.from_bytes(body).to_task() == projection.to_task()


@quick
@given(journals)
def test_taking_a_snapshot_changes_nothing(journal: list[Record]) -> None:
    projection, other = fold(None, journal), fold(None, journal)
    assert projection is not None
    assert other is not None
    projection.to_bytes()
    assert projection.to_task() == other.to_task()
    assert projection.to_bytes() == projection.to_bytes()


@quick
@given(whole_tasks())
def test_what_is_put_together_is_a_copy(given_task: Task) -> None:
    projection = Projection(given_task)
    before = projection.to_task()
    for each in (given_task, projection.to_task()):
        each.status.state = SUBMITTED
        each.status.message.message_id = 'changed'
        each.history.add(message_id='changed')
        each.metadata.fields['changed'].bool_value = True
        for held in each.artifacts:
            held.name = 'changed'
    assert projection.to_task() == before


@quick
@given(changes())
def test_records_round_trip(change: Change) -> None:
    (record,) = numbered([change])
    assert decode(record) == change


@quick
@given(whole_tasks())
def test_a_created_task_round_trips(given_task: Task) -> None:
    (record,) = numbered([TaskCreated(given_task)])
    assert decode(record) == TaskCreated(given_task)
    assert shown_event(record) == given_task


@quick
@given(changes())
def test_clients_see_the_four_events_only(change: Change) -> None:
    (record,) = numbered([change])
    event = shown_event(record)
    match change:
        case ArtifactChanged(shown) | StatusChanged(shown):
            assert event == shown
        case TurnStarted() | TurnEnded():
            assert event is None
        case _:
            assert event is None or isinstance(event, Task)


@quick
@given(journals, st.integers(0, 12), st.sampled_from([('later', b'\x01what'), ('status', b'\x02what'), ('task', b'')]))
def test_unknown_kinds_and_versions_are_skipped(journal: list[Record], place: int, unknown: tuple[str, bytes]) -> None:
    strange = Record(TASK_ID, 0, *unknown, 0, None)
    assert decode(strange) is None
    assert shown_event(strange) is None
    folded, plain_fold = fold(None, [*journal[:place], strange, *journal[place:]]), fold(None, journal)
    assert folded is not None
    assert plain_fold is not None
    assert folded.to_task() == plain_fold.to_task()


def test_there_is_no_task_before_it_is_created() -> None:
    assert fold(None, []) is None
    assert fold(None, numbered([StatusChanged(TaskStatusUpdateEvent(status=TaskStatus(state=WORKING)))])) is None


def test_artifacts_and_keys_are_told() -> None:
    first = task(WORKING, 'now', id=TASK_ID, context_id=CONTEXT_ID)
    first.history.add(message_id='known')
    projection = Projection(first)
    new = Message(message_id='new')
    assert projection.unknown_messages([Message(message_id='known'), first.status.message, new]) == (new,)
    assert projection.artifact('answer') is None
    projection.apply(ArtifactChanged(artifact('one')))
    projection.apply(ArtifactChanged(artifact('two', append=True, name='ignored')))
    held = projection.artifact('answer')
    assert held is not None
    assert [part.text for part in held.parts] == ['one', 'two']
    assert held.name == ''
    assert (projection.artifact_count, projection.has_artifact('answer'), projection.state) == (1, True, WORKING)


@pytest.mark.parametrize('count', [200])
def test_a_long_stream_of_chunks_folds_into_one_artifact(count: int) -> None:
    projection = Projection(task(WORKING, id=TASK_ID))
    for number in range(count):
        projection.apply(ArtifactChanged(artifact(str(number), append=number > 0)))
    (held,) = projection.to_task().artifacts
    assert [part.text for part in held.parts] == [str(number) for number in range(count)]


def test_a_history_that_was_shed_is_still_known() -> None:
    first = task(WORKING, 'now', id=TASK_ID, context_id=CONTEXT_ID)
    first.history.add(message_id='old')
    projection = Projection(first)
    assert projection.history_bytes > 0
    projection.shed_history()
    assert not projection.is_whole
    assert projection.history_bytes == 0
    new = Message(message_id='new')
    assert projection.unknown_messages([Message(message_id='old'), new]) == (new,)
    projection.apply(TaskReplaced(first))
    assert projection.is_whole
