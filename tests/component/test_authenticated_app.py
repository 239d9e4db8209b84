"""An app that asks who calls: what executors, builders, resolvers and mounted routes see of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from a2a.auth.user import UnauthenticatedUser
from a2a.server.context import ServerCallContext
from a2a.server.routes import ServerCallContextBuilder
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, SecurityScheme
from starlette.applications import Starlette
from starlette.requests import Request

from a2a_scribe import (
    DefaultRequestHandler,
    IncomingCall,
    InMemoryTaskStore,
    PermissionDeniedError,
    Principal,
    UnauthenticatedError,
    create_app,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a_scribe.auth.principals import AuthenticatedUser
from a2a_scribe.protocol.states import COMPLETED
from a2a_scribe.testing.agents import ScriptedAgent, emit, status
from tests.conformance.doorman import ANN, BEN, Doorman
from tests.conformance.kit import request_of

pytestmark = pytest.mark.anyio

CARD = AgentCard(name='agent', capabilities=AgentCapabilities(extended_agent_card=True))


def new_agent() -> ScriptedAgent:
    return ScriptedAgent([emit(status(COMPLETED))])


@asynccontextmanager
async def client_of(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url='http://a.test', headers={'A2A-Version': '1.0'}
        ) as client,
    ):
        yield client


async def send(client: httpx.AsyncClient, headers: Any) -> httpx.Response:
    return await client.post('/message:send', json=request_of('x'), headers=list(headers))


async def test_executor_knows_the_principal() -> None:
    agent = new_agent()
    async with client_of(create_app(agent, CARD, 'memory', authenticate=Doorman())) as client:
        assert (await send(client, ANN)).status_code == 200
        assert (await send(client, ())).status_code == 401
    (context,) = agent.contexts
    user = context.call_context.user
    assert isinstance(user, AuthenticatedUser)
    assert (user.is_authenticated, user.user_name, user.principal.name) == (True, 'ann', 'ann')


class Builder(ServerCallContextBuilder):
    """Believes nobody, and knows something else."""

    def build(self, request: Request) -> ServerCallContext:
        return ServerCallContext(user=UnauthenticatedUser(), state={'path': request.url.path})


async def test_principal_is_the_user_whoever_builds_the_context() -> None:
    agent = new_agent()
    app = create_app(agent, CARD, 'memory', authenticate=Doorman(), context_builder=Builder())
    async with client_of(app) as client:
        assert (await send(client, ANN)).status_code == 200
    (context,) = agent.contexts
    assert (context.call_context.user.user_name, context.call_context.state['path']) == ('ann', '/message:send')


async def test_resolver_may_name_another_owner() -> None:
    def team(context: ServerCallContext) -> str:
        assert isinstance(context.user, AuthenticatedUser)
        return f'team of {context.user.principal.name[0]}'

    async with client_of(
        create_app(new_agent(), CARD, 'memory', authenticate=Doorman(), owner_resolver=team)
    ) as client:
        task = (await send(client, ANN)).json()['task']
        assert (await client.get(f'/tasks/{task["id"]}', headers=list(ANN))).status_code == 200
        assert (await client.get(f'/tasks/{task["id"]}', headers=list(BEN))).status_code == 404


async def test_routes_in_an_app_of_ones_own_ask_too() -> None:
    handler = DefaultRequestHandler(new_agent(), InMemoryTaskStore(), CARD)
    doorman = Doorman()
    routes = [
        *create_jsonrpc_routes(handler, '/rpc', authenticate=doorman),
        *create_rest_routes(handler, authenticate=doorman),
    ]
    async with client_of(Starlette(routes=routes)) as client:
        assert (await client.post('/rpc', content=b'{')).status_code == 401
        assert (await send(client, ())).status_code == 401
        assert (await send(client, ANN)).status_code == 200
    await handler.aclose()


class ExpiredError(UnauthenticatedError):
    """A user's own way to say that somebody is not known."""


class FrozenError(PermissionDeniedError):
    """A user's own way to say that somebody may not call."""


@pytest.mark.parametrize(
    ('error', 'status', 'challenge'),
    [
        (ExpiredError('expired', ['Own realm="x"']), 401, 'Own realm="x"'),
        (ExpiredError('expired'), 401, 'Bearer realm="a2a"'),
        (FrozenError('frozen'), 403, None),
    ],
)
@pytest.mark.parametrize('version', ['1.0', '0.3'])
async def test_errors_of_an_authenticator_may_be_of_classes_of_its_own(
    error: Exception, status: int, challenge: str | None, version: str
) -> None:
    def authenticate(_: IncomingCall) -> Principal:
        raise error

    app = create_app(new_agent(), CARD, 'memory', authenticate=authenticate, enable_v0_3_compat=True)
    async with client_of(app) as client:
        client.headers['A2A-Version'] = version
        for path in ('/', '/message:send' if version == '1.0' else '/v1/message:send'):
            response = await client.post(path, json={})
            assert (response.status_code, response.headers.get('www-authenticate')) == (status, challenge)


async def test_what_everybody_may_see_stays_open() -> None:
    async with client_of(create_app(new_agent(), CARD, 'memory', authenticate=Doorman())) as client:
        assert (await client.get('/.well-known/agent-card.json')).status_code == 200
        assert (await client.get('/nowhere')).status_code == 404
        assert (await client.get('/message:send')).status_code == 405


@pytest.mark.parametrize(
    ('declared', 'asked', 'status'), [(False, False, 200), (True, False, 401), (False, True, 401), (True, True, 401)]
)
async def test_extended_card_is_for_those_who_are_known_once_they_can_be(
    declared: bool, asked: bool, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    card = AgentCard()
    card.CopyFrom(CARD)
    if declared:
        card.security_schemes['own'].CopyFrom(SecurityScheme())
    options: dict[str, Any] = {'authenticate': Doorman()} if asked else {}
    app = create_app(new_agent(), card, 'memory', extended_agent_card=CARD, **options)
    async with client_of(app) as client:
        assert (await client.get('/extendedAgentCard')).status_code == status
        if asked:
            assert (await client.get('/extendedAgentCard', headers=list(ANN))).status_code == 200
    assert ('everybody gets the extended card' in caplog.text) is (status == 200)
