"""Callers as they are recorded, and as they are made again."""

import pytest
from a2a.auth.user import User
from a2a.server.context import ServerCallContext

from a2a_scribe.core.records import CallerRecord, TurnStarted, decode_turn_started, encode
from a2a_scribe.engine.contexts import rebuild_context, record_caller
from a2a_scribe.engine.orders import CancelOrder
from a2a_scribe.journal.tasks import Caller
from a2a_scribe.protocol.types import Scope, SendMessageRequest, Struct, TurnId


class Named(User):
    """An authenticated user."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self._name


def test_a_caller_is_made_again_from_its_record() -> None:
    context = ServerCallContext(
        user=Named('ada'),
        tenant='acme',
        requested_extensions={'b', 'a'},
        state={'headers': {'traceparent': '00-trace-span-01'}},
    )
    record = record_caller(context, 'owner', 'acme')
    assert record == CallerRecord('owner', 'acme', 'ada', True, ('a', 'b'), '00-trace-span-01')
    again = rebuild_context(record)
    assert (again.user.user_name, again.user.is_authenticated) == ('ada', True)
    assert (again.tenant, again.requested_extensions) == ('acme', {'a', 'b'})


def test_headers_with_halves_of_characters_can_be_recorded() -> None:
    context = ServerCallContext(user=Named('ada\ud83d'), state={'headers': {'traceparent': '\udc80'}})
    record = record_caller(context, 'owner', 'acme')
    _, body = encode(TurnStarted(TurnId('turn'), record, SendMessageRequest()))
    assert decode_turn_started(body).caller == record
    assert record.user_name == 'ada?'


def test_a_state_without_headers_is_no_trouble() -> None:
    assert record_caller(ServerCallContext(state={'headers': 7}), '', '').traceparent == ''


def test_a_cancel_is_made_again_from_the_row_that_asks_for_it() -> None:
    metadata = Struct()
    metadata.update({'reason': 'too slow'})
    context = ServerCallContext(user=Named('ada'), tenant='acme', requested_extensions={'b', 'a'})
    caller = Caller(Scope('agent', 'ada', 'acme'))
    read = CancelOrder.decode('task', caller, CancelOrder('task', caller, context, metadata).encode())
    assert (read.task_id, read.caller, read.metadata) == ('task', caller, metadata)
    assert (read.context.user.user_name, read.context.user.is_authenticated) == ('ada', True)
    assert (read.context.tenant, read.context.requested_extensions) == ('acme', {'a', 'b'})


@pytest.mark.parametrize('body', [b'', b'\2from a newer version'])
def test_a_cancel_that_cannot_be_read_is_a_cancel_all_the_same(body: bytes) -> None:
    read = CancelOrder.decode('task', Caller(Scope('agent', 'ada', '')), body)
    assert (read.task_id, read.context.user.user_name, read.metadata) == ('task', '', Struct())
