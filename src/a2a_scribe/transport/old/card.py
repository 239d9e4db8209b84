"""The agent card as clients of version 0.3 read it: their fields beside ours, and a form of their own."""

from typing import Any

import orjson
from a2a.compat.v0_3 import conversions, types
from a2a.compat.v0_3.versions import is_legacy_version
from a2a.types.a2a_pb2 import AgentCard
from a2a.utils.errors import A2AError

from a2a_scribe.errors import SettingsError
from a2a_scribe.protocol.json import to_dict
from a2a_scribe.protocol.required import show_required
from a2a_scribe.protocol.service_parameters import UNNAMED_VERSION


def names_old_interface(card: AgentCard) -> bool:
    """Whether a card says that its agent speaks version 0.3."""
    return any(is_legacy_version(each.protocol_version) for each in card.supported_interfaces)


def old_card(card: AgentCard) -> types.AgentCard:
    """Returns a card in the form of version 0.3.

    Its interfaces are those of version 0.3. A card that names none has its others there: both versions are served at
    the same URLs. It has no signatures, because these are of another text.

    Raises:
        SettingsError: The card has what version 0.3 cannot say.
    """
    given = AgentCard()
    given.CopyFrom(card)
    given.ClearField('signatures')
    if not names_old_interface(card):
        for interface in given.supported_interfaces:
            interface.protocol_version = UNNAMED_VERSION
    try:
        return conversions.to_compat_agent_card(given)
    except (ValueError, A2AError) as error:
        raise SettingsError(f'the agent card cannot be said in version 0.3: {error}') from error


def old_card_json(card: AgentCard) -> dict[str, Any]:
    """Returns the JSON of `old_card`."""
    return old_card(card).model_dump(mode='json', by_alias=True, exclude_none=True)


def card_of_both(card: AgentCard) -> bytes:
    """Returns a card that clients of both versions can read, each its own fields."""
    return orjson.dumps(_merged(show_required(to_dict(card), AgentCard), old_card_json(card)))


def old_card_with_schemes(card: AgentCard) -> bytes:
    """Returns an old card whose security schemes are there in both of its forms, for clients that read protobuf's."""
    schemes = to_dict(card).get('securitySchemes', {})
    return orjson.dumps(_merged(old_card_json(card), {'securitySchemes': schemes} if schemes else {}))


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Adds to the first what only the second has, at every depth."""
    for name, value in second.items():
        held = first.setdefault(name, value)
        pairs = (
            zip(held, value, strict=False) if isinstance(held, list) and isinstance(value, list) else [(held, value)]
        )
        for ours, theirs in pairs:
            if ours is not theirs and isinstance(ours, dict) and isinstance(theirs, dict):
                _merged(ours, theirs)
    return first
