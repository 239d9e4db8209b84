"""The two HTTP bindings by hand: JSON and server-sent events on httpx, without a client's library."""

import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

from tests.conformance.errors import Error, Json
from tests.conformance.wire import Answer, Binding, Event, Pairs, Refused, Stream, Wire, with_version

numbers = itertools.count(1)


@dataclass
class Frame:
    """One block of a stream of server-sent events."""

    id: str | None = None
    event: str | None = None
    retry: str | None = None
    data: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, lines: list[str]) -> 'Frame':
        frame = cls()
        for line in lines:
            name, _, value = line.partition(':')
            value = value.removeprefix(' ')
            if name in ('data', ''):
                (frame.data if name else frame.comments).append(value)
            else:
                assert name in ('id', 'event', 'retry'), line
                setattr(frame, name, value)
        return frame


class Sse(Stream):
    """Events of an HTTP answer."""

    def __init__(self, wire: 'HttpWire', response: httpx.Response) -> None:
        self.headers = response.headers
        self.frames: list[Frame] = []
        """All that came so far."""
        self._wire = wire
        self._lines = response.aiter_lines()

    async def next_frame(self) -> Frame | None:
        """The next block of lines, comments included."""
        lines: list[str] = []
        async for line in self._lines:
            if line:
                lines.append(line)
            elif lines:
                self.frames.append(Frame.parse(lines))
                return self.frames[-1]
        assert not lines, f'the last event has no end: {lines}'
        return None

    async def next(self) -> Event | None:
        while frame := await self.next_frame():
            if frame.data:
                body = json.loads('\n'.join(frame.data))
                error = self._wire.error_of(body, None)
                assert (error is not None) == (frame.event == 'error'), frame
                if error is not None:
                    raise Refused(error)
                return Event(self._wire.result_of(body), frame.id)
        return None


class HttpWire(Wire):
    """What both have in common."""

    async def request(
        self, method: str, path: str, *, version: str | None = '1.0', headers: Pairs = (), **content: Any
    ) -> httpx.Response:
        """Sends a request as it is given, to a path below the service's URL."""
        given = with_version(version, headers)
        return await self.service.http.request(method, self.service.url + path, headers=given, **content)

    def error_of(self, body: Any, status: int | None) -> Error | None:
        raise NotImplementedError

    def result_of(self, body: Any) -> Json:
        raise NotImplementedError

    def prepare(self, operation: str, params: Json | None) -> Mapping[str, Any]:
        """Returns method, path and content of the request for an operation."""
        raise NotImplementedError

    def answer_of(self, response: httpx.Response) -> Answer:
        body = response.json()
        error = self.error_of(body, response.status_code)
        return Answer(None if error else self.result_of(body), error, response.headers)

    async def call(
        self, operation: str, params: Json | None = None, *, version: str | None = '1.0', headers: Pairs = ()
    ) -> Answer:
        return self.answer_of(await self.request(**self.prepare(operation, params), version=version, headers=headers))

    @asynccontextmanager
    async def open(
        self, operation: str, params: Json, *, version: str | None = '1.0', headers: Pairs = ()
    ) -> AsyncIterator[Sse]:
        prepared = dict(self.prepare(operation, params))
        async with self.open_request(**prepared, version=version, headers=headers) as stream:
            yield stream

    @asynccontextmanager
    async def open_request(
        self, method: str, path: str, *, version: str | None = '1.0', headers: Pairs = (), **content: Any
    ) -> AsyncIterator[Sse]:
        """Opens a stream by a request as it is given."""
        given = with_version(version, headers)
        async with self.service.http.stream(method, self.service.url + path, headers=given, **content) as response:
            if not response.headers.get('content-type', '').startswith('text/event-stream'):
                await response.aread()
                error = self.answer_of(response).error
                assert error is not None, f'neither a stream nor an error: {response.text}'
                raise Refused(error)
            assert response.status_code == 200, response
            yield Sse(self, response)


