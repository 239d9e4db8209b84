"""Signed cards that clients keep: a signature with chance in it makes no other card of them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import AgentCard
from cryptography.hazmat.primitives.asymmetric import ec

from a2a_scribe.transport.card_signing import card_signer
from tests.component.kit import DEADLINE
from tests.conformance.doorman import ANN, BEN, Doorman
from tests.conformance.site import Service, Site, extended_card, new_card
from tests.conformance.wire import Pairs

pytestmark = pytest.mark.anyio

CARD, EXTENDED, OLD_EXTENDED = '/.well-known/agent-card.json', '/extendedAgentCard', '/v1/card'
KEY = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with asyncio.timeout(3 * DEADLINE), Site(tmp_path) as opened:
        yield opened


async def named(card: AgentCard, context: ServerCallContext) -> AgentCard:
    own = AgentCard()
    own.CopyFrom(card)
    own.description = f'for {context.user.user_name}'
    return own


def serving(site: Site, key_id: str = 'k', **fields: Any) -> Any:
    return site.serving(
        new_card(capabilities={'extended_agent_card': True}, **fields),
        extended_agent_card=extended_card(),
        extended_card_modifier=named,
        authenticate=Doorman(),
        card_signer=card_signer(KEY, 'ES256', key_id),
        enable_v0_3_compat=True,
    )


async def tag(service: Service, path: str, headers: Pairs = ANN) -> str:
    """The entity tag of a card, which the server knows when it is shown again."""
    version = '0.3' if path == OLD_EXTENDED else '1.0'
    given = [('A2A-Version', version), *headers]
    response = await service.http.get(service.url + path, headers=given)
    etag = response.headers['etag']
    assert response.status_code == 200
    for shown in (etag, etag.removeprefix('W/'), f'"x", {etag}'):
        again = await service.http.get(service.url + path, headers=[*given, ('If-None-Match', shown)])
        assert (again.status_code, again.headers['etag'], again.content) == (304, etag, b'')
    return str(etag)


@pytest.mark.parametrize('path', [CARD, EXTENDED, OLD_EXTENDED])
async def test_a_card_is_the_same_however_it_is_signed(site: Site, path: str) -> None:
    async with serving(site) as one, serving(site) as other:
        first = await tag(one, path)
        assert await tag(one, path) == await tag(other, path) == first


@pytest.mark.parametrize('path', [CARD, EXTENDED])
async def test_a_card_with_something_else_in_it_or_of_another_key_is_another(site: Site, path: str) -> None:
    async with serving(site) as one, serving(site, version='2') as changed, serving(site, 'other') as resigned:
        first = await tag(one, path)
        assert (await tag(changed, path) != first) is (path == CARD)
        assert await tag(resigned, path) != first


async def test_each_caller_has_a_card_of_their_own(site: Site) -> None:
    async with serving(site) as service:
        assert await tag(service, EXTENDED, ANN) != await tag(service, EXTENDED, BEN)
