"""One HTTP request as the bindings see it, over plain ASGI: reading it within bounds, and answering it once.

Nothing here knows A2A. A client that has gone away is noticed while its answer is waited for, by asking now and then:
a task that listens for it would cost more than most answers do.
"""

import asyncio
import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qsl

from a2a.utils.errors import A2AError, InvalidRequestError, MethodNotFoundError
from starlette.types import Message, Receive, Scope, Send

from a2a_scribe.auth.principals import Principal
from a2a_scribe.errors import CallerGoneError
from a2a_scribe.protocol.faults import (
    PermissionDeniedError,
    RateError,
    TooLargeError,
    TooLargeFieldError,
    TooManyStreamsError,
    TooManyStreamsOfCallerError,
    UnauthenticatedError,
)

JSON: Final = 'application/json'
MAX_QUERY_FIELDS: Final = 100
MAX_DIGITS: Final = 18
SLASH: Final = re.compile('/')
ENCODED_SLASH: Final = re.compile('/|%2f', re.IGNORECASE)
"""What a path is decoded from may have slashes of both kinds where the path has one."""
PATIENCE: Final = 0.005
"""Seconds that a server is given to say whether the client is there. One that knows says so at once; where middleware
stands between, its answer takes some steps of the loop."""
CLOSED: Final = 'handler is closed'
"""What uvloop says of a connection that is gone, when uvicorn writes before it has been told."""

BYTES_PER_SECOND: Final = 10_000
"""What a body may take more time for."""
SAFE_HEADERS: Final = ((b'x-content-type-options', b'nosniff'), (b'referrer-policy', b'no-referrer'))
"""What every answer says to browsers."""
NOT_STORED: Final = (b'cache-control', b'no-store')
"""What answers say that do not say otherwise: tasks are nobody's but their owner's."""

Headers = Iterable[tuple[str, str]]


class MediaTypeError(InvalidRequestError):
    """The body must be JSON, and say so in its Content-Type."""

    message = 'The Content-Type must be application/json or application/a2a+json'


class SlowBodyError(InvalidRequestError):
    """The body of the request takes too long to arrive."""

    message = 'The body of the request took too long to arrive (body_timeout)'


class NotAllowedError(MethodNotFoundError):
    """The path is not for this HTTP method."""

    def __init__(self, allowed: Iterable[str]) -> None:
        """Takes the methods that the path is for."""
        self.allowed = ', '.join(allowed)
        super().__init__(f'The path is for {self.allowed}')


CLIENT_GONE: Final = 499
"""The status of an answer that nobody reads: what proxies write into their logs for it."""
EDGE_STATUSES: Final[dict[type[A2AError], int]] = {
    MediaTypeError: 415,
    TooLargeError: 413,
    TooLargeFieldError: 413,
    SlowBodyError: 408,
    RateError: 429,
    TooManyStreamsOfCallerError: 429,
    TooManyStreamsError: 503,
    NotAllowedError: 405,
    UnauthenticatedError: 401,
    PermissionDeniedError: 403,
}
"""Errors of HTTP itself, which have a status of their own on both of its bindings."""


def edge_status(error: A2AError) -> int | None:
    """Returns the status that an error has on both bindings, by the nearest class that it inherits from, if any."""
    return next((EDGE_STATUSES[kind] for kind in type(error).__mro__ if kind in EDGE_STATUSES), None)


