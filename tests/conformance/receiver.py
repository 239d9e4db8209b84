"""A webhook on loopback that keeps what it is sent, and answers as a check wants it to."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tests.conformance.site import serving_http
from tests.conformance.wire import Event

PATIENCE = 0.2
"""Seconds that a receiver waits for its first call, few while none comes; later ones may take as long as the test."""


@dataclass(frozen=True)
class Call:
    """One request of the server."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    event: Event


class Receiver:
    """A webhook at `url`."""

    def __init__(self, url: str = '') -> None:
        """Makes one that answers with 200 at once."""
        self.url = url
        self.answers: list[Response] = []
        """What the next calls are answered with, in place of 200."""
        self.gate = asyncio.Event()
        """Where calls wait for their answer; open, unless a check shuts it."""
        self.gate.set()
        self.calls: list[Call] = []
        """All that came so far."""
        self._new: asyncio.Queue[Call] = asyncio.Queue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a call."""
        request = Request(scope, receive)
        body = await request.body()
        event = Event(await request.json())
        call = Call(request.method, request.url.path, request.headers, body, event)
        self.calls.append(call)
        self._new.put_nowait(call)
        answer = self.answers.pop(0) if self.answers else Response()
        await self.gate.wait()
        await answer(scope, receive, send)

    async def next(self) -> Call:
        """Takes the next call."""
        async with asyncio.timeout(PATIENCE if not self.calls else None):
            return await self._new.get()

    async def until(self, wanted: Callable[[Call], bool]) -> list[Call]:
        """Takes calls up to one that is wanted."""
        calls = [await self.next()]
        while not wanted(calls[-1]):
            calls.append(await self.next())
        return calls

    async def until_state(self, state: str) -> list[Call]:
        """Takes calls up to a state."""
        return await self.until(lambda call: call.event.state == state)

    def config(self, **fields: Any) -> dict[str, Any]:
        """A push config that names this receiver."""
        return {'url': f'{self.url}/hook', **fields}

    def inline(self, **fields: Any) -> dict[str, Any]:
        """The configuration of a message that brings such a config."""
        return {'taskPushNotificationConfig': self.config(**fields)}


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver that listens; what waits for an answer at the end has it."""
    receiver = Receiver()
    async with serving_http(receiver) as url:
        receiver.url = url
        try:
            yield receiver
        finally:
            receiver.gate.set()
