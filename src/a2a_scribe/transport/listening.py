"""Serving an ASGI app over HTTP: the listening socket, and uvicorn without its hold on the process.

Called by `serve`. The socket is bound before anything else is set up, so a taken port is found first and a free one
can be named in the card; a signal ends the serving and nothing more, so whoever serves can still close the handler.
"""

import asyncio
import ipaddress
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from a2a_scribe.errors import SettingsError
from a2a_scribe.transport.anteroom import Anteroom, protocol_of
from a2a_scribe.transport.turnstile import Turnstile, in_turn

BACKLOG = 65_535
"""Connections that may wait to be taken: as many as the kernel lets us. One that finds no room tries again after a
second."""
DOORS = 16
"""Connections that are taken in one round of the loop."""
CONNECTIONS_PER_DOOR = 16
"""For so many that there can be, one more may be taken in a round."""
IDLE = 75
"""Seconds for which a connection without requests is kept: longer than clients and proxies keep theirs. One that the
server closes first takes the request along that a client is just sending."""
LAST_REQUESTS = 0.2
"""Seconds within which what has come before the server was told to stop is accepted; no more comes meanwhile."""
Stop = Callable[[], Awaitable[None]]
EVERY_ADDRESS = ('', '0.0.0.0', '::')


def listen(host: str, port: int) -> socket.socket:
    """Binds the address.

    Raises:
        SettingsError: The address is taken, unknown or not ours to take.
    """
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, 'strerror', None) or error
        raise SettingsError(f'cannot listen on {address(host, port)}: {reason}') from error
    # Connections inherit it; asyncio sets it only where a socket was made for TCP by name. Without it, the second
    # answer on a connection waits 40 ms for the client to acknowledge the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def widened(listener: socket.socket, doors: int, room: int) -> list[socket.socket]:
    """Returns several sockets that are the same: an event loop takes one connection from each in a round.

    Thousands would wait for as many rounds otherwise, and whoever comes then would wait for all of them. Where there is
    `room` for few connections there are few: each is a file, and files may be what there is no room for.
    """
    doors = max(1, min(doors, room // CONNECTIONS_PER_DOOR))
    return [listener, *(listener.dup() for _ in range(doors - 1))]


def address(host: str, port: int) -> str:
    """The two in one, as URLs and gRPC write them."""
    return f'[{host}]:{port}' if ':' in host else f'{host}:{port}'


def reachable(host: str) -> str:
    """The host under which a client on this machine reaches a server that listens on `host`."""
    if host not in EVERY_ADDRESS:
        return host
    return '::1' if ':' in host else '127.0.0.1'


def is_loopback(host: str) -> bool:
    """Whether only clients on this machine reach a server that listens on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == 'localhost'


async def serve_http(
    app: ASGIApp,
    listener: socket.socket,
    patience: int,
    on_ready: Callable[[], None],
    on_stop: Stop,
    anteroom: Anteroom,
    on_leave: Stop,
    on_crowd: Callable[[], None] = lambda: None,
) -> None:
    """Serves an app that is open already, until SIGINT or SIGTERM.

    Args:
        app: What to serve.
        listener: A bound socket; closed in the end.
        patience: Seconds after which requests that are still being answered are cut off.
        on_ready: Called once connections are taken and signals are listened to.
        on_stop: Called when no more connections are taken; brings the requests that wait for something to an answer.
        anteroom: Bounds the connections.
        on_leave: Called before that, while connections are taken still.
        on_crowd: Called for each newcomer to a crowd.
    """
    config = uvicorn.Config(
        app,
        http=in_turn(protocol_of(anteroom), Turnstile(on_crowd)),
        backlog=BACKLOG,
        lifespan='off',
        ws='none',
        log_config=None,
        access_log=False,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=patience,
    )
    await _Server(config, on_ready, on_stop, on_leave).serve(sockets=widened(listener, DOORS, anteroom.most))


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None], on_stop: Stop, on_leave: Stop) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._on_leave = on_leave

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins the end; a second signal ends the process at once, as a crash would."""
        if self.should_exit:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Says so when it is done."""
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Has what requests wait for come to an end while it waits for the requests."""
        await self._on_leave()
        await asyncio.gather(super().shutdown(sockets), self._stop())

    async def _stop(self) -> None:
        """Lets those requests be accepted that have come already, before all others are refused."""
        await asyncio.sleep(LAST_REQUESTS)
        await self._on_stop()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unlike its parent does not raise the signal again, which would end the process with the handler open."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {sig: signal.signal(sig, self.handle_exit) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
