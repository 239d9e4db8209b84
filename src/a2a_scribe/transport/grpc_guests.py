"""Calls of gRPC that are answered without asking who calls: health and reflection.

gRPC counts them with all others, and they may last: whoever opens enough of them keeps everybody out. So there is room
for some, and when it is full, the oldest goes that comes from where most of them come from.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from a2a.utils.errors import InvalidRequestError
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage

from a2a_scribe.settings import Settings
from a2a_scribe.transport.grpc import read_message
from a2a_scribe.transport.grpc_peers import Call, host_of, peer_of

MOST: Final = 100
"""As long as these are no more than half of all calls that there may be."""
GO: Final = 'There are too many calls of this kind'

Answer = Callable[[Any, Call], Awaitable[Any]]
Answers = Callable[[Any, Call], AsyncGenerator[Any, None]]


class Guests:
    """Those who call, and handlers that let them in."""

    def __init__(self, settings: Settings, codes: Any) -> None:
        """Takes how many calls there may be, how long a request may take, and gRPC's statuses."""
        self._most = max(1, min(MOST, settings.max_connections // 2))
        self._patience = settings.body_timeout
        self._codes = codes
        self._stays: dict[asyncio.Timeout, str] = {}
        """The oldest first, with where each comes from."""

    def once(self, answer: Answer, request: type[ProtoMessage]) -> Callable[[object, Call], Awaitable[Any]]:
        """Returns a handler that answers one message with one."""

        async def handle(_: object, call: Call) -> Any:
            async with self._stay(call):
                return await answer(await self._read(call, request), call)

        return handle

    def several(self, answers: Answers, request: type[ProtoMessage]) -> Callable[[object, Call], AsyncIterator[Any]]:
        """Returns a handler that answers one message with a stream."""

        async def handle(_: object, call: Call) -> AsyncIterator[Any]:
            async with self._stay(call), aclosing(answers(await self._read(call, request), call)) as found:
                async for each in found:
                    yield each

        return handle

    def conversation(self, answers: Answers) -> Callable[[Any, Call], AsyncIterator[Any]]:
        """Returns a handler that answers a stream with a stream."""

        async def handle(requests: Any, call: Call) -> AsyncIterator[Any]:
            async with self._stay(call), aclosing(answers(requests, call)) as found:
                async for each in found:
                    yield each

        return handle

    @asynccontextmanager
    async def _stay(self, call: Call) -> AsyncIterator[None]:
        """Has room for a call, which is ended when it has to go for another."""
        if len(self._stays) >= self._most:
            self._make_room()
        try:
            async with asyncio.timeout(None) as end:
                self._stays[end] = host_of(peer_of(call))
                try:
                    yield
                finally:
                    self._stays.pop(end, None)
        except TimeoutError:
            await call.abort(self._codes.RESOURCE_EXHAUSTED, GO)

    def _make_room(self) -> None:
        of_host = Counter(self._stays.values())
        end = max(self._stays, key=lambda each: of_host[self._stays[each]])
        del self._stays[end]
        end.reschedule(asyncio.get_running_loop().time())

    async def _read(self, call: Call, request: type[ProtoMessage]) -> Any:
        try:
            return request.FromString(await read_message(call, self._patience))
        except InvalidRequestError as error:
            await call.abort(self._codes.INVALID_ARGUMENT, error.message)
        except DecodeError:
            await call.abort(self._codes.INVALID_ARGUMENT, 'The request is not valid protobuf')
