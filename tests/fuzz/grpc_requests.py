"""Requests over gRPC: bytes that are protobuf in most places."""

import random
from dataclasses import dataclass
from typing import Any, Final

import grpc
from a2a.types.a2a_pb2 import Message, Part, SendMessageRequest
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from a2a_scribe.protocol.codec.wire import DELIMITED, FIXED64, delimited, tag, varint
from tests.fuzz.checks import check_grpc_error
from tests.fuzz.http_client import DEADLINE, HangError
from tests.fuzz.http_requests import STRANGE
from tests.fuzz.texts import damaged
from tests.fuzz.valid import REQUESTS, RESPONSES, SENDS, STREAMS, Known, operation, request

Metadata = tuple[tuple[str, str | bytes], ...]
SERVICE: Final = '/lf.a2a.v1.A2AService/'
DETAILS: Final = 'grpc-status-details-bin'
PATIENCE: Final = 0.3
"""Seconds that a stream is read which may well be silent."""
LEVELS: Final = (10, 31, 32, 33, 60, 101, 2000)
NUMBERS: Final = (
    b'\x00',
    b'\x01',
    b'\x7f',
    b'\x80\x01',
    b'\xff' * 9 + b'\x01',
    b'\xff' * 10,
    b'\x80' * 20,
    b'\xff\xff\xff\xff\x07',
)
NOT_FINITE: Final = tuple(
    b'\x11' + tail for tail in (b'\0' * 6 + b'\xf8\x7f', b'\0' * 6 + b'\xf0\x7f', b'\0' * 6 + b'\xf0\xff')
)


@dataclass(frozen=True, slots=True)
class GrpcRequest:
    """What is sent."""

    kind: str
    method: str
    data: bytes
    metadata: Metadata = (('a2a-version', '1.0'),)


def grpc_request(chance: random.Random, known: Known) -> GrpcRequest:
    """Returns a request to one of the methods."""
    kind = chance.choice(
        ('fields', 'fields', 'bytes', 'bytes', 'numbers', 'depth', 'values', 'metadata', 'method', 'good')
    )
    name = operation(chance)
    params: Any = request(name, chance, known)
    if kind == 'fields':
        params = damaged(params, chance)
    data = _encode(REQUESTS[name], params)
    metadata: Metadata = (('a2a-version', '1.0'),)
    match kind:
        case 'bytes':
            data = garbled_fields(data, chance)
        case 'numbers':
            data = data.replace(b'\x08\x01', b'\x08' + chance.choice(NUMBERS)) + _field(chance)
        case 'depth':
            data += _nested(chance)
        case 'values':
            name = chance.choice(SENDS)
            params = request(name, chance, known)
            params['message']['parts'] = [{'text': chance.choice(('hi', 'task', 'ask'))}]
            data = _encode(REQUESTS[name], params) + _message_with_value(chance)
        case 'metadata':
            metadata = tuple(_pair(chance) for _ in range(chance.randrange(4)))
        case 'method':
            name = chance.choice(('', 'Send', 'sendMessage', name + 'x', 'x' * 1000, *REQUESTS))
    if name == 'SubscribeToTask' and chance.random() < 0.5:
        metadata = (*metadata, ('last-event-id', str(chance.choice((0, 100, *known.seqs)))))
    return GrpcRequest(f'gRPC {kind}', name, data, metadata)


def _encode(kind: type[ProtoMessage], params: Any) -> bytes:
    """Returns the bytes of what can be made of it: other damage than protobuf's own belongs to JSON."""
    try:
        return json_format.ParseDict(params, kind(), ignore_unknown_fields=True).SerializeToString()
    except (json_format.ParseError, TypeError, AttributeError, ValueError, SystemError, DecodeError):
        return b''


