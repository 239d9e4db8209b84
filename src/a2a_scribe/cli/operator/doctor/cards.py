"""A served agent: whether its card can be fetched, is whole, and leads clients back to it."""

from collections.abc import AsyncIterator
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx
from a2a.types.a2a_pb2 import AgentCard
from google.protobuf import json_format

from a2a_scribe.cli.operator.doctor.findings import Finding, fail, ok, warn
from a2a_scribe.protocol.required import missing_fields
from a2a_scribe.transport.agent_card import CARD_PATH

PATIENCE = 10.0
"""Seconds."""


async def check_card(url: str, transport: httpx.AsyncBaseTransport | None = None) -> AsyncIterator[Finding]:
    """Yields what there is to say about the agent that is served at `url`."""
    address = url.rstrip('/') + CARD_PATH
    try:
        async with httpx.AsyncClient(timeout=PATIENCE, transport=transport, follow_redirects=True) as client:
            answer = await client.get(address)
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        told = f'{address} cannot be fetched: {error or type(error).__name__}'
        yield fail('card', told, 'look at the address, and whether the server runs')
        return
    if answer.status_code != httpx.codes.OK:
        yield fail('card', f'{address} answers {answer.status_code}', 'look at the address, and at the proxy before it')
        return
    try:
        card = json_format.Parse(answer.content, AgentCard(), ignore_unknown_fields=True)
    except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        told = str(error).partition('\n')[0]
        yield fail('card', f'what {address} answers is no card: {told}', 'look at what serves this address')
        return
    for finding in judge_card(card, url):
        yield finding


def judge_card(card: AgentCard, url: str) -> list[Finding]:
    """Returns what to think of a card that was fetched from `url`."""
    missing = missing_fields(card)
    if missing:
        return [fail('card', f'it lacks {", ".join(missing)}', 'complete the card: clients refuse it')]
    interfaces = [f'{interface.protocol_binding} at {interface.url}' for interface in card.supported_interfaces]
    found = [ok('card', f'{card.name} {card.version}: {", ".join(interfaces)}')]
    astray = [interface.url for interface in card.supported_interfaces if _is_local(interface.url)]
    if astray and not _is_local(url):
        advice = 'give serve() or create_app() the url under which clients reach the server'
        found.append(warn('interfaces', f'{", ".join(astray)} leads clients to their own machine', advice))
    return found


def _is_local(url: str) -> bool:
    host = urlsplit(url if '://' in url else f'//{url}').hostname or ''
    try:
        return ip_address(host).is_loopback or ip_address(host).is_unspecified
    except ValueError:
        return host == 'localhost'
