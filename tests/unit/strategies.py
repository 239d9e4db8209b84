"""Random tasks, events and changes, for the property tests of the core."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from a2a_scribe.core.records import (
    ArtifactChanged,
    CallerRecord,
    Change,
    HistoryAdded,
    Record,
    StatusChanged,
    TaskCreated,
    TaskReplaced,
    TurnEnded,
    TurnStarted,
    encode,
)
from a2a_scribe.core.statuses import TurnFacts
from a2a_scribe.protocol.states import ACTIVE, INTERRUPTED, KNOWN
from a2a_scribe.protocol.types import (
    Artifact,
    Message,
    Part,
    Role,
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
from a2a_scribe.testing.ids import CountingIds

quick = settings(max_examples=50, deadline=None)

TASK_ID, CONTEXT_ID = 'task', 'context'
NOW = 1_750_000_000_000_000


def struct(values: dict[str, Any]) -> Struct:
    made = Struct()
    made.update(values)
    return made


def user_message(text: str = 'go', message_id: str = 'user-1') -> Message:
    return Message(
        message_id=message_id, role=Role.ROLE_USER, parts=[Part(text=text)], task_id=TASK_ID, context_id=CONTEXT_ID
    )


def new_turn(message: Message | None = None) -> TurnFacts:
    return TurnFacts(TASK_ID, CONTEXT_ID, message or user_message(), CountingIds('made').new)


texts = st.sampled_from(['', 'a', 'b', 'ü', 'nul\0'])
parts = st.builds(lambda text: Part(text=text), texts)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 3).map(float), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from('xy'), inner, max_size=2)),
    max_leaves=4,
)
structs = st.dictionaries(st.sampled_from('pqr'), values, min_size=1, max_size=2).map(struct)
maybe_structs = st.one_of(st.none(), structs)
messages = st.builds(
    lambda number, text, role: Message(message_id=f'm{number}' if number else '', parts=[Part(text=text)], role=role),
    st.integers(0, 4),
    texts,
    st.sampled_from([Role.ROLE_AGENT, Role.ROLE_USER, Role.ROLE_UNSPECIFIED]),
)
times = st.one_of(
    st.none(),
    st.builds(
        lambda seconds, nanos: Timestamp(seconds=seconds, nanos=nanos),
        st.sampled_from([0, NOW // 1_000_000 - 5, NOW // 1_000_000, NOW // 1_000_000 + 30, NOW // 1_000_000 + 10**6]),
        st.integers(0, 999_999_999),
    ),
)
states = st.sampled_from(sorted(KNOWN))
open_states = st.sampled_from(sorted(ACTIVE | INTERRUPTED))
artifact_ids = st.sampled_from(['one', 'two', 'three'])


@st.composite
def statuses(draw: st.DrawFn, wanted: st.SearchStrategy[TaskState] = states) -> TaskStatus:
    status = TaskStatus(state=draw(wanted))
    if draw(st.booleans()):
        status.message.CopyFrom(draw(messages))
    time = draw(times)
    if time is not None:
        status.timestamp.CopyFrom(time)
    return status


@st.composite
def artifacts(draw: st.DrawFn) -> Artifact:
    made = Artifact(
        artifact_id=draw(artifact_ids),
        name=draw(st.sampled_from(['', 'n'])),
        description=draw(st.sampled_from(['', 'd'])),
        parts=draw(st.lists(parts, max_size=2)),
        extensions=draw(st.sampled_from([[], ['urn:e']])),
    )
    metadata = draw(maybe_structs)
    if metadata is not None:
        made.metadata.CopyFrom(metadata)
    return made


@st.composite
def artifact_events(draw: st.DrawFn) -> TaskArtifactUpdateEvent:
    ids = draw(st.sampled_from([(TASK_ID, CONTEXT_ID), ('', ''), (TASK_ID, '')]))
    return TaskArtifactUpdateEvent(
        task_id=ids[0], context_id=ids[1], artifact=draw(artifacts()), append=draw(st.booleans())
    )


@st.composite
def status_events(draw: st.DrawFn, wanted: st.SearchStrategy[TaskState] = states) -> TaskStatusUpdateEvent:
    ids = draw(st.sampled_from([(TASK_ID, CONTEXT_ID), ('', ''), (TASK_ID, '')]))
    event = TaskStatusUpdateEvent(task_id=ids[0], context_id=ids[1], status=draw(statuses(wanted)))
    metadata = draw(maybe_structs)
    if metadata is not None:
        event.metadata.CopyFrom(metadata)
    return event


@st.composite
def tasks(draw: st.DrawFn, wanted: st.SearchStrategy[TaskState] = states) -> Task:
    made = Task(
        id=draw(st.sampled_from([TASK_ID, ''])),
        context_id=draw(st.sampled_from([CONTEXT_ID, ''])),
        status=draw(statuses(wanted)),
        artifacts=draw(st.lists(artifacts(), max_size=2, unique_by=lambda artifact: artifact.artifact_id)),
        history=draw(st.lists(messages, max_size=2)),
    )
    metadata = draw(maybe_structs)
    if metadata is not None:
        made.metadata.CopyFrom(metadata)
    return made


events = st.one_of(status_events(), artifact_events(), tasks())
open_events = st.one_of(status_events(open_states), artifact_events(), tasks(open_states))


@st.composite
def changes(draw: st.DrawFn) -> Change:
    """A change as a journal may hold it after the first, with the ids in place."""
    kind = draw(st.sampled_from(['artifact', 'status', 'history', 'turn_started', 'turn_ended', 'replaced']))
    turn_id = TurnId(draw(st.sampled_from(['t1', 't2'])))
    match kind:
        case 'artifact':
            event = draw(artifact_events())
            event.task_id, event.context_id = TASK_ID, CONTEXT_ID
            return ArtifactChanged(event)
        case 'status':
            change = draw(status_events())
            change.task_id, change.context_id = TASK_ID, CONTEXT_ID
            return StatusChanged(change)
        case 'history':
            return HistoryAdded(tuple(draw(st.lists(messages, min_size=1, max_size=2))))
        case 'turn_started':
            return TurnStarted(turn_id, draw(callers), SendMessageRequest(message=user_message(draw(texts), 'u')))
        case 'turn_ended':
            return TurnEnded(turn_id, draw(st.sampled_from(['ok', 'failed', 'canceled', 'interrupted'])), draw(texts))
    return TaskReplaced(draw(whole_tasks()))


callers = st.builds(
    CallerRecord,
    owner=texts,
    tenant=texts,
    user_name=texts,
    authenticated=st.booleans(),
    extensions=st.lists(texts, max_size=2).map(tuple),
    traceparent=texts,
)


@st.composite
def whole_tasks(draw: st.DrawFn) -> Task:
    task = draw(tasks())
    task.id, task.context_id = TASK_ID, CONTEXT_ID
    return task


journals = st.builds(
    lambda first, rest: numbered([TaskCreated(first), *rest]), whole_tasks(), st.lists(changes(), max_size=12)
)


def numbered(changes: list[Change]) -> list[Record]:
    """Makes records of changes."""
    return [Record(TASK_ID, seq, *encode(change), NOW + seq, None) for seq, change in enumerate(changes, 1)]
