"""The agent card as it is served: the author's own, completed with what really exists (A2A 1.0, section 8).

A card that names its interfaces keeps them: only its author knows under which addresses a proxy publishes it. A card
that is signed is not changed at all.
"""

import logging
from collections.abc import Mapping
from typing import Final

import orjson
from a2a.types.a2a_pb2 import AgentCard, AgentExtension, AgentInterface
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH, TransportProtocol
from starlette.types import Receive, Scope, Send

from a2a_scribe.auth.principals import Authenticate
from a2a_scribe.protocol.extensions import SEQUENCE_URI
from a2a_scribe.protocol.required import missing_fields
from a2a_scribe.protocol.service_parameters import SUPPORTED_VERSION, UNNAMED_VERSION
from a2a_scribe.transport.asgi import JSON, HttpCall, NotAllowedError
from a2a_scribe.transport.authentication import declare_schemes
from a2a_scribe.transport.caching import answer_cached, tag_of, tag_of_card
from a2a_scribe.transport.old.card import card_of_both, old_card_json
from a2a_scribe.transport.operations import card_to_json
from a2a_scribe.transport.rest import refuse

logger = logging.getLogger(__name__)

Interfaces = Mapping[TransportProtocol, str]

CARD_PATH: Final = AGENT_CARD_WELL_KNOWN_PATH
OLD_CARD_PATH: Final = '/.well-known/agent.json'
"""Where clients look that are older than version 0.3."""
SEQUENCE_TEXT: Final = (
    'Puts the place of each event in its task into the event metadata, so that streams can be resumed.'
)


def complete_card(
    agent_card: AgentCard, interfaces: Interfaces, authenticate: Authenticate | None = None, *, serves_old: bool = False
) -> AgentCard:
    """A copy of the card that says what the server adds to it.

    That are these interfaces, in their order, and with `serves_old` a second time for version 0.3; the extension that
    streams have; and the schemes by which callers are authenticated.
    """
    card = AgentCard()
    card.CopyFrom(agent_card)
    if card.signatures:
        return card
    card.capabilities.SetInParent()
    if not card.supported_interfaces:
        card.supported_interfaces.extend(
            AgentInterface(url=url, protocol_binding=binding.value, protocol_version=version)
            for version in (SUPPORTED_VERSION, *([UNNAMED_VERSION] if serves_old else []))
            for binding, url in interfaces.items()
        )
    declare_schemes(card, authenticate)
    declared = {extension.uri for extension in card.capabilities.extensions}
    if card.capabilities.streaming and SEQUENCE_URI not in declared:
        card.capabilities.extensions.append(AgentExtension(uri=SEQUENCE_URI, description=SEQUENCE_TEXT))
    return card


def http_interfaces(url: str, rpc_path: str | None, rest_prefix: str | None) -> dict[TransportProtocol, str]:
    """The interfaces of an app that clients reach at `url`; JSON-RPC first, since every client speaks it."""
    base = url.rstrip('/')
    interfaces = {}
    if rpc_path is not None:
        interfaces[TransportProtocol.JSONRPC] = base + rpc_path
    if rest_prefix is not None:
        interfaces[TransportProtocol.HTTP_JSON] = base + rest_prefix
    return interfaces


class CardEndpoint:
    """The well-known URL of the card, as an ASGI app (section 8.2)."""

    def __init__(self, card: AgentCard, max_age: float, *, for_both: bool = False, for_old: bool = False) -> None:
        """Takes the card, for how many seconds clients may keep it, and which versions they speak.

        A signed card is not changed for clients of both versions: nothing stands in it that was not signed.
        """
        if missing := missing_fields(card):
            logger.warning('The agent card lacks required fields: %s', ', '.join(missing))
        if for_old:
            self._body = orjson.dumps(old_card_json(card))
            self._etag = tag_of(self._body)
        else:
            self._body = card_of_both(card) if for_both and not card.signatures else card_to_json(card)
            self._etag = tag_of_card(card, self._body)
        self._caching = f'public, max-age={int(max_age)}'

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request."""
        call = HttpCall(scope, receive, send)
        if call.method not in ('GET', 'HEAD'):
            await refuse(call, NotAllowedError(['GET', 'HEAD']))
        else:
            await answer_cached(call, self._body, JSON, self._caching, etag=self._etag)
