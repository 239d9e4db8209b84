"""Events on the wire: what protobuf's own JSON would be, the place in the journal, and one encoding for all readers."""

import json
import tracemalloc
from typing import Any, get_args

import pytest
from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Role,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from google.protobuf import json_format
from google.protobuf.message import Message as ProtoMessage
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_scribe.core.records import EVENT_TYPES, EventKind, Shown
from a2a_scribe.protocol.extensions import SEQUENCE_URI
from a2a_scribe.protocol.json import UnencodableError
from a2a_scribe.transport import events
from a2a_scribe.transport.events import EventTexts, to_stream_response, with_sequence
from tests.unit.json_messages import messages

KINDS: tuple[EventKind, ...] = get_args(EventKind)
FEW = 2_000
"""Bytes of the cache in tests of its bounds."""

quick = settings(max_examples=60, deadline=None)
kinds = st.sampled_from(KINDS)


def shown(kind: EventKind, event: ProtoMessage, seq: int | None = 7) -> Shown:
    """An event as a reader has it; a direct Message has no place."""
    return Shown(None if kind == 'message' else seq, kind, event.SerializeToString())


def chunk(text: str, seq: int = 7) -> Shown:
    artifact = Artifact(artifact_id='a', parts=[Part(text=text)])
    return shown('artifact_update', TaskArtifactUpdateEvent(task_id='t', context_id='c', artifact=artifact), seq)


def response(kind: EventKind, event: Any) -> StreamResponse:
    made = StreamResponse()
    getattr(made, kind).CopyFrom(event)
    return made


def with_place(kind: EventKind, event: Any, seq: int) -> Any:
    """Sets the metadata as a program would."""
    made = type(event).FromString(event.SerializeToString())
    if kind != 'message':
        made.metadata[SEQUENCE_URI] = seq
    return made


def test_the_kinds_are_those_of_the_protocol() -> None:
    assert set(KINDS) == set(EVENT_TYPES) == {field.name for field in StreamResponse.DESCRIPTOR.fields}


@quick
@given(kind=kinds, data=st.data())
def test_json_is_that_of_protobuf(kind: EventKind, data: st.DataObject) -> None:
    event = data.draw(messages(EVENT_TYPES[kind]))
    text = EventTexts().of(shown(kind, event))
    assert json.loads(text) == json.loads(json.dumps(json_format.MessageToDict(response(kind, event))))


@quick
@given(kind=kinds, data=st.data(), seq=st.integers(1, 10**9))
def test_json_with_the_place_in_the_metadata(kind: EventKind, data: st.DataObject, seq: int) -> None:
    event = data.draw(messages(EVENT_TYPES[kind]))
    text = EventTexts().of(shown(kind, event, seq), sequenced=True)
    expected = json_format.MessageToDict(response(kind, with_place(kind, event, seq)))
    assert json.loads(text) == json.loads(json.dumps(expected))


@quick
@given(kind=kinds, data=st.data(), seq=st.integers(1, 10**9))
def test_binary_with_and_without_the_place(kind: EventKind, data: st.DataObject, seq: int) -> None:
    event = data.draw(messages(EVENT_TYPES[kind]))
    item = shown(kind, event, seq)
    assert StreamResponse.FromString(to_stream_response(item)) == response(kind, event)
    placed = StreamResponse.FromString(to_stream_response(item, sequenced=True))
    assert placed == response(kind, with_place(kind, event, seq))


EVENTS: dict[EventKind, Any] = {
    'task': Task(id='t', context_id='c', status=TaskStatus(state=TaskState.TASK_STATE_WORKING)),
    'message': Message(message_id='m', role=Role.ROLE_AGENT, parts=[Part(text='hi')]),
    'status_update': TaskStatusUpdateEvent(task_id='t', context_id='c'),
    'artifact_update': TaskArtifactUpdateEvent(task_id='t', context_id='c', artifact=Artifact(artifact_id='a')),
}
MEMBERS = {
    'task': 'task',
    'message': 'message',
    'status_update': 'statusUpdate',
    'artifact_update': 'artifactUpdate',
}


