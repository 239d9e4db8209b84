"""The routes of the HTTP bindings, for an app of ours and for those who mount them in one of their own.

The factories have the names and the main arguments of `a2a-sdk`'s, so that a program moves over by changing an import.
"""

import re

from a2a.server.routes import ServerCallContextBuilder
from a2a.types.a2a_pb2 import AgentCard
from starlette.routing import BaseRoute, Mount, Route

from a2a_scribe.auth.principals import Authenticate
from a2a_scribe.handler.handler import DefaultRequestHandler
from a2a_scribe.settings import Settings
from a2a_scribe.transport.agent_card import CARD_PATH, CardEndpoint
from a2a_scribe.transport.calls import Wire
from a2a_scribe.transport.jsonrpc import JsonRpcEndpoint
from a2a_scribe.transport.rest import RestApp


def create_agent_card_routes(
    agent_card: AgentCard, card_url: str = CARD_PATH, settings: Settings | None = None
) -> list[BaseRoute]:
    """Returns the route of the agent card (A2A 1.0, section 8.2); its JSON is made now, once."""
    endpoint = CardEndpoint(agent_card, (settings or Settings()).card_max_age)
    return [Route(each, endpoint) for each in (card_url, card_url + '/')]


def create_jsonrpc_routes(
    request_handler: DefaultRequestHandler,
    rpc_url: str,
    context_builder: ServerCallContextBuilder | None = None,
    *,
    authenticate: Authenticate | None = None,
) -> list[BaseRoute]:
    """Returns the routes of JSON-RPC (A2A 1.0, section 9), with and without a slash at their end."""
    return jsonrpc_routes(wire_of(request_handler, context_builder, authenticate), rpc_url)


def create_rest_routes(
    request_handler: DefaultRequestHandler,
    context_builder: ServerCallContextBuilder | None = None,
    path_prefix: str = '',
    *,
    authenticate: Authenticate | None = None,
) -> list[BaseRoute]:
    """Returns the route of HTTP+JSON (A2A 1.0, section 11): all that is below `path_prefix`, so it has to come last."""
    return rest_routes(wire_of(request_handler, context_builder, authenticate), path_prefix)


def wire_of(
    handler: DefaultRequestHandler,
    context_builder: ServerCallContextBuilder | None,
    authenticate: Authenticate | None = None,
) -> Wire:
    """Returns what the bindings of one handler share."""
    return Wire(handler, handler.agent_card, handler.engine.settings, context_builder, authenticate)


def jsonrpc_routes(wire: Wire, path: str) -> list[BaseRoute]:
    """Returns the routes of JSON-RPC."""
    endpoint = JsonRpcEndpoint(wire)
    plain = path.rstrip('/')
    return [Route(each, endpoint) for each in (plain, plain + '/') if each]


def rest_routes(wire: Wire, prefix: str) -> list[BaseRoute]:
    """Returns the route of HTTP+JSON."""
    mount = Mount(prefix, app=RestApp(wire))
    # A path may have line breaks too: what they stand in is refused by name.
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return [mount]
