"""Section 16: who may call, and that nobody learns of what is not theirs."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import pytest
from a2a.types import a2a_pb2_grpc
from grpc.aio import AioRpcError

from tests.conformance import over_grpc
from tests.conformance.doorman import ANN, BEN, CRASHING, POWERLESS, UNKNOWN, bearing
from tests.conformance.errors import INTERNAL_ERROR, Fault, Json
from tests.conformance.kit import held, message_of, request_of, requests_about, requests_of_all_operations, task_of
from tests.conformance.over_http import HttpWire, envelope
from tests.conformance.section_09_cards import card_of
from tests.conformance.site import Site
from tests.conformance.table import Business, Section
from tests.conformance.wire import ALL, GRPC, HTTP, JSONRPC, STREAMS, Pairs, Wire

SECTION = Section(16, 'Security')

UNAUTHENTICATED = Fault('UNAUTHENTICATED', -32000, 401, 'UNAUTHENTICATED')
PERMISSION_DENIED = Fault('PERMISSION_DENIED', -32000, 403, 'PERMISSION_DENIED')
STRANGERS: dict[str, Pairs] = {
    'nobody': (),
    'a stranger': bearing(UNKNOWN),
    'no token': (('Authorization', 'Bearer'),),
    'another scheme': (('Authorization', 'Basic YTpi'),),
    'two': (*ANN, *BEN),
}


async def guarded(wire: Wire, site: Site) -> Any:
    """The same binding of a server that asks who calls."""
    return wire.at(await site.service('guarded'))


async def refusal(wire: Wire, operation: str, params: Json, headers: Pairs, fault: Fault) -> None:
    """Has a call refused; on HTTP also by the status, and by its challenge."""
    if isinstance(wire, HttpWire):
        response = await wire.request(**wire.prepare(operation, params), headers=headers)
        assert response.status_code == fault.http, (operation, response.text)
        body = response.json()
        error = wire.error_of(body, None if wire.binding == 'jsonrpc' else response.status_code)
        assert error is not None
        error.must_be(fault)
    else:
        (await wire.ask(operation, params, headers=headers)).refused(fault)


EVERY = SECTION.must('7.4', 'Every request is authenticated by the declared schemes', sdk_fails=True)


@EVERY.check()
async def strangers_get_nothing_done(wire: Wire, site: Site) -> None:
    other = await guarded(wire, site)
    task = await task_of(other, 'ask', options={'headers': ANN})
    contexts = len(other.service.agent.contexts)
    for headers in STRANGERS.values():
        for operation, params in requests_of_all_operations(task['id']):
            await refusal(other, operation, params, headers, UNAUTHENTICATED)
    assert len(other.service.agent.contexts) == contexts
    assert (await other.call('GetTask', {'id': task['id']}, headers=ANN)).ok() == task


@EVERY.check()
async def those_who_are_known_are_served(wire: Wire, site: Site) -> None:
    other = await guarded(wire, site)
    task = await task_of(other, 'complete', options={'headers': ANN})
    context = other.service.agent.context_of(task['id'])
    assert (context.call_context.user.is_authenticated, context.call_context.user.user_name) == (True, 'ann')
    assert (await other.call('GetExtendedAgentCard', headers=ANN)).ok()['name'] == 'extended'


@EVERY.check(on=HTTP)
async def strangers_are_not_read(wire: HttpWire, site: Site) -> None:
    other = await guarded(wire, site)
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 100:
            sent += 1
            yield b' ' * 100_000

    path = '/' if wire.binding == 'jsonrpc' else '/message:send'
    kind = ('Content-Type', 'application/json')
    try:
        response = await other.request('POST', path, content=endless(), headers=(kind,))
        assert response.status_code == 401
    except httpx.WriteError:  # the server hangs up on what it does not want
        pass
    for body in (b'{', b'\xff', b'[' * 100_000, b'[]', b''):
        assert (await other.request('POST', path, content=body, headers=(kind,))).status_code == 401


@EVERY.check(on=JSONRPC)
async def strangers_have_no_batches(wire: Any, site: Site) -> None:
    other = await guarded(wire, site)
    batch = [envelope('ListTasks'), {'jsonrpc': '2.0', 'method': 'SendMessage', 'params': request_of('complete')}]
    for body in (batch, batch[1]):
        response = await other.post(body)
        assert (response.status_code, response.json()['id']) == (401, None)
    assert len((await other.post(batch, headers=ANN)).json()) == 1


@EVERY.check()
async def authenticator_is_told_what_the_wire_knows(wire: Wire, site: Site) -> None:
    other = await guarded(wire, site)
    doorman = other.service.app.state.wire.authenticate
    await other.call('ListTasks', {}, headers=(*ANN, ('X-Hint', 'a'), ('x-hint', 'b')))
    call = doorman.calls[-1]
    assert call.binding == {'jsonrpc': 'JSONRPC', 'rest': 'HTTP+JSON', 'grpc': 'GRPC'}[wire.binding]
    assert ', '.join(call.values('x-hint')).split(', ') == ['a', 'b']
    assert call.client == '127.0.0.1'
    assert call.url == {'jsonrpc': '/', 'rest': '/tasks', 'grpc': '/lf.a2a.v1.A2AService/ListTasks'}[wire.binding]


@EVERY.check()
async def authenticator_that_fails_lets_nobody_in(wire: Wire, site: Site) -> None:
    other = await guarded(wire, site)
    error = (await other.call('ListTasks', {}, headers=bearing(CRASHING))).error
    assert error is not None
    error.must_be(INTERNAL_ERROR)
    assert CRASHING not in str(error)


PUBLIC = SECTION.must('8.2', 'The card is there for everybody, and declares how callers are authenticated')


@PUBLIC.check()
async def card_is_public_and_names_the_schemes(wire: Wire, site: Site) -> None:
    card = await card_of((await guarded(wire, site)).service)
    assert card['securitySchemes'] == {'bearer': {'httpAuthSecurityScheme': {'scheme': 'Bearer'}}}
    assert card['securityRequirements'] == [{'schemes': {'bearer': {}}}]


CHALLENGE = SECTION.should('3.3.2', 'A 401 says in WWW-Authenticate how to be known')


@CHALLENGE.check(on=HTTP)
async def challenges_name_the_scheme(wire: HttpWire, site: Site) -> None:
    other = await guarded(wire, site)
    for headers in STRANGERS.values():
        response = await other.request(**other.prepare('ListTasks', {}), headers=headers)
        assert (response.status_code, response.headers['www-authenticate']) == (401, 'Bearer realm="a2a"')


@CHALLENGE.check(on=GRPC)
async def challenges_are_metadata_too(wire: over_grpc.GrpcWire, site: Site) -> None:
    other = await guarded(wire, site)
    stub = a2a_pb2_grpc.A2AServiceStub(other.service.channel)  # type: ignore[no-untyped-call]
    with pytest.raises(AioRpcError) as refusal:
        await stub.ListTasks(over_grpc.request_of('ListTasks', {}))
    assert ('www-authenticate', 'Bearer realm="a2a"') in list(refusal.value.trailing_metadata() or ())


DENIED = SECTION.must('3.3.2', 'Who lacks the permission gets 403, whether or not there is something to see')


@DENIED.check()
async def permission_is_asked_for_before_anything_is_looked_up(wire: Wire, site: Site) -> None:
    other = await guarded(wire, site)
    task = await task_of(other, 'ask', options={'headers': ANN})
    for task_id in (task['id'], unknown(task)):
        for operation, params in requests_of_all_operations(task_id):
            await refusal(other, operation, params, bearing(POWERLESS), PERMISSION_DENIED)


ISOLATED = SECTION.must('13.1', "Another's task is answered as one that does not exist", sdk_fails=True)


async def exact(wire: Wire, operation: str, params: Json, headers: Pairs) -> Any:
    """All that a client can see of an answer."""
    if isinstance(wire, HttpWire):
        prepared = dict(wire.prepare(operation, params))
        if wire.binding == 'jsonrpc':
            prepared['json'] = {**prepared['json'], 'id': 1}
        response = await wire.request(**prepared, headers=headers)
        shown = [pair for pair in response.headers.multi_items() if pair[0] != 'date']
        return response.status_code, shown, response.content
    stub = a2a_pb2_grpc.A2AServiceStub(wire.service.channel)  # type: ignore[no-untyped-call]
    given = over_grpc.metadata('1.0', headers)
    call = getattr(stub, operation)(over_grpc.request_of(operation, params), metadata=given)
    try:
        result = [each async for each in call] if operation in STREAMS else await call
    except AioRpcError as error:
        first, last = list(error.initial_metadata() or ()), list(error.trailing_metadata() or ())
        return error.code(), error.details(), first, last
    return result


def unknown(task: Json) -> str:
    """An id like that of a task, of which there is no task."""
    return f'00000000-0000-4000-8000-{task["id"][-12:]}'


@asynccontextmanager
async def tasks_in_every_state(wire: Wire, site: Site) -> AsyncIterator[dict[str, Json]]:
    """Ann's tasks: one that works, one that waits, one that has ended; each has a push config."""
    options = {'headers': ANN}
    parked, finished = [await task_of(wire, script, options=options) for script in ('ask', 'artifact:a complete')]
    async with held(wire, site, options=options) as live:
        tasks = {'live': live.task, 'parked': parked, 'finished': finished}
        for task in tasks.values():
            config = {'taskId': task['id'], 'id': 'c', 'url': 'https://hook.test/'}
            (await wire.call('CreateTaskPushNotificationConfig', config, headers=ANN)).ok()
        yield tasks


