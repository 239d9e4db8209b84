"""The lifecycle rules: what is recorded of an event, and what is refused."""

import contextlib
from collections.abc import Sequence
from itertools import pairwise

import pytest
from a2a.utils.errors import InvalidAgentResponseError
from hypothesis import assume, given
from hypothesis import strategies as st

from a2a_scribe.core.admission import Reply, admit, create_task
from a2a_scribe.core.projection import Projection, fold
from a2a_scribe.core.records import ArtifactChanged, Change, HistoryAdded, StatusChanged, TaskCreated
from a2a_scribe.core.statuses import MAX_CLOCK_LEAD, TurnFacts, begin_turn, change_status
from a2a_scribe.protocol.extensions import SEQUENCE_URI
from a2a_scribe.protocol.states import (
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    SUBMITTED,
    TERMINAL,
    UNSPECIFIED,
    WORKING,
)
from a2a_scribe.protocol.types import (
    Artifact,
    Event,
    Message,
    Part,
    Role,
    Struct,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
    Timestamp,
)
from a2a_scribe.testing.agents import artifact, message, status, task
from tests.unit.model import parts_of, plain, task_after, texts_of
from tests.unit.strategies import (
    CONTEXT_ID,
    NOW,
    TASK_ID,
    events,
    new_turn,
    numbered,
    open_events,
    quick,
    struct,
    tasks,
    user_message,
)


class Desk:
    """Admits events as a writer does, and keeps the changes."""

    def __init__(self, turn: TurnFacts | None = None, projection: Projection | None = None) -> None:
        self.turn = turn or new_turn()
        self.projection = projection
        self.changes: list[Change] = []
        self.now = NOW

    def admit(self, event: object) -> list[Change]:
        changes = admit(self.projection, self.turn, event, self.now)
        assert not isinstance(changes, Reply)
        for change in changes:
            self.take(change)
        return changes

    def take(self, change: Change) -> None:
        self.changes.append(change)
        if self.projection is None:
            assert isinstance(change, TaskCreated)
            self.projection = Projection(change.task)
        else:
            self.projection.apply(change)

    def admit_all(self, events: Sequence[object]) -> None:
        """Admits what can be admitted."""
        for event in events:
            try:
                self.admit(event)
            except InvalidAgentResponseError:
                assert self.projection is not None
                assert self.projection.state in TERMINAL

    @property
    def task(self) -> Task:
        assert self.projection is not None
        return self.projection.to_task()


def times_of(changes: Sequence[Change]) -> list[int]:
    """The times of the statuses that these changes record, in microseconds."""
    stamps = []
    for change in changes:
        match change:
            case TaskCreated(created):
                stamps.append(created.status.timestamp)
            case StatusChanged(event):
                stamps.append(event.status.timestamp)
    assert all(stamp.nanos % 1000 == 0 for stamp in stamps)
    return [stamp.ToMicroseconds() for stamp in stamps]


def followed(state: TaskState = INPUT_REQUIRED, *, artifacts: Sequence[Artifact] = ()) -> Desk:
    """A desk of a follow-up turn on a parked task."""
    parked = Task(id=TASK_ID, context_id=CONTEXT_ID, status=task(state, 'well?').status, artifacts=artifacts)
    projection = Projection(parked)
    desk = Desk(new_turn(user_message('more', 'user-2')), projection)
    begin_turn(projection, desk.turn)
    return desk


# Any sequence


@quick
@given(st.lists(events, min_size=1, max_size=10))
def test_any_sequence_gives_the_projection_of_the_naive_model(emitted: list[object]) -> None:
    desk = Desk()
    desk.admit_all(emitted)
    assert plain(desk.task) == plain(task_after(desk.changes))
    folded = fold(None, numbered(desk.changes))
    assert folded is not None
    assert folded.to_task() == desk.task


@quick
@given(st.lists(events, min_size=1, max_size=10))
def test_the_first_record_is_the_task_with_the_users_message(emitted: list[object]) -> None:
    desk = Desk()
    desk.admit_all(emitted)
    first, *others = desk.changes
    assert isinstance(first, TaskCreated)
    assert (first.task.id, first.task.context_id) == (TASK_ID, CONTEXT_ID)
    assert first.task.status.state != UNSPECIFIED
    assert desk.turn.message in first.task.history
    assert not any(isinstance(change, TaskCreated) for change in others)


