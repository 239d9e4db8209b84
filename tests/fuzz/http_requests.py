"""Requests to the two HTTP bindings: each is right in most places, and strange in a few."""

import json
import random
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, quote_from_bytes

from tests.fuzz.texts import damaged, garbled, snake, to_text
from tests.fuzz.valid import REQUESTS, Known, operation, request
from tests.fuzz.values import TEXTS, junk, scalar, text

Pairs = list[tuple[str, bytes]]
VERSION: Final = ('A2A-Version', b'1.0')
METHODS: Final = ('GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND')
CONFIGS: Final = '/tasks/{taskId}/pushNotificationConfigs'
ROUTES: Final = {
    'SendMessage': ('POST', '/message:send'),
    'SendStreamingMessage': ('POST', '/message:stream'),
    'GetTask': ('GET', '/tasks/{id}'),
    'ListTasks': ('GET', '/tasks'),
    'CancelTask': ('POST', '/tasks/{id}:cancel'),
    'SubscribeToTask': ('POST', '/tasks/{id}:subscribe'),
    'CreateTaskPushNotificationConfig': ('POST', CONFIGS),
    'GetTaskPushNotificationConfig': ('GET', CONFIGS + '/{id}'),
    'ListTaskPushNotificationConfigs': ('GET', CONFIGS),
    'DeleteTaskPushNotificationConfig': ('DELETE', CONFIGS + '/{id}'),
    'GetExtendedAgentCard': ('GET', '/extendedAgentCard'),
}
PATHS: Final = (
    '/', '//', '/.', '/..', '/../', '/%2e%2e/%2e%2e/etc/passwd', '/.well-known/agent-card.json', '/tasks/', '/tasks//',
    '//tasks', '/tasks///', '/tasks/%00', '/tasks/%2F', '/tasks/%2f%2f', '/tasks/%', '/tasks/%zz', '/tasks/%ff%fe',
    '/tasks/%ed%a0%80', '/tasks/%C0%80', '/tasks/a%0d%0ab', '/tasks/%20', '/tasks/:cancel', '/tasks/::', '/tasks/a:b:c',
    '/tasks/a%3Acancel', '/tasks/a%3asubscribe', '/tasks/a%253Acancel', '/tasks/a:cancel/', '/message:send/',
    '/message%3Asend', '/message:', '/message', '/Message:Send', '/acme/tasks', '/acme//tasks', '/a/b/tasks',
    '/%2F/tasks', '/%00/tasks', '/tasks/tasks', '/tasks/tasks/tasks', '/tasks/pushNotificationConfigs',
    '/tasks/a/pushNotificationConfigs/', '/tasks/a/pushNotificationConfigs/b/c', '/tasks/a;b=c', '/tasks/a+b',
    '/tasks/' + 'x' * 300, '/tasks/' + '%41' * 2000, '/' + 'a/' * 3000, '/' + '/' * 3000, '/tasks/ü', '/tasks/\x7f',
    '/fuzz', '/v1/message:send', '/extendedAgentCard/', '/extendedagentcard', '/tasks/"<>\\^`{|}',
)  # fmt: skip
QUERY_NAMES: Final = (
    'pageSize', 'page_size', 'pageToken', 'status', 'contextId', 'historyLength', 'includeArtifacts', 'tenant',
    'statusTimestampAfter', 'A2A-Version', 'a2a-version', 'A2A-Extensions', 'lastEventId', 'Last-Event-ID', 'id',
    'taskId', 'unknown', '', '[]', 'pageSize[]', 'a.b',
)  # fmt: skip
MEDIA_TYPES: Final = (
    b'application/json', b'application/a2a+json', b'application/json; charset=utf-8', b'APPLICATION/JSON', b'',
    b'text/plain', b'application/x-www-form-urlencoded', b'multipart/form-data', b'application/', b'/', b';', b'*/*',
    b'application/json; charset=utf-16', b'application/problem+json', b'application/json\xff', b'\xe9', b'a' * 5000,
)  # fmt: skip
STRANGE: Final = (
    b'', b' ', b'1', b'0', b'-1', b'1.0', b'1.0.0', b'1.0.0.0', b'1', b'01.00', b'0.3', b'9' * 30, b'1' * 5000, b'1e3',
    b'0x1', b'\xb2', b'\xff\xfe', b'\xc3\xbc', b'\t', b',', b',,,', b'a,b', b'a, a, a', b'*', b'"', b'W/"x"', b'null',
    b'urn:a2a-scribe:extension:sequence:1', b'urn:a2a-scribe:extension:sequence:1,urn:x', b'%31', b'1;2', b'{}',
    b','.join(b'urn:%d' % number for number in range(500)),
)  # fmt: skip
HEADERS: Final = (
    'A2A-Version', 'A2A-Version', 'a2a-version', 'A2A-Extensions', 'A2A-Extensions', 'Last-Event-ID', 'Last-Event-ID',
    'If-None-Match', 'Accept', 'Authorization', 'Cookie', 'X-Forwarded-For', 'Origin', 'Range', 'Expect',
    'Accept-Encoding', 'Content-Encoding', 'TE', 'X-A2A-Notification-Token', 'Host',
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What is sent."""

    kind: str
    method: str
    target: str
    headers: tuple[tuple[str, bytes], ...]
    body: bytes | None = None
    chunks: int = 0
    """In how many pieces the body comes; 0 to send it whole, with its length."""

    def encode(self) -> bytes:
        """Returns the bytes on the wire."""
        head = [f'{self.method} {self.target} HTTP/1.1'.encode('utf-8', 'surrogatepass'), b'Host: fuzz']
        head += [name.encode('latin-1') + b': ' + value for name, value in self.headers]
        body = self.body
        if body is not None and self.chunks:
            size = max(1, -(-len(body) // self.chunks))
            pieces = [body[start : start + size] for start in range(0, len(body), size)]
            body = b''.join(b'%x\r\n%b\r\n' % (len(piece), piece) for piece in pieces) + b'0\r\n\r\n'
            head.append(b'Transfer-Encoding: chunked')
        elif body is not None:
            head.append(b'Content-Length: %d' % len(body))
        return b'\r\n'.join(head) + b'\r\n\r\n' + (body or b'')


def http_request(binding: str, chance: random.Random, known: Known) -> HttpRequest:
    """Returns a request to one of the bindings."""
    return (_rpc if binding == 'JSONRPC' else _rest)(chance, known)


# JSON-RPC


def _rpc(chance: random.Random, known: Known) -> HttpRequest:
    kind = chance.choice(('params', 'params', 'params', 'envelope', 'text', 'batch', 'notification', 'head', 'good'))
    value: Any = _envelope(chance, known)
    match kind:
        case 'params':
            value['params'] = _damaged_often(value['params'], chance)
        case 'envelope':
            name = chance.choice(list(value))
            value[name] = junk(chance)
            value = chance.choice(
                (value, value, value, junk(chance), {each: value[each] for each in value if each != name})
            )
        case 'batch':
            value = [_member(chance, known) for _ in range(chance.choice((0, 1, 2, 3, 20, 100, 101)))]
        case 'notification':
            del value['id']
            value = _damaged_often(value, chance) if chance.random() < 0.3 else value
    body = to_text(value, escaped=chance.random() < 0.5)
    if kind == 'text':
        body = garbled(body, chance)
    method = 'POST' if chance.random() < 0.97 else chance.choice(METHODS)
    target = chance.choice(('/',) * 9 + ('/?' + _query(chance),))
    headers = _headers(chance, known, often=kind == 'head', resumes=b'SubscribeToTask' in body)
    return HttpRequest(f'JSON-RPC {kind}', method, target, headers, body, _chunks(chance))


def _envelope(chance: random.Random, known: Known) -> dict[str, Any]:
    name = operation(chance)
    request_id = chance.choice((1, 'an id', None, 0, -5, 1.5, '', 'ü', 2**53))
    return {'jsonrpc': '2.0', 'id': request_id, 'method': name, 'params': request(name, chance, known)}


def _member(chance: random.Random, known: Known) -> Any:
    value = _envelope(chance, known)
    return chance.choice((value, value, value, damaged(value, chance), [value], junk(chance)))


# HTTP+JSON


def _rest(chance: random.Random, known: Known) -> HttpRequest:
    kind = chance.choice(('fields', 'fields', 'fields', 'path', 'query', 'method', 'text', 'head', 'good'))
    method, path, params = _call(chance, known)
    if kind == 'fields':
        params = _damaged_often(params, chance)
    query, body = '', None
    if method == 'POST':
        body = to_text(params, escaped=chance.random() < 0.5) if params or chance.random() < 0.5 else None
    elif isinstance(params, dict):
        query = '&'.join(f'{quote(name, errors="replace")}={_quoted(value)}' for name, value in params.items())
    match kind:
        case 'path':
            path = _strange_path(path, chance)
        case 'query':
            query = '&'.join(filter(None, (query, _query(chance))))
        case 'method':
            method = chance.choice(METHODS)
        case 'text' if body is not None:
            body = garbled(body, chance)
        case 'text':
            query = quote_from_bytes(garbled(query.encode('utf-8', 'replace'), chance), safe="%&=+;/?:@!$,*~-._'()")
    target = f'{path}?{query}' if query else path
    headers = _headers(chance, known, often=kind == 'head', resumes='subscribe' in path)
    return HttpRequest(f'HTTP+JSON {kind}', method, target, headers, body, _chunks(chance))


def _call(chance: random.Random, known: Known) -> tuple[str, str, Any]:
    """Returns method, path and the rest of the fields of an operation."""
    name = operation(chance)
    method, path = ROUTES[name]
    if name == 'SubscribeToTask' and chance.random() < 0.5:
        method = 'GET'
    params = request(name, chance, known)
    for each in ('taskId', 'id'):
        if f'{{{each}}}' in path:
            path = path.replace(f'{{{each}}}', quote(str(params.pop(each, 'no-such-task')), safe=''))
    if tenant := params.get('tenant'):
        path = f'/{quote(tenant, safe="")}{path}' if chance.random() < 0.5 else path
    return method, path, params


def _quoted(value: Any) -> str:
    shown = json.dumps(value) if type(value) in (bool, dict, list) else str(value)
    return quote(shown[:4000], safe='', errors='replace')


def _strange_path(path: str, chance: random.Random) -> str:
    segments = path.split('/')
    index = chance.randrange(len(segments))
    piece = chance.choice(
        (quote(chance.choice(TEXTS), safe=chance.choice(('', '/:')), errors='replace'), '%2e%2e', '', '%00')
    )
    match chance.randrange(5):
        case 0:
            segments[index] = piece
        case 1:
            segments.insert(index, piece)
        case 2:
            segments[index] += piece
        case 3:
            return ''.join(f'%{ord(each):02x}' if chance.random() < 0.3 and each < '\x7f' else each for each in path)
        case _:
            return chance.choice(PATHS)
    return '/' + '/'.join(segments).lstrip('/')


# Both


def _damaged_often(value: Any, chance: random.Random) -> Any:
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        value = damaged(value, chance)
    return value


def _query(chance: random.Random) -> str:
    pairs = []
    for _ in range(chance.choice((1, 1, 2, 3, 120))):
        name = chance.choice(QUERY_NAMES)
        value = chance.choice(
            (quote(str(scalar(chance)), errors='replace'), '%ff', '%', '%00', 'true', '1', 'TASK_STATE_WORKING', '1,2')
        )
        pairs.append(chance.choice((f'{name}={value}', f'{name}={value}', name, f'{snake(name)}={value}', f'={value}')))
    return chance.choice('&&&;').join(pairs)[:20_000]


def _headers(chance: random.Random, known: Known, *, often: bool, resumes: bool) -> tuple[tuple[str, bytes], ...]:
    media_type = b'application/json' if chance.random() < 0.9 else chance.choice(MEDIA_TYPES)
    pairs: Pairs = [VERSION, ('Content-Type', media_type)]
    if chance.random() < 0.3:
        pairs.append(('A2A-Extensions', b'urn:a2a-scribe:extension:sequence:1'))
    if chance.random() < (0.5 if resumes else 0.02):
        place = chance.choice((0, *known.seqs)) + chance.choice((0, 0, 1, 100))
        pairs.append(('Last-Event-ID', b'%d' % place))
    for _ in range(chance.choice((1, 2, 3)) if often else int(chance.random() < 0.05)):
        value = chance.choice((chance.choice(STRANGE), _field_value(text(chance))))
        pairs.append((chance.choice(HEADERS), value))
        chance.shuffle(pairs)
    if often and chance.random() < 0.3:
        pairs.remove(VERSION)
    return tuple(pairs)


def _field_value(value: str) -> bytes:
    """Returns what a header may carry: anything but control characters."""
    return bytes(each for each in value.encode()[:4000] if each >= 32 and each != 127)


def _chunks(chance: random.Random) -> int:
    return chance.choice((0, 0, 0, 0, 0, 0, 0, 0, 1, 5))


assert ROUTES.keys() == REQUESTS.keys()
