"""Servers as their users make them, by `create_app` and `serve_grpc`, on real sockets in the tests' own event loop.

A `Site` keeps those that many tests share; they start when they are first asked for and stop with the site.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import uvicorn
from a2a.auth.user import User
from a2a.server.context import ServerCallContext
from a2a.server.routes import ServerCallContextBuilder
from a2a.server.tasks import TaskStore
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityScheme,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import ASGIApp

from a2a_scribe import Settings, create_app
from a2a_scribe.server import serve_grpc
from a2a_scribe.transport.card_signing import card_signer
from tests.conformance.actor import Actor
from tests.conformance.doorman import Doorman
from tests.conformance.signing import KEY, KEY_ID

QUICK = Settings(
    create_task_after=0.05, poll_interval=0.02, stream_keep_alive=0.05, card_max_age=60, request_bytes=1_000_000
)
"""So that what has to be waited for comes soon."""
WEBHOOK_KEY = 'a' * 43 + '='
"""The same in all processes of a run."""
IMPATIENT = replace(QUICK, webhook_timeout=0.3, webhook_first_pause=0.02)
"""So that webhooks that are slow or fail are called again soon."""
USER = 'x-user'
"""The header that says who calls, where a service looks at it."""
REQUIRED_EXTENSION, OTHER_EXTENSION = 'urn:test:required', 'urn:test:other'


@dataclass(frozen=True)
class Service:
    """A server that runs, and the agent behind it."""

    agent: Actor
    app: Starlette
    url: str
    grpc_target: str
    http: httpx.AsyncClient
    channel: grpc.aio.Channel


class Caller(User):
    """A user who is taken at their word."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return bool(self._name)

    @property
    def user_name(self) -> str:
        return self._name


class TrustingBuilder(ServerCallContextBuilder):
    """Takes the header's word for who calls."""

    def build(self, request: Request) -> ServerCallContext:
        return ServerCallContext(user=Caller(request.headers.get(USER, '')))


def trusting_builder(call: Any) -> ServerCallContext:
    """Takes the metadata's word for who calls."""
    return ServerCallContext(user=Caller(dict(call.invocation_metadata()).get(USER, '')))


def new_card(**fields: Any) -> AgentCard:
    """A card that names its interfaces itself, so that nothing is added."""
    capabilities = {'streaming': True, 'push_notifications': True, **fields.pop('capabilities', {})}
    interface = AgentInterface(url='http://agent.test/', protocol_binding='JSONRPC', protocol_version='1.0')
    given: dict[str, Any] = {
        'name': 'actor',
        'description': 'An agent for tests.',
        'version': '1',
        'supported_interfaces': [interface],
        'default_input_modes': ['text/plain', 'application/json'],
        'default_output_modes': ['text/plain'],
    }
    return AgentCard(capabilities=AgentCapabilities(**capabilities), **(given | fields))


def extended_card() -> AgentCard:
    skill = AgentSkill(id='s', name='a skill', description='for those who are known', tags=['secret'])
    return new_card(name='extended', skills=[skill])


def with_extensions() -> AgentCard:
    extensions = [AgentExtension(uri=REQUIRED_EXTENSION, required=True), AgentExtension(uri=OTHER_EXTENSION)]
    return new_card(capabilities={'extensions': extensions})


def with_old_interfaces(name: str = 'actor') -> AgentCard:
    interfaces = [
        AgentInterface(url='http://agent.test/', protocol_binding=binding, protocol_version=version)
        for version in ('1.0', '0.3')
        for binding in ('JSONRPC', 'HTTP+JSON', 'GRPC')
    ]
    return new_card(name=name, supported_interfaces=interfaces, capabilities={'extended_agent_card': True})


def for_members() -> dict[str, Any]:
    """An agent that knows its callers, and tells each of them what it can do for them."""

    async def named(card: AgentCard, context: ServerCallContext) -> AgentCard:
        own = AgentCard()
        own.CopyFrom(card)
        own.description = f'for {context.user.user_name}'
        return own

    scheme = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme='Bearer'))
    return {
        'agent_card': new_card(capabilities={'extended_agent_card': True}, security_schemes={'bearer': scheme}),
        'extended_agent_card': extended_card(),
        'extended_card_modifier': named,
        'context_builder': TrustingBuilder(),
        'grpc_context_builder': trusting_builder,
    }