@quick
@given(st.lists(events, min_size=1, max_size=10), st.lists(st.integers(-5, 5), min_size=10, max_size=10))
def test_status_times_grow_and_are_not_far_ahead(emitted: list[object], steps: list[int]) -> None:
    desk = Desk()
    latest = NOW
    for event, step in zip(emitted, steps, strict=False):
        desk.now += step * 10_000_000
        latest = max(latest, desk.now)
        desk.admit_all([event])
    times = times_of(desk.changes)
    assert all(before < after for before, after in pairwise(times))
    assert all(0 <= time <= latest + MAX_CLOCK_LEAD + len(times) for time in times)


@quick
@given(st.lists(open_events, max_size=4), st.sampled_from(sorted(TERMINAL)), st.lists(events, max_size=5))
def test_terminal_is_final(before: list[object], end: TaskState, after: list[object]) -> None:
    desk = Desk()
    desk.admit_all([*before, status(end)])
    ended, count = desk.task, len(desk.changes)
    for event in after:
        with contextlib.suppress(InvalidAgentResponseError):
            assert desk.admit(event) == []
    assert desk.task == ended
    assert len(desk.changes) == count


@quick
@given(st.lists(open_events, min_size=1, max_size=5), tasks(st.sampled_from([WORKING, INPUT_REQUIRED])))
def test_a_whole_task_repeated_is_no_news(before: list[object], whole: Task) -> None:
    desk = Desk()
    desk.admit_all([*before, whole])
    assert desk.admit(whole) == []


@quick
@given(st.lists(open_events, min_size=1, max_size=8), st.data())
def test_a_whole_task_as_it_was_earlier_in_the_turn_records_no_status(
    emitted: list[object], data: st.DataObject
) -> None:
    desk = Desk()
    seen: list[Task] = []
    for event in emitted:
        desk.admit(event)
        seen.append(desk.task)
    stale = data.draw(st.sampled_from(seen))
    before = desk.task.status
    for change in desk.admit(stale):
        if isinstance(change, StatusChanged):
            assert change.event.status.state == before.state, 'a repeated status carries metadata at most'
            assert change.event.status.message == before.message
    assert desk.task.history[: len(stale.history)] == stale.history


@quick
@given(st.lists(open_events, min_size=1, max_size=5))
def test_the_task_as_it_is_now_is_no_news(emitted: list[object]) -> None:
    desk = Desk()
    desk.admit_all(emitted)
    assert desk.admit(desk.task) == []


@quick
@given(st.lists(open_events, min_size=1, max_size=5), tasks(st.sampled_from([WORKING, INPUT_REQUIRED])))
def test_a_whole_task_takes_nothing_back(before: list[object], whole: Task) -> None:
    desk = Desk()
    desk.admit_all(before)
    old = desk.task
    desk.admit(whole)
    new = desk.task
    assert list(new.history[: len(old.history)]) == list(old.history)
    assert set(old.metadata.fields) <= set(new.metadata.fields)
    assert [each.artifact_id for each in new.artifacts][: len(old.artifacts)] == [
        each.artifact_id for each in old.artifacts
    ]
    emitted = {each.artifact_id for each in whole.artifacts}
    for mine, theirs in zip(old.artifacts, new.artifacts, strict=False):
        assert mine.artifact_id in emitted or mine == theirs


@quick
@given(st.lists(events, min_size=1, max_size=6))
def test_the_event_itself_is_not_changed(emitted: list[object]) -> None:
    desk = Desk()
    for event in emitted:
        assert isinstance(event, Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent)
        before = event.SerializeToString(deterministic=True)
        desk.admit_all([event])
        assert event.SerializeToString(deterministic=True) == before


@quick
@given(st.lists(open_events, min_size=1, max_size=6))
def test_a_status_or_task_admitted_is_a_copy(emitted: list[object]) -> None:
    desk = Desk()
    for event in emitted:
        desk.admit(event)
        before = desk.task
        mutate(event)
        assert desk.task == before
    assert plain(task_after([change for change in desk.changes if not isinstance(change, ArtifactChanged)])) is not None


