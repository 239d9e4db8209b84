"""gRPC (A2A 1.0, section 10): every operation as a method of `lf.a2a.v1.A2AService`.

Requests and answers stay bytes as far as gRPC is concerned: a malformed request gets an error of the protocol, and what
a stream shows goes out as it lies in the journal. Each method takes its request as a stream, of which it reads the one
message that clients send: gRPC would wait for it for ever, before anybody has asked who calls. Called by whoever serves
gRPC; nothing here is imported from gRPC, which is an extra of the package, before it is.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Final

from a2a.auth.user import UnauthenticatedUser
from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2
from a2a.utils.errors import InvalidRequestError
from google.protobuf.message import DecodeError

from a2a_scribe.auth.principals import IncomingCall, Principal
from a2a_scribe.protocol.faults import TooLargeError, fault_of
from a2a_scribe.protocol.service_parameters import service_parameters
from a2a_scribe.protocol.size import check_binary
from a2a_scribe.transport.asgi import SlowBodyError
from a2a_scribe.transport.audit import Visit
from a2a_scribe.transport.authentication import note_principal
from a2a_scribe.transport.calls import Admission, Wire, note_key
from a2a_scribe.transport.faults import as_a2a_error, challenges, to_grpc_status
from a2a_scribe.transport.grpc_peers import Call, Caller, host_of
from a2a_scribe.transport.operations import OPERATIONS, Operation

SERVICE: Final = a2a_pb2.DESCRIPTOR.services_by_name['A2AService'].full_name
METADATA_BYTES: Final = 64_000
"""Of one call; HTTP servers take about as much in the head of a request."""
DETAILS: Final = 'grpc-status-details-bin'

ContextBuilder = Callable[[Call], ServerCallContext]
"""Turns gRPC's context of a call into that of `a2a-sdk`: who calls."""


