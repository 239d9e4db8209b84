"""Many messages at once, each over a connection of its own or all over one, and what became of each.

    python -m tests.support.crowds BINDING PORT COUNT OWNER

prints the outcomes as JSON. A crowd is a process of its own so that it does not slow down who measures others.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
from a2a.types import a2a_pb2_grpc
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest
from google.protobuf.json_format import MessageToDict
from google.rpc import error_details_pb2, status_pb2

from a2a_scribe.ids import UuidSource
from a2a_scribe.protocol.states import COMPLETED
from tests.support.proxy import HOST
from tests.support.streaming import GRPC, JSON_RPC, OWN_CONNECTION, REST

ROOT: Final = Path(__file__).parents[2]
IDS: Final = UuidSource()
OWNER: Final = 'x-owner'
HUNG: Final = 90.0
"""Seconds after which nobody believes that an answer will come."""
SERVED, REFUSED = 'served', 'refused'
UNAVAILABLE: Final = 503
INTERNAL: Final = -32603


class Outcome(NamedTuple):
    """What became of one message."""

    answer: str
    """`served`, `refused` with all that a refusal has to say, or what else came."""
    seconds: float


class Answer(NamedTuple):
    """An answer of HTTP."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any]


Send = Callable[[int, str], Awaitable[str]]
"""Sends one message to a port for an owner, and returns what came."""


def new_request() -> SendMessageRequest:
    return SendMessageRequest(message=Message(role=Role.ROLE_USER, message_id=IDS.new(), parts=[Part(text='work')]))


async def post(port: int, owner: str, path: str, content: Mapping[str, Any]) -> Answer:
    """Makes one request of HTTP over a new connection."""
    body = json.dumps(content).encode()
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        head = {
            'Host': f'{HOST}:{port}',
            'Connection': 'close',
            'Content-Type': 'application/json',
            'Content-Length': f'{len(body)}',
            'A2A-Version': '1.0',
            OWNER: owner,
        }
        lines = [f'POST {path} HTTP/1.1', *(f'{name}: {value}' for name, value in head.items()), '', '']
        writer.write('\r\n'.join(lines).encode() + body)
        answer = await reader.read(-1)
    finally:
        writer.close()
    head_bytes, _, answer_body = answer.partition(b'\r\n\r\n')
    first, *rest = head_bytes.decode().split('\r\n')
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(':') for line in rest)}
    return Answer(int(first.split()[1]), headers, json.loads(answer_body))


async def send_rest(port: int, owner: str) -> str:
    """Over HTTP+JSON."""
    answer = await post(port, owner, '/message:send', MessageToDict(new_request()))
    if answer.status == UNAVAILABLE and 'retry-after' in answer.headers:
        return REFUSED
    return _served(answer.body.get('task'), answer)


async def send_jsonrpc(port: int, owner: str) -> str:
    """Over JSON-RPC."""
    call = {'jsonrpc': '2.0', 'id': 1, 'method': 'SendMessage', 'params': MessageToDict(new_request())}
    answer = await post(port, owner, '/', call)
    if answer.body.get('error', {}).get('code') == INTERNAL and 'retry-after' in answer.headers:
        return REFUSED
    return _served(answer.body.get('result', {}).get('task'), answer)


def _served(task: dict[str, Any] | None, answer: Answer) -> str:
    is_completed = task is not None and task['status']['state'] == 'TASK_STATE_COMPLETED'
    return SERVED if is_completed else f'{answer.status} {answer.body}'


async def send_grpc(port: int, owner: str) -> str:
    """Over gRPC."""
    async with grpc.aio.insecure_channel(f'{HOST}:{port}', options=OWN_CONNECTION) as channel:
        return await _call(channel, owner)


async def send_shared(port: int, owner: str) -> str:
    """Over the one connection that all have of one process."""
    return await _call(_shared_channel(port), owner)


@cache
def _shared_channel(port: int) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(f'{HOST}:{port}', options=OWN_CONNECTION)


async def _call(channel: grpc.aio.Channel, owner: str) -> str:
    stub = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
    try:
        answer = await stub.SendMessage(new_request(), metadata=[('a2a-version', '1.0'), (OWNER, owner)])
    except grpc.aio.AioRpcError as error:
        is_clear = error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and _says_when(error)
        return REFUSED if is_clear else f'{error.code()} {error.details()}'
    return SERVED if answer.task.status.state == COMPLETED else str(answer)


def _says_when(error: grpc.aio.AioRpcError) -> bool:
    """Whether a refusal says when to come back."""
    details = dict(error.trailing_metadata() or ()).get('grpc-status-details-bin', b'')
    status = status_pb2.Status.FromString(details if isinstance(details, bytes) else b'')
    return any(detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR) for detail in status.details)


SHARED: Final = 'GRPC-one-connection'
SENDERS: Final[Mapping[str, Send]] = {REST: send_rest, JSON_RPC: send_jsonrpc, GRPC: send_grpc, SHARED: send_shared}


async def outcome_of(send: Send, port: int, owner: str) -> Outcome:
    """Sends one message, and waits for what becomes of it."""
    began = time.perf_counter()
    try:
        async with asyncio.timeout(HUNG):
            answer = await send(port, owner)
    except TimeoutError:
        answer = 'hung'
    except (OSError, ValueError, IndexError) as error:
        answer = repr(error)
    return Outcome(answer, time.perf_counter() - began)


async def crowd(binding: str, port: int, count: int, owner: str) -> list[Outcome]:
    """Has a process send so many messages at once."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, '-m', 'tests.support.crowds', binding, f'{port}', f'{count}', owner),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    told, _ = await process.communicate()
    assert process.returncode == 0
    return [Outcome(*each) for each in json.loads(told)]


async def main(binding: str, port: str, count: str, owner: str) -> None:
    send = SENDERS[binding]
    outcomes = await asyncio.gather(*(outcome_of(send, int(port), owner) for _ in range(int(count))))
    print(json.dumps(outcomes))


if __name__ == '__main__':
    asyncio.run(main(*sys.argv[1:]))