def mutate(event: object) -> None:
    """Changes an event in place, as an agent may that keeps it."""
    if isinstance(event, TaskArtifactUpdateEvent):
        event.artifact.parts.add(text='later')
        event.artifact.metadata.fields['later'].bool_value = True
        return
    assert isinstance(event, Task | TaskStatusUpdateEvent)
    event.status.state = FAILED
    event.status.message.parts.add(text='later')
    event.metadata.fields['later'].bool_value = True
    if isinstance(event, Task):
        event.history.add(message_id='later')
        event.artifacts.add(artifact_id='later')


# The first event


@pytest.mark.parametrize('event', [status(WORKING, 'on it'), artifact('first')])
def test_an_update_as_the_first_event_creates_the_task(event: object) -> None:
    desk = Desk()
    created, update = desk.admit(event)
    assert isinstance(created, TaskCreated)
    assert created.task.status.state == SUBMITTED
    assert list(created.task.history) == [desk.turn.message]
    assert isinstance(update, StatusChanged | ArtifactChanged)


def test_a_first_task_without_a_state_is_submitted() -> None:
    desk = Desk()
    desk.admit(Task())
    assert desk.task.status.state == SUBMITTED
    assert desk.task.status.timestamp.ToMicroseconds() == NOW


def test_a_first_task_that_holds_the_users_message_keeps_it_once() -> None:
    desk = Desk()
    desk.admit(Task(history=[desk.turn.message, message('hm', message_id='other')]))
    assert texts_of(desk.task.history) == ['go', 'hm']


def test_a_first_task_without_the_users_message_is_given_it_first() -> None:
    desk = Desk()
    desk.admit(Task(history=[message('hm', message_id='other')]))
    assert texts_of(desk.task.history) == ['go', 'hm']


def test_a_task_made_from_the_request_alone() -> None:
    turn = new_turn()
    created = create_task(turn, NOW).task
    assert (created.id, created.context_id, created.status.state) == (TASK_ID, CONTEXT_ID, SUBMITTED)
    assert list(created.history) == [turn.message]


# Messages


def test_a_direct_message_is_the_whole_answer() -> None:
    turn = new_turn()
    reply = admit(None, turn, Message(parts=[Part(text='hi')], task_id='no-such-task'), NOW)
    assert isinstance(reply, Reply)
    assert reply.message == Message(
        parts=[Part(text='hi')], role=Role.ROLE_AGENT, context_id=CONTEXT_ID, message_id='made-1'
    )
    for event in (message(), task(), status(), artifact()):
        with pytest.raises(InvalidAgentResponseError, match='after a Message'):
            admit(None, turn, event, NOW)


@pytest.mark.parametrize('role', [Role.ROLE_UNSPECIFIED, Role.ROLE_USER, Role.ROLE_AGENT])
def test_a_direct_message_is_the_agents(role: Role) -> None:
    reply = admit(None, new_turn(), Message(role=role, message_id='own', context_id=CONTEXT_ID), NOW)
    assert isinstance(reply, Reply)
    assert reply.message.role == Role.ROLE_AGENT
    assert reply.message.message_id == 'own'


def test_a_message_with_a_foreign_context_is_refused() -> None:
    with pytest.raises(InvalidAgentResponseError):
        admit(None, new_turn(), Message(context_id='other'), NOW)


def test_a_message_once_the_agent_has_made_a_task_is_refused() -> None:
    desk = Desk()
    desk.admit(task())
    before = desk.task
    with pytest.raises(InvalidAgentResponseError, match='TaskStatusUpdateEvent'):
        desk.admit(message())
    assert desk.task == before


def test_a_message_completes_a_task_that_was_made_for_the_agent() -> None:
    desk = Desk()
    desk.turn.created_by_us = True
    desk.take(create_task(desk.turn, NOW))
    desk.admit(message('done'))
    assert desk.task.status.state == COMPLETED
    assert texts_of([desk.task.status.message]) == ['done']
    assert desk.task.status.message.task_id == TASK_ID
    with pytest.raises(InvalidAgentResponseError):
        desk.admit(status())