class GrpcBinding:
    """The service, as handlers of its methods."""

    def __init__(
        self,
        wire: Wire,
        context_builder: ContextBuilder | None = None,
        service: str = SERVICE,
        operations: Mapping[str, Operation] = OPERATIONS,
    ) -> None:
        """Takes what the bindings share, a user's way to tell who calls, and the service's name and methods."""
        self._wire = wire
        self._audit = wire.doors.audit
        self._service = service
        self._operations = operations
        self._build = context_builder or _default_context

    def handlers(self, grpc: Any) -> Any:
        """Returns what a server of the module `grpc` is given."""
        codes = grpc.StatusCode
        methods = {
            name: grpc.stream_stream_rpc_method_handler(self._stream(name, operation, codes))
            if operation.is_stream
            else grpc.stream_unary_rpc_method_handler(self._unary(name, operation, codes))
            for name, operation in self._operations.items()
        }
        return grpc.method_handlers_generic_handler(self._service, methods)

    def _unary(self, name: str, operation: Operation, codes: Any) -> Callable[[object, Call], Awaitable[bytes]]:
        assert operation.call is not None
        answer = operation.call

        async def handle(_: object, own: Call) -> bytes:
            call = Caller(own)
            with self._audited(call, operation) as visit:
                try:
                    params, context, _ = await self._begin(call, name, operation, visit)
                    result = await answer(self._wire.handler, params, context, _present)
                    body = operation.to_binary(result)
                    self._audit.done(visit, result)
                    return body
                except Exception as error:
                    await self._abort(call, error, codes, visit)
                    raise

        return handle

    def _stream(self, name: str, operation: Operation, codes: Any) -> Callable[[object, Call], AsyncIterator[bytes]]:
        async def handle(_: object, own: Call) -> AsyncIterator[bytes]:
            call = Caller(own)
            with self._audited(call, operation) as visit:
                try:
                    params, context, admission = await self._begin(call, name, operation, visit)
                    sequenced = admission.wants_sequence
                    with self._wire.doors.stream(visit):
                        opened = operation.open(self._wire.handler, params, context, admission.after(operation))
                        stream = self._wire.doors.told(visit, opened, starts_at_once=operation.starts_at_once)
                        async with aclosing(stream) as batches:
                            async for batch in batches:
                                for item in batch:
                                    yield operation.event_to_binary(item, sequenced)
                except Exception as error:  # noqa: BLE001 - as above
                    await self._abort(call, error, codes, visit)

        return handle

    @contextmanager
    def _audited(self, call: Call, operation: Operation) -> Iterator[Visit]:
        """Notes also the call that gRPC cancels because its client has gone."""
        visit = Visit('GRPC', host_of(call.peer()), operation=operation.name)
        try:
            yield visit
        except asyncio.CancelledError:
            self._audit.left(visit)
            raise

    def _owner_of(self, call: Call, principal: Principal | None) -> str:
        """Returns the owner; empty if the user's builder refuses the call, which is then refused once more."""
        try:
            context = self._build(call)
            note_principal(context, principal)
            return self._wire.handler.owner_of(context)
        except Exception:  # noqa: BLE001 - code of the user's
            return ''

    async def _begin(
        self, call: Call, name: str, operation: Operation, visit: Visit
    ) -> tuple[Any, ServerCallContext, Admission]:
        """Lets a call of the method `name` in and reads its request."""
        metadata = _metadata(call)
        # gRPC refuses what has more than a quarter above its limit; sometimes it does not, by how the bytes come.
        if sum(len(name) + len(value) for name, value in metadata) > 2 * METADATA_BYTES:
            raise TooLargeError('The metadata of the call is too large')
        principal = await self._wire.identify(_incoming(call, metadata, f'/{self._service}/{name}'))
        self._wire.doors.enter(visit, lambda: self._owner_of(call, principal))
        admission = self._wire.admit(service_parameters(metadata))
        data = await read_message(call, self._wire.settings.body_timeout)
        try:
            check_binary(data, operation.request, self._wire.settings.request_values)
            given = operation.request.FromString(data)
        except DecodeError:
            raise InvalidRequestError('The request is not valid protobuf') from None
        params = operation.read(given)
        if admission.activated:
            await call.send_initial_metadata([(name.lower(), value) for name, value in admission.headers])
        context = self._build(call)
        context.requested_extensions |= admission.parameters.extensions
        note_principal(context, principal)
        note_key(context, admission)
        context.tenant = context.tenant or getattr(params, 'tenant', '')
        visit.asks(operation.name, params, context.tenant)
        return params, context, admission

    async def _abort(self, call: Call, error: Exception, codes: Any, visit: Visit) -> None:
        """Ends a call with an error (section 10.6)."""
        told = as_a2a_error(error)
        self._audit.refused(visit, told)
        told = self._wire.dialect.told(told)
        status = to_grpc_status(told)
        code = codes[fault_of(told).grpc]
        await call.abort(code, status.message, ((DETAILS, status.SerializeToString()), *challenges(told)))


async def read_message(call: Call, patience: float) -> bytes:
    """Returns the one message of a request.

    Raises:
        SlowBodyError: It did not come within `patience` seconds.
        InvalidRequestError: There is none.
    """
    try:
        async with asyncio.timeout(patience):
            data = await call.read()
    except TimeoutError:
        raise SlowBodyError from None
    if not isinstance(data, bytes):
        raise InvalidRequestError('The request has no message')
    return data


async def _present() -> bool:
    """gRPC itself cancels the handler of a call whose client has gone."""
    return True


def _default_context(call: Call) -> ServerCallContext:
    """Returns a context with what users of `a2a-sdk` find in its own, and the metadata as headers."""
    state = {'grpc_context': call, 'headers': dict(_metadata(call))}
    return ServerCallContext(user=UnauthenticatedUser(), state=state)


def _metadata(call: Call) -> list[tuple[str, str]]:
    """Returns the metadata of a call that is text."""
    return [(name, value) for name, value in call.invocation_metadata() or () if isinstance(value, str)]


def _incoming(call: Call, metadata: list[tuple[str, str]], method: str) -> IncomingCall:
    """Returns what is known of a call."""
    return IncomingCall('GRPC', metadata, host_of(call.peer()), method)
