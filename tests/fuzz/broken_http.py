"""What is no HTTP, or nearly none: the server may close the connection, and may not mind."""

import random
from typing import Final

from tests.fuzz.http_requests import HttpRequest, http_request
from tests.fuzz.texts import garbled
from tests.fuzz.valid import Known

KIND: Final = 'broken HTTP'
BODY: Final = b'{"jsonrpc":"2.0","id":1,"method":"ListTasks"}'
HEAD: Final = b'POST / HTTP/1.1\r\nHost: fuzz\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n'
CARD: Final = b'GET /.well-known/agent-card.json HTTP/1.1\r\nHost: fuzz\r\n\r\n'
FIXED: Final = (
    b'', b'\r\n', b'\r\n\r\n', b'\0' * 100, b'GET', b'GET /', b'GET / HTTP/1.1\r\n', b'GET  /  HTTP/1.1\r\n\r\n',
    b'GET / HTTP/9.9\r\n\r\n', b'GET / HTTP/0.9\r\n\r\n', b'get / http/1.1\r\n\r\n', b'GET tasks HTTP/1.1\r\n\r\n',
    b'OPTIONS * HTTP/1.1\r\n\r\n', b'CONNECT fuzz:80 HTTP/1.1\r\n\r\n', b'GET http://elsewhere/tasks HTTP/1.1\r\n\r\n',
    b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + b'\0' * 200,
    b'GET / HTTP/1.1\r\nHost: fuzz\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n',
    b'GET / HTTP/1.1\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAA\r\n\r\n',
    b'GET / HTTP/1.1\r\n' + b'X-A: b\r\n' * 500 + b'\r\n', b'GET / HTTP/1.1\r\nX-A: ' + b'b' * 100_000 + b'\r\n\r\n',
    b'GET / HTTP/1.1\r\nX A: b\r\n\r\n', b'GET / HTTP/1.1\r\n: b\r\n\r\n', b'GET / HTTP/1.1\r\nX-A: b\r\n c\r\n\r\n',
    b'GET / HTTP/1.1\r\nX-A: \0\r\n\r\n', b'GET /' + b'x' * 100_000 + b' HTTP/1.1\r\n\r\n',
    HEAD + b'Content-Length: 10\r\n\r\n{}', HEAD + b'Content-Length: -1\r\n\r\n{}',
    HEAD + b'Content-Length: \xb2\r\n\r\n{}',
    HEAD + b'Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}', HEAD + b'Content-Length: 1e1\r\n\r\n{}',
    HEAD + b'Content-Length: ' + b'9' * 5000 + b'\r\n\r\n{}', HEAD + b'Content-Length: 999999999999\r\n\r\n{}',
    HEAD + b'Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n', HEAD + b'Transfer-Encoding: gzip\r\n\r\n{}',
    HEAD + b'Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}',
    HEAD + b'Transfer-Encoding: chunked\r\n\r\n2\r\n{}',
    HEAD + b'Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
    HEAD + b'Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nTrailer: x\r\n\r\n',
    HEAD + b'Expect: 100-continue\r\nContent-Length: 45\r\n\r\n' + BODY, CARD * 2, CARD * 30,
    HEAD + b'Content-Length: 45\r\n\r\n' + BODY + CARD, HEAD + b'Content-Length: 45\r\n\r\n' + BODY[:20],
    HEAD + b'Connection: close\r\nContent-Length: 45\r\n\r\n' + BODY, HEAD.replace(b'1.1', b'1.0') + b'\r\n',
)  # fmt: skip


def broken_request(chance: random.Random, known: Known) -> bytes:
    """Returns bytes to be sent on a connection of their own."""
    if chance.random() < 0.4:
        found = chance.choice(FIXED)
        return found if chance.random() < 0.7 else garbled(found, chance)
    request: HttpRequest = http_request(chance.choice(('JSONRPC', 'HTTP+JSON')), chance, known)
    return garbled(request.encode(), chance)
