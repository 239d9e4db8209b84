"""The routes of the HTTP bindings, for an app of ours and for those who mount them in one of their own.

The factories have the names and the main arguments of `a2a-sdk`'s, so that a program moves over by changing an import.
"""

import re

from a2a.server.routes import ServerCallContextBuilder
from a2a.types.a2a_pb2 import AgentCard
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from a2a_scribe.auth.principals import Authenticate
from a2a_scribe.handler.handler import DefaultRequestHandler
from a2a_scribe.settings import Settings
from a2a_scribe.transport.agent_card import CARD_PATH, OLD_CARD_PATH, CardEndpoint
from a2a_scribe.transport.by_version import ByVersion
from a2a_scribe.transport.calls import Wire
from a2a_scribe.transport.jsonrpc import JsonRpcEndpoint
from a2a_scribe.transport.old.card import names_old_interface
from a2a_scribe.transport.old.operations import METHODS
from a2a_scribe.transport.old.rest import OldRestApp
from a2a_scribe.transport.rest import RestApp


def create_agent_card_routes(
    agent_card: AgentCard,
    card_url: str = CARD_PATH,
    settings: Settings | None = None,
    enable_v0_3_compat: bool | None = None,
) -> list[BaseRoute]:
    """Returns the route of the agent card (A2A 1.0, section 8.2), and for 0.3 that of before; its JSON is made now."""
    max_age = (settings or Settings()).card_max_age
    serves_old = takes_old_clients(enable_v0_3_compat, agent_card)
    routes = _with_slash(card_url, CardEndpoint(agent_card, max_age, for_both=serves_old))
    if serves_old:
        routes += _with_slash(OLD_CARD_PATH, CardEndpoint(agent_card, max_age, for_old=True))
    return routes


def create_jsonrpc_routes(
    request_handler: DefaultRequestHandler,
    rpc_url: str,
    context_builder: ServerCallContextBuilder | None = None,
    *,
    authenticate: Authenticate | None = None,
    enable_v0_3_compat: bool | None = None,
) -> list[BaseRoute]:
    """Returns the routes of JSON-RPC (A2A 1.0, section 9), with and without a slash at their end."""
    return jsonrpc_routes(wire_of(request_handler, context_builder, authenticate, enable_v0_3_compat), rpc_url)


def create_rest_routes(
    request_handler: DefaultRequestHandler,
    context_builder: ServerCallContextBuilder | None = None,
    path_prefix: str = '',
    *,
    authenticate: Authenticate | None = None,
    enable_v0_3_compat: bool | None = None,
) -> list[BaseRoute]:
    """Returns the route of HTTP+JSON (A2A 1.0, section 11): all that is below `path_prefix`, so it has to come last."""
    return rest_routes(wire_of(request_handler, context_builder, authenticate, enable_v0_3_compat), path_prefix)


def wire_of(
    handler: DefaultRequestHandler,
    context_builder: ServerCallContextBuilder | None,
    authenticate: Authenticate | None = None,
    enable_v0_3_compat: bool | None = None,
) -> Wire:
    """Returns what the bindings of one handler share."""
    serves_old = takes_old_clients(enable_v0_3_compat, handler.agent_card)
    settings = handler.engine.settings
    return Wire(handler, handler.agent_card, settings, context_builder, authenticate, serves_old=serves_old)


def takes_old_clients(wanted: bool | None, card: AgentCard) -> bool:
    """Whether clients of version 0.3 are served: if nobody says so, when the card does."""
    return names_old_interface(card) if wanted is None else wanted


def jsonrpc_routes(wire: Wire, path: str) -> list[BaseRoute]:
    """Returns the routes of JSON-RPC."""
    endpoint: ASGIApp = JsonRpcEndpoint(wire)
    if wire.serves_old:
        endpoint = ByVersion(endpoint, JsonRpcEndpoint(wire.for_old(), METHODS))
    return _with_slash(path.rstrip('/'), endpoint)


def rest_routes(wire: Wire, prefix: str) -> list[BaseRoute]:
    """Returns the route of HTTP+JSON."""
    app: ASGIApp = RestApp(wire)
    if wire.serves_old:
        app = ByVersion(app, OldRestApp(wire.for_old()))
    mount = Mount(prefix, app=app)
    # A path may have line breaks too: what they stand in is refused by name.
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return [mount]


def _with_slash(path: str, app: ASGIApp) -> list[BaseRoute]:
    """Returns the routes of an app with and without a slash at their end."""
    return [Route(each, app) for each in (path, path + '/') if each]
