"""curl, and operations of A2A over it on the two bindings that HTTP has."""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from tests.acceptance.clients.site import LONG_ENOUGH, Site

JSON_RPC, REST = BINDINGS = ('JSONRPC', 'HTTP+JSON')
VERSION: Final = '-HA2A-Version: 1.0'
JSON_BODY: Final = '-HContent-Type: application/json'
CONTINUE: Final = b'HTTP/1.1 100 '
Json = dict[str, Any]

REST_TARGETS: Final[Mapping[str, tuple[str, str]]] = {
    'SendMessage': ('POST', '/message:send'),
    'SendStreamingMessage': ('POST', '/message:stream'),
    'GetTask': ('GET', '/tasks/{id}'),
    'ListTasks': ('GET', '/tasks'),
    'CancelTask': ('POST', '/tasks/{id}:cancel'),
    'SubscribeToTask': ('GET', '/tasks/{id}:subscribe'),
    'CreateTaskPushNotificationConfig': ('POST', '/tasks/{taskId}/pushNotificationConfigs'),
    'ListTaskPushNotificationConfigs': ('GET', '/tasks/{taskId}/pushNotificationConfigs'),
    'GetTaskPushNotificationConfig': ('GET', '/tasks/{taskId}/pushNotificationConfigs/{id}'),
    'DeleteTaskPushNotificationConfig': ('DELETE', '/tasks/{taskId}/pushNotificationConfigs/{id}'),
    'GetExtendedAgentCard': ('GET', '/extendedAgentCard'),
    'NoSuchMethod': ('GET', '/no/such/path'),
}


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, error: Json, details: list[Json]) -> None:
        super().__init__(error)
        self.error = error
        self.reason: str = details[0]['reason']
        self.message: str = error['message']


@dataclass(frozen=True, slots=True)
class Response:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event; a field that occurs twice has its lines joined."""

    fields: Mapping[str, str]

    @property
    def id(self) -> int:
        return int(self.fields['id'])

    @property
    def json(self) -> Any:
        return json.loads(self.fields['data'])


@dataclass(frozen=True, slots=True)
class Curl:
    """The command."""

    path: str

    async def __call__(self, *arguments: str, body: bytes | None = None) -> Response:
        """Runs it to its end and reads what it prints."""
        async with self.running(*arguments, body=body) as process:
            printed, _ = await process.communicate(body)
        assert process.returncode == 0
        while printed.startswith(CONTINUE):
            _, _, printed = printed.partition(b'\r\n\r\n')
        head, _, rest = printed.partition(b'\r\n\r\n')
        return Response(*read_head(head), rest)

    @asynccontextmanager
    async def running(self, *arguments: str, body: bytes | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
        """Runs it until the block ends."""
        command = [self.path, '--silent', '--show-error', '--include', '--noproxy', '*', *arguments]
        if body is not None:
            command += ['--data-binary', '@-']
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    @asynccontextmanager
    async def streaming(self, *arguments: str, body: bytes | None = None) -> AsyncIterator['EventReader']:
        """Opens a stream, which is left when the block ends."""
        async with self.running('--no-buffer', *arguments, body=body) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(body or b'')
            process.stdin.close()
            head = await process.stdout.readuntil(b'\r\n\r\n')
            yield EventReader(Response(*read_head(head), b''), process.stdout)


@dataclass(frozen=True, slots=True)
class EventReader:
    """A stream as it comes."""

    head: Response
    stream: asyncio.StreamReader

    async def blocks(self) -> AsyncGenerator[list[str], None]:
        """The blocks between empty lines, as lines: events, and others."""
        block: list[str] = []
        while line := await self.stream.readline():
            if text := line.decode().removesuffix('\n'):
                block.append(text)
            else:
                yield block
                block = []
        assert not block, 'the stream ended in the middle of an event'

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events that have data."""
        async for block in self.blocks():
            fields: dict[str, str] = {}
            for name, text in (line.split(': ', 1) for line in block):
                fields[name] = f'{fields[name]}\n{text}' if name in fields else text
            if 'data' in fields:
                yield Event(fields)


