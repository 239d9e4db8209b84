"""HTTP+JSON (A2A 1.0, section 11): one app for all of its URLs, below whatever prefix it is mounted at.

Every error has the form of section 11.6, also that of a URL or a method which does not exist.
"""

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from typing import Any, ClassVar, Final

import orjson
from a2a.utils.constants import A2A_JSON_MEDIA_TYPE
from a2a.utils.errors import A2AError, MethodNotFoundError
from starlette.types import Message, Receive, Scope, Send

from a2a_scribe.core.records import Shown
from a2a_scribe.errors import CallerGoneError
from a2a_scribe.protocol.faults import InvalidFieldError, fault_of
from a2a_scribe.protocol.service_parameters import service_parameters
from a2a_scribe.transport.asgi import JSON, HttpCall, NotAllowedError, edge_status
from a2a_scribe.transport.audit import Visit
from a2a_scribe.transport.caching import answer_cached, tag_of_card
from a2a_scribe.transport.calls import Admission, Wire, decode, one_tenant, visit_of
from a2a_scribe.transport.faults import as_a2a_error, error_headers, to_status
from a2a_scribe.transport.json_body import read_json
from a2a_scribe.transport.operations import OPERATIONS, Operation
from a2a_scribe.transport.presence import Attendance
from a2a_scribe.transport.rest_paths import Route, find_route
from a2a_scribe.transport.rest_query import read_query
from a2a_scribe.transport.sse import EventStream

EXTENDED_CARD_CACHING: Final = 'private, no-cache'
"""The extended card may differ from caller to caller (section 8.6)."""

DENIAL: Final = 'websocket.http.response'
"""What servers offer that can answer a handshake with an error of ours; the others make it a 403."""

Query = list[tuple[str, str]]