class HttpCall:
    """A request and its answer."""

    __slots__ = ('_begun', '_gone', '_is_unread', '_receive', '_scope', '_send', 'headers', 'principal')

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Takes what ASGI hands over."""
        self._scope = scope
        self._receive = receive
        self._send = send
        self._begun = self._gone = self._is_unread = False
        self.headers = [(name.decode('latin-1'), value.decode('latin-1')) for name, value in scope['headers']]
        """Names in lower case, as ASGI has them."""
        self.principal: Principal | None = None
        """Whom the request comes from, once that has been found out."""

    @property
    def scope(self) -> Scope:
        """What ASGI says of the request."""
        return self._scope

    @property
    def method(self) -> str:
        """The HTTP method."""
        method: str = self._scope['method']
        return method

    def header(self, name: str) -> str:
        """Returns a header by its name in lower case, empty if there is none."""
        return next((value for given, value in self.headers if given == name), '')

    def query(self) -> list[tuple[str, str]]:
        """Returns names and values of the query, decoded. Raises: InvalidRequestError."""
        text = self._scope.get('query_string', b'')
        if not text:
            return []
        try:
            return parse_qsl(
                text.decode('ascii'), keep_blank_values=True, errors='strict', max_num_fields=MAX_QUERY_FIELDS
            )
        except ValueError:
            raise InvalidRequestError('The query is not valid') from None

    def segments(self) -> str:
        """Returns the path below where the app is mounted, still percent-encoded, without its last slash."""
        root = str(self._scope.get('root_path', '')).rstrip('/')
        raw = self._scope.get('raw_path')
        path = str(self._scope['path']) if raw is None else raw.decode('latin-1')
        if root and f'{self._scope["path"]}/'.startswith(f'{root}/'):
            above = root.count('/') + 1
            path = '/' + ''.join((SLASH if raw is None else ENCODED_SLASH).split(path, above)[above:])
        return path if path == '/' else path.removesuffix('/')

    def check_media_type(self) -> None:
        """Refuses a body that says it is something else than JSON. Raises: MediaTypeError."""
        kind = self.header('content-type').partition(';')[0].strip().lower()
        if kind and kind != JSON and not (kind.startswith('application/') and kind.endswith('+json')):
            raise MediaTypeError

    async def body(self, limit: int, patience: float = math.inf) -> bytes:
        """Reads the body, for `patience` seconds, and one more for each 10,000 bytes of it.

        Raises:
            TooLargeError: It has more than `limit` bytes; it is not read to its end.
            SlowBodyError: It did not come in time.
            CallerGoneError: The client went away.
        """
        announced = self.header('content-length').lstrip('0')
        if announced.isascii() and announced.isdigit() and (len(announced) > MAX_DIGITS or int(announced) > limit):
            raise TooLargeError
        try:
            async with asyncio.timeout(None if patience == math.inf else patience) as deadline:
                return await self._read(limit, deadline)
        except TimeoutError:
            self._is_unread = True
            raise SlowBodyError from None

    async def _read(self, limit: int, deadline: asyncio.Timeout) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message['type'] == 'http.disconnect':
                raise CallerGoneError
            part = message.get('body', b'')
            size += len(part)
            if size > limit:
                raise TooLargeError
            parts.append(part)
            if not message.get('more_body', False):
                return parts[0] if len(parts) == 1 else b''.join(parts)
            if (when := deadline.when()) is not None:
                deadline.reschedule(when + len(part) / BYTES_PER_SECOND)

    async def is_present(self) -> bool:
        """Whether the client still waits. To be asked after the body was read."""
        if not self._gone:
            try:
                async with asyncio.timeout(PATIENCE):
                    self._gone = (await self._receive())['type'] == 'http.disconnect'
            except TimeoutError:
                return True
        return not self._gone

    async def answer(self, status: int, body: bytes, media_type: str = '', headers: Headers = ()) -> None:
        """Sends the whole answer."""
        length = [] if status in (204, 304) else [('content-length', str(len(body)))]
        kind = [('content-type', media_type)] if media_type else []
        await self.start(status, [*kind, *length, *headers])
        await self.part(b'' if self.method == 'HEAD' else body, more=False)

    async def leave(self) -> None:
        """Ends the call of a client that has gone: middleware takes it for a fault if there is no answer at all."""
        if not self._begun:
            with suppress(CallerGoneError):
                await self.answer(CLIENT_GONE, b'')

    async def start(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Sends the head of an answer that comes in parts."""
        self._begun = True
        encoded = [(name.encode('latin-1'), value.encode('latin-1', 'replace')) for name, value in headers]
        if not any(name == 'cache-control' for name, _ in headers):
            encoded.append(NOT_STORED)
        if self._is_unread and self._scope.get('http_version', '1.1').startswith('1.'):
            encoded.append((b'connection', b'close'))
        encoded += SAFE_HEADERS
        await self._pass({'type': 'http.response.start', 'status': status, 'headers': encoded})

    async def part(self, body: bytes, *, more: bool = True) -> None:
        """Sends a part of the answer, when the client has room for it."""
        await self._pass({'type': 'http.response.body', 'body': body, 'more_body': more})

    async def _pass(self, message: Message) -> None:
        """Hands a message to the server. Raises: CallerGoneError."""
        try:
            await self._send(message)
        except (OSError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and CLOSED not in str(error):
                raise
            self._gone = True
            raise CallerGoneError from error