def read_head(head: bytes) -> tuple[int, dict[str, str]]:
    status, *lines = head.decode().strip().split('\r\n')
    pairs = (line.split(': ', 1) for line in lines)
    return int(status.split()[1]), {name.lower(): text for name, text in pairs}


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls operations by their names, with requests as JSON."""

    curl: Curl
    site: Site
    binding: str

    def arguments(self, method: str, params: Json) -> tuple[list[str], bytes | None]:
        """What curl is told, and what it is given to send."""
        if self.binding == JSON_RPC:
            request = {'jsonrpc': '2.0', 'id': 7, 'method': method, 'params': params}
            return [VERSION, JSON_BODY, self.site.rpc_url], encode(request)
        params = dict(params)
        verb, target = REST_TARGETS[method]
        tenant = params.pop('tenant', '')
        prefix = f'/{tenant}' if tenant else ''
        path = target.format(**{name: quote(str(value), safe='') for name, value in params.items()})
        common = [VERSION, f'-X{verb}', f'{self.site.rest_url}{prefix}{path}']
        if verb == 'POST':
            return [JSON_BODY, *common], encode(params)
        return [*common, '--get', *query(params, target)], None

    async def call(self, method: str, *more: str, **params: Any) -> Any:
        """Returns the result.

        Raises:
            Refused: The server answered with an error.
        """
        arguments, body = self.arguments(method, params)
        return self.result_of(await self.curl(*arguments, *more, body=body))

    def result_of(self, response: Response) -> Any:
        answer = response.json if response.body else {}
        if 'error' in answer:
            raise self.refusal(answer, response)
        assert response.status == 200
        if self.binding == REST:
            return answer
        assert (answer['jsonrpc'], answer['id']) == ('2.0', 7)
        return answer['result']

    def refusal(self, answer: Json, response: Response) -> Refused:
        error = answer['error']
        if self.binding == REST:
            assert response.status == error['code']
            return Refused(error, error['details'])
        assert response.status == 200
        return Refused(error, error['data'])

    @asynccontextmanager
    async def stream(self, method: str, *more: str, **params: Any) -> AsyncIterator[EventReader]:
        """Opens a stream.

        Raises:
            Refused: The server answered with an error.
        """
        arguments, body = self.arguments(method, params)
        async with self.curl.streaming(*arguments, *more, body=body) as reader:
            if reader.head.headers['content-type'] != 'text/event-stream':
                answer = json.loads(await reader.stream.read())
                raise self.refusal(answer, reader.head)
            yield reader

    def shown_in(self, event: Event) -> Json:
        """The `StreamResponse` of an event."""
        shown: Json = event.json if self.binding == REST else event.json['result']
        return shown

    async def collect(self, method: str, *more: str, **params: Any) -> list[Json]:
        """Reads a stream to its end."""
        async with asyncio.timeout(LONG_ENOUGH), self.stream(method, *more, **params) as reader:
            return [self.shown_in(event) async for event in reader.events()]


def encode(request: Json) -> bytes:
    return json.dumps(request, ensure_ascii=False).encode()


def query(params: Json, target: str) -> Iterator[str]:
    """The arguments for what does not stand in the path."""
    for name, value in params.items():
        if f'{{{name}}}' not in target:
            yield '--data-urlencode'
            yield f'{name}={json.dumps(value).strip(chr(34))}'


def request_of(script: str, second: str | None = None, *, tenant: str = '', **fields: Any) -> Json:
    """The options `returnImmediately` and `historyLength` are those of the configuration, others the message's."""
    options = {name: fields.pop(name) for name in ('returnImmediately', 'historyLength') if name in fields}
    parts = [{'text': text} for text in (script, second) if text is not None]
    message = {'messageId': str(uuid.uuid4()), 'role': 'ROLE_USER', 'parts': parts, **fields}
    return {'message': message, 'configuration': options} | ({'tenant': tenant} if tenant else {})
