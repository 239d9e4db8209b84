"""The composition root: an executor, a card and a database become an ASGI app, and a process that serves it.

Called by programs (`create_app`, `serve`) and by the command line. Whoever runs the app opens and closes the handler
with it: it is open before the first request is read and is closed after the last answer.
"""

import asyncio
import importlib
import importlib.util
import inspect
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from socket import socket
from typing import Any, TypedDict, Unpack

from a2a.server.agent_execution import AgentExecutor, RequestContextBuilder
from a2a.server.context import ServerCallContext
from a2a.server.owner_resolver import OwnerResolver
from a2a.server.routes import (
    ServerCallContextBuilder,
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import PushNotificationConfigStore, PushNotificationSender, TaskStore
from a2a.types.a2a_pb2 import AgentCard
from a2a.utils.constants import TransportProtocol
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from a2a_scribe.errors import SettingsError
from a2a_scribe.handler.handler import DefaultRequestHandler
from a2a_scribe.journal.opening import open_store
from a2a_scribe.journal.stores import DatabaseTaskStore
from a2a_scribe.settings import Settings, UnfinishedPolicy
from a2a_scribe.transport.agent_card import complete_card, http_interfaces
from a2a_scribe.transport.grpc import GrpcServer
from a2a_scribe.transport.http import address, listen, reachable, serve_http

DEFAULT_DATABASE = 'sqlite+aiosqlite:///a2a-scribe.db'
DEFAULT_URL = 'http://127.0.0.1:8000'

Database = str | AsyncEngine | TaskStore


class HandlerOptions(TypedDict, total=False):
    """What `create_app` and `serve` hand on to `DefaultRequestHandler` as it is."""

    push_config_store: PushNotificationConfigStore | None
    push_sender: PushNotificationSender | None
    request_context_builder: RequestContextBuilder | None
    extended_agent_card: AgentCard | None
    extended_card_modifier: Callable[[AgentCard, ServerCallContext], Awaitable[AgentCard]] | None
    push_url_validator: Callable[[str], Awaitable[bool]] | None
    validate_input_modes: bool
    interrupted_task_timeout: float | None
    unfinished: UnfinishedPolicy | None
    agent: str | None
    owner_resolver: OwnerResolver | None


class AppOptions(HandlerOptions, total=False):
    """What `serve` hands on to `create_app` as it is."""

    settings: Settings | None
    rpc_path: str | None
    rest_prefix: str | None
    context_builder: ServerCallContextBuilder | None
    routes: Sequence[BaseRoute]


def create_app(
    executor: AgentExecutor,
    agent_card: AgentCard,
    database: Database = DEFAULT_DATABASE,
    *,
    settings: Settings | None = None,
    rpc_path: str | None = '/',
    rest_prefix: str | None = '',
    url: str = DEFAULT_URL,
    context_builder: ServerCallContextBuilder | None = None,
    routes: Sequence[BaseRoute] = (),
    **options: Unpack[HandlerOptions],
) -> Starlette:
    """Makes the ASGI app of one agent; its `state.handler` is the request handler.

    Args:
        executor: The agent.
        agent_card: Served as it is; if it names no interface, those that the app serves are added.
        database: A URL, `memory`, an engine or a task store; an engine stays the caller's to dispose of.
        settings: Bounds and deadlines; read from the environment when absent.
        rpc_path: Where JSON-RPC is served, `None` for nowhere.
        rest_prefix: What the paths of HTTP+JSON begin with, `None` to leave them out.
        url: Where clients reach the app; only for the interfaces that are added to the card.
        context_builder: Turns a request into a call context (who calls, with which headers).
        routes: Routes of your own. They come first, because HTTP+JSON claims `/{tenant}/...`.
        **options: Further arguments of `DefaultRequestHandler`.

    Raises:
        SettingsError: The database or a path cannot be used.
    """
    _check_paths(rpc_path, rest_prefix)
    if isinstance(executor, type):
        raise SettingsError(f'executor: give an instance, not the class {executor.__name__}')
    if not isinstance(agent_card, AgentCard):
        raise SettingsError(f'agent_card must be an AgentCard, not {type(agent_card).__name__}')
    card = complete_card(agent_card, http_interfaces(url, rpc_path, rest_prefix))
    store = open_store(database)
    settings = settings or Settings.from_environment()
    handler = DefaultRequestHandler(
        executor,
        store,
        card,
        failure_answer='task',
        settings=settings,
        **options,
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            await handler.start()
            yield
        finally:
            await handler.aclose()
            if isinstance(database, str) and isinstance(store, DatabaseTaskStore):
                await store.engine.dispose()

    served = [*routes, *create_agent_card_routes(card)]
    if rpc_path is not None:
        served += create_jsonrpc_routes(handler, rpc_path, context_builder, **_patience(settings))
    if rest_prefix is not None:
        # Last: the paths of tenants match nearly everything.
        served += create_rest_routes(handler, context_builder, path_prefix=rest_prefix, **_patience(settings))
    app = Starlette(routes=served, lifespan=lifespan)
    app.state.handler = handler
    return app


def _patience(settings: Settings) -> dict[str, Any]:
    """Lets open streams live until turns are drained, where the installed `a2a-sdk` can do that."""
    if 'shutdown_grace_period' not in inspect.signature(create_jsonrpc_routes).parameters:
        return {}
    return {'shutdown_grace_period': settings.drain_deadline + settings.cancel_grace}


def _check_paths(rpc_path: str | None, rest_prefix: str | None) -> None:
    if rpc_path is not None and not rpc_path.startswith('/'):
        raise SettingsError(f"rpc_path must begin with '/', not {rpc_path!r}")
    if rest_prefix and (not rest_prefix.startswith('/') or rest_prefix.endswith('/')):
        raise SettingsError(f"rest_prefix must begin with '/' and not end with it, not {rest_prefix!r}")


def serve(
    executor: AgentExecutor,
    agent_card: AgentCard,
    database: Database = DEFAULT_DATABASE,
    *,
    host: str = '127.0.0.1',
    port: int = 8000,
    grpc_port: int | None = None,
    url: str | None = None,
    on_ready: Callable[[str], None] | None = None,
    **options: Unpack[AppOptions],
) -> None:
    """Serves the agent until SIGINT or SIGTERM, then lets what is running end within the drain deadline.

    Args:
        executor: The agent.
        agent_card: As for `create_app`; a gRPC interface is added too where there is one.
        database: As for `create_app`.
        host: The address to listen on.
        port: The port for HTTP; 0 takes a free one.
        grpc_port: The port for gRPC, which is served only if this is given; 0 takes a free one.
        url: Where clients reach the server, if not at the address that it listens on.
        on_ready: Called with the URL once clients can connect.
        **options: Further arguments of `create_app`.

    Raises:
        SettingsError: A port is taken, or the database cannot be used.
    """
    settings = options.get('settings') or Settings.from_environment()
    options['settings'] = settings

    async def run(listener: socket) -> None:
        place = url or f'http://{address(reachable(host), listener.getsockname()[1])}'
        interfaces = http_interfaces(place, options.get('rpc_path', '/'), options.get('rest_prefix', ''))
        async with AsyncExitStack() as stack:
            grpc = None if grpc_port is None else GrpcServer(host, grpc_port)
            if grpc is not None:
                interfaces[TransportProtocol.GRPC] = address(reachable(host), grpc.port)
            app = create_app(executor, complete_card(agent_card, interfaces), database, url=place, **options)
            await stack.enter_async_context(app.router.lifespan_context(app))
            handler: DefaultRequestHandler = app.state.handler
            if grpc is not None:
                await grpc.start(handler)
                stack.push_async_callback(grpc.stop, settings.cancel_grace)
            patience = math.ceil(settings.drain_deadline + settings.cancel_grace)
            await serve_http(app, listener, patience, lambda: on_ready(place) if on_ready else None, handler.aclose)

    with listen(host, port) as listener, asyncio.Runner(loop_factory=_fastest_loop()) as runner:
        runner.run(run(listener))


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if importlib.util.find_spec('uvloop') is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module('uvloop').new_event_loop
    return factory
