"""An app in a process that serves it, over HTTP and gRPC. Called by programs and by the command line."""

import asyncio
import gc
import importlib
import importlib.util
import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from socket import socket
from typing import Unpack

from a2a.server.agent_execution import AgentExecutor
from a2a.types.a2a_pb2 import AgentCard
from a2a.utils.constants import TransportProtocol
from starlette.applications import Starlette

from a2a_scribe.app import DEFAULT_DATABASE, AppOptions, Database, create_app
from a2a_scribe.event_loop import run_program
from a2a_scribe.handler.handler import DefaultRequestHandler
from a2a_scribe.interpreter import Haste, seldom_collected
from a2a_scribe.settings import Settings
from a2a_scribe.transport.agent_card import complete_card, http_interfaces
from a2a_scribe.transport.anteroom import Anteroom, room_for_connections
from a2a_scribe.transport.calls import Wire
from a2a_scribe.transport.grpc import ContextBuilder
from a2a_scribe.transport.grpc_serving import GrpcServer
from a2a_scribe.transport.listening import address, is_loopback, listen, reachable, serve_http
from a2a_scribe.transport.routes import takes_old_clients

logger = logging.getLogger(__name__)

GRPC_FILES = 3
"""Files that a connection needs over gRPC: ours, and both ends of the one to gRPC itself. Over HTTP it is one."""


@asynccontextmanager
async def serve_grpc(
    app: Starlette,
    host: str = '127.0.0.1',
    port: int = 0,
    *,
    context_builder: ContextBuilder | None = None,
) -> AsyncIterator[int]:
    """Serves the agent of an app over gRPC too, on the running loop; gives the port.

    Args:
        app: Made by `create_app`; open while this is.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        context_builder: Turns gRPC's context of a call into a call context (who calls).

    Raises:
        SettingsError: The port is taken, or gRPC is not installed.
    """
    wire: Wire = app.state.wire
    server = GrpcServer(host, port, wire.settings)
    await server.start(wire, app.state.health, context_builder)
    try:
        yield server.port
    finally:
        await server.stop(wire.settings.cancel_grace)


def serve(  # noqa: PLR0913 - each is a choice of its own
    executor: AgentExecutor,
    agent_card: AgentCard,
    database: Database = DEFAULT_DATABASE,
    *,
    host: str = '127.0.0.1',
    port: int = 8000,
    grpc_port: int | None = None,
    grpc_in_card: bool = False,
    grpc_context_builder: ContextBuilder | None = None,
    url: str | None = None,
    on_ready: Callable[[str], None] | None = None,
    on_grpc_ready: Callable[[str], None] | None = None,
    **options: Unpack[AppOptions],
) -> None:
    """Serves the agent until SIGINT or SIGTERM, then lets what is running end within the drain deadline.

    What does not stop when it is cancelled is left behind after `cancel_grace`, and named in the log.

    Args:
        executor: The agent.
        agent_card: As for `create_app`.
        database: As for `create_app`.
        host: The address to listen on.
        port: The port for HTTP; 0 takes a free one.
        grpc_port: The port for gRPC, which is served only if this is given; 0 takes a free one.
        grpc_in_card: Whether the gRPC interface is added to a card that names none. Some clients refuse a card with
            an interface whose URL is only host and port, as gRPC's is.
        grpc_context_builder: Turns gRPC's context of a call into a call context (who calls).
        url: Where clients reach the server, if not at the address that it listens on.
        on_ready: Called with the URL once clients can connect.
        on_grpc_ready: Called after that with the address for gRPC, if it is served.
        **options: Further arguments of `create_app`.

    Raises:
        SettingsError: A port is taken, or the database cannot be used.
    """
    settings = options.get('settings') or Settings.from_environment()
    options['settings'] = settings
    if not is_loopback(host) and not any((options.get('authenticate'), options.get('context_builder'))):
        logger.warning('Listening on %s without authentication: whoever reaches it is served', host or 'all addresses')

    async def run(listener: socket) -> None:
        place = url or f'http://{address(reachable(host), listener.getsockname()[1])}'
        interfaces = http_interfaces(place, options.get('rpc_path', '/'), options.get('rest_prefix', ''))
        room = room_for_connections(settings.max_connections, 1 if grpc_port is None else GRPC_FILES)
        anteroom = Anteroom(room, settings.header_timeout)
        haste = Haste()
        async with AsyncExitStack() as stack:
            stack.callback(haste.end)
            grpc = None if grpc_port is None else GrpcServer(host, grpc_port, settings, anteroom, haste.ask)
            if grpc is not None and grpc_in_card:
                interfaces[TransportProtocol.GRPC] = address(reachable(host), grpc.port)
            serves_old = takes_old_clients(options.get('enable_v0_3_compat'), agent_card)
            if (extended := options.get('extended_agent_card')) is not None:
                options['extended_agent_card'] = complete_card(extended, interfaces, serves_old=serves_old)
            card = complete_card(agent_card, interfaces, serves_old=serves_old)
            app = create_app(executor, card, database, url=place, **options)
            await stack.enter_async_context(app.router.lifespan_context(app))
            handler: DefaultRequestHandler = app.state.handler
            if grpc is not None:
                await grpc.start(app.state.wire, app.state.health, grpc_context_builder)
                stack.push_async_callback(grpc.stop, settings.cancel_grace)

            def tell() -> None:
                # What is here now stays: the collector need not look through it again and again, which takes 50 ms.
                gc.collect()
                gc.freeze()
                if on_ready is not None:
                    on_ready(place)
                if grpc is not None and on_grpc_ready is not None:
                    on_grpc_ready(address(reachable(host), grpc.port))

            patience = math.ceil(settings.drain_deadline + settings.cancel_grace)
            leave = partial(app.state.health.announce_leave, settings.leave_notice)
            await serve_http(app, listener, patience, tell, handler.aclose, anteroom, leave, haste.ask)

    with listen(host, port) as listener, seldom_collected():
        run_program(run(listener), grace=settings.cancel_grace, new_loop=_fastest_loop())


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    if importlib.util.find_spec('uvloop') is None:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module('uvloop').new_event_loop
    return factory
