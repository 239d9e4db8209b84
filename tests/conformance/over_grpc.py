"""gRPC by the generated stubs; requests that are no messages go out as bytes."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
from a2a.types import a2a_pb2, a2a_pb2_grpc
from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from tests.conformance.errors import Error, Json
from tests.conformance.wire import Answer, Binding, Event, Pairs, Refused, Stream, Wire, with_version

SERVICE = a2a_pb2.DESCRIPTOR.services_by_name['A2AService']
KNOWN_DETAILS = error_details_pb2.DESCRIPTOR
"""Importing the module lets `json_format` read the details of errors."""


class GrpcStream(Stream):
    """The messages of a call."""

    def __init__(self, call: Any) -> None:
        self.headers: Mapping[str, str] = {}
        self._call = call

    async def next(self) -> Event | None:
        try:
            response = await self._call.read()
            self.headers = pairs_of(await self._call.initial_metadata())
        except grpc.aio.AioRpcError as error:
            raise Refused(error_of(error)) from None
        if response is grpc.aio.EOF:
            if await self._call.code() != grpc.StatusCode.OK:
                raise Refused(await error_of_call(self._call))
            return None
        return Event(to_json(response))


class GrpcWire(Wire):
    """gRPC (section 10)."""

    binding = Binding.GRPC

    async def call(
        self, operation: str, params: Json | None = None, *, version: str | None = '1.0', headers: Pairs = ()
    ) -> Answer:
        stub = a2a_pb2_grpc.A2AServiceStub(self.service.channel)  # type: ignore[no-untyped-call]
        call = getattr(stub, operation)(request_of(operation, params or {}), metadata=metadata(version, headers))
        return await answer_of(call)

    async def call_bytes(self, operation: str, body: bytes) -> Answer:
        """Calls an operation with any bytes as the request."""
        method: Any = self.service.channel.unary_unary(f'/{SERVICE.full_name}/{operation}')
        return await answer_of(method(body, metadata=metadata('1.0', ())))

    @asynccontextmanager
    async def open(
        self, operation: str, params: Json, *, version: str | None = '1.0', headers: Pairs = ()
    ) -> AsyncIterator[GrpcStream]:
        stub = a2a_pb2_grpc.A2AServiceStub(self.service.channel)  # type: ignore[no-untyped-call]
        call = getattr(stub, operation)(request_of(operation, params), metadata=metadata(version, headers))
        try:
            yield GrpcStream(call)
        finally:
            call.cancel()


async def answer_of(call: Any) -> Answer:
    try:
        response = await call
    except grpc.aio.AioRpcError as error:
        return Answer(None, error_of(error), pairs_of(error.initial_metadata()))
    result = to_json(response) if isinstance(response, Message) else {}
    return Answer(result, None, pairs_of(await call.initial_metadata()))


def metadata(version: str | None, headers: Pairs) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in with_version(version, headers)]


def request_of(operation: str, params: Json) -> Message:
    """Returns the request that JSON describes; unlike a JSON binding's server, lets unknown enum numbers pass."""
    kind = SERVICE.methods_by_name[operation].input_type
    request: Message = getattr(a2a_pb2, kind.name)()
    return json_format.ParseDict(params, request)


def to_json(message: Message) -> Json:
    result: Json = json_format.MessageToDict(message)
    return result


def pairs_of(given: Any) -> Mapping[str, str]:
    """Returns metadata; a name that comes twice has its values joined, as HTTP does."""
    pairs: dict[str, str] = {}
    for name, value in given or ():
        if isinstance(value, str):
            pairs[name] = f'{pairs[name]}, {value}' if name in pairs else value
    return pairs


def error_of(error: grpc.aio.AioRpcError) -> Error:
    return _error(error.code(), error.details(), error.trailing_metadata())


async def error_of_call(call: Any) -> Error:
    return _error(await call.code(), await call.details(), await call.trailing_metadata())


def _error(code: grpc.StatusCode, text: str | None, trailing: Any) -> Error:
    details: list[Json] = []
    for name, value in trailing or ():
        if name == 'grpc-status-details-bin':
            status = status_pb2.Status.FromString(value)
            assert (status.code, status.message) == (code.value[0], text), status
            details = [to_json(detail) for detail in status.details]
    return Error(text or '', details, grpc=code.name)
