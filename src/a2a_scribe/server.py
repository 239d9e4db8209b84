"""The composition root: an executor, a card and a database become an ASGI app, and a process that serves it.

Called by programs (`create_app`, `serve`) and by the command line. Whoever runs the app opens and closes the handler
with it: it is open before the first request is read and is closed after the last answer.
"""

import asyncio
import gc
import importlib
import importlib.util
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from socket import socket
from typing import TypedDict, Unpack

from a2a.server.agent_execution import AgentExecutor, RequestContextBuilder, SimpleRequestContextBuilder
from a2a.server.context import ServerCallContext
from a2a.server.owner_resolver import OwnerResolver
from a2a.server.routes import ServerCallContextBuilder
from a2a.server.tasks import PushNotificationConfigStore, PushNotificationSender, TaskStore
from a2a.types.a2a_pb2 import AgentCard
from a2a.utils.constants import TransportProtocol
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from a2a_scribe.auth.principals import Authenticate
from a2a_scribe.engine.deadlines import DeadlinePolicy
from a2a_scribe.engine.orders import AfterCrash
from a2a_scribe.errors import SettingsError
from a2a_scribe.event_loop import run_program
from a2a_scribe.handler.handler import DefaultRequestHandler
from a2a_scribe.interpreter import seldom_collected
from a2a_scribe.journal.opening import open_store
from a2a_scribe.journal.stores import DatabaseTaskStore
from a2a_scribe.push.signing import key_ring_of
from a2a_scribe.push.webhooks import Webhooks
from a2a_scribe.settings import Settings, UnfinishedPolicy
from a2a_scribe.transport.agent_card import complete_card, http_interfaces
from a2a_scribe.transport.anteroom import Anteroom, room_for_connections
from a2a_scribe.transport.calls import Wire
from a2a_scribe.transport.card_signing import CardSigner, signed
from a2a_scribe.transport.cross_origin import browser_middleware
from a2a_scribe.transport.grpc import ContextBuilder
from a2a_scribe.transport.grpc_serving import GrpcServer
from a2a_scribe.transport.health import Health, health_routes
from a2a_scribe.transport.jwks import create_jwks_routes
from a2a_scribe.transport.listening import address, is_loopback, listen, reachable, serve_http
from a2a_scribe.transport.rest import not_found
from a2a_scribe.transport.routes import (
    create_agent_card_routes,
    jsonrpc_routes,
    rest_routes,
    takes_old_clients,
    wire_of,
)

logger = logging.getLogger(__name__)

DEFAULT_DATABASE = 'sqlite+aiosqlite:///a2a-scribe.db'
DEFAULT_URL = 'http://127.0.0.1:8000'
GRPC_CONNECTIONS = 100_000
"""What gRPC, which takes as many connections as come, needs files for so that a crowd takes none from HTTP."""

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
    after_crash: AfterCrash | None
    deadlines: DeadlinePolicy | None
    agent: str | None
    owner_resolver: OwnerResolver | None
    webhooks: Webhooks | None


class AppOptions(HandlerOptions, total=False):
    """What `serve` hands on to `create_app` as it is."""

    settings: Settings | None
    rpc_path: str | None
    rest_prefix: str | None
    context_builder: ServerCallContextBuilder | None
    authenticate: Authenticate | None
    routes: Sequence[BaseRoute]
    health: bool
    cors_origins: Sequence[str]
    hsts: int | None
    enable_v0_3_compat: bool | None
    card_signer: CardSigner | None