@ISOLATED.check()
async def tasks_of_others_do_not_exist(wire: Wire, site: Site) -> None:
    other = await guarded(wire, site)
    async with tasks_in_every_state(other, site) as tasks:
        before = {name: await exact(other, 'GetTask', {'id': task['id']}, ANN) for name, task in tasks.items()}
        for name, task in tasks.items():
            nothing = unknown(task)
            for operation, params in requests_about(task['id']):
                same = replaced(params, task['id'], nothing)
                theirs, none = [await exact(other, operation, each, BEN) for each in (params, same)]
                assert renamed(theirs, task['id'], nothing) == none, (name, operation)
        after = {name: await exact(other, 'GetTask', {'id': task['id']}, ANN) for name, task in tasks.items()}
        assert after == before
        assert (await other.call('ListTasks', {}, headers=BEN)).ok().get('tasks', []) == []


def replaced(value: Any, old: str, new: str) -> Any:
    """A request about another task."""
    if isinstance(value, dict):
        return {name: replaced(each, old, new) for name, each in value.items()}
    return new if value == old else value


def renamed(answer: Any, old: str, new: str) -> Any:
    """An answer as it would be with another id."""
    if isinstance(answer, bytes):
        return answer.replace(old.encode(), new.encode())
    if isinstance(answer, str):
        return answer.replace(old, new)
    return type(answer)(renamed(each, old, new) for each in answer) if isinstance(answer, list | tuple) else answer


