"""HTTP/1.1 by hand: sends bytes as they are, which no client's library would, and reads one answer."""

import re
import socket
from dataclasses import dataclass
from typing import Final

DEADLINE: Final = 10.0
"""Seconds after which a request counts as one that hangs."""
OPEN_END: Final = re.compile(rb'^: |TASK_STATE_(WORKING|INPUT_REQUIRED)', re.MULTILINE)
"""What a stream says that goes on until somebody else does something: more is not waited for."""


class HangError(AssertionError):
    """Nothing came in time."""


class NoAnswerError(Exception):
    """The connection was closed without an answer."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_whole: bool = True
    """Whether it was read to its end."""

    @property
    def media_type(self) -> str:
        return self.headers.get('content-type', '').partition(';')[0]


class HttpConnection:
    """One connection after another, each kept as long as the server keeps it."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._socket: socket.socket | None = None
        self._data = b''

    def exchange(self, data: bytes, *, is_head: bool = False) -> Response:
        """Sends a request and reads the answer.

        Raises:
            HangError: None came in time.
            NoAnswerError: None came.
        """
        if self._socket is not None:
            try:
                return self._exchange(data, is_head=is_head)
            except NoAnswerError:
                pass  # the server may have closed the connection before it saw this request
        return self._exchange(data, is_head=is_head)

    def try_out(self, data: bytes) -> list[Response]:
        """Sends what may be no request at all on a connection of its own, ends it, and reads what comes until its end.

        What stays open is the last that is read.

        Raises:
            HangError: The server did not end it in time.
        """
        self.close()
        answers: list[Response] = []
        try:
            self._send(data)
            assert self._socket is not None
            self._socket.shutdown(socket.SHUT_WR)
            while not answers or answers[-1].is_whole:
                answers.append(self._read(is_head=False))
            return answers
        except (NoAnswerError, OSError):
            return answers
        finally:
            self.close()

    def close(self) -> None:
        """Closes the connection; the next request opens another."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._data = None, b''

    def _exchange(self, data: bytes, *, is_head: bool) -> Response:
        try:
            self._send(data)
            response = self._read(is_head=is_head)
        except (NoAnswerError, HangError):
            self.close()
            raise
        if not response.is_whole or response.headers.get('connection', '').lower() == 'close':
            self.close()
        return response

    def _send(self, data: bytes) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, DEADLINE)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise HangError('the request was not read in time') from None
        except OSError:
            pass  # the answer to what was sent may be there already

    def _more(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(65536)
        except TimeoutError:
            raise HangError(f'no answer in time; what came of it: {self._data[:500]!r}') from None
        except OSError:
            data = b''
        if not data:
            raise NoAnswerError
        self._data += data

    def _read(self, *, is_head: bool) -> Response:
        while b'\r\n\r\n' not in self._data:
            self._more()
        head, _, self._data = self._data.partition(b'\r\n\r\n')
        line, *fields = head.decode('latin-1').split('\r\n')
        status = int(line.split(' ')[1])
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(':') for field in fields)}
        if 100 <= status < 200:
            return self._read(is_head=is_head)
        if is_head or status in (204, 304):
            return Response(status, headers, b'')
        if headers.get('transfer-encoding') == 'chunked':
            return self._read_chunks(status, headers)
        length = int(headers['content-length'])
        while len(self._data) < length:
            self._more()
        body, self._data = self._data[:length], self._data[length:]
        return Response(status, headers, body)

    def _read_chunks(self, status: int, headers: dict[str, str]) -> Response:
        body = b''
        while True:
            while b'\r\n' not in self._data:
                self._more()
            size = int(self._data.partition(b'\r\n')[0], 16)
            start = self._data.index(b'\r\n') + 2
            while len(self._data) < start + size + 2:
                self._more()
            chunk = self._data[start : start + size]
            self._data = self._data[start + size + 2 :]
            body += chunk
            if not size:
                return Response(status, headers, body)
            if OPEN_END.search(chunk):
                return Response(status, headers, body, is_whole=False)
