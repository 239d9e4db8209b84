"""The agent card as it is served: the author's own, completed with the interfaces that really exist.

Called by the composition root. A card that names its interfaces is never changed: only its author knows under which
addresses a proxy publishes it.
"""

from collections.abc import Mapping

from a2a.types.a2a_pb2 import AgentCard, AgentInterface
from a2a.utils.constants import PROTOCOL_VERSION_CURRENT, TransportProtocol

Interfaces = Mapping[TransportProtocol, str]


def complete_card(agent_card: AgentCard, interfaces: Interfaces) -> AgentCard:
    """A copy of the card that names these interfaces, in their order, unless it names some already."""
    card = AgentCard()
    card.CopyFrom(agent_card)
    if not card.supported_interfaces:
        card.supported_interfaces.extend(
            AgentInterface(url=url, protocol_binding=binding.value, protocol_version=PROTOCOL_VERSION_CURRENT)
            for binding, url in interfaces.items()
        )
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
