"""JSON-RPC 2.0 (A2A 1.0, section 9): one endpoint; requests, notifications and batches.

Errors are JSON-RPC's own, with HTTP status 200, unless the request could not even be read as one.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

import orjson
from a2a.utils.errors import (
    A2AError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
)
from starlette.types import Receive, Scope, Send

from a2a_scribe.core.records import Shown
from a2a_scribe.errors import CallerGoneError
from a2a_scribe.protocol.ids import MAX_ID_LENGTH
from a2a_scribe.transport.asgi import JSON, HttpCall, NotAllowedError, edge_status
from a2a_scribe.transport.audit import Visit
from a2a_scribe.transport.calls import Admission, Wire, decode, visit_of
from a2a_scribe.transport.faults import as_a2a_error, error_headers, to_rpc
from a2a_scribe.transport.json_body import read_json
from a2a_scribe.transport.operations import OPERATIONS, Operation
from a2a_scribe.transport.presence import Attendance
from a2a_scribe.transport.sse import EventStream

MAX_BATCH: Final = 100
MAX_EXACT: Final = 2**53
"""Above, a double is not the number that was written: what has come as one, as integers beyond 64 bits do."""


class RpcRequest(NamedTuple):
    """What one JSON-RPC request asks for."""

    id: bytes | None
    """Its id as JSON; `None` for a notification, which is not answered."""
    method: str
    params: object


class RpcError(Exception):
    """An error, and the id of the request that it answers."""

    def __init__(self, request_id: bytes, error: A2AError) -> None:
        """Takes both."""
        super().__init__(error.message)
        self.id = request_id
        self.error = error


def parse_request(value: object) -> RpcRequest:
    """Reads the envelope. Raises: RpcError, with the request's id if it has one."""
    if not isinstance(value, dict):
        raise RpcError(b'null', InvalidRequestError('A request must be an object'))
    given = value.get('id')
    if not isinstance(given, str | int | float | None) or isinstance(given, bool):
        raise RpcError(b'null', InvalidRequestError('id must be a string, a number or null'))
    if isinstance(given, float) and abs(given) > MAX_EXACT:
        raise RpcError(b'null', InvalidRequestError('id must be a number of 64 bits'))
    if isinstance(given, str) and len(given) > MAX_ID_LENGTH:
        raise RpcError(b'null', InvalidRequestError(f'id must have at most {MAX_ID_LENGTH} characters'))
    request_id = orjson.dumps(given)
    if value.get('jsonrpc') != '2.0':
        raise RpcError(request_id, InvalidRequestError('jsonrpc must be "2.0"'))
    if not isinstance(value.get('method'), str):
        raise RpcError(request_id, InvalidRequestError('method must be a string'))
    return RpcRequest(request_id if 'id' in value else None, value['method'], value.get('params'))


def result_frame(request_id: bytes, result: bytes) -> bytes:
    """Returns the response that carries a result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, result)


def error_frame(request_id: bytes, error: A2AError) -> bytes:
    """Returns the response that carries an error."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (request_id, orjson.dumps(to_rpc(error)))