def garbled_fields(data: bytes, chance: random.Random) -> bytes:
    """Returns a message in binary form that is changed in one place or a few, and may be none any more."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        place = chance.randrange(len(found) + 1)
        match chance.randrange(6):
            case 0:
                del found[place:]
            case 1:
                found[place : place + 1] = chance.randbytes(1)
            case 2:
                found[place:place] = chance.choice((chance.randbytes(chance.randrange(1, 9)), *NUMBERS))
            case 3:
                del found[place : place + chance.randrange(1, 4)]
            case 4 if place < len(found):
                found[place] ^= 1 << chance.randrange(8)
            case _:
                found += _field(chance)
    return bytes(found)


def _field(chance: random.Random) -> bytes:
    """Returns a field: of a number that may be known, of a wire type that may be right."""
    number, wire_type = chance.choice((1, 2, 3, 4, 5, 6, 7, 8, 15, 100, 2**28)), chance.randrange(8)
    return varint(tag(number, wire_type)) + chance.choice(
        (*NUMBERS, *NOT_FINITE, b'\x02\x08\x01', b'\x04text', chance.randbytes(8))
    )


def _nested(chance: random.Random) -> bytes:
    """Returns the second or third field of a request, nested in itself or as a group."""
    if chance.random() < 0.3:
        depth = chance.choice(LEVELS)
        return b'\xa3\x06' * depth + b'\xa4\x06' * depth
    data = chance.choice((b'', b'\x08\x01', *NOT_FINITE))
    for _ in range(chance.choice(LEVELS)):
        data = delimited(chance.choice((b'\x0a', b'\x12', b'\x2a', b'\x32')), data)
        if len(data) > 60_000:
            break
    return delimited(chance.choice((b'\x12', b'\x1a', b'\x22')), data)


def _message_with_value(chance: random.Random) -> bytes:
    """Returns a message with a value that is too deep, or a number that JSON does not have; protobuf merges it."""
    number = _member(Value, 'number_value', chance.randbytes(8), FIXED64)
    value = chance.choice((*NOT_FINITE, number, number, number))
    levels, structs = chance.choice((0, 10, *range(90, 100))), chance.choice((0, 0.5, 1))
    while levels > 0:
        is_struct = chance.random() < structs
        levels -= 3 if is_struct else 2
        if is_struct:
            value = _member(Value, 'struct_value', _struct(value))
        else:
            value = _member(Value, 'list_value', _member(ListValue, 'values', value))
    match chance.randrange(4):
        case 0:
            return _member(SendMessageRequest, 'metadata', _struct(value))
        case 1:
            held = _member(Message, 'metadata', _struct(value))
        case 2:
            held = _member(Message, 'parts', _member(Part, 'metadata', _struct(value)) + _member(Part, 'text', b'hi'))
        case _:
            held = _member(Message, 'parts', _member(Part, 'data', value))
    return _member(SendMessageRequest, 'message', held)


def _struct(value: bytes) -> bytes:
    return _member(Struct, 'fields', delimited(b'\x0a', b'a') + delimited(b'\x12', value))


def _member(kind: type[ProtoMessage], name: str, body: bytes, wire_type: int = DELIMITED) -> bytes:
    """Returns a field by its name."""
    found = varint(tag(kind.DESCRIPTOR.fields_by_name[name].number, wire_type))
    return delimited(found, body) if wire_type == DELIMITED else found + body


def _pair(chance: random.Random) -> tuple[str, str | bytes]:
    if chance.random() < 0.2:
        return chance.choice(('a2a-version-bin', 'x-bin', 'grpc-trace-bin')), chance.randbytes(chance.randrange(40))
    name = chance.choice(('a2a-version', 'a2a-version', 'a2a-extensions', 'last-event-id', 'authorization', 'x-a'))
    shown = bytes(each for each in chance.choice(STRANGE)[:2000] if 32 <= each < 127)
    return name, chance.choice((shown.decode().strip() or '1.0', '1.0'))


class GrpcClient:
    """One channel to the server."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, options=[('grpc.use_local_subchannel_pool', 1)])

    def close(self) -> None:
        """Closes the channel."""
        self._channel.close()

    def check(self, request: GrpcRequest) -> str:
        """Sends a request and asserts that its answer is one of gRPC's binding; returns the name of its status.

        Raises:
            HangError: None came in time.
        """
        try:
            if request.method in STREAMS:
                self._read(request)
            else:
                call: Any = self._channel.unary_unary(SERVICE + request.method)
                self._look(request, call(request.data, metadata=request.metadata, timeout=DEADLINE))
        except grpc.RpcError as error:
            return self._check_error(request, error)
        return 'OK'

    def _read(self, request: GrpcRequest) -> None:
        may_be_silent = request.method == 'SubscribeToTask'
        call: Any = self._channel.unary_stream(SERVICE + request.method)
        timeout = PATIENCE if may_be_silent else DEADLINE
        stream: Any = call(request.data, metadata=request.metadata, timeout=timeout)
        for data in stream:
            self._look(request, data)
            if may_be_silent or b'WORKING' in data:
                stream.cancel()
                return

    def _look(self, request: GrpcRequest, data: bytes) -> None:
        kind = RESPONSES[request.method]
        try:
            assert data == b'' if kind is None else kind.FromString(data), data
        except DecodeError as error:
            raise AssertionError(f'the answer cannot be read: {error}') from None

    def _check_error(self, request: GrpcRequest, error: Any) -> str:
        code: str = error.code().name
        if code == 'DEADLINE_EXCEEDED':
            if request.method != 'SubscribeToTask':
                raise HangError('no answer in time')
            return code
        if code == 'UNIMPLEMENTED' and request.method not in REQUESTS:
            return code
        details = dict(error.trailing_metadata() or ()).get(DETAILS)
        try:
            check_grpc_error(code, details)
        except AssertionError as failure:
            raise AssertionError(f'{failure}: {error.details()}') from None
        return code