class RestApp:
    """The URLs of HTTP+JSON, as an ASGI app."""

    operations: ClassVar[Mapping[str, Operation]] = OPERATIONS

    def __init__(self, wire: Wire) -> None:
        """Takes what the bindings share."""
        self.wire = wire
        self._audit = wire.doors.audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request; what wants to be a WebSocket is told that there is none."""
        if scope['type'] == 'websocket':
            await not_found(scope, receive, send)
            return
        call = HttpCall(scope, receive, send)
        visit = visit_of(call, 'HTTP+JSON')
        try:
            await self._answer(call, visit)
        except CallerGoneError:
            self._audit.left(visit)
            await call.leave()
        except Exception as error:  # noqa: BLE001 - the wire's edge: whatever it was, the client gets an answer
            told = as_a2a_error(error)
            self._audit.refused(visit, told)
            await self.refuse(call, self.wire.dialect.told(told))

    def find_route(self, path: str) -> Route | None:
        """Returns what a path stands for."""
        return find_route(path)

    def media_type(self, call: HttpCall) -> str:
        """Returns the type of an answer."""
        return media_type(call)

    def error_body(self, error: A2AError, status: int | None = None) -> bytes:
        """Returns an error as JSON."""
        return orjson.dumps(to_status(error, status))

    async def refuse(self, call: HttpCall, error: A2AError) -> None:
        """Answers with an error."""
        status = edge_status(error) or fault_of(error).http
        body = self.error_body(error, status)
        with suppress(CallerGoneError):
            await call.answer(status, body, self.media_type(call), error_headers(error))

    async def _answer(self, call: HttpCall, visit: Visit) -> None:
        route = self.find_route(call.segments())
        if route is None:
            raise MethodNotFoundError(f'There is nothing at this path{self.wire.dialect.hint}')
        if call.method not in route.methods:
            raise NotAllowedError(route.methods)
        operation = self.operations[route.methods[call.method]]
        visit.operation = operation.name
        await self.wire.enter_http(call, visit)
        with self.wire.doors.stream(visit) if operation.is_stream else nullcontext():
            await self._perform(call, route, operation, visit)

    async def _perform(self, call: HttpCall, route: Route, operation: Operation, visit: Visit) -> None:
        query = call.query()
        admission = self.wire.admit(service_parameters([*call.headers, *query]))
        params, tenant = await self.read(call, route, operation, query)
        context = self.wire.context(call, admission, tenant, {'method': operation.name})
        visit.asks(operation.name, params, context.tenant)
        if operation.call is None:
            await self._stream(call, admission, operation, params, context, visit)
            return
        attendance = Attendance(call, self.wire.clock)
        result = await operation.call(self.wire.handler, params, context, attendance.is_present)
        body = operation.to_json(result, params)
        self._audit.done(visit, result)
        if operation.name == 'GetExtendedAgentCard':
            etag = tag_of_card(result, body)
            await answer_cached(call, body, self.media_type(call), EXTENDED_CARD_CACHING, admission.headers, etag=etag)
        else:
            await call.answer(200, body, self.media_type(call), admission.headers)

    async def _stream(
        self, call: HttpCall, admission: Admission, operation: Operation, params: Any, context: Any, visit: Visit
    ) -> None:
        wire, sequenced = self.wire, admission.wants_sequence
        opened = operation.open(wire.handler, params, context, admission.after(operation))
        stream = wire.doors.told(visit, opened, starts_at_once=operation.starts_at_once)
        write = wire.event_writer(operation)

        def data(item: Shown) -> bytes:
            return write(item, sequenced)

        def error_data(error: A2AError) -> bytes:
            return self.error_body(wire.dialect.told(error))

        between = wire.dialect.between
        events = EventStream(call, wire.settings, wire.clock, data, error_data, admission.headers, between)
        await events.run(stream, starts_at_once=operation.starts_at_once)

    async def read(self, call: HttpCall, route: Route, operation: Operation, query: Query) -> tuple[Any, str]:
        """Returns the request, from path, query and body, and its tenant."""
        if call.method == 'POST':
            given = await read_json(call, self.wire.settings, absent=b'{}')
        else:
            given = read_query((pair for pair in query if pair[0] != 'tenant'), operation.request)
        fields = dict(route.fields)
        asked = [('the query', value) for name, value in query if name == 'tenant']
        tenant = one_tenant([('the path', fields.pop('tenant', '')), *asked])
        params = decode(given, operation)
        for name, value in fields.items():
            field = operation.request.DESCRIPTOR.fields_by_camelcase_name[name].name
            if call.method == 'POST' and getattr(params, field) not in ('', value):
                raise InvalidFieldError(name, 'is not that of the path')
            setattr(params, field, value)
        tenant = one_tenant([('the URL', tenant), ('the body', params.tenant)])
        params.tenant = tenant
        return params, tenant


def media_type(call: HttpCall) -> str:
    """Returns the type of an answer: A2A's own, unless the client takes plain JSON and says nothing of it."""
    accepted = call.header('accept').lower()
    return JSON if JSON in accepted and A2A_JSON_MEDIA_TYPE not in accepted else A2A_JSON_MEDIA_TYPE


async def refuse(call: HttpCall, error: A2AError) -> None:
    """Answers with an error (section 11.6)."""
    status = edge_status(error) or fault_of(error).http
    with suppress(CallerGoneError):
        await call.answer(status, orjson.dumps(to_status(error, status)), media_type(call), error_headers(error))


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers where nothing else does, a WebSocket before it is one."""
    error = MethodNotFoundError('There is nothing at this path')
    if scope['type'] == 'http':
        await refuse(HttpCall(scope, receive, send), error)
        return

    async def deny(message: Message) -> None:
        await send({**message, 'type': f'websocket.{message["type"]}'})

    await receive()
    if DENIAL in (scope.get('extensions') or {}):
        await refuse(HttpCall({**scope, 'method': 'GET'}, receive, deny), error)
    else:
        with suppress(OSError):
            await send({'type': 'websocket.close'})