@pytest.mark.parametrize('kind', KINDS)
def test_the_place_is_a_number_beside_what_the_agent_said(kind: EventKind) -> None:
    event = EVENTS[kind]
    event.metadata['own'] = 'kept'
    found = json.loads(EventTexts().of(shown(kind, event, 12), sequenced=True))
    expected = {'own': 'kept'} if kind == 'message' else {'own': 'kept', SEQUENCE_URI: 12}
    assert found[MEMBERS[kind]]['metadata'] == expected


def test_an_agent_cannot_say_another_place() -> None:
    event = TaskStatusUpdateEvent(task_id='t')
    event.metadata[SEQUENCE_URI] = {'my': 'own'}
    item = shown('status_update', event, 12)
    assert json.loads(EventTexts().of(item, sequenced=True))['statusUpdate']['metadata'] == {SEQUENCE_URI: 12}
    placed = TaskStatusUpdateEvent.FromString(with_sequence(item))
    assert placed.metadata[SEQUENCE_URI] == 12


def test_a_direct_message_has_no_place() -> None:
    item = shown('message', EVENTS['message'])
    assert with_sequence(item) == item.body
    assert to_stream_response(item, sequenced=True) == to_stream_response(item)
    assert EventTexts().of(item, sequenced=True) == EventTexts().of(item)


# Once for all readers


def test_an_event_is_encoded_once_however_many_read_it() -> None:
    texts, item = EventTexts(), chunk('hi')
    first = texts.of(item)
    again = texts.of(Shown(item.seq, item.kind, bytes(bytearray(item.body))))
    assert again is first
    assert texts.of(item, sequenced=True) is texts.of(item, sequenced=True)


def test_events_that_differ_in_anything_that_is_shown_are_not_taken_for_each_other() -> None:
    texts, body = EventTexts(), chunk('hi').body
    items = [
        Shown(1, 'artifact_update', body),
        Shown(2, 'artifact_update', body),
        Shown(1, 'artifact_update', chunk('ho').body),
    ]
    assert len({texts.of(item) for item in items}) == 2
    assert len({texts.of(item, sequenced=True) for item in items}) == 3
    assert len({texts.of(item, sequenced=flag) for item in items for flag in (True, False)}) == 5
    empty: list[Shown] = [Shown(1, kind, b'') for kind in KINDS]
    assert [texts.of(item) for item in empty] == [f'{{"{MEMBERS[kind]}":{{}}}}'.encode() for kind in KINDS]


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, 'CACHE_BYTES', FEW)
    texts, first, last = EventTexts(), chunk('first'), chunk('last')
    before = texts.of(first)
    for number in range(100):
        texts.of(chunk(f'{number}'))
    newest = texts.of(last)
    assert texts.of(last) is newest
    again = texts.of(first)
    assert again == before
    assert again is not before


@pytest.mark.parametrize('sequenced', [False, True])
@pytest.mark.parametrize('length', [0, 100, 10_000])
def test_what_is_kept_has_no_more_bytes_than_that(
    monkeypatch: pytest.MonkeyPatch, length: int, sequenced: bool
) -> None:
    monkeypatch.setattr(events, 'CACHE_BYTES', 400_000)
    texts, many = EventTexts(), 4_000
    texts.of(chunk('the encoder is made'), sequenced=sequenced)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    most = 0
    for seq in range(10_000, 10_000 + many):
        texts.of(chunk(f'{seq}' + 'x' * length, seq), sequenced=sequenced)
        most = max(most, tracemalloc.get_traced_memory()[0] - before)
    tracemalloc.stop()
    assert 200_000 < most < 400_000 + 3 * length


def test_an_event_larger_than_the_cache_is_written_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, 'CACHE_BYTES', FEW)
    texts, large, small = EventTexts(), chunk('x' * FEW), chunk('small')
    for _ in range(3):
        assert json.loads(texts.of(large))['artifactUpdate']['artifact']['parts'] == [{'text': 'x' * FEW}]
        assert texts.of(small) is texts.of(small)


def test_what_json_cannot_express_is_not_remembered() -> None:
    event = TaskStatusUpdateEvent(task_id='t')
    event.metadata['x'] = float('nan')
    texts = EventTexts()
    for _ in range(2):
        with pytest.raises(UnencodableError):
            texts.of(shown('status_update', event))