class JsonRpcEndpoint:
    """The endpoint, as an ASGI app."""

    def __init__(self, wire: Wire, operations: Mapping[str, Operation] = OPERATIONS) -> None:
        """Takes what the bindings share, and the operations by their methods."""
        self._wire = wire
        self._audit = wire.doors.audit
        self._operations = operations
        self._send = next(each for each in operations.values() if each.name == 'SendMessage')

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request."""
        call = HttpCall(scope, receive, send)
        visit = visit_of(call, 'JSONRPC')
        try:
            if call.method != 'POST':
                raise NotAllowedError(['POST'])
            await self._wire.enter_http(call, visit)
            await self._answer(call, visit)
        except CallerGoneError:
            self._audit.left(visit)
            await call.leave()
        except RpcError as error:
            self._audit.refused(visit, error.error)
            await self._refuse(call, error.error, error.id)
        except Exception as error:  # noqa: BLE001 - the wire's edge: whatever it was, the client gets an answer
            told = as_a2a_error(error)
            self._audit.refused(visit, told)
            await self._refuse(call, told, b'null')

    async def _answer(self, call: HttpCall, visit: Visit) -> None:
        value = await read_json(call, self._wire.settings)
        if isinstance(value, list):
            await self._answer_batch(call, value, visit)
            return
        request = parse_request(value)
        try:
            await self._answer_one(call, request, visit)
        except CallerGoneError:
            raise
        except Exception as error:
            told = as_a2a_error(error)
            if request.id is None:
                self._audit.refused(visit, told)
                await call.answer(204, b'')
                return
            raise RpcError(request.id, told) from error

    async def _answer_one(self, call: HttpCall, request: RpcRequest, visit: Visit) -> None:
        visit.operation = self._operations[request.method].name if request.method in self._operations else ''
        admission = self._wire.admit_http(call)
        operation = self._operation(request)
        if operation.is_stream and request.id is not None:
            with self._wire.doors.stream(visit):
                await self._stream(call, admission, operation, request, request.id, visit)
            return
        result = await self._result(call, admission, operation, request, visit)
        if request.id is None:
            await call.answer(204, b'', headers=admission.headers)
        else:
            await call.answer(200, result_frame(request.id, result), JSON, admission.headers)

    async def _stream(
        self,
        call: HttpCall,
        admission: Admission,
        operation: Operation,
        request: RpcRequest,
        request_id: bytes,
        visit: Visit,
    ) -> None:
        wire, sequenced = self._wire, admission.wants_sequence
        write = wire.event_writer(operation)

        def data(item: Shown) -> bytes:
            return result_frame(request_id, write(item, sequenced))

        def error_data(error: A2AError) -> bytes:
            return error_frame(request_id, wire.dialect.told(error))

        between = wire.dialect.between
        events = EventStream(call, wire.settings, wire.clock, data, error_data, admission.headers, between)
        try:
            params = _decode(request.params, operation)
            context = wire.context(call, admission, params.tenant, _state(request.method, request_id))
            visit.asks(operation.name, params, context.tenant)
            opened = operation.open(wire.handler, params, context, admission.after(operation))
            stream = wire.doors.told(visit, opened, starts_at_once=operation.starts_at_once)
            await events.run(stream, starts_at_once=operation.starts_at_once)
        except CallerGoneError:
            raise
        except Exception as error:
            if not wire.dialect.streams_errors or (isinstance(error, A2AError) and edge_status(error)):
                raise
            told = as_a2a_error(error)
            self._audit.refused(visit, told)
            await events.refuse(told)

    async def _result(
        self, call: HttpCall, admission: Admission, operation: Operation, request: RpcRequest, visit: Visit
    ) -> bytes:
        """Returns the result as JSON. A notification's message is accepted, and its answer not waited for."""
        if request.id is None and operation.name in ('SendMessage', 'SendStreamingMessage'):
            operation = self._send
            params = _decode(request.params, operation)
            params.configuration.return_immediately = True
        elif operation.call is None:
            raise InvalidRequestError(f'{request.method} is answered by a stream of its own')
        else:
            params = _decode(request.params, operation)
        assert operation.call is not None
        context = self._wire.context(call, admission, params.tenant, _state(request.method, request.id))
        visit.asks(operation.name, params, context.tenant)
        result = await operation.call(
            self._wire.handler, params, context, Attendance(call, self._wire.clock).is_present
        )
        body = operation.to_json(result, params)
        self._audit.done(visit, result)
        return body

    async def _answer_batch(self, call: HttpCall, values: list[Any], visit: Visit) -> None:
        """Answers the requests of a batch in their order, each by itself."""
        if not 1 <= len(values) <= MAX_BATCH:
            raise InvalidRequestError(f'A batch must have 1 to {MAX_BATCH} requests')
        self._wire.doors.charge(visit, len(values) - 1)
        admission = self._wire.admit_http(call)
        visit.is_over = True  # from here on each request is told by itself
        answers = []
        for value in values:
            answer = await self._answer_member(call, admission, value, replace(visit, is_over=False))
            if answer is not None:
                answers.append(answer)
        if answers:
            await call.answer(200, b'[' + b','.join(answers) + b']', JSON, admission.headers)
        else:
            await call.answer(204, b'', headers=admission.headers)

    async def _answer_member(self, call: HttpCall, admission: Admission, value: object, visit: Visit) -> bytes | None:
        """Returns the response to a request of a batch, `None` for a notification."""
        try:
            request = parse_request(value)
        except RpcError as error:
            self._audit.refused(visit, error.error)
            return error_frame(error.id, error.error)
        try:
            operation = self._operation(request)
            visit.operation = operation.name
            result = await self._result(call, admission, operation, request, visit)
        except CallerGoneError:
            self._audit.left(visit)
            raise
        except Exception as error:  # noqa: BLE001 - as above
            told = as_a2a_error(error)
            self._audit.refused(visit, told)
            told = self._wire.dialect.told(told)
            return None if request.id is None else error_frame(request.id, told)
        return None if request.id is None else result_frame(request.id, result)

    def _operation(self, request: RpcRequest) -> Operation:
        operation = self._operations.get(request.method)
        if operation is None:
            raise MethodNotFoundError(f'There is no method {request.method[:80]!r}{self._wire.dialect.hint}')
        return operation

    async def _refuse(self, call: HttpCall, error: A2AError, request_id: bytes) -> None:
        status = edge_status(error) or 200
        body = error_frame(request_id, self._wire.dialect.told(error))
        with suppress(CallerGoneError):
            await call.answer(status, body, JSON, error_headers(error))


def _state(method: str, request_id: bytes | None) -> dict[str, Any]:
    """Returns what users of `a2a-sdk` find in the state of a JSON-RPC call."""
    return {'method': method, 'request_id': None if request_id is None else orjson.loads(request_id)}


def _decode(params: object, operation: Operation) -> Any:
    """Returns the request; absent params stand for a request without fields."""
    if isinstance(params, list):
        raise InvalidParamsError('params must be an object')
    return decode({} if params is None else params, operation)
