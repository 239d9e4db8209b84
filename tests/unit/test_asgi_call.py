"""One HTTP request over plain ASGI, with scopes and messages made by hand."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from a2a.utils.errors import A2AError, InvalidRequestError
from starlette.types import Message, Scope

from a2a_scribe.errors import CallerGoneError
from a2a_scribe.protocol.faults import TooLargeError
from a2a_scribe.transport.asgi import (
    MAX_QUERY_FIELDS,
    NOT_STORED,
    SAFE_HEADERS,
    HttpCall,
    MediaTypeError,
    SlowBodyError,
)

pytestmark = pytest.mark.anyio

DISCONNECT: Message = {'type': 'http.disconnect'}
LIMIT = 10
ALWAYS = [NOT_STORED, *SAFE_HEADERS]


class Server:
    """What stands on the other side of ASGI: it hands over messages, then is silent, and keeps what it is told."""

    def __init__(self, *messages: Message, broken: Exception | None = None) -> None:
        self.messages = list(messages)
        self.sent: list[Message] = []
        self.asked = 0
        self._broken = broken

    async def receive(self) -> Message:
        self.asked += 1
        if self.messages:
            return self.messages.pop(0)
        await asyncio.Event().wait()
        raise AssertionError('nobody can get here')

    async def send(self, message: Message) -> None:
        if self._broken is not None:
            raise self._broken
        self.sent.append(message)


def body(part: bytes, *, more: bool = False) -> Message:
    return {'type': 'http.request', 'body': part, 'more_body': more}


def call_of(server: Server | None = None, headers: Sequence[tuple[bytes, bytes]] = (), **fields: Any) -> HttpCall:
    scope: Scope = {'type': 'http', 'method': 'POST', 'path': '/', 'headers': list(headers), **fields}
    server = server or Server()
    return HttpCall(scope, server.receive, server.send)


# Where it goes


@pytest.mark.parametrize(
    ('path', 'raw', 'root', 'found'),
    [
        ('/', b'/', '', '/'),
        ('/tasks', b'/tasks', '', '/tasks'),
        ('/tasks/', b'/tasks/', '', '/tasks'),
        ('/tasks//', b'/tasks//', '', '/tasks/'),
        ('/tasks/a/b', b'/tasks/a%2Fb', '', '/tasks/a%2Fb'),
        ('/tasks/a/b', None, '', '/tasks/a/b'),
        ('/app/tasks', b'/app/tasks', '/app', '/tasks'),
        ('/app/tasks', None, '/app', '/tasks'),
        ('/app/tasks', b'/app/tasks', '/app/', '/tasks'),
        ('/app/tasks/a/b', b'/app/tasks/a%2Fb', '/app', '/tasks/a%2Fb'),
        ('/a/b/tasks', b'/a/b/tasks', '/a/b', '/tasks'),
        ('/a b/tasks', b'/a%20b/tasks', '/a b', '/tasks'),
        ('/a/b/tasks', b'/a%2Fb/tasks', '/a/b', '/tasks'),
        ('/a/b/c/tasks/d/e', b'/a%2fb/c/tasks/d%2Fe', '/a/b/c', '/tasks/d%2Fe'),
        ('/a/b', b'/a%2Fb', '/a/b', '/'),
        ('/a/b/tasks', b'/a%2Fb/tasks', '/a', '/b/tasks'),
        ('/a%2Fb/tasks', b'/a%252Fb/tasks', '/a%2Fb', '/tasks'),
        ('/a%2Fb/tasks', None, '/a%2Fb', '/tasks'),
        ('/app/', b'/app/', '/app', '/'),
        ('/app', b'/app', '/app', '/'),
        ('/app/app/tasks', b'/app/app/tasks', '/app', '/app/tasks'),
        ('/tasks', b'/tasks', '/', '/tasks'),
        ('/tasks', b'/tasks', '/app', '/tasks'),
        ('/apple/tasks', b'/apple/tasks', '/app', '/apple/tasks'),
        ('/tasks/\ufffd', b'/tasks/\xff', '', '/tasks/\xff'),
    ],
)  # fmt: skip
def test_the_path_below_the_mount_is_still_encoded(path: str, raw: bytes | None, root: str, found: str) -> None:
    more: dict[str, Any] = {} if raw is None else {'raw_path': raw}
    assert call_of(path=path, root_path=root, **more).segments() == found


def test_a_server_may_leave_out_what_is_optional() -> None:
    call = call_of(path='/tasks')
    assert call.segments() == '/tasks'
    assert call.query() == []
    assert call_of(path='/tasks', raw_path=None, root_path='').segments() == '/tasks'


# What it says


@pytest.mark.parametrize(
    ('text', 'pairs'),
    [
        (b'', []),
        (b'a=1', [('a', '1')]),
        (b'a=1&a=2&b', [('a', '1'), ('a', '2'), ('b', '')]),
        (b'a=1%202+3', [('a', '1 2 3')]),
        (b'a=%C3%BC', [('a', 'ü')]),
        (b'%61=%26', [('a', '&')]),
        (b'a=1;b=2', [('a', '1;b=2')]),
        (b'&&', []),
        (b'=', [('', '')]),
        (b'a=%zz&b=%', [('a', '%zz'), ('b', '%')]),
        (b'&'.join([b'a=1'] * MAX_QUERY_FIELDS), [('a', '1')] * MAX_QUERY_FIELDS),
    ],
)
def test_queries(text: bytes, pairs: list[tuple[str, str]]) -> None:
    assert call_of(query_string=text).query() == pairs


@pytest.mark.parametrize('text', [b'a=\xff', b'a=%ff', b'%ed%a0%80', b'&'.join([b'a=1'] * (MAX_QUERY_FIELDS + 1))])
def test_queries_that_are_none(text: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        call_of(query_string=text).query()


def test_headers() -> None:
    call = call_of(headers=[(b'x-a', b'1'), (b'x-b', b'\xff\xfc'), (b'x-a', b'2')])
    assert call.headers == [('x-a', '1'), ('x-b', 'ÿü'), ('x-a', '2')]
    assert call.header('x-a') == '1'
    assert call.header('x-c') == ''


@pytest.mark.parametrize(
    'value',
    [
        None, b'', b'application/json', b'application/a2a+json', b'application/x+json', b'Application/JSON',
        b'application/json; charset=utf-8', b'application/json;charset=utf-8', b' application/json ', b';',
    ],
)  # fmt: skip
def test_media_types_of_json(value: bytes | None) -> None:
    call_of(headers=[] if value is None else [(b'content-type', value)]).check_media_type()


@pytest.mark.parametrize(
    'value',
    [
        b'text/plain', b'text/json', b'application/jsonp', b'application/json-seq', b'multipart/form-data; boundary=x',
        b'application/x-www-form-urlencoded', b'application', b'*/*', b'application/json, text/plain', b'\xff',
        b'+json',
    ],
)  # fmt: skip
def test_media_types_of_something_else(value: bytes) -> None:
    with pytest.raises(MediaTypeError):
        call_of(headers=[(b'content-type', value)]).check_media_type()


# Its body


@pytest.mark.parametrize(
    ('messages', 'found'),
    [
        ([body(b'')], b''),
        ([{'type': 'http.request'}], b''),
        ([body(b'0123456789')], b'0123456789'),
        ([body(b'01', more=True), body(b'', more=True), body(b'23', more=True), body(b'')], b'0123'),
        ([body(b'x', more=True)] * LIMIT + [body(b'')], b'x' * LIMIT),
    ],
)
async def test_a_body_comes_in_pieces(messages: list[Message], found: bytes) -> None:
    assert await call_of(Server(*messages)).body(LIMIT) == found


async def test_a_body_that_announces_too_much_is_not_read() -> None:
    server = Server(body(b'{}'))
    with pytest.raises(TooLargeError):
        await call_of(server, [(b'content-length', b'11')]).body(LIMIT)
    assert server.asked == 0


async def test_a_body_that_announces_what_may_be_is_read() -> None:
    assert await call_of(Server(body(b'0123456789')), [(b'content-length', b'10')]).body(LIMIT) == b'0123456789'


@pytest.mark.parametrize(
    'messages',
    [
        [body(b'x' * 11)],
        [body(b'x' * 6, more=True), body(b'x' * 6, more=True), body(b'never read')],
        [body(b'x' * 10, more=True), body(b'x')],
    ],
)
async def test_a_body_that_does_not_announce_too_much_is_read_no_further(messages: list[Message]) -> None:
    server = Server(*messages)
    with pytest.raises(TooLargeError):
        await call_of(server).body(LIMIT)
    assert server.messages in ([], [body(b'never read')])


@pytest.mark.parametrize('length', [b'', b'-1', b'abc', b'1e9', b'1_0', b'0x10', b'\xb2', b'\xb9\xb2\xb3', b'+5', b' '])
async def test_lengths_that_are_none_announce_nothing(length: bytes) -> None:
    """Servers refuse them, mostly."""
    assert await call_of(Server(body(b'{}')), [(b'content-length', length)]).body(LIMIT) == b'{}'


@pytest.mark.parametrize('digits', [5, 100, 5_000])
async def test_lengths_of_any_number_of_digits_are_read(digits: int) -> None:
    with pytest.raises(A2AError) as caught:
        await call_of(Server(body(b'{}')), [(b'content-length', b'9' * digits)]).body(LIMIT)
    assert isinstance(caught.value, TooLargeError)
    assert await call_of(Server(body(b'{}')), [(b'content-length', b'0' * digits)]).body(LIMIT) == b'{}'


@pytest.mark.parametrize('messages', [[DISCONNECT], [body(b'x', more=True), DISCONNECT]])
async def test_a_client_that_goes_away_within_the_body(messages: list[Message]) -> None:
    with pytest.raises(CallerGoneError):
        await call_of(Server(*messages)).body(LIMIT)


# Whether it is still there


async def test_a_client_that_waits_is_present() -> None:
    server = Server(body(b'{}'))
    call = call_of(server)
    await call.body(LIMIT)
    assert [await call.is_present() for _ in range(3)] == [True, True, True]


async def test_a_client_that_has_gone_is_not_asked_for_again() -> None:
    server = Server(body(b'{}'), DISCONNECT)
    call = call_of(server)
    await call.body(LIMIT)
    assert [await call.is_present() for _ in range(3)] == [False, False, False]
    assert server.asked == 2


async def test_a_client_goes_while_it_is_asked_for_now_and_then() -> None:
    server = Server(body(b'{}'))
    call = call_of(server)
    await call.body(LIMIT)
    assert await call.is_present()
    server.messages.append(DISCONNECT)
    assert not await call.is_present()


async def test_what_is_cancelled_while_it_asks_is_cancelled() -> None:
    call = call_of(Server())
    asking = asyncio.ensure_future(call.is_present())
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_body_that_does_not_come_in_time_is_not_waited_for() -> None:
    server = Server(body(b'{}', more=True))
    call = call_of(server)
    with pytest.raises(SlowBodyError, match='body_timeout'):
        await call.body(LIMIT, 0.01)
    await call.answer(408, b'')
    assert (b'connection', b'close') in server.sent[0]['headers']


async def test_a_connection_of_http_2_is_not_told_to_close() -> None:
    call = call_of(server := Server(), http_version='2')
    with pytest.raises(SlowBodyError):
        await call.body(LIMIT, 0.01)
    await call.answer(408, b'')
    assert (b'connection', b'close') not in server.sent[0]['headers']


async def test_a_large_body_has_more_time() -> None:
    server = Server(body(b'x' * 20_000, more=True))
    call = call_of(server)
    reading = asyncio.ensure_future(call.body(30_000, 0.01))
    over = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.1, over.set_result, None)
    await over
    assert not reading.done()
    reading.cancel()


# The answer


async def test_an_answer_may_say_itself_how_it_is_kept() -> None:
    server = Server()
    await call_of(server).start(200, [('cache-control', 'public')])
    assert server.sent[0]['headers'] == [(b'cache-control', b'public'), *SAFE_HEADERS]


async def test_an_answer_has_its_type_and_its_length() -> None:
    server = Server()
    await call_of(server).answer(200, b'{}', 'application/json', [('x-a', 'b')])
    head, rest = server.sent
    assert head == {
        'type': 'http.response.start',
        'status': 200,
        'headers': [
            (b'content-type', b'application/json'),
            (b'content-length', b'2'),
            (b'x-a', b'b'),
            *ALWAYS,
        ],
    }
    assert (rest['type'], rest['body'], rest.get('more_body', False)) == ('http.response.body', b'{}', False)


@pytest.mark.parametrize('status', [204, 304])
async def test_an_answer_without_a_body_has_no_length(status: int) -> None:
    server = Server()
    await call_of(server).answer(status, b'')
    head, rest = server.sent
    assert head == {'type': 'http.response.start', 'status': status, 'headers': ALWAYS}
    assert (rest['body'], rest.get('more_body', False)) == (b'', False)


async def test_head_gets_the_length_and_no_body() -> None:
    server = Server()
    await call_of(server, method='HEAD').answer(200, b'{}')
    assert server.sent[0]['headers'] == [(b'content-length', b'2'), *ALWAYS]
    assert server.sent[1]['body'] == b''


async def test_header_values_that_http_cannot_carry_do_not_prevent_an_answer() -> None:
    server = Server()
    await call_of(server).start(200, [('x-a', 'ü✓')])
    assert server.sent[0]['headers'] == [(b'x-a', b'\xfc?'), *ALWAYS]


async def test_an_answer_in_parts() -> None:
    server = Server()
    call = call_of(server)
    await call.start(200, [])
    await call.part(b'a')
    await call.part(b'', more=False)
    assert [(message['body'], message['more_body']) for message in server.sent[1:]] == [(b'a', True), (b'', False)]


@pytest.mark.parametrize(
    'error',
    [
        OSError('broken pipe'),
        RuntimeError('unable to perform operation on <TCPTransport closed=True>; the handler is closed'),
    ],
)
async def test_a_connection_that_is_closed_while_it_is_answered_means_that_the_client_has_gone(
    error: Exception,
) -> None:
    """uvicorn on uvloop raises the second: it writes on until it is told that the connection is closed."""
    for send in (HttpCall.answer, HttpCall.start, HttpCall.part):
        call = call_of(Server(DISCONNECT, broken=error))
        arguments: dict[Any, tuple[Any, ...]] = {
            HttpCall.answer: (200, b''),
            HttpCall.start: (200, []),
            HttpCall.part: (b'',),
        }
        with pytest.raises(CallerGoneError):
            await send(call, *arguments[send])
        assert not await call.is_present()


async def test_other_errors_of_a_server_are_not_taken_for_that() -> None:
    call = call_of(Server(broken=RuntimeError('Response content longer than Content-Length')))
    with pytest.raises(RuntimeError):
        await call.answer(200, b'{}')