KINDS: Mapping[str, Callable[[], dict[str, Any]]] = {
    'usual': dict,
    'plain': lambda: {'agent_card': new_card(capabilities={'streaming': False, 'push_notifications': False})},
    'extensions': lambda: {'agent_card': with_extensions()},
    'extended': lambda: {
        'agent_card': new_card(capabilities={'extended_agent_card': True}),
        'extended_agent_card': extended_card(),
    },
    'unconfigured': lambda: {'agent_card': new_card(capabilities={'extended_agent_card': True})},
    'users': lambda: {'context_builder': TrustingBuilder(), 'grpc_context_builder': trusting_builder},
    'prefixed': lambda: {'rpc_path': '/a2a/rpc', 'rest_prefix': '/a2a/rest'},
    'members': for_members,
    # Asks who calls.
    'guarded': lambda: {
        'agent_card': new_card(capabilities={'extended_agent_card': True}),
        'extended_agent_card': extended_card(),
        'authenticate': Doorman(),
    },
    # Has a 0.3 interface for each binding, and is therefore for clients of 0.3 too.
    'old': lambda: {
        **for_members(),
        'agent_card': with_old_interfaces(),
        'extended_agent_card': with_old_interfaces('extended'),
    },
    # Signs its card with the key of tests/conformance/signing.py.
    'signing': lambda: {'agent_card': extended_card(), 'card_signer': card_signer(KEY, 'HS256', KEY_ID)},
    'bare': lambda: {'agent_card': AgentCard(name='bare')},
    # Its webhooks are on loopback, and their secrets are unreadable.
    'webhooks': lambda: {'settings': replace(IMPATIENT, webhook_allow=('127.0.0.1',), webhook_keys=(WEBHOOK_KEY,))},
}
"""The services that tests share, by what they are made with."""


@asynccontextmanager
async def serving_http(app: ASGIApp) -> AsyncIterator[str]:
    """Serves an app that is open, and yields its URL."""
    config = uvicorn.Config(
        app, port=0, lifespan='off', ws='none', log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # What `Server.serve` does beside this, to watch for signals once in a while, costs each service a pause at its end.
    await server.startup()
    try:
        yield f'http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}'
    finally:
        await server.shutdown()


class Site:
    """All servers of a run of tests."""

    def __init__(self, folder: Path) -> None:
        """Takes a folder for databases."""
        self.folder = folder
        self._stack = AsyncExitStack()
        self._services: dict[str, Service] = {}
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> 'Site':
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def service(self, kind: str = 'usual') -> Service:
        """One of the services that tests share."""
        if kind not in self._services:
            self._services[kind] = await self._stack.enter_async_context(self.serving(**KINDS[kind]()))
        return self._services[kind]

    @asynccontextmanager
    async def serving(
        self,
        agent_card: AgentCard | None = None,
        database: str | TaskStore = 'memory',
        *,
        grpc_context_builder: Any = None,
        **options: Any,
    ) -> AsyncIterator[Service]:
        """A service of one's own; at its end the gates of its agent are opened."""
        agent = Actor()
        app = create_app(agent, agent_card or new_card(), database, **{'settings': QUICK, **options})
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(app.router.lifespan_context(app))
            url = await stack.enter_async_context(serving_http(app))
            port = await stack.enter_async_context(serve_grpc(app, context_builder=grpc_context_builder))
            target = f'127.0.0.1:{port}'
            http = await stack.enter_async_context(httpx.AsyncClient(timeout=None, trust_env=False))
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(target))
            stack.callback(agent.open_all)
            yield Service(agent, app, url, target, http, channel)

    def unique(self, name: str = 'x') -> str:
        """A name that nothing else has in this run: for gates, contexts and tenants."""
        return f'{name}{next(self._numbers)}'

    def database(self) -> str:
        """The URL of a database of one's own, which does not exist yet."""
        return f'sqlite+aiosqlite:///{self.folder}/{self.unique("database")}.db'


async def soon(wanted: Callable[[], Awaitable[Any]], what: str = '') -> Any:
    """Asks until the answer is true, and returns it."""
    while not (found := await wanted()):
        await asyncio.sleep(0)
    return found