@ISOLATED.check()
async def contexts_of_others_are_empty(wire: Wire, site: Site) -> None:
    other = await guarded(wire, site)
    task = await task_of(other, 'ask', options={'headers': ANN})
    for params in ({'contextId': task['contextId']}, {'status': 'TASK_STATE_INPUT_REQUIRED'}, {'pageSize': 1}):
        page = (await other.call('ListTasks', params, headers=BEN)).ok()
        assert (page.get('tasks', []), page.get('totalSize', 0), page.get('nextPageToken', '')) == ([], 0, '')


@ISOLATED.check()
async def references_to_tasks_of_others_lead_nowhere(wire: Wire, site: Site) -> None:
    other = await guarded(wire, site)
    task = await task_of(other, 'ask', options={'headers': ANN})
    script = message_of('message', referenceTaskIds=[task['id']])
    for headers, found in ((ANN, [task['id']]), (BEN, [])):
        (await other.call('SendMessage', {'message': script}, headers=headers)).ok()
        assert [each.id for each in other.service.agent.contexts[-1].related_tasks] == found


@ISOLATED.check()
async def keys_of_messages_are_each_callers_own(wire: Wire, site: Site) -> None:
    other = await guarded(wire, site)
    key = (('Idempotency-Key', site.unique('key')),)
    request = request_of('artifact:mine complete')
    first = (await other.call('SendMessage', request, headers=(*ANN, *key))).ok()['task']
    second = (await other.call('SendMessage', request, headers=(*BEN, *key))).ok()['task']
    assert first['id'] != second['id']


HIDDEN = SECTION.must('13.4', 'Credentials are never logged')


class Reader(logging.Handler):
    """Keeps all that is logged, as it would be written."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter('%(name)s %(message)s'))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def read_logs() -> Iterator[Reader]:
    """Reads what the package logs, all of it."""
    logger, reader = logging.getLogger('a2a_scribe'), Reader()
    level = logger.level
    logger.addHandler(reader)
    logger.setLevel(logging.DEBUG)
    try:
        yield reader
    finally:
        logger.removeHandler(reader)
        logger.setLevel(level)


@HIDDEN.check(on=ALL)
async def no_log_has_credentials(wire: Wire, site: Site) -> None:
    other = await guarded(wire, site)
    with read_logs() as reader:
        await task_of(other, 'complete', options={'headers': ANN})
        await other.call('SendMessage', request_of('crash'), headers=ANN)
        for token in (UNKNOWN, POWERLESS, CRASHING):
            await refused_or_failed(other, bearing(token))
    assert any('The authenticator failed' in line for line in reader.lines)
    assert [line for line in reader.lines if 'secret-' in line] == []


async def refused_or_failed(wire: Wire, headers: Pairs) -> None:
    if isinstance(wire, HttpWire):
        assert (await wire.request(**wire.prepare('ListTasks', {}), headers=headers)).json()['error']
    else:
        assert (await wire.call('ListTasks', {}, headers=headers)).error is not None


TLS = SECTION.must(
    '7.1',
    'In production everything is encrypted',
    business=Business.DOCUMENT,
    why='a proxy in front of the server ends TLS; docs/authentication.md says so',
)
URLS = SECTION.must(
    '14.1.1',
    'URLs of files in parts are checked before they are fetched',
    business=Business.AGENT,
    why='the server itself never fetches them',
)
