"""Answers that clients may keep and ask about (RFC 9110, sections 8.8.3 and 13.1.2; A2A 1.0, section 8.6)."""

import hashlib

from a2a.types.a2a_pb2 import AgentCard

from a2a_scribe.transport.asgi import Headers, HttpCall


def tag_of(body: bytes) -> str:
    """Returns the entity tag of an answer."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def tag_of_card(card: AgentCard, body: bytes) -> str:
    """Returns the entity tag of a card that is sent as `body`.

    Some signatures have chance in them, and are others on each server and, where a card is made for its caller, each
    time. Cards that differ in nothing else are the same to whoever keeps one, if their signatures are of the same keys.
    """
    if not card.signatures:
        return tag_of(body)
    unsigned = AgentCard()
    unsigned.CopyFrom(card)
    for signature in unsigned.signatures:
        signature.signature = ''
    return f'W/{tag_of(unsigned.SerializeToString(deterministic=True))}'


async def answer_cached(
    call: HttpCall, body: bytes, media_type: str, caching: str, headers: Headers = (), *, etag: str = ''
) -> None:
    """Sends `body` with its entity tag, by default that of its bytes, or says that it has not changed."""
    etag = etag or tag_of(body)
    more = [('etag', etag), ('cache-control', caching), *headers]
    if _has_current(call.header('if-none-match'), etag):
        await call.answer(304, b'', headers=more)
    else:
        await call.answer(200, body, media_type, more)


def _has_current(given: str, etag: str) -> bool:
    tags = [each.strip().removeprefix('W/') for each in given.split(',')]
    return '*' in tags or etag.removeprefix('W/') in tags
