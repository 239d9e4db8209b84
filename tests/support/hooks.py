"""Receivers of webhooks on loopback: a server so small that it measures what is sent, and not itself."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from tests.support.proxy import HOST

SETTINGS: Final[Mapping[str, Any]] = {'webhook_allow': '127.0.0.1'}
"""What a server has to be told so that it calls receivers on loopback."""
Answer = Callable[[str], Awaitable[int] | int]
"""Returns the status for a path."""
HEAD_END = b'\r\n\r\n'


class Hook(NamedTuple):
    """One call."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float
    """Seconds on the monotonic clock, the same in all processes."""
    wall: float
    """Seconds since the epoch."""
    status: int
    """With which it was answered."""

    @property
    def task_id(self) -> str:
        return self.headers['x-a2a-event-id'].rpartition('/')[0]

    @property
    def seq(self) -> int:
        return int(self.headers['x-a2a-event-id'].rpartition('/')[2])

    @property
    def event(self) -> Any:
        return json.loads(self.body)

    @property
    def delay(self) -> float:
        """Seconds between the status that an event tells of and the call."""
        ((_, value),) = self.event.items()
        moment = datetime.fromisoformat(value['status']['timestamp'])
        return self.wall - moment.timestamp()

    @property
    def state(self) -> str:
        """The state that an event tells of, empty for a piece of an artifact."""
        ((_, value),) = self.event.items()
        state: str = value.get('status', {}).get('state', '')
        return state.removeprefix('TASK_STATE_')


@dataclass
class Hooks:
    """All that a server of webhooks was sent."""

    url: str = ''
    answer: Answer = lambda _: 200
    calls: list[Hook] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    connections: set[asyncio.Transport] = field(default_factory=set)

    async def until(self, wanted: Callable[[], bool]) -> None:
        """Waits until what has come is enough."""
        while not wanted():
            self.came.clear()
            await self.came.wait()

    def taken(self) -> list[Hook]:
        """The calls that were answered well."""
        return [call for call in self.calls if call.status == 200]

    def ended(self) -> set[str]:
        """The tasks of whose end the receiver knows."""
        return {call.task_id for call in self.taken() if call.state in ('COMPLETED', 'FAILED')}


class _Connection(asyncio.Protocol):
    """One connection; calls on it are answered one after another."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._received = b''
        self._answering: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._hooks.connections.add(transport)
        self._hooks.came.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._hooks.connections.discard(self._transport)
        if self._answering is not None:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, rest = self._received.partition(HEAD_END)
        if not end:
            return
        first, *lines = head.decode('latin-1').split('\r\n')
        headers = {name.lower(): value for name, _, value in (line.partition(': ') for line in lines)}
        length = int(headers.get('content-length', 0))
        if len(rest) < length:
            return
        self._received = rest[length:]
        path, at = first.split(' ')[1], (time.monotonic(), time.time())
        answer = self._hooks.answer(path)
        if isinstance(answer, int):
            self._take(Hook(path, headers, rest[:length], *at, answer))
        else:
            self._answering = asyncio.ensure_future(self._answer_later(answer, path, headers, rest[:length], at))

    async def _answer_later(
        self, answer: Awaitable[int], path: str, headers: Mapping[str, str], body: bytes, at: tuple[float, float]
    ) -> None:
        self._take(Hook(path, headers, body, *at, await answer))

    def _take(self, hook: Hook) -> None:
        self._hooks.calls.append(hook)
        self._hooks.came.set()
        self._transport.write(b'HTTP/1.1 %d Whatever\r\nContent-Length: 0\r\n\r\n' % hook.status)


@asynccontextmanager
async def receiving() -> AsyncIterator[Hooks]:
    """A receiver that listens; what it is sent is taken with 200 unless a test says otherwise."""
    hooks = Hooks()
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(hooks), HOST, 0)
    hooks.url = f'http://{HOST}:{server.sockets[0].getsockname()[1]}'
    try:
        yield hooks
    finally:
        server.close()
        for connection in tuple(hooks.connections):
            connection.close()