class JsonRpcWire(HttpWire):
    """JSON-RPC (section 9)."""

    binding = Binding.JSONRPC

    def prepare(self, operation: str, params: Json | None) -> Mapping[str, Any]:
        return {'method': 'POST', 'path': '/', 'json': envelope(operation, params)}

    async def post(self, body: Any = None, **options: Any) -> httpx.Response:
        """Posts any JSON, or `content` as it is."""
        if 'content' not in options:
            options['json'] = body
        return await self.request('POST', '/', **options)

    def error_of(self, body: Any, status: int | None) -> Error | None:
        assert body['jsonrpc'] == '2.0', body
        assert ('result' in body) != ('error' in body), body
        if 'error' not in body:
            return None
        assert status in (None, 200), status
        return rpc_error(body)

    def result_of(self, body: Any) -> Json:
        result: Json = body['result']
        return result


def envelope(operation: str, params: Any = None, **fields: Any) -> Json:
    """Returns a JSON-RPC request."""
    given = {'jsonrpc': '2.0', 'id': next(numbers), 'method': operation, **fields}
    return given if params is None else {**given, 'params': params}


def rpc_error(body: Json) -> Error:
    """Returns the error of a JSON-RPC response, whatever its HTTP status."""
    error = body['error']
    return Error(error['message'], error.get('data', []), code=error['code'])


class Route(NamedTuple):
    """Where an operation is found (section 11.3)."""

    method: str
    path: str
    ids: tuple[str, ...] = ()
    """Fields of the request that stand in the path."""


CONFIGS = '/tasks/{}/pushNotificationConfigs'
ROUTES: Mapping[str, Route] = {
    'SendMessage': Route('POST', '/message:send'),
    'SendStreamingMessage': Route('POST', '/message:stream'),
    'GetTask': Route('GET', '/tasks/{}', ('id',)),
    'ListTasks': Route('GET', '/tasks'),
    'CancelTask': Route('POST', '/tasks/{}:cancel', ('id',)),
    'SubscribeToTask': Route('POST', '/tasks/{}:subscribe', ('id',)),
    'CreateTaskPushNotificationConfig': Route('POST', CONFIGS, ('taskId',)),
    'GetTaskPushNotificationConfig': Route('GET', CONFIGS + '/{}', ('taskId', 'id')),
    'ListTaskPushNotificationConfigs': Route('GET', CONFIGS, ('taskId',)),
    'DeleteTaskPushNotificationConfig': Route('DELETE', CONFIGS + '/{}', ('taskId', 'id')),
    'GetExtendedAgentCard': Route('GET', '/extendedAgentCard'),
}


class RestWire(HttpWire):
    """HTTP+JSON (section 11)."""

    binding = Binding.REST

    def prepare(self, operation: str, params: Json | None) -> Mapping[str, Any]:
        left = dict(params or {})
        route = ROUTES[operation]
        tenant = left.pop('tenant', '')
        path = (f'/{quote(tenant, safe="")}' if tenant else '') + path_of(route, [left.pop(name) for name in route.ids])
        if route.method == 'POST':
            return {'method': 'POST', 'path': path, **({'json': left} if left or not route.ids else {})}
        return {'method': route.method, 'path': path, 'params': {name: query(value) for name, value in left.items()}}

    def error_of(self, body: Any, status: int | None) -> Error | None:
        if status is not None and status < 400:
            return None
        if 'error' not in body:
            assert status is None, body
            return None
        error = body['error']
        assert status in (None, error['code']), body
        return Error(error['message'], error.get('details', []), http=error['code'], grpc=error['status'])

    def result_of(self, body: Any) -> Json:
        result: Json = body
        return result


def path_of(route: Route, ids: list[str]) -> str:
    return route.path.format(*(quote(each, safe='') for each in ids))


def query(value: object) -> str:
    """A value as queries write it (section 11.5)."""
    return str(value).lower() if isinstance(value, bool) else str(value)