def create_app(  # noqa: PLR0913 - each is a choice of its own
    executor: AgentExecutor,
    agent_card: AgentCard,
    database: Database = DEFAULT_DATABASE,
    *,
    settings: Settings | None = None,
    rpc_path: str | None = '/',
    rest_prefix: str | None = '',
    url: str = DEFAULT_URL,
    context_builder: ServerCallContextBuilder | None = None,
    authenticate: Authenticate | None = None,
    routes: Sequence[BaseRoute] = (),
    health: bool = True,
    cors_origins: Sequence[str] = (),
    hsts: int | None = None,
    enable_v0_3_compat: bool | None = None,
    card_signer: CardSigner | None = None,
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
        authenticate: Says whom a call comes from, on all bindings, before its body is read; its principal is the
            owner. `ApiKeys`, `BearerTokens`, or a function of yours. Without one, everybody is let in.
        routes: Routes of your own. They come first, because HTTP+JSON claims `/{tenant}/...`.
        health: Whether `/healthz` (alive) and `/readyz` (able to work) are served.
        cors_origins: Which web pages may call the agent, by their origins (`https://app.example`), `*` for all.
        hsts: Seconds for which browsers are told to insist on TLS; `None` for nothing.
        enable_v0_3_compat: Whether clients of version 0.3 are served too, at the same addresses; if this is not said,
            they are when the card names an interface of theirs.
        card_signer: Signs the card and the extended card, unless their author has; see `load_card_signer`.
        **options: Further arguments of `DefaultRequestHandler`.

    Raises:
        SettingsError: The database, a path or an origin cannot be used.
    """
    _check_paths(rpc_path, rest_prefix)
    if isinstance(executor, type):
        raise SettingsError(f'executor: give an instance, not the class {executor.__name__}')
    if not isinstance(agent_card, AgentCard):
        raise SettingsError(f'agent_card must be an AgentCard, not {type(agent_card).__name__}')
    interfaces = http_interfaces(url, rpc_path, rest_prefix)
    serves_old = takes_old_clients(enable_v0_3_compat, agent_card)
    card = complete_card(agent_card, interfaces, authenticate, serves_old=serves_old)
    if (extended := options.get('extended_agent_card')) is not None:
        options['extended_agent_card'] = complete_card(extended, interfaces, authenticate, serves_old=serves_old)
        if authenticate is None and card.capabilities.extended_agent_card and not card.security_schemes:
            logger.warning('The card declares no security scheme, so everybody gets the extended card')
    if card_signer is not None:
        card = signed(card, card_signer)
        _sign_extended_card(options, card_signer)
    store = open_store(database)
    settings = settings or Settings.from_environment()
    options.setdefault('request_context_builder', SimpleRequestContextBuilder(True, store))
    options.setdefault('validate_input_modes', True)
    handler = DefaultRequestHandler(executor, store, card, failure_answer='task', settings=settings, **options)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            await handler.start()
            yield
        finally:
            await handler.aclose()
            if isinstance(database, str) and isinstance(store, DatabaseTaskStore):
                await store.engine.dispose()

    wire = wire_of(handler, context_builder, authenticate, serves_old)
    found = Health(handler.engine, wire.clock)
    probes = health_routes(found) if health else []
    app = Starlette(
        routes=[*routes, *probes, *_routes(wire, rpc_path, rest_prefix)],
        middleware=browser_middleware(cors_origins, hsts),
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.router.default = not_found
    app.state.handler = handler
    app.state.wire = wire
    app.state.health = found
    return app


def _sign_extended_card(options: HandlerOptions, signer: CardSigner) -> None:
    """Has the extended card signed as it is given out, after what is done to it for a caller."""
    modify = options.get('extended_card_modifier')
    if modify is not None:

        async def modify_and_sign(card: AgentCard, context: ServerCallContext) -> AgentCard:
            return signed(await modify(card, context), signer)

        options['extended_card_modifier'] = modify_and_sign
    elif (extended := options.get('extended_agent_card')) is not None:
        options['extended_agent_card'] = signed(extended, signer)


def _routes(wire: Wire, rpc_path: str | None, rest_prefix: str | None) -> list[BaseRoute]:
    """Returns the routes of the protocol; those of HTTP+JSON last, because theirs below tenants match nearly all."""
    routes = create_agent_card_routes(wire.card, settings=wire.settings, enable_v0_3_compat=wire.serves_old)
    signing_keys = key_ring_of(wire.settings)
    if signing_keys is not None:
        routes += create_jwks_routes(signing_keys.published())
    if rpc_path is not None:
        routes += jsonrpc_routes(wire, rpc_path)
    if rest_prefix is not None:
        routes += rest_routes(wire, rest_prefix)
    return routes


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


def _check_paths(rpc_path: str | None, rest_prefix: str | None) -> None:
    if rpc_path is not None and not rpc_path.startswith('/'):
        raise SettingsError(f"rpc_path must begin with '/', not {rpc_path!r}")
    if rest_prefix and (not rest_prefix.startswith('/') or rest_prefix.endswith('/')):
        raise SettingsError(f"rest_prefix must begin with '/' and not end with it, not {rest_prefix!r}")


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
        async with AsyncExitStack() as stack:
            grpc = None if grpc_port is None else GrpcServer(host, grpc_port, settings)
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
            unbounded = 0 if grpc is None else GRPC_CONNECTIONS
            room = room_for_connections(settings.max_connections, unbounded=unbounded)
            anteroom = Anteroom(room, settings.header_timeout)
            leave = partial(app.state.health.announce_leave, settings.leave_notice)
            await serve_http(app, listener, patience, tell, handler.aclose, anteroom, leave)

    with listen(host, port) as listener, seldom_collected():
        run_program(run(listener), grace=settings.cancel_grace, new_loop=_fastest_loop())


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    if importlib.util.find_spec('uvloop') is None:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module('uvloop').new_event_loop
    return factory