@pytest.mark.parametrize('first', [task(WORKING), status(WORKING), artifact()])
def test_a_message_after_the_agent_spoke_of_the_task_made_for_it_is_refused(first: object) -> None:
    desk = Desk()
    desk.turn.created_by_us = True
    desk.take(create_task(desk.turn, NOW))
    desk.admit(first)
    with pytest.raises(InvalidAgentResponseError):
        desk.admit(message())


def test_a_status_message_is_filled_in() -> None:
    desk = Desk()
    desk.admit(TaskStatusUpdateEvent(status=task(WORKING, 'on it').status))
    said = desk.task.status.message
    assert (said.role, said.task_id, said.context_id) == (Role.ROLE_AGENT, TASK_ID, CONTEXT_ID)
    assert said.message_id


# Ids and what is no event


FOREIGN = {
    'task': Task(id='other'),
    'task context': Task(context_id='other'),
    'status': status(task_id='other'),
    'status context': status(context_id='other'),
    'artifact': TaskArtifactUpdateEvent(task_id='other', artifact=artifact().artifact),
    'artifact context': TaskArtifactUpdateEvent(context_id='other', artifact=artifact().artifact),
}


@pytest.mark.parametrize('event', FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize('exists', [False, True])
def test_foreign_ids_are_refused(event: object, exists: bool) -> None:
    desk = Desk()
    if exists:
        desk.admit(task(WORKING))
    before = len(desk.changes)
    with pytest.raises(InvalidAgentResponseError):
        desk.admit(event)
    assert len(desk.changes) == before


@pytest.mark.parametrize('event', [status(), artifact()])
def test_empty_ids_are_filled_in(event: object) -> None:
    desk = Desk()
    update = desk.admit(event)[-1]
    assert isinstance(update, StatusChanged | ArtifactChanged)
    assert (update.event.task_id, update.event.context_id) == (TASK_ID, CONTEXT_ID)


@pytest.mark.parametrize('event', [None, 'text', {'status': 'working'}, Artifact(), Part(), object(), Task])
def test_what_is_no_event_is_refused(event: object) -> None:
    with pytest.raises(InvalidAgentResponseError, match='not an event'):
        admit(None, new_turn(), event, NOW)


@pytest.mark.parametrize(
    'event',
    [
        TaskStatusUpdateEvent(),
        TaskArtifactUpdateEvent(artifact=Artifact(parts=[Part(text='x')])),
        Task(artifacts=[Artifact(parts=[Part(text='x')])]),
        status(99),  # type: ignore[arg-type]
        task(99),  # type: ignore[arg-type]
    ],
    ids=['no state', 'no artifact id', 'no artifact id in a task', 'unknown state', 'unknown state of a task'],
)
def test_what_lacks_something_needed_is_refused(event: object) -> None:
    desk = Desk()
    with pytest.raises(InvalidAgentResponseError):
        desk.admit(event)
    assert desk.changes == []


# Statuses


def test_a_new_status_moves_the_message_of_the_one_before_to_the_history() -> None:
    desk = Desk()
    for event in (task(SUBMITTED, 'one'), status(WORKING, 'two'), status(WORKING), status(COMPLETED, 'three')):
        desk.admit(event)
    assert texts_of(desk.task.history) == ['go', 'one', 'two']
    assert texts_of([desk.task.status.message]) == ['three']


def test_the_metadata_of_a_status_update_is_the_tasks() -> None:
    desk = Desk()
    desk.admit(Task(metadata={'kept': 1, 'changed': 1}))
    desk.admit(status(metadata={'changed': 2, 'new': 3}))
    assert desk.task.metadata == struct({'kept': 1, 'changed': 2, 'new': 3})


@pytest.mark.parametrize(
    ('stated', 'recorded'),
    [
        (NOW - 1_000_000, NOW - 1_000_000),
        (NOW + 59_000_000, NOW + 59_000_000),
        (NOW + 61_000_000, NOW + MAX_CLOCK_LEAD),
        (-5, 0),
    ],
)
def test_a_status_time_that_the_agent_states(stated: int, recorded: int) -> None:
    stamp = Timestamp()
    stamp.FromMicroseconds(stated)
    stamp.nanos += 999 if stated > 0 else 0
    first = task(WORKING)
    first.status.timestamp.CopyFrom(stamp)
    desk = Desk()
    desk.admit(first)
    assert desk.task.status.timestamp.ToMicroseconds() == recorded


def test_a_status_of_our_own_is_newer_and_speaks_for_the_agent() -> None:
    desk = Desk()
    desk.admit(task(WORKING))
    assert desk.projection is not None
    desk.take(change_status(desk.projection, desk.turn, CANCELED, 'stopped', NOW - 5))
    assert desk.task.status.timestamp.ToMicroseconds() == NOW + 1
    assert desk.task.status.message.role == Role.ROLE_AGENT
    assert texts_of([desk.task.status.message]) == ['stopped']


# Whole tasks


def test_the_state_that_a_task_was_created_with_for_the_agent_does_not_come_back() -> None:
    desk = Desk()
    desk.admit(status(WORKING))
    assert desk.admit(task(SUBMITTED)) == []
    assert desk.task.status.state == WORKING


def test_an_empty_metadata_that_is_set_is_no_news_for_ever() -> None:
    desk = Desk()
    bare, marked = Artifact(artifact_id='a', parts=[Part(text='1')]), Artifact(artifact_id='a', parts=[Part(text='1')])
    marked.metadata.SetInParent()
    desk.admit(Task(artifacts=[marked]))
    desk.admit(Task(artifacts=[bare]))
    assert desk.admit(Task(artifacts=[bare])) == []


def test_a_grown_artifact_is_appended_to() -> None:
    desk = Desk()
    desk.admit(Task(artifacts=[Artifact(artifact_id='a', name='n', parts=[Part(text='1')])]))
    (change,) = desk.admit(
        Task(artifacts=[Artifact(artifact_id='a', name='n', parts=[Part(text='1'), Part(text='2')])])
    )
    assert isinstance(change, ArtifactChanged)
    assert change.event.append
    assert parts_of(change.event.artifact) == ['2']
    assert parts_of(desk.task.artifacts[0]) == ['1', '2']
    assert desk.task.artifacts[0].name == 'n'


@pytest.mark.parametrize(
    'changed',
    [
        Artifact(artifact_id='a', parts=[Part(text='other'), Part(text='2')]),
        Artifact(artifact_id='a', name='renamed', parts=[Part(text='1'), Part(text='2')]),
    ],
    ids=['parts', 'name'],
)
def test_an_artifact_that_changed_is_set(changed: Artifact) -> None:
    desk = Desk()
    desk.admit(Task(artifacts=[Artifact(artifact_id='a', parts=[Part(text='1')])]))
    (change,) = desk.admit(Task(artifacts=[changed]))
    assert isinstance(change, ArtifactChanged)
    assert not change.event.append
    assert list(desk.task.artifacts) == [changed]


def test_metadata_that_a_grown_artifact_does_not_repeat_stays() -> None:
    desk = Desk()
    desk.admit(Task(artifacts=[Artifact(artifact_id='a', parts=[Part(text='1')], metadata={'source': 'web'})]))
    desk.admit(Task(artifacts=[Artifact(artifact_id='a', parts=[Part(text='1'), Part(text='2')])]))
    (held,) = desk.task.artifacts
    assert parts_of(held) == ['1', '2']
    assert held.metadata == struct({'source': 'web'})


def test_metadata_of_a_task_travels_in_a_status_update_that_repeats_the_status() -> None:
    desk = Desk()
    desk.admit(task(WORKING, 'on it', metadata={'a': 1}))
    (change,) = desk.admit(Task(metadata={'a': 1, 'b': {'c': [1, 2]}}))
    assert isinstance(change, StatusChanged)
    assert change.event.metadata == struct({'b': {'c': [1, 2]}})
    assert change.event.status.state == WORKING
    assert texts_of(desk.task.history) == ['go']
    assert texts_of([desk.task.status.message]) == ['on it']
    assert desk.task.metadata == struct({'a': 1, 'b': {'c': [1, 2]}})


def test_metadata_and_a_new_status_travel_together() -> None:
    desk = Desk()
    desk.admit(task())
    (change,) = desk.admit(task(COMPLETED, metadata={'a': 1}))
    assert isinstance(change, StatusChanged)
    assert change.event.metadata == struct({'a': 1})


def test_unknown_messages_of_the_history_are_added_in_their_order() -> None:
    desk = Desk()
    desk.admit(task(WORKING, 'on it'))
    known = list(desk.task.history)
    (change,) = desk.admit(Task(history=[*known, message('x', message_id='x'), message('y', message_id='y')]))
    assert isinstance(change, HistoryAdded)
    assert texts_of(desk.task.history) == ['go', 'x', 'y']


def test_the_message_of_the_status_is_no_news_for_the_history() -> None:
    desk = Desk()
    desk.admit(task(WORKING, 'on it'))
    assert desk.admit(Task(history=[*desk.task.history, desk.task.status.message])) == []


def test_a_status_of_this_turn_that_has_been_left_is_not_recorded_again() -> None:
    desk = Desk()
    for event in (task(SUBMITTED), status(WORKING, 'on it'), status(INPUT_REQUIRED, 'well?')):
        desk.admit(event)
    for stale in (task(SUBMITTED), task(WORKING, 'on it'), Task()):
        assert desk.admit(stale) == []
    assert len(desk.admit(task(WORKING, 'something else'))) == 1


def test_a_follow_up_that_repeats_the_status_it_began_with_records_nothing() -> None:
    desk = followed()
    assert desk.admit(desk.task) == []
    assert desk.turn.recorded_status == UNSPECIFIED
    assert len(desk.admit(task(INPUT_REQUIRED, 'again?'))) == 1
    assert desk.turn.recorded_status == INPUT_REQUIRED


def test_an_earlier_turn_does_not_count_for_stale_statuses() -> None:
    desk = followed()
    assert len(desk.admit(task(WORKING))) == 1


def test_a_task_that_adds_nothing_after_the_end_is_let_pass() -> None:
    desk = Desk()
    desk.admit(task(COMPLETED, 'done'))
    assert desk.admit(desk.task) == []
    with pytest.raises(InvalidAgentResponseError, match='COMPLETED'):
        desk.admit(task(FAILED))


@quick
@given(tasks(st.sampled_from([WORKING, INPUT_REQUIRED])), tasks(st.sampled_from([WORKING, INPUT_REQUIRED])))
def test_two_whole_tasks_in_turns_come_to_rest(one: Task, other: Task) -> None:
    assume(not {each.artifact_id for each in one.artifacts} & {each.artifact_id for each in other.artifacts})
    assume(not set(one.metadata.fields) & set(other.metadata.fields))
    desk = Desk()
    desk.admit_all([one, other, one, other])
    assert desk.admit(one) == []
    assert desk.admit(other) == []


# What is not the agent's to say


def said_by(changes: list[Change] | Reply) -> list[object]:
    """Returns the events that the changes show."""
    if isinstance(changes, Reply):
        return [changes.message]
    return [change.task if isinstance(change, TaskCreated) else getattr(change, 'event', None) for change in changes]


PLACED = [(event, exists) for event in (task(), status(WORKING), artifact('x')) for exists in (False, True)]


@pytest.mark.parametrize(('event', 'exists'), [*PLACED, (message('hi'), False)], ids=lambda each: type(each).__name__)
def test_an_agent_does_not_say_the_place_of_an_event(event: Event, exists: bool) -> None:
    event = type(event).FromString(event.SerializeToString())
    event.metadata[SEQUENCE_URI] = 99
    event.metadata['own'] = 'kept'
    given = event.SerializeToString(deterministic=True)
    desk = Desk()
    if exists:
        desk.admit(task())
    *_, said = said_by(admit(desk.projection, desk.turn, event, NOW + 1))
    assert dict(said.metadata) == {'own': 'kept'}  # type: ignore[attr-defined]
    assert event.SerializeToString(deterministic=True) == given, 'the event stays as the agent has it'


def test_an_event_that_says_nothing_but_its_place_has_no_metadata() -> None:
    desk = Desk()
    event = artifact('x')
    event.metadata[SEQUENCE_URI] = 99
    *_, said = said_by(desk.admit(event))
    assert not said.HasField('metadata')  # type: ignore[attr-defined]
    again = task()
    again.metadata[SEQUENCE_URI] = 99
    assert desk.admit(again) == [], 'nothing is new'
    assert desk.task.metadata == Struct()
